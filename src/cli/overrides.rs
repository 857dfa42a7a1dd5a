//! Options of `figure` that change how it is drawn: each sets one entry of the figure's overrides.

use clap::Args;

use super::variant;
use crate::figure::{
    Annotation, AnnotationKind, AxisName, DashKind, Hatch, LegendPlace, Marker, Nth, Overrides, Study, colour_of,
};
use crate::plan::{Key, Level};

/// Changes to a drawing. A figure file keeps its own changes, except those that an option replaces.
#[derive(Args)]
pub(super) struct OverrideArguments {
    /// Show a level under another name: bf16="BF16 (AMP)", or precision=bf16="BF16 (AMP)".
    #[arg(long, value_name = "LEVEL=TEXT", value_parser = pair)]
    label: Vec<(String, String)>,
    /// Put the levels of a factor in this order: precision=bf16,fp32.
    #[arg(long, value_name = "FACTOR=LEVELS", value_parser = pair)]
    order: Vec<(String, String)>,
    /// Colour of a level: a name such as vermillion, grey, or #rrggbb.
    #[arg(long, value_name = "LEVEL=COLOUR", value_parser = paint, alias = "level-color")]
    level_colour: Vec<(String, String)>,
    /// Hatch of the bars of a level: plain, rising, falling, lattice, horizontal, vertical, grid, dots.
    #[arg(long, value_name = "LEVEL=HATCH", value_parser = of_level::<Hatch>)]
    hatch: Vec<(String, Hatch)>,
    /// Shape of the points of a level: circle, square, up, diamond, down, cross, plus, asterisk.
    #[arg(long, value_name = "LEVEL=SHAPE", value_parser = of_level::<Marker>)]
    marker: Vec<(String, Marker)>,
    /// Dash of the lines of a level: solid, dashed, dotted, dashdot, long.
    #[arg(long, value_name = "LEVEL=DASH", value_parser = of_level::<DashKind>)]
    dash: Vec<(String, DashKind)>,
    /// Name of the axis of values. This and the options of axes below are about the first chart; 2:… is about the second.
    #[arg(long, value_name = "TEXT", value_parser = of_chart)]
    y_name: Vec<(Nth, String)>,
    /// Name of the other axis.
    #[arg(long, value_name = "TEXT", value_parser = of_chart)]
    x_name: Vec<(Nth, String)>,
    /// Unit that values are converted to, such as ms.
    #[arg(long, value_name = "UNIT", value_parser = of_chart)]
    y_unit: Vec<(Nth, String)>,
    /// Unit that the numbers of the other axis are converted to.
    #[arg(long, value_name = "UNIT", value_parser = of_chart)]
    x_unit: Vec<(Nth, String)>,
    /// Ends of the axis of values, in the unit that the axis shows: 0,2 or 0, or ,2.
    #[arg(long, value_name = "LOW,HIGH", value_parser = limits, allow_hyphen_values = true)]
    y_limits: Vec<(Nth, Ends)>,
    /// Ends of the other axis.
    #[arg(long, value_name = "LOW,HIGH", value_parser = limits, allow_hyphen_values = true)]
    x_limits: Vec<(Nth, Ends)>,
    /// Ticks of the axis of values: 0,1,2.
    #[arg(long, value_name = "VALUES", value_parser = ticks, allow_hyphen_values = true)]
    y_ticks: Vec<(Nth, Ticks)>,
    /// Ticks of the other axis.
    #[arg(long, value_name = "VALUES", value_parser = ticks, allow_hyphen_values = true)]
    x_ticks: Vec<(Nth, Ticks)>,
    /// About how many ticks the axis of values has, from 2 to 20.
    #[arg(long, value_name = "N", value_parser = count)]
    y_tick_count: Vec<(Nth, usize)>,
    /// About how many ticks the other axis has.
    #[arg(long, value_name = "N", value_parser = count)]
    x_tick_count: Vec<(Nth, usize)>,
    /// Scale of the axis of values: linear or log.
    #[arg(long, value_name = "SCALE", value_parser = scale)]
    y_scale: Vec<(Nth, bool)>,
    /// Scale of the other axis: linear or log.
    #[arg(long, value_name = "SCALE", value_parser = scale)]
    x_scale: Vec<(Nth, bool)>,
    /// Title above the figure; an empty text removes the title.
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Height of the whole figure: 60mm.
    #[arg(long, value_name = "MM", value_parser = height)]
    height: Option<f64>,
    /// Where the legend stands.
    #[arg(long, value_parser = variant::<LegendPlace>())]
    legend: Option<LegendPlace>,
    /// Largest number of legend entries beside each other.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    legend_columns: Option<u8>,
    /// Share of their place that bars take, from 0.1 to 1.
    #[arg(long, value_name = "SHARE", value_parser = bar_width)]
    bar_width: Option<f64>,
    /// Width of lines in points, from 0.3 to 4.
    #[arg(long, value_name = "PT", value_parser = line_width)]
    line_width: Option<f64>,
    /// The line below the figure that says what error bars mean: on or off.
    #[arg(long, value_name = "on|off", value_parser = switch, action = clap::ArgAction::Set)]
    caption: Option<bool>,
    /// Error bars and bands: on or off.
    #[arg(long, value_name = "on|off", value_parser = switch, action = clap::ArgAction::Set)]
    error_bars: Option<bool>,
    /// Values of the paper beside the measured ones: on or off.
    #[arg(long, value_name = "on|off", value_parser = switch, action = clap::ArgAction::Set)]
    published: Option<bool>,
    /// Write words into the first chart: X,Y,TEXT.
    #[arg(long, value_name = "X,Y,TEXT", value_parser = text, allow_hyphen_values = true)]
    text: Vec<Annotation>,
    /// Draw a bracket over two bars with their ratio and the verdict on it: "precision=fp32,gpus=1 to precision=bf16,gpus=1".
    #[arg(long, value_name = "CELL to CELL", value_parser = bracket)]
    bracket: Vec<Annotation>,
    /// Draw a line at a value: y=1.5 or "y=1.5,the limit".
    #[arg(long, value_name = "y=VALUE", value_parser = line)]
    line: Vec<Annotation>,
    /// Shade a region: y=1..2 or "x=0..5,warm-up".
    #[arg(long, value_name = "y=LOW..HIGH", value_parser = region)]
    region: Vec<Annotation>,
    /// Remove all texts, brackets, lines and regions that were added to the charts of a figure file or a saved study.
    #[arg(long)]
    no_annotations: bool,
}

