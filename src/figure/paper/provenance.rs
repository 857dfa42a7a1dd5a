//! Where a figure comes from, carried in its file: what it shows, of which sessions, and the numbers themselves.

use serde::{Deserialize, Serialize};

use super::drawn_values::DrawnChart;
use crate::analysis::Cell;
use crate::figure::{Chart, Composition, Study, counted, preset};
use crate::plan::Node;

/// The newest version of what is read: that of composed figures.
pub(super) const VERSION: u32 = 3;
/// The version of what is written of a figure of one study, which earlier programs read, too.
const OF_ONE_STUDY: u32 = 2;
/// The file within a PDF.
pub(super) const ATTACHMENT: &str = "multicard-figure.json";
/// The keyword within a PNG.
pub(super) const KEYWORD: &str = "multicard-figure";
/// Who wrote it.
pub(super) const PROGRAM: &str = concat!("multicard ", env!("CARGO_PKG_VERSION"));

/// The machine of a session. Its name is left out: figures are published.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeFacts {
    /// Product names of its GPUs.
    pub gpus: Vec<String>,
    /// The NVIDIA driver's version.
    pub driver: Option<String>,
    /// The processor's product name.
    pub cpu_model: String,
    /// CPUs that could be used.
    pub cpus: u32,
    /// The operating system and kernel.
    pub system: String,
    /// libtorch's version.
    pub torch_version: Option<String>,
    /// The worker's version.
    pub worker_version: Option<String>,
}

impl NodeFacts {
    /// What is published of a machine.
    pub fn of(node: &Node) -> Self {
        let worker = node.worker.as_ref().ok();
        Self {
            gpus: node.gpus.iter().map(|gpu| gpu.name.clone()).collect(),
            driver: node.driver.clone(),
            cpu_model: node.cpu_model.clone(),
            cpus: node.cpus,
            system: node.system.clone(),
            torch_version: worker.map(|worker| worker.torch_version.clone()),
            worker_version: worker.map(|worker| worker.version.clone()),
        }
    }
}

/// A plan of a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanText {
    /// Its id within the session.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The plan's file.
    pub toml: String,
}

/// A session that the numbers are of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// The session's name.
    pub session: String,
    /// When its first run was queued, in UTC; empty where it has none.
    pub date: String,
    /// Where it ran.
    pub node: NodeFacts,
    /// What was run.
    pub plans: Vec<PlanText>,
}

impl Origin {
    /// A session by what its store says: its name, its machine, its plans (id, name, text) and when its first run was
    /// queued, in seconds since the Unix epoch.
    pub fn new(session: String, node: &Node, plans: Vec<(String, String, String)>, queued_time_s: Option<f64>) -> Self {
        let date = queued_time_s.and_then(|time_s| jiff::Timestamp::from_second(time_s as i64).ok());
        let plans = plans.into_iter().map(|(id, name, toml)| PlanText { id, name, toml }).collect();
        Self { session, date: date.map_or(String::new(), |date| date.to_string()), node: NodeFacts::of(node), plans }
    }
}

/// A cell that is shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CellFacts {
    /// Its session; empty where there is only one.
    pub session: String,
    /// Its id.
    pub cell: String,
    /// Its runs.
    pub runs: Vec<String>,
}

impl CellFacts {
    pub(in crate::figure) fn of(cell: &Cell) -> Self {
        let runs = cell.runs.iter().map(|run| run.run.clone()).collect();
        Self { session: cell.session.to_owned(), cell: cell.id.to_owned(), runs }
    }
}

/// Where a figure comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// The version of this form.
    pub multicard_figure: u32,
    /// The program that wrote it, and its version.
    pub program: String,
    /// What the figure shows, in a few words.
    pub title: String,
    /// What was asked for: with it, the figure is made again.
    #[serde(default)]
    pub study: Study,
    /// What was asked for of a composed figure, whose study is then the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub composition: Option<Composition>,
    /// Whose numbers these are.
    pub sessions: Vec<Origin>,
    /// The cells that are shown.
    pub cells: Vec<CellFacts>,
    /// The numbers of the cells, as `multicard table --format json` writes them; a list of a composed figure's, panel by panel.
    pub table: serde_json::Value,
    /// The values that are drawn.
    #[serde(default)]
    pub drawn: Vec<DrawnChart>,
    /// What a reader must know, one sentence each.
    pub notes: Vec<String>,
    /// What a file says of its study and cannot be read, one line each: another version wrote it, or somebody edited it.
    #[serde(skip)]
    pub problems: Vec<String>,
}

impl Provenance {
    /// The provenance of a figure that this program makes.
    pub(in crate::figure) fn new(
        title: String,
        study: Study,
        sessions: Vec<Origin>,
        cells: Vec<CellFacts>,
        table: serde_json::Value,
        drawn: Vec<DrawnChart>,
        notes: Vec<String>,
    ) -> Self {
        let program = PROGRAM.to_owned();
        let (multicard_figure, composition, problems) = (OF_ONE_STUDY, None, Vec::new());
        Self { multicard_figure, program, title, study, composition, sessions, cells, table, drawn, notes, problems }
    }

    /// The provenance of a composed figure.
    pub(in crate::figure) fn composed(
        title: String,
        composition: Composition,
        sessions: Vec<Origin>,
        cells: Vec<CellFacts>,
        tables: serde_json::Value,
        drawn: Vec<DrawnChart>,
        notes: Vec<String>,
    ) -> Self {
        let own = Self::new(title, Study::default(), sessions, cells, tables, drawn, notes);
        Self { multicard_figure: VERSION, composition: Some(composition), ..own }
    }

    /// The provenance of a chart that no study asked for.
    pub fn of_chart(chart: &Chart) -> Self {
        let drawn = vec![DrawnChart::of(chart)];
        let table = serde_json::Value::Null;
        Self::new(chart.title.clone(), Study::default(), Vec::new(), Vec::new(), table, drawn, chart.notes.clone())
    }

    /// As JSON on one line, the same for the same provenance.
    pub fn json(&self) -> String {
        // Keys are text and numbers finite, so that nothing here can fail to be written.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// One line for people.
    pub fn about(&self) -> String {
        let named = |origin: &Origin| match origin.date.split('T').next() {
            Some(day) if !day.is_empty() => format!("{} of {day}", origin.session),
            _ => origin.session.clone(),
        };
        let sessions: Vec<String> = self.sessions.iter().map(named).collect();
        let cells = self.cells.len();
        let panels = self.composition.as_ref().map_or(0, |composition| composition.panels.len());
        let study = match self.study.name.as_str() {
            _ if self.composition.is_some() => counted(panels, "panel"),
            "" => "A study".to_owned(),
            name if preset(name).is_ok() => format!("Preset {name}"),
            name => format!("Study {name}"),
        };
        format!("{study} over {cells} cells of session {}", sessions.join(" and "))
    }
}
