//! `multicard figure`: writes a figure of a session's results or of several panels, or opens or describes a figure file.

use std::error::Error;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::compose::Made;
use super::material::Materials;
use super::overrides::OverrideArguments;
use super::replace::{self, Kind};
use super::sources::Sessions;
use super::study::StudyArguments;
use super::{OK, Outcome, TableFormat, compose, print, remake, say, session_folder, variant};
use crate::figure::paper::{self, Family, Origin, Palette, PaperFormat, Provenance, Scene, Style, Width};
use crate::figure::{self, ComposedFigure, Composition, Figure, Study, counted};
use crate::foreign;

#[derive(Args)]
pub(super) struct Arguments {
    /// Session folders, or names of sessions in the default folder. With several sessions, their cells are
    /// distinguished by session, machine, commit and date. Instead: a figure file to open (with --out: to draw again),
    /// or a FILE.toml that describes a composed figure (`multicard help composed`).
    #[arg(required_unless_present = "all", value_name = "SESSION")]
    sessions: Vec<PathBuf>,
    /// Draw all figure files of this folder again, with the changes that were made to each. A file that would stay the same is not written.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["sessions", "out", "format", "tex"])]
    all: Option<PathBuf>,
    /// Draw figure files from this session, if their own session is neither beside them nor in the default folder.
    #[arg(long, value_name = "SESSION")]
    of: Option<PathBuf>,
    #[command(flatten)]
    study: StudyArguments,
    /// The file to write; it must end in .svg, .pdf or .png. An earlier figure is replaced, a file of another program is not.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write a LaTeX figure that includes the file of --out, with a caption that says n, intervals and method.
    #[arg(long, value_name = "FILE", requires = "out")]
    tex: Option<PathBuf>,
    #[command(flatten)]
    style: StyleArguments,
    #[command(flatten)]
    overrides: OverrideArguments,
    /// Instead, print the figure's table, or the contents of a figure file.
    #[arg(long, value_parser = variant::<TableFormat>(), conflicts_with = "out")]
    format: Option<TableFormat>,
}

/// Style of figures.
#[derive(Args)]
pub(super) struct StyleArguments {
    /// Width: column (85 mm), page (178 mm), a venue's: ieee-column, ieee-page, acm-column, acm-page, lncs, elsevier-column,
    /// elsevier-middle, elsevier-page, neurips, icml-column, slide; or one's own such as 90mm [default: column].
    #[arg(long, value_name = "WIDTH")]
    width: Option<Width>,
    /// The typeface [default: sans].
    #[arg(long, value_enum)]
    font: Option<FontName>,
    /// Colours, or greys for monochrome print [default: colour].
    #[arg(long, value_enum)]
    palette: Option<PaletteName>,
    /// Type size in points, from 4 to 20; below 6 with a warning [default: 8].
    #[arg(long, value_name = "PT", value_parser = size)]
    size: Option<f64>,
    /// Resolution of a .png in dpi.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(72..=1200))]
    dpi: u32,
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
    /// A style with the requested changes.
    pub(super) fn change(&self, style: Style) -> Style {
        let font = self.font.map(|font| match font {
            FontName::Sans => Family::Sans,
            FontName::Serif => Family::Serif,
        });
        let palette = self.palette.map(|palette| match palette {
            PaletteName::Colour => Palette::Colour,
            PaletteName::Grey => Palette::Grey,
        });
        Style {
            width: self.width.unwrap_or(style.width),
            font: font.unwrap_or(style.font),
            palette: palette.unwrap_or(style.palette),
            size_pt: self.size.unwrap_or(style.size_pt),
        }
    }

