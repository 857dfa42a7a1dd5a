//! The report of a reproduction: both papers' tables and figures in their order, published beside measured, what deviates, claims with
//! verdicts, contradictions.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::error::Error;
use std::path::{Path, PathBuf};

use super::claims::judged;
use super::document::{Document, Part};
use super::material::{Material, refuse_copies};
use super::replace::{self, Kind};
use super::{OK, Outcome, say, session_folder};
use crate::analysis::{Cell, Recording, RunSummary, Source, cells_of};
use crate::figure::paper::{self, Origin, PaperFormat};
use crate::figure::{self, CellValue, Chart, Form, Row, Study, capitalised, claims_table, counted};
use crate::papers::{self, Artefact, Bound, Judgement, Paper, PublishedValue, Verdict};
use crate::plan::{Key, Level, Mode, RunState};
use crate::text_table::TextTable;

/// Writes the report of several sessions into a folder.
pub(super) fn write(sessions: &[PathBuf], out: &Path) -> Outcome {
    let materials: Vec<Material> = sessions
        .iter()
        .map(|session| Material::read(&session_folder(session)?))
        .collect::<Result<_, Box<dyn Error>>>()?;
    refuse_copies(sessions.iter().zip(&materials))?;
    for part in ["figures", "reproduction.md", "reproduction.html", "reproduction.tex"] {
        replace::refuse_link(&out.join(part))?;
    }
    for (name, kind) in [("reproduction.md", Kind::Readme), ("reproduction.html", Kind::Page)] {
        replace::check(&out.join(name), kind)?;
    }
    let figures = out.join("figures");
    std::fs::create_dir_all(&figures).map_err(|error| format!("creating {}: {error}", figures.display()))?;
    let report = Report { materials: &materials, out };
    let (document, measured) = report.document()?;
    for (name, text) in [("md", document.markdown()), ("html", document.html()), ("tex", document.latex())] {
        paper::write_file(&out.join(format!("reproduction.{name}")), text.as_bytes())?;
    }
    say(format_args!(
        "{} of {} tables and figures have measurements; reproduction.md, reproduction.html and reproduction.tex in {}",
        measured,
        papers::artefacts().len(),
        out.display()
    ));
    Ok(OK)
}

struct Report<'a> {
    materials: &'a [Material],
    out: &'a Path,
}