type Ends = (Option<f64>, Option<f64>);

/// Ticks of an axis: clap would take a list for several values.
#[derive(Clone, Debug)]
struct Ticks(Vec<f64>);

/// Splits `LEVEL=VALUE` into level and value. If there are two signs of equality, the level is `FACTOR=LEVEL`.
fn pair(text: &str) -> Result<(String, String), String> {
    let (level, value) = text.split_once('=').ok_or("give LEVEL=VALUE, such as bf16=\"BF16 (AMP)\"")?;
    // `precision=bf16=text` has its factor first.
    let (level, value) = match value.split_once('=') {
        Some((bare, value)) => (format!("{level}={bare}"), value),
        None => (level.to_owned(), value),
    };
    if level.trim().is_empty() { Err("the level is missing".to_owned()) } else { Ok((level, value.to_owned())) }
}

fn paint(text: &str) -> Result<(String, String), String> {
    let (level, colour) = pair(text)?;
    colour_of(&colour).map(|_| (level, colour))
}

fn of_level<T: strum::VariantArray + strum::EnumMessage + Copy>(text: &str) -> Result<(String, T), String> {
    let (level, asked) = pair(text)?;
    let name = |one: &T| one.get_serializations().first().copied().unwrap_or_default();
    let known = T::VARIANTS.iter().find(|one| name(one) == asked).copied();
    let names = || T::VARIANTS.iter().map(name).collect::<Vec<_>>().join(", ");
    known.map(|known| (level, known)).ok_or_else(|| format!("{asked:?}: use one of {}", names()))
}

/// A text for a chart: `2:text` is for the second.
fn of_chart(text: &str) -> Result<(Nth, String), String> {
    let chart = text.split_once(':').and_then(|(nth, rest)| Some((nth.parse().ok().filter(|nth| *nth > 0)?, rest)));
    Ok(chart.map_or((Nth(1), text.to_owned()), |(nth, rest)| (Nth(nth), rest.to_owned())))
}

fn number(text: &str) -> Result<f64, String> {
    let number = text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
    number.ok_or_else(|| format!("{text:?} is not a number"))
}

fn limits(text: &str) -> Result<(Nth, Ends), String> {
    let (chart, text) = of_chart(text)?;
    let (low, high) = text.split_once(',').ok_or("give LOW,HIGH: one of them may be left out, as in 0,")?;
    let end = |text: &str| if text.trim().is_empty() { Ok(None) } else { number(text).map(Some) };
    let ends = (end(low)?, end(high)?);
    if ends.0.zip(ends.1).is_some_and(|(low, high)| low >= high) {
        return Err("the lower end must be below the upper one".to_owned());
    }
    Ok((chart, ends))
}

