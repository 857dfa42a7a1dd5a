//! `multicard figure`: writes a figure of a session's results, or opens or describes a figure file.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::material::Material;
use super::study::StudyArguments;
use super::{OK, Outcome, TableFormat, print, say, session_folder, variant};
use crate::figure::paper::{self, Family, Palette, PaperFormat, Provenance, Style, Width};
use crate::figure::{self, Study};
use crate::foreign;

#[derive(Args)]
pub(super) struct Arguments {
    /// Session folder, or the name of a session in the default folder; or a figure file to open.
    session: PathBuf,
    #[command(flatten)]
    study: StudyArguments,
    /// The file to write; it must end in .svg, .pdf or .png.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    style: StyleArguments,
    /// Instead, print the figure's table, or the contents of a figure file.
    #[arg(long, value_parser = variant::<TableFormat>(), conflicts_with = "out")]
    format: Option<TableFormat>,
}

/// Style of figures.
#[derive(Args)]
pub(super) struct StyleArguments {
    /// Width: 85 or 178 mm.
    #[arg(long, value_enum, default_value_t = WidthName::Column)]
    width: WidthName,
    /// The typeface.
    #[arg(long, value_enum, default_value_t = FontName::Sans)]
    font: FontName,
    /// Colours, or greys for monochrome print.
    #[arg(long, value_enum, default_value_t = PaletteName::Colour)]
    palette: PaletteName,
    /// Type size in points, from 6 to 10.
    #[arg(long, value_name = "PT", default_value_t = 8.0, value_parser = size)]
    size: f64,
    /// Resolution of a .png in dpi.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(72..=1200))]
    dpi: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum WidthName {
    /// One of two columns, 85 mm.
    Column,
    /// The whole page, 178 mm.
    Page,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FontName {
    /// Inter.
    Sans,
    /// Source Serif 4.
    Serif,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PaletteName {
    /// Colours that are distinguishable with any common colour vision.
    #[value(alias = "color")]
    Colour,
    /// Greys with markers, hatches and dashes.
    #[value(alias = "gray")]
    Grey,
}

fn size(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(size) if (Style::LEAST_PT..=Style::MOST_PT).contains(&size) => Ok(size),
        _ => Err(format!("give points from {} to {}", Style::LEAST_PT, Style::MOST_PT)),
    }
}

impl StyleArguments {
    pub(super) fn style(&self) -> Style {
        Style {
            width: match self.width {
                WidthName::Column => Width::Column,
                WidthName::Page => Width::Page,
            },
            font: match self.font {
                FontName::Sans => Family::Sans,
                FontName::Serif => Family::Serif,
            },
            palette: match self.palette {
                PaletteName::Colour => Palette::Colour,
                PaletteName::Grey => Palette::Grey,
            },
            size_pt: self.size,
        }
    }

    pub(super) fn dpi(&self) -> u32 {
        self.dpi
    }
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    if arguments.session.is_file() {
        return open(arguments);
    }
    let folder = session_folder(&arguments.session)?;
    // Check the arguments before reading anything.
    let study = Study { style: arguments.style.style(), ..arguments.study.study(&folder)? };
    let format = arguments.out.as_deref().map(|out| PaperFormat::of(out, arguments.style.dpi)).transpose()?;
    if format.is_none() && arguments.format.is_none() {
        return Err("give --out FILE.svg, FILE.pdf or FILE.png, or --format for the figure's table".into());
    }
    let material = Material::read(&folder)?;
    arguments.study.check(&material)?;
    let figure = material.figure(&study)?;
    if let Some(format) = arguments.format {
        print(&figure::render(&figure.table, format))?;
        return Ok(OK);
    }
    if figure.charts.iter().all(figure::Chart::is_empty) {
        figure.notes().iter().for_each(say);
        return Err(format!("nothing to draw: no cell has the values of {}", shown(&study)).into());
    }
    if let (Some(out), Some(format)) = (&arguments.out, format) {
        let provenance = figure.provenance(vec![material.origin]);
        paper::write_file(out, &paper::encode(&figure.scene(), &provenance, format)?)?;
    }
    figure.notes().iter().for_each(say);
    Ok(OK)
}

fn shown(study: &Study) -> String {
    if study.name.is_empty() { format!("the form {}", study.form.key()) } else { format!("preset {}", study.name) }
}

/// Opens a figure file in the window, or describes it.
fn open(arguments: &Arguments) -> Outcome {
    let file = &arguments.session;
    let provenance = paper::read_file(file).map_err(|error| format!("{}: {error}", file.display()))?;
    match arguments.format {
        Some(TableFormat::Json) => print(&serde_json::to_string_pretty(&provenance)?)?,
        Some(_) => return Err("figure files are described as text, or with --format json".into()),
        None if has_display() => return super::window_at(file.clone()),
        None => print(&foreign::message(&told(&provenance)))?,
    }
    Ok(OK)
}

fn has_display() -> bool {
    cfg!(feature = "window")
        && ["DISPLAY", "WAYLAND_DISPLAY"]
            .iter()
            .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// Describes a figure file as text.
fn told(provenance: &Provenance) -> String {
    let mut text = format!("{}\n{}\nwritten by {}\n", provenance.title, provenance.about(), provenance.program);
    for origin in &provenance.sessions {
        let node = &origin.node;
        let gpus = match node.gpus.first() {
            Some(gpu) => format!("{}x {gpu}, driver {}", node.gpus.len(), node.driver.as_deref().unwrap_or("unknown")),
            None => "no GPU".to_owned(),
        };
        text +=
            &format!("session {} ({}): {gpus}, {} ({} CPUs)\n", origin.session, origin.date, node.cpu_model, node.cpus);
        for plan in &origin.plans {
            text += &format!("plan {} ({})\n", plan.name, plan.id);
        }
    }
    for note in &provenance.notes {
        text += &format!("- {note}\n");
    }
    text + "--format json prints everything: plans, cells, all values\n"
}