impl Report<'_> {
    /// The document, and the number of tables and figures that have measurements.
    fn document(&self) -> Result<(Document, usize), Box<dyn Error>> {
        let sources = self.sources();
        let judgements = judged(&cells_of(&sources));
        let mut document = Document::default();
        document.heading(1, "A reproduction of arXiv 2503.15252 and arXiv 2505.22905");
        self.head(&mut document, &judgements);
        let mut measured = 0;
        for paper in papers::papers() {
            measured += self.paper(&mut document, paper, &sources)?;
        }
        document.heading(2, "Claims");
        document.paragraph(
            "The verdict of the runs on each comparison that the papers make in words. Claims that no run tests are marked untested.",
        );
        document.0.push(Part::Table(Box::new(claims_table(&judgements, true))));
        document.heading(2, "Contradictions");
        document.paragraph("Where the papers disagree with themselves, with each other, or with arithmetic.");
        let contradiction = |one: &papers::Contradiction| {
            let check = if one.check.is_empty() { String::new() } else { format!(" ({})", one.check) };
            format!("{}, {}: {}{check}", one.paper, one.place, one.what)
        };
        document.list(papers::contradictions().iter().map(contradiction).collect());
        let shared = document.share_notes();
        if !shared.is_empty() {
            document.heading(2, "Notes that several tables share");
            document.list(shared);
        }
        document.heading(2, "Methods");
        let origins: Vec<Origin> = self.materials.iter().map(|one| one.origin.clone()).collect();
        document.paragraph(figure::methods(&sources, &Study::default(), &origins));
        Ok((document, measured))
    }

    /// The runs of each session, with the session's name if there are several.
    fn sources(&self) -> Vec<Source<'_>> {
        let single = self.materials.len() == 1;
        let sources = self.materials.iter().map(|Material { runs, reports, origin, .. }| Source {
            session: if single { "" } else { &origin.session },
            runs,
            reports,
        });
        sources.collect()
    }

    /// Adds the list of sessions with their machines, and the verdicts on claims.
    fn head(&self, document: &mut Document, judgements: &[Judgement]) {
        let session = |material: &Material| {
            let Origin { session, date, node, .. } = &material.origin;
            let gpus = match node.gpus.first() {
                Some(gpu) => {
                    format!("{} × {gpu}, driver {}", node.gpus.len(), node.driver.as_deref().unwrap_or("unknown"))
                }
                None => "no GPU".to_owned(),
            };
            let torch = node.torch_version.as_ref().map_or(String::new(), |torch| format!(", libtorch {torch}"));
            let finished = material.runs.iter().filter(|run| run.state == RunState::Finished).count();
            let runs = material.runs.len();
            format!(
                "{session}, started {date}: {gpus}, {}, {}{torch}; {finished} of {} finished",
                node.cpu_model,
                counted(node.cpus, "CPU"),
                counted(runs, "run")
            )
        };
        document.paragraph("Measured in:");
        document.list(self.materials.iter().map(session).collect());
        let count = |verdict| judgements.iter().filter(|one| one.verdict == verdict).count();
        let counts: Vec<String> =
            Verdict::ALL.into_iter().map(|verdict| format!("{} {}", count(verdict), verdict.name())).collect();
        document.paragraph(format!(
            "{} of both papers: {}.",
            capitalised(&counted(judgements.len(), "claim")),
            counts.join(", ")
        ));
        document.paragraph(
            "Published numbers stand next to measured ones, cell by cell. The papers used another machine, other software and other \
                 images, and they state no repeats, so the ratio of published and measured values is no verdict. Deviations from a \
                 paper's settings are listed below each table.",
        );
    }

    /// Adds a paper's tables and figures; returns how many of them have measurements.
    fn paper(&self, document: &mut Document, paper: &Paper, sources: &[Source]) -> Result<usize, Box<dyn Error>> {
        document.heading(2, format!("arXiv {}: {}", paper.id, paper.title));
        document.paragraph(format!("{}; {}; {}.", paper.node, paper.system, paper.software));
        document.paragraph(format!("The paper does not say: {}.", paper.unstated.join("; ")));
        let mut measured = 0;
        for artefact in papers::artefacts().iter().filter(|artefact| artefact.paper == paper.id) {
            measured += usize::from(self.artefact(document, artefact, sources)?);
        }
        Ok(measured)
    }

    fn artefact(
        &self,
        document: &mut Document,
        artefact: &'static Artefact,
        sources: &[Source],
    ) -> Result<bool, Box<dyn Error>> {
        document.heading(3, format!("{artefact}: {}", artefact.shows));
        let conditions = [artefact.quantity.as_str(), artefact.conditions.as_str()];
        let conditions: Vec<&str> = conditions.into_iter().filter(|text| !text.is_empty()).collect();
        document.paragraph(capitalised(&conditions.join("; ")) + ".");
        if let Some(needs) = &artefact.needs {
            document.paragraph(format!("Not measured here, or only in part: {needs}."));
        }
        let is_measured = self.measured(document, artefact, sources)?;
        let (line, values) = values(artefact);
        if !values.is_empty() {
            document.paragraph(line);
            document.0.push(Part::Values(values));
        }
        Ok(is_measured)
    }

    /// Adds the picture and the table of the runs that belong to a table or figure; returns whether they measured any of its numbers.
    fn measured(
        &self,
        document: &mut Document,
        artefact: &'static Artefact,
        sources: &[Source],
    ) -> Result<bool, Box<dyn Error>> {
        let id = artefact.id();
        let study = figure::preset(&id)?;
        let own = runs_of(artefact, sources);
        let sources: Vec<Source> = own.iter().map(|(session, runs)| Source { session, runs, reports: &[] }).collect();
        let figure = figure::figure(&sources, &study)?;
        if figure.cells.is_empty() {
            if artefact.plan().is_some() {
                document.paragraph(format!(
                    "No run of these sessions is in one of its cells: `multicard run --preset {id}` makes such runs."
                ));
            }
            return Ok(false);
        }
        let has_value = |row: &Row| row.values.iter().any(|value| matches!(value, CellValue::Measure(_)));
        if !figure.table.rows.iter().any(has_value) {
            document.paragraph(format!(
                "Runs of these sessions are in its cells, but measured none of its numbers (for example, quick runs give no losses): \
                     `multicard run --preset {id}` makes full runs."
            ));
            return Ok(false);
        }
        if !figure.charts.iter().all(Chart::is_empty) {
            let origins = self.materials.iter().map(|one| one.origin.clone()).collect();
            let (scene, provenance) = (figure.scene(), figure.provenance(origins));
            let name = id.replace('/', "-");
            for (ending, format) in [("svg", PaperFormat::Svg), ("pdf", PaperFormat::Pdf)] {
                let file = self.out.join("figures").join(format!("{name}.{ending}"));
                replace::write(&file, &paper::encode(&scene, &provenance, format)?, Kind::Figure)?;
            }
            let (title, scene) = (format!("{artefact}: {}", artefact.shows), Box::new(scene));
            document.0.push(Part::Picture { name, title, scene });
        }
        document.0.push(Part::Table(Box::new(figure::table(&sources, &study))));
        Ok(true)
    }
}

