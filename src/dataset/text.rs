//! Text data sets: their files and forms, templates and tokenizers, and rows as tokens.

mod byte_pairs;
mod fetch;
mod preference;
mod rows;
mod template;
mod tokenizer;
mod tokens;
mod weights;

use std::fs;
use std::path::{Path, PathBuf};

use procfs_core::{FromRead as _, Meminfo};

pub use fetch::{HUB_URL, fetch_text};
pub use tokenizer::Tokenizer;
pub use tokens::{IGNORED_LABEL, Sample, TOKEN_BYTES, TokenRows};
pub use weights::{Located, NumberType, Weights, expected_weights};

use super::DatasetError;
use super::error::more_files;
use crate::plan::llm::{DataSet, LlmData, LlmSettings, Model, ModelConfig, Source};
use crate::plan::{Data, Levels, counted};
use preference::Pairing;
use rows::{Place, Then, bad};
use template::Message;

/// The rows of a run, tokenized.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextSet {
    /// The rows to train on.
    pub train: TokenRows,
    /// The rows to evaluate on, which follow the training rows.
    pub test: TokenRows,
    /// The token that pads shorter rows.
    pub padding: u32,
    /// The length of samples in tokens if rows share samples; `None` if each row is a sample.
    pub packs_of: Option<usize>,
    /// Whether samples are pairs: a chosen row followed by a rejected one.
    pub pairs: bool,
    /// The number of pairs whose rejected answer is generated, of all pairs that were read.
    pub made_pairs: usize,
    /// The source of the rows, in words.
    pub source: String,
}

/// Reads the rows that a cell of the workload `llm` uses, and the headers of its weights, without keeping them. Generated rows need no
/// check.
///
/// # Errors
/// As [`read`] and [`check_model`].
pub fn check(levels: &Levels, data: &Data, folder: &Path) -> Result<(), DatasetError> {
    let plan = |reason: String| DatasetError::Text(reason);
    let data = LlmData::read(data).map_err(plan)?;
    let settings = LlmSettings::from_levels(levels).map_err(plan)?;
    let model = data.model(settings.model).map_err(plan)?;
    check_weights(&data, &model)?;
    match data.source {
        Source::StandIn => Ok(()),
        Source::Files { .. } => read(&settings, &data, &model, folder).map(drop),
    }
}

/// Checks the files that describe one of a plan's networks: its `config.json`, its tokenizer and the headers of its weights. Missing files
/// are not reported here; the code that needs them does that.
///
/// # Errors
/// The file that is damaged or belongs to another network, and what is wrong with it.
pub fn check_model(model: Model, data: &LlmData) -> Result<(), DatasetError> {
    if model == Model::Config && !data.config().is_some_and(|path| path.exists()) {
        return Ok(());
    }
    let model = data.model(model).map_err(DatasetError::Text)?;
    if data.weights.as_ref().is_some_and(|weights| weights.exists()) {
        check_weights(data, &model)?;
    }
    match data.tokenizer().filter(|path| path.exists()) {
        Some(path) => tokenizer_of(path, &model).map(drop),
        None => Ok(()),
    }
}

fn check_weights(data: &LlmData, model: &ModelConfig) -> Result<(), DatasetError> {
    let Some(path) = &data.weights else { return Ok(()) };
    let checked = Weights::read(path).and_then(|weights| weights.check(&expected_weights(model)));
    checked.map_err(DatasetError::Text)
}

/// Opens a tokenizer and checks that the model knows its tokens.
fn tokenizer_of(path: PathBuf, model: &ModelConfig) -> Result<Tokenizer, DatasetError> {
    let tokenizer = Tokenizer::open(&path)?;
    match tokenizer.is_foreign(model) {
        Some(reason) => Err(DatasetError::Tokenizer { path, reason }),
        None => Ok(tokenizer),
    }
}

