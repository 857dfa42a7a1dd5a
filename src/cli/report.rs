//! `multicard report`: writes all figures and tables of a session into a folder, with a README.

use std::collections::HashSet;
use std::error::Error;
use std::path::{Path, PathBuf};

use clap::Args;

use super::figure::StyleArguments;
use super::material::{Material, saved};
use super::study::check_baseline;
use super::{OK, Outcome, say, session_folder};
use crate::figure::paper::{self, PaperFormat};
use crate::figure::{self, Chart, Figure, Format, Study, capitalised, find_study, presets, render};

#[derive(Args)]
pub(super) struct Arguments {
    /// Session folder, or the name of a session in the default folder.
    session: PathBuf,
    /// Folder to write to, created if missing. Files of an earlier report are replaced.
    #[arg(long, value_name = "DIR")]
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
    arguments.baseline.as_deref().map_or(Ok(()), |asked| check_baseline(&material, asked))?;
    let out = &arguments.out;
    for part in ["figures", "tables", "plans"] {
        let part = out.join(part);
        std::fs::create_dir_all(&part).map_err(|error| format!("creating {}: {error}", part.display()))?;
    }
    let mut readme = head(&material);
    let mut written = 0;
    for reason in unreadable {
        readme += &format!("\n## Left out\n\n{}.\n", escape(&capitalised(&reason)));
    }
    let mut ids = HashSet::new();
    for study in &studies {
        // Names that differ in a blank only would be one file.
        let mut id = study.file_name();
        while !ids.insert(id.clone()) {
            id.push_str("-2");
        }
        let baseline = arguments.baseline.clone().or_else(|| study.baseline.clone());
        let figure =
            material.figure(&Study { baseline, style: arguments.style.change(study.style), ..study.clone() })?;
        let about = if study.about.is_empty() { study.form.help() } else { &study.about };
        readme += &format!("\n## {}\n\n{}.\n\n", escape(&study.name), escape(&capitalised(about)));
        if figure.charts.iter().all(Chart::is_empty) {
            readme += "No figure: no cell has its values.\n\n";
        } else {
            write_figure(out, &id, &figure, &material, arguments.style.dpi())?;
            written += 1;
            readme += &format!("![{id}](figures/{id}.png)\n\n");
            readme += &format!("[SVG](figures/{id}.svg), [PDF](figures/{id}.pdf), [PNG](figures/{id}.png)");
            readme +=
                &format!("; table: [Markdown](tables/{id}.md), [CSV](tables/{id}.csv), [LaTeX](tables/{id}.tex)\n\n");
        }
        write_tables(out, &id, &figure)?;
        figure.notes().iter().for_each(|note| readme += &format!("- {}\n", escape(note)));
    }
    let study = Study::default();
    let methods = figure::methods(&material.sources(), &study, std::slice::from_ref(&material.origin));
    readme += &format!("\n## Methods\n\n{}\n", escape(&methods));
    for plan in &material.origin.plans {
        let file = out.join("plans").join(format!("{}.toml", file_name(&plan.id)));
        paper::write_file(&file, plan.toml.as_bytes())?;
    }
    paper::write_file(&out.join("README.md"), readme.as_bytes())?;
    say(format_args!("{written} figures and {} tables in {}", studies.len(), out.display()));
    Ok(OK)
}

/// The studies of the report, whose names as files differ, and why others cannot be read.
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

fn write_figure(
    out: &Path,
    id: &str,
    figure: &Figure,
    material: &Material,
    dpi: u32,
) -> Result<(), paper::FigureError> {
    let provenance = figure.provenance(vec![material.origin.clone()]);
    let scene = figure.scene();
    for (extension, format) in [("svg", PaperFormat::Svg), ("pdf", PaperFormat::Pdf), ("png", PaperFormat::Png { dpi })]
    {
        let file = out.join("figures").join(format!("{id}.{extension}"));
        paper::write_file(&file, &paper::encode(&scene, &provenance, format)?)?;
    }
    Ok(())
}

fn write_tables(out: &Path, id: &str, figure: &Figure) -> Result<(), paper::FigureError> {
    for (extension, format) in [("md", Format::Markdown), ("csv", Format::Csv), ("tex", Format::Latex)] {
        let file = out.join("tables").join(format!("{id}.{extension}"));
        paper::write_file(&file, render(&figure.table, format).as_bytes())?;
    }
    Ok(())
}

/// The README's head: session, machine, plans and outcomes of runs.
fn head(material: &Material) -> String {
    let origin = &material.origin;
    let node = &origin.node;
    let mut text = format!("# Session {}\n\nStarted {}. ", escape(&origin.session), origin.date);
    text += &match node.gpus.first() {
        Some(gpu) => format!("{} × {gpu}, driver {}, ", node.gpus.len(), node.driver.as_deref().unwrap_or("unknown")),
        None => "No GPU, ".to_owned(),
    };
    text += &format!("{} with {} CPUs, {}.", node.cpu_model, node.cpus, node.system);
    if let Some(torch) = &node.torch_version {
        text += &format!(" libtorch {torch}.");
    }
    let finished = material.runs.iter().filter(|run| run.state == crate::plan::RunState::Finished).count();
    text += &format!("\n\n{finished} of {} runs finished; only these are in the values.\n\n", material.runs.len());
    for plan in &origin.plans {
        text += &format!("- plan {}: [{}](plans/{}.toml)\n", plan.id, escape(&plan.name), file_name(&plan.id));
    }
    let mut marks: Vec<(String, usize)> = Vec::new();
    for mark in material.runs.iter().flat_map(|run| &run.marks) {
        match marks.iter_mut().find(|known| known.0 == mark.label()) {
            Some(known) => known.1 += 1,
            None => marks.push((mark.label().to_owned(), 1)),
        }
    }
    for (label, count) in marks {
        let runs = if count == 1 { "run is" } else { "runs are" };
        text += &format!("- {count} {runs} marked: {label}\n");
    }
    text + "\nEach figure carries its plan, cells and numbers: `multicard figure FILE` opens it again.\n"
}

/// A valid file name for an id.
fn file_name(id: &str) -> String {
    id.chars().map(|letter| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' }).collect()
}

fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        if ['\\', '`', '*', '_', '[', ']', '<', '|'].contains(&letter) {
            escaped.push('\\');
        }
        escaped.push(if letter == '\n' { ' ' } else { letter });
    }
    escaped
}
