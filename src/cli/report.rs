//! `multicard report`: what a session shows, as one page of HTML or as a folder with all figures and tables: figures, tables with verdicts,
//! what was run, how it was measured, marks, and the conditions of the machine.

use std::collections::{BTreeMap, HashSet};
use std::error::Error;
use std::path::{Path, PathBuf};

use clap::Args;

use super::document::{Document, Part};
use super::figure::StyleArguments;
use super::material::{Material, saved};
use super::replace::{self, Kind};
use super::study::check_baseline;
use super::{OK, Outcome, say, session_folder};
use crate::analysis::{CELL, Mark, RunSummary, Setting, cells_of, varying};
use crate::figure::paper::{self, PaperFormat};
use crate::figure::{self, Chart, Figure, Format, Study, capitalised, counted, find_study, presets, render};
use crate::plan::RunState;
use crate::text_table::TextTable;

/// The largest number of runs that are listed; further runs are only counted.
const MOST_RUNS: usize = 2000;
/// The largest number of values of a fact that are shown.
const MOST_VALUES: usize = 8;
/// Why a study has no figure, if it has no other reason.
const NOTHING: &str = "no cell has the values that it shows";

#[derive(Args)]
pub(super) struct Arguments {
    /// Session folder, or the name of a session in the default folder.
    session: PathBuf,
    /// One page, FILE.html, which needs no other file and no network. Or a folder, created if missing, with README.md,
    /// the same page and all figures, tables and plans. A report replaces the files of an earlier report. It keeps
    /// pages and figures that multicard did not write, and writes nothing through a link. Tables and plans do not say
    /// who wrote them: in the folder of an earlier report, tables and plans with the same names are replaced.
    #[arg(long, value_name = "FILE.html|DIR")]
    out: PathBuf,
    /// Only this study, saved or built-in; may be given several times. Otherwise all saved studies and the general built-in ones.
    #[arg(long, value_name = "NAME")]
    study: Vec<String>,
    /// The cell that ratios are relative to: its id, or levels as precision=fp32,gpus=1; without it each study's own.
    #[arg(long)]
    baseline: Option<String>,
    #[command(flatten)]
    style: StyleArguments,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let folder = session_folder(&arguments.session)?;
    let (studies, unreadable) = studies(&folder, &arguments.study)?;
    let material = Material::read(&folder)?;
    arguments.baseline.as_deref().map_or(Ok(()), |asked| check_baseline(&material.sources(), asked))?;
    let out = &arguments.out;
    let is_page = is_page(out)?;
    let is_earlier = if is_page { false } else { is_earlier_report(out)? };
    let report = Report { material: &material, folder: (!is_page).then_some(out), is_earlier, arguments };
    for part in ["figures", "tables", "plans"].iter().filter(|_| !is_page) {
        let part = out.join(part);
        replace::refuse_link(&part)?;
        std::fs::create_dir_all(&part).map_err(|error| format!("creating {}: {error}", part.display()))?;
    }
    let (document, drawn) = report.document(&studies, &unreadable)?;
    if is_page {
        replace::write(out, document.html().as_bytes(), Kind::Page)?;
    } else {
        report.write(&out.join("README.md"), document.markdown().as_bytes(), Kind::Readme)?;
        report.write(&out.join("report.html"), document.html().as_bytes(), Kind::Page)?;
    }
    let tables = document.0.iter().filter(|part| matches!(part, Part::Table(_))).count();
    say(format_args!("{} and {} in {}", counted(drawn, "figure"), counted(tables, "table"), out.display()));
    Ok(OK)
}

/// Whether the report is one page, and not a folder.
///
/// # Errors
/// The name is an ending alone, or a folder has the name of a page.
fn is_page(out: &Path) -> Result<bool, String> {
    let is_html = |ending: &str| ["html", "htm"].iter().any(|known| ending.eq_ignore_ascii_case(known));
    let name = out.file_name().unwrap_or_default().to_string_lossy();
    if name.strip_prefix('.').is_some_and(is_html) {
        return Err(format!("--out {}: the name is an ending alone: give FILE.html, or a folder", out.display()));
    }
    let is_page = out.extension().is_some_and(|ending| is_html(&ending.to_string_lossy()));
    if is_page && out.is_dir() {
        return Err(format!(
            "--out {}: this is a folder, and its name is that of a page: give another name",
            out.display()
        ));
    }
    Ok(is_page)
}

