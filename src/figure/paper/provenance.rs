//! The provenance of a figure, which its file contains: what the figure shows, its sessions, and the numbers themselves.

use serde::{Deserialize, Serialize};

use super::drawn_values::DrawnChart;
use crate::analysis::Cell;
use crate::figure::{Chart, Composition, Study, counted, preset};
use crate::plan::Node;

/// The newest version of the format, used by composed figures.
pub(super) const VERSION: u32 = 3;
/// The version that is written for a figure of one study, because earlier programs can read it.
const OF_ONE_STUDY: u32 = 2;
/// The name of the attached file in a PDF.
pub(super) const ATTACHMENT: &str = "multicard-figure.json";
/// The keyword in a PNG.
pub(super) const KEYWORD: &str = "multicard-figure";
/// The program that writes figures, with its version.
pub(super) const PROGRAM: &str = concat!("multicard ", env!("CARGO_PKG_VERSION"));

/// The machine of a session, without its name, because figures are published.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeFacts {
    /// Product names of its GPUs.
    pub gpus: Vec<String>,
    /// The NVIDIA driver's version.
    pub driver: Option<String>,
    /// The processor's product name.
    pub cpu_model: String,
    /// The number of CPUs that could be used.
    pub cpus: u32,
    /// The operating system and kernel.
    pub system: String,
    /// libtorch's version.
    pub torch_version: Option<String>,
    /// The worker's version.
    pub worker_version: Option<String>,
}

impl NodeFacts {
    /// The facts of a machine that figures contain.
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

/// A session from which the numbers come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// The session's name.
    pub session: String,
    /// When its first run was queued, in UTC; empty for a session without runs.
    pub date: String,
    /// The machine on which it ran.
    pub node: NodeFacts,
    /// The plans that were run.
    pub plans: Vec<PlanText>,
}

impl Origin {
    /// The origin of a session, from the contents of its store: its name, its machine, its plans (id, name, text), and the time at which
    /// its first run was queued, in seconds since the Unix epoch.
    pub fn new(session: String, node: &Node, plans: Vec<(String, String, String)>, queued_time_s: Option<f64>) -> Self {
        let date = queued_time_s.and_then(|time_s| jiff::Timestamp::from_second(time_s as i64).ok());
        let plans = plans.into_iter().map(|(id, name, toml)| PlanText { id, name, toml }).collect();
        Self { session, date: date.map_or(String::new(), |date| date.to_string()), node: NodeFacts::of(node), plans }
    }
}

/// A cell that the figure shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CellFacts {
    /// Its session; empty if there is only one.
    pub session: String,
    /// Its id.
    pub cell: String,
    /// Ids of its runs.
    pub runs: Vec<String>,
}

impl CellFacts {
    pub(in crate::figure) fn of(cell: &Cell) -> Self {
        let runs = cell.runs.iter().map(|run| run.run.clone()).collect();
        Self { session: cell.session.to_owned(), cell: cell.id.to_owned(), runs }
    }
}

/// The provenance of a figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// The version of this format.
    pub multicard_figure: u32,
    /// The program that wrote it, and its version.
    pub program: String,
    /// What the figure shows, in a few words.
    pub title: String,
    /// The study from which the figure can be made again.
    #[serde(default)]
    pub study: Study,
    /// The composition of a composed figure. `study` is then the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub composition: Option<Composition>,
    /// The sessions from which the numbers come.
    pub sessions: Vec<Origin>,
    /// The cells that are shown.
    pub cells: Vec<CellFacts>,
    /// The numbers of the cells, as `multicard table --format json` writes them. For a composed figure, a list with one element per
    /// panel.
    pub table: serde_json::Value,
    /// The values that are drawn.
    #[serde(default)]
    pub drawn: Vec<DrawnChart>,
    /// Notes for the reader, one sentence each.
    pub notes: Vec<String>,
    /// Parts of the study that cannot be read, because another version wrote the file or a user edited it; one line each.
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

    /// The provenance of a composed figure that this program makes.
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

    /// The provenance of a chart without a study.
    pub fn of_chart(chart: &Chart) -> Self {
        let drawn = vec![DrawnChart::of(chart)];
        let table = serde_json::Value::Null;
        Self::new(chart.title.clone(), Study::default(), Vec::new(), Vec::new(), table, drawn, chart.notes.clone())
    }

    /// The provenance as JSON on one line. Equal provenances give equal texts.
    pub fn json(&self) -> String {
        // Keys are text and numbers are finite, so writing cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// One line for readers.
    pub fn about(&self) -> String {
        let named = |origin: &Origin| match origin.date.split('T').next() {
            Some(day) if !day.is_empty() => format!("{} of {day}", origin.session),
            _ => origin.session.clone(),
        };
        let sessions: Vec<String> = self.sessions.iter().map(named).collect();
        let cells = counted(self.cells.len(), "cell");
        let panels = self.composition.as_ref().map_or(0, |composition| composition.panels.len());
        let study = match self.study.name.as_str() {
            _ if self.composition.is_some() => counted(panels, "panel"),
            "" => "A study".to_owned(),
            name if preset(name).is_ok() => format!("Preset {name}"),
            name => format!("Study {name}"),
        };
        format!("{study} over {cells} of session {}", sessions.join(" and "))
    }
}