/// By session, the runs that a table or figure shows: those that do the work which the paper states, as near to its settings as any session
/// has them. Images of 500 px say nothing about a figure of 700 px.
///
/// A cell of the paper may have cells of several sessions. The ones with the fewest other settings are shown, and among equals those of the
/// session that has most of the paper's cells. Recorded runs and full runs of a companion plan measure something else and are chosen apart.
///
/// Quick runs have no losses of epochs: a figure of losses shows them only if no full run belongs to it.
fn runs_of<'a>(artefact: &'static Artefact, sources: &[Source<'a>]) -> Vec<(&'a str, Vec<RunSummary>)> {
    if figure::preset(&artefact.id()).is_ok_and(|study| study.form == Form::Loss) {
        let full = |source: &Source| source.runs.iter().filter(|run| run.mode.is_full()).cloned().collect();
        let kept: Vec<Vec<RunSummary>> = sources.iter().map(full).collect();
        let of_full = sources.iter().zip(&kept).map(|(source, runs)| Source { runs, ..*source });
        let found = nearest_runs(artefact, &of_full.collect::<Vec<_>>());
        if found.iter().any(|(_, runs)| !runs.is_empty()) {
            return sources.iter().map(|source| source.session).zip(found.into_iter().map(|(_, runs)| runs)).collect();
        }
    }
    nearest_runs(artefact, sources)
}

fn nearest_runs<'a>(artefact: &'static Artefact, sources: &[Source<'a>]) -> Vec<(&'a str, Vec<RunSummary>)> {
    let plain: Vec<Source> = sources.iter().map(|source| Source { reports: &[], ..*source }).collect();
    let cells = cells_of(&plain);
    let deviations = papers::deviations(artefact, &cells);
    let has_companion = artefact.companion_id().is_some();
    let belonging: Vec<(PaperCell, &Cell, usize)> = cells
        .iter()
        .enumerate()
        .filter(|(index, _)| deviations.is_stated_work(*index))
        .filter_map(|(index, cell)| {
            let is_recorded = cell.recording() != Recording::Plain;
            let is_full = has_companion && cell.mode() == Mode::Full;
            let paper_cell = (deviations.places.get(index).copied().flatten()?, is_recorded, is_full);
            Some((paper_cell, cell, deviations.of_cells[index].as_ref().map_or(0, Vec::len)))
        })
        .collect();
    let paper_cells_of = |session: &str| {
        let own = belonging.iter().filter(|(_, cell, _)| cell.session == session).map(|(paper_cell, ..)| paper_cell);
        own.collect::<BTreeSet<_>>().len()
    };
    let rank = |cell: &Cell, deviations: usize| (deviations, Reverse(paper_cells_of(cell.session)));
    let is_nearest = |(paper_cell, cell, deviations): &&(PaperCell, &Cell, usize)| {
        let rivals = belonging.iter().filter(|(other, ..)| other == paper_cell);
        rivals.map(|(_, cell, deviations)| rank(cell, *deviations)).min() == Some(rank(cell, *deviations))
    };
    let nearest: Vec<&Cell> = belonging.iter().filter(is_nearest).map(|(_, cell, _)| *cell).collect();
    let runs = |session: &str| {
        let own = nearest.iter().filter(|cell| cell.session == session);
        own.flat_map(|cell| cell.runs.iter().map(|run| (*run).clone())).collect()
    };
    sources.iter().map(|source| (source.session, runs(source.session))).collect()
}

/// A cell of a paper: its place in the plan, whether the runs were recorded, and whether they are full runs of a companion plan.
type PaperCell = (usize, bool, bool);