    pub(super) fn dpi(&self) -> u32 {
        self.dpi
    }
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    if let Some(folder) = &arguments.all {
        return remake::all(folder, arguments.of.as_deref());
    }
    match arguments.sessions.as_slice() {
        [] => return Err("give sessions, a figure file, or --all DIR".into()),
        [file] if compose::is_composition(file) => return composed(arguments, file),
        [file] if file.is_file() => {
            return if arguments.out.is_some() { draw_again(arguments, file) } else { open(arguments, file) };
        }
        several => {
            if let Some(file) = several.iter().find(|one| one.is_file()) {
                return Err(format!("{} is a file: give either one file or sessions", file.display()).into());
            }
        }
    }
    let folders: Vec<PathBuf> = arguments.sessions.iter().map(session_folder).collect::<Result<_, _>>()?;
    // Check the arguments before reading anything.
    let mut study = arguments.study.study(&folders)?;
    arguments.change(&mut study);
    let format = arguments.out.as_deref().map(|out| PaperFormat::of(out, arguments.style.dpi)).transpose()?;
    if format.is_none() && arguments.format.is_none() {
        return Err("give --out FILE.svg, FILE.pdf or FILE.png, or --format for the figure's table".into());
    }
    let materials = Materials::read(&folders, &study)?;
    arguments.study.check(&materials.sources())?;
    let figure = figure::figure(&materials.sources(), &study)?;
    if let Some(format) = arguments.format {
        print(&figure::render(&figure.table, format))?;
        return Ok(OK);
    }
    arguments.write(&figure, materials.origins())
}

impl Arguments {
    /// Changes how a study's figure is set and drawn.
    fn change(&self, study: &mut Study) {
        study.style = self.style.change(study.style);
        self.overrides.change(study);
    }

    /// Writes the figure and its LaTeX, and says what a reader must know.
    fn write(&self, figure: &Figure, origins: Vec<Origin>) -> Outcome {
        if let Some(why) = figure.crowded() {
            return Err(format!("{} is not drawn: {why}", shown(&figure.study)).into());
        }
        if figure.charts.iter().all(figure::Chart::is_empty) {
            figure.notes().iter().for_each(say);
            let is_explained = figure.charts.iter().any(|chart| !chart.notes.is_empty());
            let why =
                if is_explained { "the notes above give the reason" } else { "no cell has the values that it shows" };
            return Err(format!("nothing to draw of {}: {why}", shown(&figure.study)).into());
        }
        let (scene, provenance) = (figure.scene(), figure.provenance(origins));
        self.write_files(&scene, &provenance, |file| figure::latex_figure(figure, file))?;
        figure.notes().iter().chain(&figure.warnings(&scene)).for_each(say);
        Ok(OK)
    }

    /// Writes a composed figure, and fails if keys or panels of its file were left out.
    fn write_made(&self, made: Made, (file, out): (&Path, &Path)) -> Outcome {
        self.write_composed(&made.composed, made.origins)?;
        match made.wrong {
            0 => Ok(OK),
            wrong => {
                let (out, file) = (out.display(), file.display());
                Err(format!("{out} is drawn without the keys and panels of {file} that are named above ({wrong})")
                    .into())
            }
        }
    }

    /// Writes a composed figure and its LaTeX, and says what a reader must know.
    fn write_composed(&self, composed: &ComposedFigure, origins: Vec<Origin>) -> Outcome {
        if composed.blank().len() == composed.panels.len() {
            return Err("nothing to draw: no panel has a picture".into());
        }
        let (scene, provenance) = (composed.scene(), composed.provenance(origins));
        self.write_files(&scene, &provenance, |file| figure::latex_composed(composed, file))?;
        composed.notes().iter().chain(&composed.warnings(&scene)).for_each(say);
        Ok(OK)
    }

    /// Writes a figure, and the LaTeX that includes it; prints their paths.
    fn write_files(
        &self,
        scene: &Scene,
        provenance: &Provenance,
        latex: impl FnOnce(&str) -> String,
    ) -> Result<(), Box<dyn Error>> {
        let Some(out) = &self.out else { return Ok(()) };
        let format = PaperFormat::of(out, self.style.dpi)?;
        // Neither is written if the other is refused.
        self.tex.as_ref().map_or(Ok(()), |tex| replace::check(tex, Kind::Latex))?;
        if let Some(folder) = out.parent() {
            std::fs::create_dir_all(folder).map_err(|error| format!("creating {}: {error}", folder.display()))?;
        }
        replace::write(out, &paper::encode(scene, provenance, format)?, Kind::Figure)?;
        if let Some(tex) = &self.tex {
            // From the folder of the LaTeX file, where they lie together.
            let beside = tex.parent().and_then(|folder| out.strip_prefix(folder).ok()).unwrap_or(out);
            replace::write(tex, latex(&beside.display().to_string()).as_bytes(), Kind::Latex)?;
        }
        let tex = self.tex.as_ref().map_or(String::new(), |tex| format!(", its LaTeX in {}", tex.display()));
        say(format_args!("figure in {}{tex}", out.display()));
        Ok(())
    }