/// Whether a folder contains an earlier report, whose files are then replaced.
///
/// # Errors
/// The folder is a session's; or its README.md or report.html is a link, or a file that multicard did not write.
fn is_earlier_report(folder: &Path) -> Result<bool, String> {
    if folder.join("session.toml").exists() {
        return Err(format!(
            "--out {}: this is a session's folder: give the report a folder of its own",
            folder.display()
        ));
    }
    let readme = folder.join("README.md");
    for file in [&readme, &folder.join("report.html")] {
        replace::refuse_link(file)?;
    }
    replace::check(&readme, Kind::Readme)?;
    replace::check(&folder.join("report.html"), Kind::Page)?;
    Ok(readme.metadata().is_ok_and(|about| about.len() > 0))
}

/// The data and the arguments from which a report is made.
struct Report<'a> {
    material: &'a Material,
    /// The folder that figures, tables and plans are written into; `None` if only a page is written.
    folder: Option<&'a PathBuf>,
    /// Whether that folder contains an earlier report.
    is_earlier: bool,
    arguments: &'a Arguments,
}

impl Report<'_> {
    /// The document, and how many figures it has.
    fn document(&self, studies: &[Study], unreadable: &[String]) -> Result<(Document, usize), Box<dyn Error>> {
        let mut document = Document::default();
        self.head(&mut document);
        document.heading(2, "What was run");
        self.plans(&mut document)?;
        self.runs(&mut document);
        document.heading(2, "Conditions of the machine");
        self.conditions(&mut document);
        let mut left_out: Vec<String> = unreadable.iter().map(|reason| format!("{}.", capitalised(reason))).collect();
        let (mut drawn, mut names) = (0, HashSet::new());
        for study in studies {
            // Names that differ in a blank only would be one file.
            let mut name = study.file_name();
            while !names.insert(name.clone()) {
                name.push_str("-2");
            }
            let figure = self.figure(study)?;
            let is_drawn = !figure.charts.iter().all(Chart::is_empty);
            // A built-in study that nobody asked for says nothing where no cell has the values that it shows.
            let is_general =
                self.arguments.study.is_empty() && presets().iter().any(|preset| preset.name == study.name);
            if is_general && !is_drawn {
                left_out.push(format!("{}: {}.", study.name, figure.crowded().unwrap_or(NOTHING)));
                continue;
            }
            self.study(&mut document, &figure, &name)?;
            drawn += usize::from(is_drawn);
        }
        if !left_out.is_empty() {
            document.heading(2, "Left out");
            document.list(left_out);
        }
        document.heading(2, "Methods");
        let origins = std::slice::from_ref(&self.material.origin);
        document.paragraph(figure::methods(&self.material.sources(), &Study::default(), origins));
        Ok((document, drawn))
    }

    /// Adds the session, its machine, the outcomes of its runs, and their marks.
    fn head(&self, document: &mut Document) {
        let Material { runs, origin, .. } = self.material;
        document.heading(1, format!("Session {}", origin.session));
        let node = &origin.node;
        let gpus = match node.gpus.first() {
            Some(gpu) => format!("{} × {gpu}, driver {}", node.gpus.len(), node.driver.as_deref().unwrap_or("unknown")),
            None => "No GPU".to_owned(),
        };
        let torch = node.torch_version.as_ref().map_or(String::new(), |torch| format!(" libtorch {torch}."));
        document.paragraph(format!(
            "Started {}. {gpus}, {} with {}, {}.{torch}",
            origin.date,
            node.cpu_model,
            counted(node.cpus, "CPU"),
            node.system
        ));
        let finished = runs.iter().filter(|run| run.state == RunState::Finished).count();
        let all = counted(runs.len(), "run");
        document.paragraph(format!("{finished} of {all} finished; only these are in the values."));
        let mut marks: Vec<(&str, usize)> = Vec::new();
        for mark in runs.iter().flat_map(|run| &run.marks) {
            match marks.iter_mut().find(|known| known.0 == mark.label()) {
                Some(known) => known.1 += 1,
                None => marks.push((mark.label(), 1)),
            }
        }
        let marked = |(label, count): &(&str, usize)| {
            let runs = if *count == 1 { "run is" } else { "runs are" };
            format!("{count} {runs} marked: {label}")
        };
        document.list(marks.iter().map(marked).collect());
        if self.folder.is_some() {
            document.paragraph(
                "Each figure's file carries its plan, cells and numbers: `multicard figure FILE` opens it again.",
            );
        }
    }

    /// The plans as they were run.
    fn plans(&self, document: &mut Document) -> Result<(), Box<dyn Error>> {
        for plan in &self.material.origin.plans {
            let title = format!("plan {}: {}", plan.id, plan.name);
            let Some(folder) = self.folder else {
                document.0.push(Part::Lines { title, text: plan.toml.clone() });
                continue;
            };
            let path = format!("plans/{}.toml", file_name(&plan.id));
            self.write(&folder.join(&path), plan.toml.as_bytes(), Kind::Plain)?;
            document.0.push(Part::Files(vec![(title.clone(), path)]));
            document.0.push(Part::Lines { title, text: plan.toml.clone() });
        }
        Ok(())
    }

    /// Adds a table of all runs: the levels that distinguish the run's cell from others, its outcome, and its marks in full.
    fn runs(&self, document: &mut Document) {
        let sources = self.material.sources();
        let cells = cells_of(&sources);
        let settings: Vec<Setting> = varying(&cells).into_iter().filter(|setting| !setting.is(CELL)).collect();
        let mut table = TextTable::new(
            format!("l{}rll", "l".repeat(settings.len())),
            ["Run"]
                .into_iter()
                .chain(settings.iter().map(|setting| &*setting.name))
                .chain(["Repeat", "State", "Marks"]),
        );
        let mut left_out = 0;
        for (cell, run) in cells.iter().flat_map(|cell| cell.runs.iter().map(move |run| (cell, *run))) {
            if table.len() == MOST_RUNS {
                left_out += 1;
                continue;
            }
            let levels = settings.iter().map(|setting| cell.level(&setting.key));
            let levels: Vec<String> =
                levels.map(|level| level.map_or("—".to_owned(), |level| level.to_string())).collect();
            table.row(std::iter::once(run.run.as_str().into()).chain(levels.into_iter().map(Into::into)).chain([
                u64::from(run.repeat).into(),
                run.state.name().into(),
                marks(run).into(),
            ]));
        }
        document.0.push(Part::Values(table));
        let is_contended = |run: &RunSummary| run.marks.iter().any(|mark| matches!(mark, Mark::Contended { .. }));
        if cells.iter().flat_map(|cell| &cell.runs).any(|run| is_contended(run)) {
            document.paragraph(CONTENDED);
        }
        if left_out > 0 {
            document.paragraph(format!(
                "{} more in the session: `multicard export --what runs`.",
                counted(left_out, "run")
            ));
        }
    }

    /// Facts of machine and software, as runs recorded them when they started. The machine's name is left out: reports are published.
    fn conditions(&self, document: &mut Document) {
        let mut facts: Vec<(&str, BTreeMap<&str, usize>)> = Vec::new();
        let environments = || self.material.runs.iter().filter_map(|run| run.environment.as_deref());
        for (key, name, value) in environments().flat_map(|environment| environment.facts()) {
            if key == "hostname" {
                continue;
            }
            let place = facts.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
                facts.push((name, BTreeMap::new()));
                facts.len() - 1
            });
            *facts[place].1.entry(value).or_default() += 1;
        }
        let (known, runs) = (environments().count(), self.material.runs.len());
        if facts.is_empty() {
            document.paragraph("No run recorded its environment.");
            return;
        }
        if known < runs {
            document.paragraph(format!("{known} of {} recorded their environment.", counted(runs, "run")));
        }
        let mut table = TextTable::new("ll", ["Fact", "As runs recorded it"]);
        for (name, values) in facts {
            let is_same = values.len() == 1 && values.values().sum::<usize>() == known;
            let shown = values.iter().take(MOST_VALUES).map(|(value, count)| match is_same {
                true => (*value).to_owned(),
                false => format!("{value} ({})", counted(*count, "run")),
            });
            let mut shown = shown.collect::<Vec<_>>().join("; ");
            if values.len() > MOST_VALUES {
                shown += &format!("; {} more", values.len() - MOST_VALUES);
            }
            table.row([name.into(), shown.into()]);
        }
        document.0.push(Part::Values(table));
    }

    /// The figure of a study as the report is asked for it.
    fn figure(&self, study: &Study) -> Result<Figure, paper::FigureError> {
        let baseline = self.arguments.baseline.clone().or_else(|| study.baseline.clone());
        let style = self.arguments.style.change(study.style);
        self.material.figure(&Study { baseline, style, ..study.clone() })
    }

    /// The figure, the table and the notes of a study.
    fn study(&self, document: &mut Document, figure: &Figure, name: &str) -> Result<(), Box<dyn Error>> {
        let study = &figure.study;
        let about = if study.about.is_empty() { study.form.help() } else { &study.about };
        document.heading(2, &study.name);
        document.paragraph(format!("{}.", capitalised(about)));
        let mut files: Vec<(String, String)> = Vec::new();
        if figure.charts.iter().all(Chart::is_empty) {
            document.paragraph(format!("No figure: {}.", figure.crowded().unwrap_or(NOTHING)));
        } else {
            if let Some(folder) = self.folder {
                files.extend(self.write_figure(folder, name, figure)?);
            }
            let (title, scene) = (figure.title.clone(), Box::new(figure.scene()));
            document.0.push(Part::Picture { name: name.to_owned(), title, scene });
        }
        if let Some(folder) = self.folder {
            files.extend(self.write_tables(folder, name, figure)?);
        }
        if !files.is_empty() {
            document.0.push(Part::Files(files));
        }
        let table = figure::Table { notes: figure.notes(), ..figure.table.clone() };
        document.0.push(Part::Table(Box::new(table)));
        Ok(())
    }

    /// Writes a figure's files; returns the format and the path of each.
    fn write_figure(
        &self,
        folder: &Path,
        name: &str,
        figure: &Figure,
    ) -> Result<Vec<(String, String)>, Box<dyn Error>> {
        let provenance = figure.provenance(vec![self.material.origin.clone()]);
        let (scene, dpi) = (figure.scene(), self.arguments.style.dpi());
        let mut files = Vec::new();
        for (ending, format) in
            [("svg", PaperFormat::Svg), ("pdf", PaperFormat::Pdf), ("png", PaperFormat::Png { dpi })]
        {
            let path = format!("figures/{name}.{ending}");
            self.write(&folder.join(&path), &paper::encode(&scene, &provenance, format)?, Kind::Figure)?;
            files.push((ending.to_uppercase(), path));
        }
        Ok(files)
    }

    /// Writes a table's files; returns the format and the path of each.
    fn write_tables(
        &self,
        folder: &Path,
        name: &str,
        figure: &Figure,
    ) -> Result<Vec<(String, String)>, Box<dyn Error>> {
        let mut files = Vec::new();
        for (ending, title, format) in
            [("md", "Markdown", Format::Markdown), ("csv", "CSV", Format::Csv), ("tex", "LaTeX", Format::Latex)]
        {
            let path = format!("tables/{name}.{ending}");
            self.write(&folder.join(&path), render(&figure.table, format).as_bytes(), Kind::Plain)?;
            files.push((title.to_owned(), path));
        }
        Ok(files)
    }

    /// Writes a file of the folder. A file that says nothing about its writer is replaced in an earlier report, whatever it contains now.
    fn write(&self, path: &Path, bytes: &[u8], kind: Kind) -> Result<(), Box<dyn Error>> {
        replace::refuse_link(path)?;
        match kind {
            Kind::Plain if self.is_earlier => Ok(paper::write_file(path, bytes)?),
            _ => replace::write(path, bytes, kind),
        }
    }
}