/// The numbers that a paper prints in a table or figure, one in each row, below a line with the levels that all of them have.
pub(super) fn values(artefact: &Artefact) -> (String, TextTable) {
    let all: Vec<&PublishedValue> = artefact.values().collect();
    // A level counts as shared if every value that states it states this one.
    let is_shared = |key: &Key, level: &Level| {
        let mut stated = all.iter().filter_map(|value| value.levels.get(key));
        all.len() > 1 && stated.all(|other| other == level)
    };
    let written = |value: &PublishedValue, shared: bool| -> Vec<String> {
        let levels = value.levels.iter().filter(|(key, level)| is_shared(key, level) == shared);
        levels.map(|(key, level)| format!("{key} = {level}")).collect()
    };
    let shared: BTreeSet<String> = all.iter().flat_map(|value| written(value, true)).collect();
    let shared: Vec<String> = shared.into_iter().collect();
    let line = if shared.is_empty() {
        "Published:".to_owned()
    } else {
        format!("Published. Wherever the paper states them, these are the same: {}.", shared.join(", "))
    };
    let mut table = TextTable::new("lllrll", ["Place", "Levels", "Measure", "Value", "Unit", "Note"]);
    for value in &all {
        let levels = written(value, false).join(", ");
        let bound = match value.bound {
            Bound::Exact => "",
            Bound::Low => "from ",
            Bound::High => "to ",
            Bound::About => "about ",
        };
        let recomputed = value.recomputed.filter(|recomputed| *recomputed != value.value);
        let recomputed = recomputed.map(|recomputed| format!("{recomputed} recomputed from the printed times"));
        let unmeasured = papers::why_unmeasured(&value.measure).map(|why| format!("not measured: {why}"));
        let note = (!value.note.is_empty()).then(|| value.note.clone());
        let notes: Vec<String> = recomputed.into_iter().chain(note).chain(unmeasured).collect();
        let PublishedValue { place, measure, value, unit, .. } = value;
        table.row([
            place.as_str().into(),
            levels.into(),
            measure.as_str().into(),
            format!("{bound}{value}").into(),
            unit.as_str().into(),
            notes.join("; ").into(),
        ]);
    }
    (line, table)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::fixture;
    use crate::plan::Plan;

    #[test]
    fn a_table_shows_the_sessions_that_come_nearest_to_the_papers_settings() {
        let artefact = papers::artefact("2503.15252/table-2").unwrap();
        let plan_with = |levels: &[(&str, Level)]| {
            let mut plan: Plan = artefact.plan().unwrap().clone();
            for (key, level) in levels {
                plan.first.factors.retain(|(known, _)| *known != **key);
                plan.first.factors.push(((*key).into(), vec![level.clone()]));
            }
            fixture::runs_of(&plan)
        };
        let one = ("gpus", Level::Integer(1));
        let table = plan_with(std::slice::from_ref(&one));
        let smaller = plan_with(&[one.clone(), ("image_size", Level::Integer(100))]);
        let fp64 = plan_with(&[one, ("precision", Level::text("fp64"))]);
        let source = |session, runs| Source { session, runs, reports: &[] };
        let sources = [source("smaller", &smaller), source("fp64", &fp64), source("table", &table)];
        let counts: Vec<usize> = runs_of(artefact, &sources).iter().map(|(_, runs)| runs.len()).collect();
        assert_eq!(counts, [0, 0, table.len()]);
        let alone: Vec<usize> = runs_of(artefact, &sources[..1]).iter().map(|(_, runs)| runs.len()).collect();
        assert_eq!(alone, [smaller.len()], "nothing nearer is there");
    }

    #[test]
    fn a_figure_of_losses_shows_full_runs_although_quick_ones_are_nearer_to_the_paper() {
        let artefact = papers::artefact("2505.22905/fig-5").unwrap();
        let plan = artefact.plan().unwrap();
        let quick = fixture::runs_of(&Plan { mode: Mode::Quick { step_precision: 0.01 }, ..plan.clone() });
        let mut small = Plan { mode: Mode::Full, ..plan.clone() };
        small.first.factors.retain(|(key, _)| **key != *"image_size");
        small.first.factors.push(("image_size".into(), vec![Level::Integer(100)]));
        let full = fixture::runs_of(&small);
        let sources =
            [("quick", &quick), ("full", &full)].map(|(session, runs)| Source { session, runs, reports: &[] });
        let counts: Vec<usize> = runs_of(artefact, &sources).iter().map(|(_, runs)| runs.len()).collect();
        assert_eq!(counts, [0, full.len()]);
        let alone: Vec<usize> = runs_of(artefact, &sources[..1]).iter().map(|(_, runs)| runs.len()).collect();
        assert!(alone[0] > 0, "nothing else is there");
    }
}