    /// Changes how a composed figure is set.
    ///
    /// # Errors
    /// A change is requested that only a single panel can have.
    fn change_composition(&self, composition: &mut Composition) -> Result<(), String> {
        let mut rest = Study::default();
        self.overrides.change(&mut rest);
        let (title, height_mm) = (rest.overrides.title.take(), rest.overrides.height_mm.take());
        let caption = std::mem::replace(&mut rest.overrides.caption, true);
        if rest != Study::default() {
            return Err("for a composed figure, only --title, --height, --caption and the style can be given: what a panel shows is set in \
                        the figure's own file"
                .to_owned());
        }
        composition.style = self.style.change(composition.style);
        composition.title = title.or(composition.title.take());
        composition.height_mm = height_mm.or(composition.height_mm);
        composition.caption &= caption;
        Ok(())
    }
}

/// Writes the composed figure that a TOML file describes.
fn composed(arguments: &Arguments, file: &Path) -> Outcome {
    let Some(out) = &arguments.out else {
        return Err("give --out FILE.svg, FILE.pdf or FILE.png for the composed figure".into());
    };
    PaperFormat::of(out, arguments.style.dpi)?;
    let mut made = compose::from_file(file, arguments.of.as_deref())?;
    arguments.change_composition(&mut made.composed.composition)?;
    arguments.write_made(made, (file, out))
}

/// Draws a figure file's study again with changes, into another file or the same.
fn draw_again(arguments: &Arguments, file: &Path) -> Outcome {
    let provenance = paper::read_file(file).map_err(|error| format!("{}: {error}", file.display()))?;
    provenance.problems.iter().for_each(|problem| say(format_args!("{}: {problem}", file.display())));
    let mut sessions = Sessions::default();
    if let Some(mut composition) = provenance.composition.clone() {
        arguments.change_composition(&mut composition)?;
        let made = compose::redraw((file, &provenance), arguments.of.as_deref(), &mut sessions, &composition);
        let made = made.map_err(|error| format!("{}: {error}", file.display()))?;
        return arguments.write_made(made, (file, arguments.out.as_deref().unwrap_or(file)));
    }
    let mut study = provenance.study.clone();
    arguments.change(&mut study);
    let drawn = sessions.draw((file, &provenance.sessions), arguments.of.as_deref(), &study);
    let (figure, origins) = drawn.map_err(|error| format!("{}: {error}", file.display()))?;
    arguments.write(&figure, origins)
}

fn shown(study: &Study) -> String {
    if study.name.is_empty() { format!("the form {}", study.form.key()) } else { format!("preset {}", study.name) }
}

/// Opens a figure file in the window, or describes it.
fn open(arguments: &Arguments, file: &Path) -> Outcome {
    let provenance = paper::read_file(file).map_err(|error| format!("{}: {error}", file.display()))?;
    match arguments.format {
        Some(TableFormat::Json) => print(&serde_json::to_string_pretty(&provenance)?)?,
        Some(_) => return Err("figure files are described as text, or with --format json".into()),
        None if has_display() => return super::window_at(file.to_owned()),
        None => print(&foreign::message(&description(&provenance)))?,
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
fn description(provenance: &Provenance) -> String {
    let mut text = format!("{}\n{}\nwritten by {}\n", provenance.title, provenance.about(), provenance.program);
    for origin in &provenance.sessions {
        let node = &origin.node;
        let gpus = match node.gpus.first() {
            Some(gpu) => format!("{}x {gpu}, driver {}", node.gpus.len(), node.driver.as_deref().unwrap_or("unknown")),
            None => "no GPU".to_owned(),
        };
        let cpus = counted(node.cpus, "CPU");
        text += &format!("session {} ({}): {gpus}, {} ({cpus})\n", origin.session, origin.date, node.cpu_model);
        for plan in &origin.plans {
            text += &format!("plan {} ({})\n", plan.name, plan.id);
        }
    }
    for (nth, panel) in provenance.composition.iter().flat_map(|composition| &composition.panels).enumerate() {
        let (study, sessions) = (shown(&panel.study), panel.sessions.join(" and "));
        text += &format!("panel {}: {study} of session {sessions}\n", nth + 1);
    }
    for note in &provenance.notes {
        text += &format!("- {note}\n");
    }
    for problem in &provenance.problems {
        text += &format!("not read: {problem}\n");
    }
    text + "--format json prints everything: plans, cells, all values\n"
}
