//! A composed figure as a value: panels of different studies and sessions in a grid. A TOML file describes it, and the figure's own file
//! contains it.

use std::io::Read as _;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::lenient::leniently;
use super::overrides::Overrides;
use super::saved::{SavedStudy, find_study};
use super::study::Study;
use super::style::{Family, PT_PER_MM, Palette, Style, Width};
use crate::foreign;
use crate::plan::{Problem, TomlValues};

/// The version of the file format.
const VERSION: u64 = 1;
/// Files that describe a figure are much smaller.
const MOST_FILE_BYTES: u64 = 1 << 20;
/// A page has no room for more panels.
const MOST_PANELS: usize = 64;

/// A part that the panels of a figure can share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Share {
    /// One legend above all panels that agree on it.
    Legend,
    /// The ends of axes of values that show the same in the same unit.
    Y,
}

/// Panels of different studies in a grid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Composition {
    /// A title above the figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Maximum number of panels next to each other.
    pub columns: usize,
    /// The parts that the panels share.
    pub share: Vec<Share>,
    /// The height of the whole figure in millimetres.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub height_mm: Option<f64>,
    /// Whether the lines below the figure that explain error bars are drawn.
    pub caption: bool,
    /// The style of all panels.
    pub style: Style,
    /// Its panels, row by row.
    pub panels: Vec<ComposedPanel>,
}

/// A panel: a study of one or more sessions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ComposedPanel {
    /// The names of its sessions.
    pub sessions: Vec<String>,
    /// Its title, after its letter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The number of columns that it covers.
    pub span: usize,
    /// The study that it shows, including its author's changes. Its style is that of the composition.
    pub study: Study,
    /// Why the panel was not drawn, if it was not; used in a figure's file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blank: Option<String>,
}

impl Default for Composition {
    fn default() -> Self {
        let (title, height_mm, share, panels) = (None, None, Vec::new(), Vec::new());
        Self { title, columns: 2, share, height_mm, caption: true, style: Style::default(), panels }
    }
}

impl Default for ComposedPanel {
    fn default() -> Self {
        Self { sessions: Vec::new(), title: None, span: 1, study: Study::default(), blank: None }
    }
}

impl Composition {
    /// The requested height in points, if it is within limits.
    pub(super) fn height_pt(&self) -> Option<f64> {
        let (least, most) = Overrides::HEIGHTS_MM;
        self.height_mm.filter(|mm| (least..=most).contains(mm)).map(|mm| mm * PT_PER_MM)
    }

    /// The names of all sessions, each once.
    pub fn sessions(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for name in self.panels.iter().flat_map(|panel| &panel.sessions) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        names
    }
}

/// A TOML file that describes a composed figure.
#[derive(Clone, Debug)]
pub struct CompositionFile {
    /// The figure without its panels.
    pub composition: Composition,
    /// Its panels, in the form of the file.
    pub panels: Vec<PanelTable>,
    /// The parts of the file that cannot be read; they are left out.
    pub problems: Vec<Problem>,
    values: TomlValues,
}

/// A `[[panel]]` of the file.
#[derive(Clone, Debug)]
pub struct PanelTable {
    /// Its path in the file: `panel[2]`.
    pub path: String,
    /// Its sessions, by name or folder.
    pub sessions: Vec<String>,
    /// The study that it is based on: one that its session stores, or a built-in one.
    base: Option<String>,
    title: Option<String>,
    span: usize,
    /// The keys of the study that the panel sets.
    own: Map<String, Value>,
}

/// The top level of the file.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Top {
    title: Option<String>,
    columns: usize,
    share: Vec<Share>,
    height_mm: Option<f64>,
    caption: bool,
    width: Width,
    font: Family,
    palette: Palette,
    size_pt: f64,
}

impl Default for Top {
    fn default() -> Self {
        let Composition { title, columns, share, height_mm, caption, style, .. } = Composition::default();
        let Style { width, font, palette, size_pt } = style;
        Self { title, columns, share, height_mm, caption, width, font, palette, size_pt }
    }
}