fn ticks(text: &str) -> Result<(Nth, Ticks), String> {
    let (chart, text) = of_chart(text)?;
    Ok((chart, Ticks(text.split(',').map(number).collect::<Result<_, _>>()?)))
}

fn count(text: &str) -> Result<(Nth, usize), String> {
    let (chart, text) = of_chart(text)?;
    let (least, most) = Overrides::TICKS;
    let count = text.trim().parse().ok().filter(|count| (least..=most).contains(count));
    count.map(|count| (chart, count)).ok_or_else(|| format!("give a whole number from {least} to {most}"))
}

fn scale(text: &str) -> Result<(Nth, bool), String> {
    let (chart, text) = of_chart(text)?;
    match text.as_str() {
        "log" => Ok((chart, true)),
        "linear" => Ok((chart, false)),
        _ => Err("use linear or log".to_owned()),
    }
}

fn within(text: &str, (least, most): (f64, f64)) -> Result<f64, String> {
    let number = number(text)?;
    if (least..=most).contains(&number) { Ok(number) } else { Err(format!("give a number from {least} to {most}")) }
}

fn height(text: &str) -> Result<f64, String> {
    within(text.strip_suffix("mm").unwrap_or(text), Overrides::HEIGHTS_MM)
}

fn bar_width(text: &str) -> Result<f64, String> {
    within(text, Overrides::BARS)
}

fn line_width(text: &str) -> Result<f64, String> {
    within(text, Overrides::LINES_PT)
}

fn switch(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("use on or off".to_owned()),
    }
}

fn text(text: &str) -> Result<Annotation, String> {
    Annotation::parse(AnnotationKind::Text, text)
}

fn bracket(text: &str) -> Result<Annotation, String> {
    Annotation::parse(AnnotationKind::Bracket, text)
}

fn line(text: &str) -> Result<Annotation, String> {
    Annotation::parse(AnnotationKind::Line, text)
}

fn region(text: &str) -> Result<Annotation, String> {
    Annotation::parse(AnnotationKind::Region, text)
}

impl OverrideArguments {
    /// Changes a study as asked.
    pub(super) fn change(&self, study: &mut Study) {
        for (factor, levels) in &self.order {
            study
                .put_in_order(Key::from(factor.as_str()), levels.split(',').map(|level| typed(level.trim())).collect());
        }
        let overrides = &mut study.overrides;
        self.change_axes(overrides);
        for (level, label) in &self.label {
            overrides.level_mut(level).label = Some(label.clone());
        }
        for (level, colour) in &self.level_colour {
            overrides.level_mut(level).colour = Some(colour.clone());
        }
        for (level, hatch) in &self.hatch {
            overrides.level_mut(level).hatch = Some(*hatch);
        }
        for (level, marker) in &self.marker {
            overrides.level_mut(level).marker = Some(*marker);
        }
        for (level, dash) in &self.dash {
            overrides.level_mut(level).dash = Some(*dash);
        }
        if let Some(title) = &self.title {
            overrides.title = Some(title.clone()).filter(|title| !title.is_empty());
        }
        overrides.height_mm = self.height.or(overrides.height_mm);
        overrides.legend = self.legend.unwrap_or(overrides.legend);
        overrides.legend_columns = self.legend_columns.map(usize::from).or(overrides.legend_columns);
        overrides.bar_width = self.bar_width.or(overrides.bar_width);
        overrides.line_width = self.line_width.or(overrides.line_width);
        overrides.caption = self.caption.unwrap_or(overrides.caption);
        overrides.error_bars = self.error_bars.unwrap_or(overrides.error_bars);
        overrides.published = self.published.unwrap_or(overrides.published);
        if self.no_annotations {
            overrides.annotations.clear();
        }
        let added = self.text.iter().chain(&self.bracket).chain(&self.line).chain(&self.region);
        overrides.annotations.extend(added.cloned());
    }