/// Reads or generates all rows that a cell uses: a row that cannot be used is an error with its place.
///
/// `folder` contains a folder for each published data set ([`super::data_folder`]).
///
/// # Errors
/// What is wrong or missing in the tokenizer, the files or a row, and what to do.
pub fn read(
    settings: &LlmSettings,
    data: &LlmData,
    model: &ModelConfig,
    folder: &Path,
) -> Result<TextSet, DatasetError> {
    match &data.source {
        Source::StandIn => Ok(made(settings, model)),
        Source::Files { file, .. } => {
            let tokenizer = tokenizer_of(data.tokenizer().ok_or(DatasetError::NoTokenizer)?, model)?;
            let files = match (settings.data_set, file) {
                (DataSet::File, Some(file)) => vec![file.clone()],
                (set, _) => files_of(set, &folder.join(set.name()))?,
            };
            tokenized(settings, model, &tokenizer, &files, room(settings.gpus))
        }
    }
}

/// The number of bytes that the rows of one of `ranks` ranks may take: half of the host's free memory, because a growing list briefly
/// exists twice. `None` if the host does not report it.
fn room(ranks: usize) -> Option<u64> {
    let free = Meminfo::from_file("/proc/meminfo").ok()?.mem_available?;
    Some(free / 2 / ranks.max(1) as u64)
}

fn made(settings: &LlmSettings, model: &ModelConfig) -> TextSet {
    let LlmSettings { data_set, train_on_input, max_tokens, .. } = *settings;
    let mut lengths = data_set.stand_in_lengths();
    if lengths.is_empty() {
        lengths = vec![settings.row_tokens];
    }
    let cut = |length: usize| max_tokens.map_or(length, |limit| length.min(limit));
    lengths.iter_mut().for_each(|length| *length = cut(*length));
    let rows = settings.rows.unwrap_or(data_set.published_rows().unwrap_or(0) as usize);
    let pairs = settings.technique.prefers();
    let part_of = |range| match pairs {
        true => preference::made_pairs(data_set, range, &lengths, model.vocabulary, train_on_input, max_tokens),
        false => TokenRows::stand_in(data_set, range, &lengths, model.vocabulary, train_on_input),
    };
    let assumed = data_set.assumed();
    let assumed = if assumed.is_empty() { String::new() } else { format!("; {assumed}") };
    TextSet {
        train: part_of(0..rows),
        test: part_of(rows..rows + settings.test_rows),
        padding: model.vocabulary as u32 - 1,
        packs_of: max_tokens.filter(|_| settings.packed),
        pairs,
        made_pairs: if pairs { rows + settings.test_rows } else { 0 },
        source: format!("generated by this program, synthetic{assumed}"),
    }
}

/// The files of a published data set, sorted by name.
pub(super) fn files_of(set: DataSet, folder: &Path) -> Result<Vec<PathBuf>, DatasetError> {
    let entries = fs::read_dir(folder).map(|entries| entries.filter_map(|entry| Some(entry.ok()?.path())));
    let mut files: Vec<PathBuf> = match entries {
        Ok(entries) => entries.filter(|path| path.is_file() && rows::ending(path).is_some()).collect(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(DatasetError::read(folder)(error)),
    };
    if files.is_empty() {
        return Err(DatasetError::NoText { folder: folder.to_owned(), set: set.name() });
    }
    files.sort();
    Ok(files)
}

/// The samples that a cell uses, in order: the training samples first.
struct Samples<'a> {
    settings: &'a LlmSettings,
    model: &'a ModelConfig,
    tokenizer: &'a Tokenizer,
    /// The number of bytes that they may take.
    room: Option<u64>,
    train: TokenRows,
    test: TokenRows,
}

impl Samples<'_> {
    fn trained(&self) -> usize {
        self.train.len() / self.settings.rows_per_sample()
    }

    fn tested(&self) -> usize {
        self.test.len() / self.settings.rows_per_sample()
    }

    fn wants_training(&self) -> bool {
        self.settings.rows.is_none_or(|rows| self.trained() < rows)
    }

    fn enough(&self) -> bool {
        !self.wants_training() && self.tested() == self.settings.test_rows
    }

    /// The error if the rows do not fit into memory; files do not tell their number of tokens.
    fn too_many(&self) -> Option<String> {
        let tokens = (self.train.token_count() + self.test.token_count()) as u64;
        let room = self.room.filter(|room| tokens * TOKEN_BYTES > *room)?;
        let (ranks, gigabytes) = (counted(self.settings.gpus, "rank"), room as f64 / 1e9);
        Some(format!(
            "the {tokens} tokens up to here take {TOKEN_BYTES} bytes each, but this host has room for only {gigabytes:.3} GB of them in \
                 each of {ranks}: use fewer rows (rows), shorten them (max_tokens), or use fewer GPUs"
        ))
    }

    /// Adds a sample: one row, or both rows of a pair.
    fn push(&mut self, rows: &[Vec<Message>]) -> Result<(), String> {
        let limit = self.settings.max_tokens;
        let into_train = self.wants_training();
        for messages in rows {
            let (tokens, masked) = self.tokenizer.row(messages, limit)?;
            unusable(&tokens, &masked, limit, self.model).map_or(Ok(()), Err)?;
            if into_train { &mut self.train } else { &mut self.test }.push(&tokens, &masked);
        }
        self.too_many().map_or(Ok(()), Err)
    }
}

