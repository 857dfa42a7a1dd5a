//! Sources of the `llm` workload's rows, weights and tokenizer.

use std::path::PathBuf;

use super::model::ModelConfig;
use super::settings::{DataSet, Model, Template, TrainOnInput};
use crate::plan::{Data, DataSetRule, Factor, Key, Level, Obtainable, Obtained};

/// A plan's choice of rows and weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LlmData {
    /// The source of rows.
    pub source: Source,
    /// A folder of Hugging Face safetensors; `None` for random weights of the right shapes.
    pub weights: Option<PathBuf>,
    /// The `config.json` of `model = config`.
    pub config: Option<PathBuf>,
}

/// The source of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Generated rows with the data set's published row count and lengths and random tokens, marked as synthetic.
    StandIn,
    /// Files in their published formats.
    Files {
        /// The folder of the data sets; `None` for the folder that `multicard data fetch` uses.
        folder: Option<PathBuf>,
        /// The file of `data_set = file`.
        file: Option<PathBuf>,
        /// The path of `tokenizer.json` or of Llama's `tokenizer.model`; `None` for the tokenizer in the folder of weights.
        tokenizer: Option<PathBuf>,
    },
}

impl Source {
    /// The names used in plans, the default first.
    pub const NAMES: &'static [&'static str] = &["stand-in", "files"];
}

impl DataSet {
    /// The published sets and their content.
    pub const PUBLISHED: [(Self, &str); 4] = [
        (Self::AlpacaCleaned, "51,760 instructions with answers"),
        (Self::Grammar, "C4_200M: sentences and their corrections"),
        (Self::Samsum, "16,369 dialogues with summaries"),
        (Self::Slimorca, "363,491 conversations"),
    ];
}

impl LlmData {
    /// Reads the data of a plan or a job.
    ///
    /// # Errors
    /// An unknown source.
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

    /// The tokenizer's file: the file that the plan names, or else the file in the folder of weights, if there is one.
    pub fn tokenizer(&self) -> Option<PathBuf> {
        let Source::Files { tokenizer, .. } = &self.source else { return None };
        let beside = |folder: &PathBuf| {
            let files = ["tokenizer.json", "tokenizer.model"].map(|name| folder.join(name));
            files.iter().find(|file| file.exists()).unwrap_or(&files[0]).clone()
        };
        tokenizer.clone().or_else(|| self.weights.as_ref().map(beside))
    }

    /// The `config.json` of [`Model::Config`]: the file that the plan names, or else the file in the folder of weights.
    pub fn config(&self) -> Option<PathBuf> {
        self.config.clone().or_else(|| self.weights.as_ref().map(|folder| folder.join("config.json")))
    }

    /// The network of a level. Only [`Model::Config`] reads a file.
    ///
    /// # Errors
    /// What is missing in its `config.json`.
    pub fn model(&self, model: Model) -> Result<ModelConfig, String> {
        Ok(match model {
            Model::Llama3_8b => ModelConfig::llama3_8b(),
            Model::Llama3_2_1b => ModelConfig::llama3_2_1b(),
            Model::Llama3_2_3b => ModelConfig::llama3_2_3b(),
            Model::Tiny => ModelConfig::tiny(),
            Model::Config => {
                let path = self.config();
                let path =
                    path.ok_or("model = config needs data.config, the path of a config.json, or data.weights")?;
                ModelConfig::read(&path)?
            }
        })
    }
}

/// The data sets, and the keys that plans may set for each.
pub(super) fn rules() -> Vec<DataSetRule> {
    let path = |key: &str, name: &str, help: &str| Factor::path(key, name, "").help(help);
    let of_model = || {
        [
            path("weights", "Folder of weights", "random weights"),
            path("config", "Path of the model's config.json", "the one in the folder of weights"),
        ]
    };
    let rule = |set: &str, keys: Vec<Factor>, help: &str| DataSetRule {
        key: set.into(),
        help: help.to_owned(),
        keys: keys.into_iter().chain(of_model()).collect(),
        required: Vec::new(),
        synthetic: set == "stand-in",
        ticks: Vec::new(),
        read_by: vec![Model::KEY.into()],
        obtainable: Vec::new(),
    };
    vec![
        rule(
            "stand-in",
            Vec::new(),
            "Generated rows with the published counts and lengths of the data set, marked as synthetic; nothing is downloaded.",
        ),
        DataSetRule {
            read_by: [Model::KEY, DataSet::KEY, Template::KEY, TrainOnInput::KEY, "max_tokens", "rows", "test_rows"]
                .map(Key::from)
                .into(),
            obtainable: DataSet::PUBLISHED
                .map(|(set, about)| Obtainable::new(set.name(), Obtained::Downloaded, about))
                .into(),
            ..rule(
                "files",
                vec![
                    path("folder", "Folder of data sets", "as downloaded"),
                    path("file", "File of data_set = file", "a JSON, JSON Lines, CSV or Parquet file"),
                    path("tokenizer", "Tokenizer", "the one in the folder of weights"),
                ],
                "The published files; `multicard data fetch` downloads them. They need a tokenizer.",
            )
        },
    ]
}