    fn change_axes(&self, overrides: &mut Overrides) {
        use AxisName::{X, Y};
        for (axis, names) in [(X, &self.x_name), (Y, &self.y_name)] {
            for (chart, name) in names {
                overrides.axis_mut(axis, *chart).name = Some(name.clone());
            }
        }
        for (axis, units) in [(X, &self.x_unit), (Y, &self.y_unit)] {
            for (chart, unit) in units {
                overrides.axis_mut(axis, *chart).unit = Some(unit.clone());
            }
        }
        for (axis, counts) in [(X, &self.x_tick_count), (Y, &self.y_tick_count)] {
            for (chart, count) in counts {
                overrides.axis_mut(axis, *chart).tick_count = Some(*count);
            }
        }
        for (axis, limits) in [(X, &self.x_limits), (Y, &self.y_limits)] {
            for (chart, (low, high)) in limits {
                let change = overrides.axis_mut(axis, *chart);
                (change.low, change.high) = (*low, *high);
            }
        }
        for (axis, ticks) in [(X, &self.x_ticks), (Y, &self.y_ticks)] {
            for (chart, Ticks(ticks)) in ticks {
                overrides.axis_mut(axis, *chart).ticks.clone_from(ticks);
            }
        }
        for (axis, scales) in [(X, &self.x_scale), (Y, &self.y_scale)] {
            for (chart, log) in scales {
                overrides.axis_mut(axis, *chart).log = Some(*log);
            }
        }
    }
}

/// A level as it is typed: a number where it is one.
fn typed(text: &str) -> Level {
    let integer = text.parse().map(Level::Integer).ok();
    let number = || text.parse().ok().filter(|number: &f64| number.is_finite()).map(Level::Number);
    integer.or_else(number).unwrap_or_else(|| Level::text(text))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::figure::override_words;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        overrides: OverrideArguments,
    }

    fn read(words: &[&str]) -> Result<Study, String> {
        let line = Line::try_parse_from(std::iter::once(&"figure").chain(words)).map_err(|error| error.to_string())?;
        let mut study = Study::default();
        line.overrides.change(&mut study);
        Ok(study)
    }

    #[test]
    fn each_option_changes_its_entry_and_is_written_back_as_words() {
        let words = [
            "--label",
            "bf16=BF16 (AMP)",
            "--label",
            "gpus=4=four",
            "--order",
            "precision=bf16,fp32",
            "--level-colour",
            "bf16=#102030",
            "--hatch",
            "bf16=dots",
            "--marker",
            "fp32=cross",
            "--dash",
            "fp32=dotted",
            "--y-name",
            "Time of a step",
            "--y-limits",
            "0,2",
            "--y-limits",
            "2:,5",
            "--x-ticks",
            "1,2,4",
            "--y-scale",
            "log",
            "--y-unit",
            "ms",
            "--x-unit",
            "min",
            "--y-tick-count",
            "7",
            "--x-tick-count",
            "2:3",
            "--title",
            "A title",
            "--height",
            "60mm",
            "--legend",
            "right",
            "--legend-columns",
            "2",
            "--bar-width",
            "0.5",
            "--line-width",
            "2",
            "--caption",
            "off",
            "--error-bars",
            "off",
            "--published",
            "off",
            "--text",
            "1,2,here",
            "--bracket",
            "gpus=1 to gpus=2",
            "--line",
            "y=1",
            "--region",
            "x=1..2",
        ];
        let study = read(&words).unwrap();
        let overrides = &study.overrides;
        assert_eq!(study.order, [("precision".into(), vec![Level::text("bf16"), Level::text("fp32")])]);
        assert_eq!(overrides.levels[1].level, "gpus=4");
        assert_eq!(overrides.axis(AxisName::Y, Nth(2)).high, Some(5.0));
        assert_eq!(overrides.height_mm, Some(60.0));
        assert_eq!(overrides.annotations.len(), 4);
        let again = override_words(&study).unwrap();
        let again: Vec<&str> = again.iter().map(String::as_str).collect();
        assert_eq!(read(&again).unwrap(), study);
    }

    #[test]
    fn what_an_option_cannot_mean_is_refused_with_what_it_can() {
        for (words, part) in [
            (["--y-limits", "2,0"], "below the upper one"),
            (["--label", "bf16"], "give LEVEL=VALUE"),
            (["--level-colour", "bf16=beige"], "vermillion"),
            (["--hatch", "bf16=stars"], "dots"),
            (["--height", "5mm"], "from 20 to 300"),
            (["--y-tick-count", "1"], "from 2 to 20"),
            (["--caption", "no"], "use on or off"),
            (["--line", "1.5"], "give y=VALUE"),
        ] {
            let error = read(&words).unwrap_err();
            assert!(error.contains(part), "{part} in {error}");
        }
    }
}