/// The explanation of contended runs. It is given once, so that their rows need not repeat it.
const CONTENDED: &str = "Contended: other processes or virtual machines used CPUs during the measured steps of these runs; the notes of tables \
                         say how many CPUs.";

/// The marks of a run, in full except those that are explained below the table of runs.
fn marks(run: &RunSummary) -> String {
    let text = |mark: &Mark| match mark {
        Mark::Contended { .. } => mark.label().to_owned(),
        _ => format!("{}: {mark}", mark.label()),
    };
    run.marks.iter().map(text).collect::<Vec<_>>().join("; ")
}

/// The studies of the report, each with a file name of its own, and the reasons why other studies cannot be read.
fn studies(folder: &Path, asked: &[String]) -> Result<(Vec<Study>, Vec<String>), Box<dyn Error>> {
    let saved = saved(folder)?;
    if !asked.is_empty() {
        let studies: Vec<Study> = asked.iter().map(|name| find_study(&saved, name)).collect::<Result<_, _>>()?;
        return Ok((studies, Vec::new()));
    }
    let unreadable = saved.iter().filter_map(|saved| saved.study.clone().err()).collect();
    let saved = saved.into_iter().filter_map(|saved| saved.study.ok());
    // Figures of the papers belong to their own studies; a general report would only repeat itself.
    let studies = saved.chain(presets().iter().filter(|preset| !preset.name.contains('/')).cloned());
    Ok((studies.collect(), unreadable))
}

/// A valid file name for an id.
fn file_name(id: &str) -> String {
    id.chars().map(|letter| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{fixture, summarise_run};

    #[test]
    fn the_row_of_a_contended_run_does_not_repeat_what_that_means() {
        let mut run = summarise_run(&fixture::finished());
        let contended = Mark::Contended { others: 1.0, stolen: 0.0, busy: 4.0, cpus: 4 };
        run.marks = vec![contended, Mark::SkippedUpdates(2)];
        assert_eq!(marks(&run), format!("contended; {}: 2 updates skipped", Mark::SkippedUpdates(2).label()));
    }
}