impl CompositionFile {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, is not TOML, has a newer version, or has no panels.
    pub fn read(path: &Path) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("reading {}: {error}", path.display());
        let mut text = String::new();
        let file = foreign::open_stream(path).map_err(failed)?;
        file.take(MOST_FILE_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
        if text.len() as u64 > MOST_FILE_BYTES {
            return Err(format!(
                "{} is larger than {MOST_FILE_BYTES} bytes: this is not a description of a figure",
                path.display()
            ));
        }
        Self::parse(&text, &path.display().to_string())
    }

    /// Parses the text of a file; `origin` is the file's name in errors.
    ///
    /// # Errors
    /// The text is not TOML, has a newer version, or has no panels.
    pub fn parse(text: &str, origin: &str) -> Result<Self, String> {
        let mut values = TomlValues::parse(text, origin).map_err(|problem| problem.to_string())?;
        let Value::Object(mut top) = std::mem::take(&mut values.value) else { return Err(format!("{origin}: empty")) };
        let wrong = |path: &str, message: String| Err(values.problem(path, message).to_string());
        match top.remove("version").map(|version| version.as_u64()) {
            None | Some(Some(VERSION)) => {}
            Some(Some(found)) if found > VERSION => {
                return wrong("version", format!("{found} is newer than this multicard's {VERSION}: use a newer one"));
            }
            Some(_) => return wrong("version", format!("this version does not exist: write version = {VERSION}")),
        }
        let tables = match top.remove("panel") {
            Some(Value::Array(tables)) if !tables.is_empty() => tables,
            _ => return wrong("panel", "missing: a figure has a [[panel]] with a session for each panel".to_owned()),
        };
        if tables.len() > MOST_PANELS {
            return wrong("panel", format!("{} panels: a figure has at most {MOST_PANELS}", tables.len()));
        }
        let (Top { title, columns, share, height_mm, caption, width, font, palette, size_pt }, lines) =
            leniently::<Top>(Value::Object(top), "");
        let style = Style { width, font, palette, size_pt };
        let composition = Composition { title, columns, share, height_mm, caption, style, panels: Vec::new() };
        let mut file = Self { composition, panels: Vec::new(), problems: Vec::new(), values };
        file.problems = lines.iter().map(|line| file.problem_of(line)).collect();
        file.check_numbers();
        for (nth, table) in tables.into_iter().enumerate() {
            let panel = file.panel_table(format!("panel[{}]", nth + 1), table);
            file.panels.push(panel);
        }
        Ok(file)
    }

    /// A problem at a path in the file, such as `panel[2]`, with its line number.
    pub fn problem(&self, path: &str, message: impl Into<String>) -> Problem {
        self.values.problem(path, message)
    }

    /// Converts a line of the form `PATH: message` to a problem.
    fn problem_of(&self, line: &str) -> Problem {
        let (path, message) = line.split_once(": ").unwrap_or(("", line));
        self.problem(path.trim_start_matches('.'), message)
    }

    /// Replaces numbers outside their limits by the defaults, and lists them as problems.
    fn check_numbers(&mut self) {
        let usual = Composition::default();
        let (least, most) = Overrides::HEIGHTS_MM;
        if self.composition.height_mm.is_some() && self.composition.height_pt().is_none() {
            let message = format!("it must be from {least} to {most}: the figure is as high as its panels");
            self.problems.push(self.problem("height_mm", message));
            self.composition.height_mm = None;
        }
        if !(1..=MOST_PANELS).contains(&self.composition.columns) {
            let message = format!("it must be from 1 to {MOST_PANELS}: {} are used", usual.columns);
            self.problems.push(self.problem("columns", message));
            self.composition.columns = usual.columns;
        }
        let size_pt = self.composition.style.size_pt;
        if !(Style::LEAST_PT..=Style::MOST_PT).contains(&size_pt) {
            let message = format!("it must be from {} to {}", Style::LEAST_PT, Style::MOST_PT);
            self.problems.push(self.problem("size_pt", message));
            self.composition.style.size_pt = usual.style.size_pt;
        }
    }

