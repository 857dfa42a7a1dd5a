//! Where the `llm` workload finds its rows, its weights and its tokenizer.

use std::path::PathBuf;

use super::model::ModelConfig;
use super::settings::{DataSet, Model};
use crate::plan::{Data, DataSetRule, Factor, Level, Obtainable, Obtained};

/// What a plan says about rows and weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LlmData {
    /// Where rows come from.
    pub source: Source,
    /// A folder of Hugging Face safetensors; random weights of the true shapes where none is named.
    pub weights: Option<PathBuf>,
    /// The `config.json` of `model = config`.
    pub config: Option<PathBuf>,
}

/// Where rows come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Made rows: the data set's row count and lengths as published, tokens at random. They are marked as synthetic.
    StandIn,
    /// Files in their published shapes.
    Files {
        /// The folder of the data sets; none for the one that `multicard data fetch` fills.
        folder: Option<PathBuf>,
        /// The file of `data_set = file`.
        file: Option<PathBuf>,
        /// `tokenizer.json` or Llama's `tokenizer.model`; none for the one beside the weights.
        tokenizer: Option<PathBuf>,
    },
}

impl Source {
    /// The names used in plans, the default first.
    pub const NAMES: &'static [&'static str] = &["stand-in", "files"];
}

impl DataSet {
    /// The published sets, each with what it holds.
    pub const PUBLISHED: [(Self, &str); 4] = [
        (Self::AlpacaCleaned, "51,760 instructions with answers"),
        (Self::Grammar, "C4_200M: sentences and their corrections"),
        (Self::Samsum, "16,369 dialogues with summaries"),
        (Self::Slimorca, "363,491 conversations"),
    ];
}

impl LlmData {
    /// Reads what a plan or a job says.
    ///
    /// # Errors
    /// What is unknown.
    pub fn read(data: &Data) -> Result<Self, String> {
        let path =
            |key: &str| data.get(key).and_then(Level::as_text).filter(|path| !path.is_empty()).map(PathBuf::from);
        let source = match &*data.set {
            "stand-in" => Source::StandIn,
            "files" => Source::Files { folder: path("folder"), file: path("file"), tokenizer: path("tokenizer") },
            other => return Err(format!("data.set = {other} is not one of {}", Source::NAMES.join(", "))),
        };
        Ok(Self { source, weights: path("weights"), config: path("config") })
    }

    /// The tokenizer's file: the one that is named, or else one beside the weights, which may not be there.
    pub fn tokenizer(&self) -> Option<PathBuf> {
        let Source::Files { tokenizer, .. } = &self.source else { return None };
        let beside = |folder: &PathBuf| {
            let files = ["tokenizer.json", "tokenizer.model"].map(|name| folder.join(name));
            files.iter().find(|file| file.exists()).unwrap_or(&files[0]).clone()
        };
        tokenizer.clone().or_else(|| self.weights.as_ref().map(beside))
    }

    /// The network of a level. Reads a file for [`Model::Config`] alone.
    ///
    /// # Errors
    /// What its `config.json` lacks.
    pub fn model(&self, model: Model) -> Result<ModelConfig, String> {
        Ok(match model {
            Model::Llama3_8b => ModelConfig::llama3_8b(),
            Model::Llama3_2_1b => ModelConfig::llama3_2_1b(),
            Model::Llama3_2_3b => ModelConfig::llama3_2_3b(),
            Model::Tiny => ModelConfig::tiny(),
            Model::Config => {
                let beside = || self.weights.as_ref().map(|folder| folder.join("config.json"));
                let path = self.config.clone().or_else(beside);
                let path =
                    path.ok_or("model = config needs data.config, the path of a config.json, or data.weights")?;
                ModelConfig::read(&path)?
            }
        })
    }
}

/// What plans may say about them.
pub(super) fn rules() -> Vec<DataSetRule> {
    let path = |key: &str, name: &str, help: &str| Factor::path(key, name, "").help(help);
    let of_model = || {
        [
            path("weights", "Folder of weights", "random weights"),
            path("config", "config.json of model = config", "that beside the weights"),
        ]
    };
    let rule = |set: &str, keys: Vec<Factor>, help: &str| DataSetRule {
        key: set.into(),
        help: help.to_owned(),
        keys: keys.into_iter().chain(of_model()).collect(),
        required: Vec::new(),
        synthetic: set == "stand-in",
        ticks: Vec::new(),
        obtainable: Vec::new(),
    };
    vec![
        rule(
            "stand-in",
            Vec::new(),
            "Made rows with the published counts and lengths of the data set, marked as synthetic; nothing is downloaded.",
        ),
        DataSetRule {
            obtainable: DataSet::PUBLISHED
                .map(|(set, about)| Obtainable::new(set.name(), Obtained::Downloaded, about))
                .into(),
            ..rule(
                "files",
                vec![
                    path("folder", "Folder of data sets", "as downloaded"),
                    path("file", "File of data_set = file", "a JSON, JSON Lines, CSV or Parquet file"),
                    path("tokenizer", "Tokenizer", "that beside the weights"),
                ],
                "The published files; `multicard data fetch` downloads them. They need a tokenizer.",
            )
        },
    ]
}