fn tokenized(
    settings: &LlmSettings,
    model: &ModelConfig,
    tokenizer: &Tokenizer,
    files: &[PathBuf],
    room: Option<u64>,
) -> Result<TextSet, DatasetError> {
    let LlmSettings { template, train_on_input, max_tokens, test_rows, .. } = *settings;
    let (train, test) = (TokenRows::default(), TokenRows::default());
    let mut samples = Samples { settings, model, tokenizer, room, train, test };
    let mut pairing = settings.technique.prefers().then(|| Pairing::new(template, train_on_input));
    let wrong = |path: &Path, place: Place| {
        let path = path.to_owned();
        move |reason: String| bad(&path, Some(place), reason)
    };
    for path in files {
        let then = rows::for_each(path, &mut |row| {
            if samples.enough() {
                return Ok(Then::Stop);
            }
            match &mut pairing {
                None => {
                    let messages = template::messages(template, train_on_input, &row.fields);
                    let taken = messages.and_then(|messages| samples.push(&[messages]));
                    taken.map_err(wrong(path, row.place))?;
                }
                Some(pairing) => {
                    let pair = pairing.next(path, row.place, &row.fields).map_err(wrong(path, row.place))?;
                    pair.map_or(Ok(()), |pair| samples.push(&pair.rows).map_err(wrong(&pair.path, pair.place)))?;
                }
            }
            Ok(if samples.enough() { Then::Stop } else { Then::Next })
        })?;
        if then == Then::Stop {
            break;
        }
    }
    let path = files.first().cloned().unwrap_or_default();
    if let Some(pairing) = pairing.as_mut().filter(|_| !samples.enough()) {
        let pair = pairing.end().map_err(|reason| bad(&path, None, reason))?;
        pair.map_or(Ok(()), |pair| samples.push(&pair.rows).map_err(wrong(&pair.path, pair.place)))?;
    }
    let rows_present = samples.trained() + samples.tested();
    let requested = settings.rows.unwrap_or(samples.trained().max(1)) + test_rows;
    if rows_present < requested {
        return Err(DatasetError::FewRows { path, files: files.len(), rows: rows_present, requested });
    }
    let named = files.first().map_or(String::new(), |file| file.display().to_string());
    let more = more_files(files.len());
    let pairing_source = pairing.as_ref().map_or(String::new(), Pairing::source);
    let Samples { train, test, .. } = samples;
    Ok(TextSet {
        train,
        test,
        // TorchTune pads packs with token 0.
        padding: if settings.packed { 0 } else { tokenizer.padding() },
        packs_of: max_tokens.filter(|_| settings.packed),
        pairs: pairing.is_some(),
        made_pairs: pairing.as_ref().map_or(0, |pairing| pairing.made),
        source: format!("read from {named}{more}{pairing_source}"),
    })
}

/// Why a row cannot be trained on; `None` if it can.
fn unusable(tokens: &[u32], masked: &[bool], limit: Option<usize>, model: &ModelConfig) -> Option<String> {
    let (count, name, context) = (tokens.len(), &model.name, model.context);
    if count > context {
        return Some(format!(
            "its {count} tokens do not fit into the context of {name}, {context} tokens: set max_tokens"
        ));
    }
    let limit = limit.map_or(String::new(), |limit| format!(" of max_tokens = {limit}"));
    masked.iter().all(|masked| *masked).then(|| {
        format!(
            "its prompt fills all {count} tokens{limit}, so nothing is left to learn: raise max_tokens, or use train_on_input = on"
        )
    })
}

#[cfg(test)]
#[path = "text/tests.rs"]
mod tests;