    fn panel_table(&mut self, path: String, table: Value) -> PanelTable {
        let mut own = match table {
            Value::Object(own) => own,
            _ => Map::new(),
        };
        let mut problems = Vec::new();
        let mut wrong = |key: &str, message: &str| problems.push((format!("{path}.{key}"), message.to_owned()));
        let names = match own.remove("session") {
            Some(Value::Array(names)) => names,
            Some(name) => vec![name],
            None => Vec::new(),
        };
        let sessions: Vec<String> = names.iter().filter_map(|name| Some(name.as_str()?.to_owned())).collect();
        if sessions.is_empty() || sessions.len() < names.len() {
            wrong("session", "give the name or the folder of a session, or a list of them");
        }
        let mut text = |own: &mut Map<String, Value>, key: &str| match own.remove(key) {
            Some(Value::String(text)) => Some(text),
            None => None,
            Some(_) => {
                wrong(key, "it must be text");
                None
            }
        };
        let (title, study, preset) = (text(&mut own, "title"), text(&mut own, "study"), text(&mut own, "preset"));
        if study.is_some() && preset.is_some() {
            wrong("preset", "give either study or preset, not both");
        }
        let span = own.remove("span").map_or(Some(1), |span| span.as_u64().filter(|span| (1..=64).contains(span)));
        if span.is_none() {
            wrong("span", "it must be a number of columns, at least 1");
        }
        if own.remove("style").is_some() {
            wrong("style", "it is the same for all panels: give width, font, palette and size_pt above the panels");
        }
        let problems: Vec<Problem> = problems.iter().map(|(path, message)| self.problem(path, message)).collect();
        self.problems.extend(problems);
        let span = span.unwrap_or(1) as usize;
        PanelTable { path, sessions, base: study.or(preset), title, span, own }
    }

    /// Creates a panel of the sessions with these names. Also returns the problems in its keys. `saved` are the studies that its first
    /// session stores.
    ///
    /// # Errors
    /// The study that it is based on does not exist or cannot be read.
    pub fn panel(
        &self,
        table: &PanelTable,
        sessions: Vec<String>,
        saved: &[SavedStudy],
    ) -> Result<(ComposedPanel, Vec<Problem>), String> {
        let has_form = table.own.contains_key("form");
        let base = match &table.base {
            Some(name) => find_study(saved, name)?,
            None if has_form => Study::default(),
            None => find_study(&[], "times")?,
        };
        let (study, lines) = changed(&base, &table.own, &table.path);
        let problems = lines.iter().map(|line| self.problem_of(line)).collect();
        let (title, span) = (table.title.clone(), table.span);
        Ok((ComposedPanel { sessions, title, span, study, blank: None }, problems))
    }
}

/// A study with some of its keys changed, and the problems in these keys. Overrides are changed key by key.
fn changed(base: &Study, own: &Map<String, Value>, path: &str) -> (Study, Vec<String>) {
    let mut whole = serde_json::to_value(base).unwrap_or_default();
    let mut wrong = Vec::new();
    for (key, value) in own {
        let (read, lines) = leniently::<Study>(json!({ key: value }), path);
        // The readable part of a table is used; a value that cannot be read is treated as missing.
        let taken = if lines.is_empty() { Some(value.clone()) } else { written(&read, key) };
        wrong.extend(lines);
        match (whole.get_mut(key), taken) {
            (_, None) => {}
            (Some(Value::Object(known)), Some(Value::Object(more))) if key == "overrides" => known.extend(more),
            (_, Some(taken)) => whole[key] = taken,
        }
    }
    (serde_json::from_value(whole).unwrap_or_else(|_| base.clone()), wrong)
}

/// A part of a study, if it differs from the default.
fn written(study: &Study, key: &str) -> Option<Value> {
    let value = |study: &Study| serde_json::to_value(study).ok().and_then(|whole| whole.get(key).cloned());
    value(study).filter(|own| Some(own) != value(&Study::default()).as_ref())
}
