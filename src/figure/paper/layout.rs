//! Lays charts out on a page: panels in a grid with their letters and axes, and the legend.

use super::annotations;
use super::axis::{Reach, Ruler};
use super::blank::blank;
use super::legend::Legend;
use super::letter::{Anchor, Line, Typist};
use super::marks::{self, Field};
use super::page::{Inset, Page};
use super::path::Area;
use super::scene::{Part, Scene};
use super::side::{Side, Type, runs_across, wrapped};
use crate::figure::chart::{AdditionKind, Chart, Geometry, Look, Panel, Point, Role, Scale, Series};
use crate::figure::overrides::{AxisName, LegendPlace, Overrides};
use crate::figure::style::{Palette, Style};

/// Gaps in points between panels next to each other, and between rows of panels.
const BETWEEN: (f64, f64) = (12.0, 10.0);
/// Margin of the page in points, so that no line is cut.
pub(super) const MARGIN: f64 = 1.5;
/// Minimum height of data next to an axis of numbers on a screen, in points.
const LEAST_ON_SCREEN: f64 = 80.0;
/// Minimum width of horizontal bars together with the values at their ends, in points.
const LEAST_ACROSS: f64 = 117.0;
/// Minimum height of data in points, even if the requested height of the figure is smaller.
const LEAST_HEIGHT: f64 = 24.0;

/// One panel and its axes.
struct Spot<'a> {
    chart: &'a Chart,
    place: usize,
    panel: &'a Panel,
    panel_place: usize,
    left: Side,
    bottom: Side,
    /// Room to the right in points, for the key of colours.
    right: f64,
}

/// Lays charts out on paper, below or next to each other. Charts that cannot be drawn are left out; if none can be drawn, the page says
/// so.
pub fn lay_out(charts: &[Chart], style: &Style) -> Scene {
    lay_out_with(charts, style, &Overrides::default())
}

/// The same with an author's overrides for the page: title, height, legend, widths of bars and lines, caption.
pub(in crate::figure) fn lay_out_with(charts: &[Chart], style: &Style, overrides: &Overrides) -> Scene {
    compose(charts, &Page::paper(style), overrides)
}

/// Lays charts out on paper or on a screen.
pub fn lay_out_on(charts: &[Chart], page: &Page) -> Scene {
    compose(charts, page, &Overrides::default())
}

/// Lays charts out on a page.
pub(super) fn compose(charts: &[Chart], page: &Page, overrides: &Overrides) -> Scene {
    let told_apart = (page.palette == Palette::Grey).then(|| told_apart(charts));
    let charts = told_apart.as_deref().unwrap_or(charts);
    let kind = Type::new(Typist { family: page.family }, page.size);
    let spots = spots(charts, page, kind);
    if spots.is_empty() {
        return blank(page, "Nothing to draw yet");
    }
    let sheet = Sheet::new(&spots, page, overrides, kind);
    // Rows of panels share the difference from the usual height.
    let rows = spots.len().div_ceil(sheet.grid.columns) as f64;
    if let Some(part) = page.part {
        return sheet.set(part.stretch / rows);
    }
    let usual = sheet.set(0.0);
    // On a screen, a figure that needs less height fills the window; one that needs more can be scrolled.
    let height = overrides.height_pt().or(page.sight.filter(|sight| *sight > usual.height));
    height.map_or(usual.clone(), |height| sheet.set((height - usual.height) / rows))
}

/// Everything that decides the layout of a page.
struct Sheet<'a> {
    spots: &'a [Spot<'a>],
    page: &'a Page,
    overrides: &'a Overrides,
    kind: Type,
    grid: Grid,
    legend: Legend,
    /// One legend for each panel, if the charts use the same looks for different things.
    own_legends: Vec<Legend>,
}

impl<'a> Sheet<'a> {
    fn new(spots: &'a [Spot<'a>], page: &'a Page, overrides: &'a Overrides, kind: Type) -> Self {
        let whole = page.width - 2.0 * MARGIN;
        let shown: Vec<&Chart> = spots.iter().map(|spot| spot.chart).collect();
        let legend = |charts: &[&Chart], width: f64, most| Legend::new(charts, page.palette, kind, width, most);
        let is_per_panel = spots.len() > 1 && shown.iter().all(|chart| chart.geometry == Geometry::Profile);
        let common = match overrides.legend {
            LegendPlace::Off => Legend::empty(),
            _ if is_per_panel => Legend::empty(),
            LegendPlace::Right => legend(&shown, 0.4 * whole, Some(1)),
            LegendPlace::Above | LegendPlace::Below => legend(&shown, whole, overrides.legend_columns),
        };
        let aside = if overrides.legend == LegendPlace::Right { common.width() + BETWEEN.0 } else { 0.0 };
        let grid = Grid::new(spots, page, kind, whole - aside);
        let own = |spot: &Spot| legend(&[spot.chart], grid.data_width, overrides.legend_columns);
        let per_panel = is_per_panel && overrides.legend != LegendPlace::Off;
        let own_legends = spots.iter().filter(|_| per_panel).map(own).collect();
        Self { spots, page, overrides, kind, grid, legend: common, own_legends }
    }

    /// Draws the page. The data of each row of panels is `more` points higher than usual, unless a panel has no use for that.
    fn set(&self, more: f64) -> Scene {
        let Self { spots, kind, grid, legend, .. } = self;
        let mut scene = Scene { width: self.page.width, ..Scene::default() };
        let mut top = MARGIN + title(&mut scene, *kind, self.overrides.title.as_deref());
        let first = top;
        if self.overrides.legend == LegendPlace::Above {
            legend.draw(&mut scene, *kind, (MARGIN, top));
            top += legend.height(*kind);
        }
        for row in 0..spots.len().div_ceil(grid.columns) {
            top += self.row(&mut scene, row, top, more) + BETWEEN.1;
        }
        scene.height = top - BETWEEN.1 + MARGIN;
        match self.overrides.legend {
            LegendPlace::Below => {
                let top = scene.height + 2.0;
                legend.draw(&mut scene, *kind, (MARGIN, top));
                scene.height += 2.0 + legend.height(*kind);
            }
            LegendPlace::Right => {
                let left = scene.width - MARGIN - legend.width();
                legend.draw(&mut scene, *kind, (left, first));
                scene.height = scene.height.max(first + legend.height(*kind) + MARGIN);
            }
            LegendPlace::Above | LegendPlace::Off => {}
        }
        if self.overrides.caption {
            say_below(&mut scene, *kind, &sayings(spots));
        }
        scene
    }

    /// Draws a row of panels and returns its height.
    fn row(&self, scene: &mut Scene, row: usize, top: f64, more: f64) -> f64 {
        let Self { spots, page, kind, grid, .. } = self;
        let (kind, first) = (*kind, row * grid.columns);
        let line = &spots[first..(first + grid.columns).min(spots.len())];
        // On paper, text refers to panels by their letters.
        let lettered = spots.len() > 1 && !page.is_screen() && page.part.is_none();
        let captioned = lettered || spots.iter().any(|spot| !spot.panel.title.is_empty());
        // Half of the uppermost tick's label is above the data.
        let above = if captioned { kind.typist.leading(kind.size) + 3.0 } else { 0.6 * kind.typist.ascent(kind.small) };
        let own = self.own_legends.iter().skip(first).take(line.len());
        let legends = own.map(|legend| legend.height(kind)).fold(0.0, f64::max);
        let height_of = |spot: &Spot| grid.data_height(spot, page, kind, more);
        let height = line.iter().map(height_of).fold(0.0, f64::max);
        let data_width = grid.width_of_row(spots, first, line);
        let mut below = 0.0_f64;
        let mut left = MARGIN;
        for (column, spot) in line.iter().enumerate() {
            let room = grid.rooms[column];
            let index = first + column;
            let area = Area {
                left: left + room,
                top: top + above + legends,
                width: data_width - spot.right,
                height: if matches!(spot.left, Side::Numbers(_)) { height } else { height_of(spot) },
            };
            if captioned {
                let above = Area { top: area.top - legends, ..area };
                caption(scene, kind, spot, lettered.then_some(index), &above, data_width);
            }
            if let Some(legend) = self.own_legends.get(index) {
                legend.draw(scene, kind, (area.left, area.top - legends));
            }
            let titled = ends(spots, index, grid.columns);
            let edges = Edges {
                left: left + room - spot.left.left_room(kind, grid.names_room),
                shows_left: page.names_values(&spot.left, column) && starts(spots, index, grid.columns),
                // With panels on either side, a title must fit into its own panel's width.
                title_room: match (titled, grid.columns) {
                    (false, _) => 0.0,
                    (true, 1) => scene.width - 2.0 * MARGIN,
                    (true, _) => area.width + BETWEEN.0,
                },
            };
            self.draw(scene, spot, &area, &edges);
            below = below.max(area.height - height + spot.bottom.bottom_room(kind, area.width, titled));
            left += room + data_width + BETWEEN.0;
        }
        let data = top + above + legends;
        scene.inner = inner(spots, grid.columns, (top, data), data + height, scene.inner);
        above + legends + height + below
    }
}

/// Draws a title over the whole width and returns its height.
pub(super) fn title(scene: &mut Scene, kind: Type, title: Option<&str>) -> f64 {
    let Some(title) = title.filter(|title| !title.trim().is_empty()) else { return 0.0 };
    let (typist, size) = (kind.typist, kind.size);
    let room = scene.width - 2.0 * MARGIN;
    let lines = wrapped(title, room, &|text| typist.width(&Line::strong(text), size));
    scene.part(Part::Title, |scene| {
        for (nth, line) in lines.iter().enumerate() {
            let y = MARGIN + nth as f64 * typist.leading(size) + typist.ascent(size);
            let line = Line::strong(typist.cut(line, size, room));
            typist.set(scene, &line, size, (scene.width / 2.0, y), Anchor::Middle);
        }
    });
    lines.len() as f64 * typist.leading(size) + 3.0
}

/// The range of a row that scrolls on a screen, from its captions or its data down to the end of its data. If all panels belong to one
/// chart, their axis stays in view, and so do the captions of a single row. `None` if the left axes are axes of values, because half of
/// such an axis is useless.
fn inner(
    spots: &[Spot],
    columns: usize,
    (captions, data): (f64, f64),
    bottom: f64,
    before: Option<(f64, f64)>,
) -> Option<(f64, f64)> {
    let top = if spots.len() <= columns { data } else { before.map_or(captions, |(top, _)| top) };
    let has_rows = spots.iter().all(|spot| matches!(spot.left, Side::Names(..)));
    let is_one = spots.iter().all(|spot| spot.place == spots[0].place);
    (has_rows && (is_one || spots.len() <= columns)).then_some((top, bottom))
}

/// The lines below a picture: the meaning of error bars and bands, and what limits hide. A picture is often shown without its notes.
fn sayings(spots: &[Spot]) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    let intervals = spots.iter().map(|spot| spot.chart.intervals.clone()).filter(|text| !text.is_empty());
    for text in intervals.chain(cautions(spots)) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts
}

/// The lines below the picture of these charts.
pub(super) fn sayings_of(charts: &[Chart], page: &Page) -> Vec<String> {
    sayings(&spots(charts, page, Type::new(Typist { family: page.family }, page.size)))
}

/// Draws lines of text below everything.
pub(super) fn say_below(scene: &mut Scene, kind: Type, texts: &[String]) {
    let typist = kind.typist;
    let room = scene.width - 2.0 * MARGIN;
    let wide = |text: &str| typist.width(&Line::plain(text), kind.small);
    // A number is not separated from its percent sign.
    let lines = texts.iter().flat_map(|text| wrapped(&text.replace(" %", "\u{a0}%"), room, &wide));
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() {
        return;
    }
    scene.height += 2.0;
    scene.part(Part::Caption, |scene| {
        for line in lines {
            let at = (MARGIN, scene.height + typist.ascent(kind.small));
            let line = typist.cut(&line, kind.small, room);
            typist.set(scene, &Line::plain(line), kind.small, at, Anchor::Start);
            scene.height += typist.leading(kind.small);
        }
    });
    scene.height += MARGIN;
}

/// Warnings about what an author's limits hide, which a reader could not see.
fn cautions(spots: &[Spot]) -> Vec<String> {
    let is_cut = |spot: &&Spot| spot.is_cut();
    let beyond = |spot: &Spot| {
        let (names, values) = spot.sides();
        let series = spot.panel.series.iter().filter(|series| series.role == Role::Measured);
        let outside = |point: &&Point| {
            let ends = point.value.interval.map_or([point.value.median; 2], |ends| [ends.low, ends.high]);
            !names.shows(point.x) || ends.into_iter().any(|end| !values.shows(end))
        };
        series.flat_map(|series| &series.points).filter(outside).count()
    };
    let count: usize = spots.iter().filter(is_cut).map(beyond).sum();
    let reaches = if count == 1 { "1 value reaches" } else { &format!("{count} values reach") };
    let from_zero = |spot: &Spot| match (spot.sides().1, spot.chart.geometry) {
        (Side::Numbers(ruler), Geometry::Bars | Geometry::Stacked) => ruler.scale == Scale::Log || ruler.low <= 0.0,
        _ => true,
    };
    let mut cautions: Vec<String> = (count > 0).then(|| format!("{reaches} beyond the axes.")).into_iter().collect();
    if spots.iter().filter(is_cut).any(|spot| !from_zero(spot)) {
        cautions.push("Bars do not begin at 0.".to_owned());
    }
    cautions
}

/// The charts with a different sign for each look. In grey, signs must distinguish what colours distinguish otherwise, even though a
/// level then does not have the same sign in every figure.
pub(super) fn told_apart(charts: &[Chart]) -> Vec<Chart> {
    let mut charts = charts.to_vec();
    let lines = |chart: &&mut Chart| matches!(chart.geometry, Geometry::Lines | Geometry::Scaling | Geometry::Profile);
    if !charts.iter_mut().filter(lines).any(|chart| chart.series().any(|series| series.variant > 0)) {
        return charts;
    }
    let mut known: Vec<(Look, usize)> = Vec::new();
    let series =
        charts.iter_mut().filter(lines).flat_map(|chart| &mut chart.panels).flat_map(|panel| &mut panel.series);
    let is_usual = |series: &&mut Series| series.role == Role::Measured && !matches!(series.look, Look::Own(..));
    for series in series.filter(is_usual) {
        let look = (series.look.clone(), series.variant);
        let place = known.iter().position(|other| *other == look).unwrap_or_else(|| {
            known.push(look);
            known.len() - 1
        });
        (series.look, series.variant) = (Look::Place(place), 0);
    }
    charts
}

/// Whether a panel shows its vertical axis: it is the first of its row, or the panel to its left belongs to another chart.
fn starts(spots: &[Spot], index: usize, columns: usize) -> bool {
    index.is_multiple_of(columns) || spots[index].place != spots[index - 1].place
}

/// Whether a panel's lower axis has a title: no panel of the same chart is below it.
fn ends(spots: &[Spot], index: usize, columns: usize) -> bool {
    spots.get(index + columns).is_none_or(|below| below.place != spots[index].place)
}

/// The position of a panel's axes, and which parts they show.
struct Edges {
    left: f64,
    shows_left: bool,
    title_room: f64,
}

fn caption(scene: &mut Scene, kind: Type, spot: &Spot, index: Option<usize>, area: &Area, width: f64) {
    let letter = index.map_or(String::new(), |index| format!("({}) ", letter(index)));
    let whole = Line::strong(&letter).then(Line::plain(&spot.panel.title));
    // Smaller letters are better than shortened names.
    let size = (kind.size * width / kind.typist.width(&whole, kind.size)).max(6.0).min(kind.size);
    let room = width - kind.typist.width(&Line::strong(&letter), size);
    let titles: Vec<String> = spot.chart.panels.iter().map(|panel| panel.title.clone()).collect();
    let title = kind.typist.cut_apart(&titles, size, room.max(8.0)).swap_remove(spot.panel_place);
    let line = Line::strong(letter).then(Line::plain(title));
    let y = area.top - 3.0 - kind.typist.descent(kind.size);
    scene.part(Part::Panel(spot.place, spot.panel_place), |scene| {
        kind.typist.set(scene, &line, size, (area.left, y), Anchor::Start);
    });
}

/// The letter of a panel: a, b, … z, aa, ab, …
pub fn letter(index: usize) -> String {
    let last = char::from(b'a' + (index % 26) as u8);
    if index < 26 { last.to_string() } else { format!("{}{last}", letter(index / 26 - 1)) }
}

impl Sheet<'_> {
    fn draw(&self, scene: &mut Scene, spot: &Spot, area: &Area, edges: &Edges) {
        let (kind, overrides) = (self.kind, self.overrides);
        let field = Field {
            area: *area,
            left: &spot.left,
            bottom: &spot.bottom,
            palette: self.page.palette,
            kind,
            place: [spot.place, spot.panel_place],
            bars: overrides.bar_share().map_or(marks::BARS, |share| (share, area.width)),
            line: overrides.line_pt().unwrap_or(marks::LINE),
            right: spot.right,
            is_cut: spot.is_cut(),
        };
        if field.is_across() {
            spot.bottom.draw_grid(scene, area, true);
        } else if spot.chart.geometry != Geometry::Heat {
            spot.left.draw_grid(scene, area, false);
        }
        scene.data.push(*area);
        annotations::below(scene, &field, spot.chart);
        marks::draw(scene, &field, spot.chart, spot.panel);
        annotations::above(scene, &field, spot.chart, spot.panel);
        if edges.shows_left {
            spot.left.draw_left(scene, kind, area, edges.left, (spot.place, spot.axes().0));
        } else if matches!(spot.left, Side::Numbers(_)) {
            let stroke = super::scene::Stroke::new(super::look::INK, super::side::AXIS);
            scene.line(&[(area.left, area.top), (area.left, area.bottom())], stroke);
        }
        spot.bottom.draw_bottom(scene, kind, area, edges.title_room, (spot.place, spot.axes().1));
    }
}

impl Spot<'_> {
    /// Whether an author sets the ends of an axis.
    fn is_cut(&self) -> bool {
        [&self.chart.x, &self.chart.y].iter().any(|axis| axis.limits != (None, None))
    }

    /// Which axes of its chart are on the left and below. If names are on the left, the x axis is on the left, except for rows and
    /// fields.
    fn axes(&self) -> (AxisName, AxisName) {
        let is_turned =
            runs_across(&self.left, &self.bottom) && !matches!(self.chart.geometry, Geometry::Gantt | Geometry::Heat);
        if is_turned { (AxisName::X, AxisName::Y) } else { (AxisName::Y, AxisName::X) }
    }

    /// Whether it has horizontal bars or repeats. They are horizontal only on a screen.
    fn has_bars_across(&self) -> bool {
        let is_bars =
            matches!(self.chart.geometry, Geometry::Bars | Geometry::Strip | Geometry::Stacked | Geometry::Percent);
        is_bars && matches!(self.left, Side::Names(..))
    }

    /// The axis of names or places, and the axis of values.
    fn sides(&self) -> (&Side, &Side) {
        if runs_across(&self.left, &self.bottom) { (&self.left, &self.bottom) } else { (&self.bottom, &self.left) }
    }
}

/// The grid of panels.
struct Grid {
    columns: usize,
    /// Room to the left of each column's data, in points.
    rooms: Vec<f64>,
    data_width: f64,
    /// Maximum room for names on the left, in points.
    names_room: f64,
}

impl Grid {
    fn new(spots: &[Spot], page: &Page, kind: Type, whole: f64) -> Self {
        let mut columns = page.columns.min(spots.len());
        loop {
            // Rows should have equal lengths.
            columns = spots.len().div_ceil(spots.len().div_ceil(columns));
            let grid = Self::of(spots, page, kind, columns, whole);
            let narrow = |spot: &Spot| grid.data_width - spot.right < least_width(spot);
            if columns == 1 || !spots.iter().any(narrow) {
                return grid;
            }
            columns -= 1;
        }
    }

    fn of(spots: &[Spot], page: &Page, kind: Type, columns: usize, whole: f64) -> Self {
        // On a screen, names get more room: shortened names look alike, and several panels share the same names.
        let least = if page.is_screen() { 0.3 * whole } else { 0.0 };
        let names_room = (0.42 * whole / columns as f64).max(least);
        let mut rooms = vec![0.0_f64; columns];
        for (index, spot) in spots.iter().enumerate() {
            if starts(spots, index, columns) && page.names_values(&spot.left, index % columns) {
                let room = &mut rooms[index % columns];
                *room = room.max(spot.left.left_room(kind, names_room));
            }
        }
        // Half of the last tick's label may be right of the data. A label that is too wide is left out when the axis is drawn.
        let overhang = spots.iter().map(|spot| spot.bottom.overhang(kind) - MARGIN).fold(0.0, f64::max);
        let mut last = overhang.min(0.1 * whole).max(0.9 * kind.small);
        if let Some(Inset { left, right, .. }) = page.part {
            rooms[0] = rooms[0].max(left - MARGIN);
            let beside = spots.iter().map(|spot| spot.right).fold(f64::INFINITY, f64::min);
            last = last.max(right - beside - (page.width - MARGIN - whole));
        }
        let used: f64 = rooms.iter().sum::<f64>() + BETWEEN.0 * (columns - 1) as f64 + last;
        Self { columns, rooms, data_width: ((whole - used) / columns as f64).max(24.0), names_room }
    }

    /// The width of the data of each panel in a row. A last row with fewer panels fills the width of the page, so that no part of it
    /// stays empty.
    fn width_of_row(&self, spots: &[Spot], first: usize, row: &[Spot]) -> f64 {
        // Horizontal bars must have the same length as bars with the same value in the rows above.
        let goes_on = |spot: &Spot| spots[..first].iter().any(|above| above.place == spot.place);
        let is_across = |spot: &Spot| spot.has_bars_across() || spot.chart.geometry == Geometry::Gantt;
        let is_compared = |spot: &Spot| is_across(spot) && goes_on(spot);
        if row.len() == self.columns || row.iter().any(is_compared) {
            return self.data_width;
        }
        let between = BETWEEN.0 * (self.columns - row.len()) as f64;
        let rooms: f64 = self.rooms[row.len()..].iter().sum();
        (self.data_width * self.columns as f64 + rooms + between) / row.len().max(1) as f64
    }

    /// The height of a panel's data: `more` points higher than usual, but on a screen not higher than is useful.
    fn data_height(&self, spot: &Spot, page: &Page, kind: Type, more: f64) -> f64 {
        let rows = |names: &[String], share: f64| {
            let least = names.len() as f64 * kind.size * share;
            (least, 2.5 * least)
        };
        let (least, most) = match (&spot.left, spot.chart.geometry) {
            (Side::Names(..), _) if spot.has_bars_across() => marks::heights_across(spot.chart),
            (Side::Names(names, _), Geometry::Effects | Geometry::Tornado) => {
                // Names that are wider than their room continue on a second line.
                let is_wide = |name: &String| kind.typist.width(&Line::plain(name), kind.small) > self.names_room;
                rows(names, if names.iter().any(is_wide) { 2.6 } else { 1.7 })
            }
            (Side::Names(names, _), _) => rows(names, 2.1),
            (Side::Numbers(_), _) if page.is_screen() => (LEAST_ON_SCREEN, f64::INFINITY),
            (Side::Numbers(_), _) => {
                let most = if self.columns < 3 { page.heights.0 } else { page.heights.1 };
                let title = spot.left.title_length(kind);
                let height = (0.68 * self.data_width).max(title).clamp(84.0, most);
                (height, height)
            }
        };
        let usual = least.max(20.0);
        let most = if page.is_screen() { most } else { f64::INFINITY };
        (usual + more).min(most).max(LEAST_HEIGHT.min(usual))
    }
}

/// The names of an axis's places. If each begins with the axis's own name, that name is left out: `pin_memory off` becomes `off`.
fn within_title(axis: &crate::figure::Axis) -> Vec<String> {
    let rest = |name: &String| Some(name.strip_prefix(&axis.name)?.strip_prefix(' ')?.to_owned());
    let short: Option<Vec<String>> = axis.categories.iter().map(rest).collect();
    short.filter(|_| !axis.name.is_empty()).unwrap_or_else(|| axis.categories.clone())
}

/// The width in points below which bars run together and names cannot be read.
fn least_width(spot: &Spot) -> f64 {
    let places = spot.chart.x.categories.len().max(1) as f64;
    match spot.chart.geometry {
        _ if spot.has_bars_across() => LEAST_ACROSS - spot.right,
        Geometry::Bars | Geometry::Strip => places * (3.0 + 4.0 * spot.panel.series.len() as f64).min(24.0),
        Geometry::Stacked | Geometry::Percent => places * 8.0,
        Geometry::Heat => places * 22.0,
        Geometry::Profile => (places * 18.0).max(80.0),
        Geometry::Lines
        | Geometry::Scaling
        | Geometry::Effects
        | Geometry::Tornado
        | Geometry::Scatter
        | Geometry::Gantt => 70.0,
    }
    .max(60.0)
}

fn spots<'a>(charts: &'a [Chart], page: &Page, kind: Type) -> Vec<Spot<'a>> {
    let mut spots = Vec::new();
    for (place, chart) in charts.iter().enumerate().filter(|(_, chart)| !chart.is_empty()) {
        let panels = chart.panels.iter().enumerate();
        let drawn = panels.filter(|(_, panel)| panel.series.iter().any(|series| !series.points.is_empty()));
        for (panel_place, panel) in drawn {
            let (left, bottom) = sides(chart, page);
            let right = match chart.geometry {
                Geometry::Heat => marks::heat_key(kind),
                _ if page.is_screen() => {
                    let numbers = marks::numbers_room(chart, &bottom, kind);
                    (numbers + annotations::room_beside(chart, kind)).min(0.3 * page.width)
                }
                _ => 0.0,
            };
            spots.push(Spot { chart, place, panel, panel_place, left, bottom, right });
        }
    }
    spots
}

fn sides(chart: &Chart, page: &Page) -> (Side, Side) {
    let names = |axis: &crate::figure::Axis| Side::Names(within_title(axis), Line::plain(axis.title()));
    // On a screen, the axis can scroll, and a title in its middle would be out of view.
    let untitled = |axis: &crate::figure::Axis| Side::Names(within_title(axis), Line::default());
    let (low, high) = chart.y.reach.unwrap_or_else(|| extent(chart));
    let values = || Ruler::new(&chart.y, (low, high), reach(chart, &chart.y), 5);
    match chart.geometry {
        // On a screen, horizontal bars need no rotated names, and any number of them can be scrolled.
        Geometry::Bars | Geometry::Strip | Geometry::Stacked if page.is_screen() => {
            (untitled(&chart.x), Side::Numbers(values()))
        }
        Geometry::Bars | Geometry::Strip | Geometry::Stacked | Geometry::Profile => {
            (Side::Numbers(values()), names(&chart.x))
        }
        Geometry::Scatter => {
            let positive = chart.x.scale == Scale::Log;
            let ends = |point: &Point| {
                let ends = point.across.map_or([point.x; 2], |ends| [ends.low, ends.high]);
                [point.x, ends[0], ends[1]].into_iter().filter(move |x| x.is_finite() && (!positive || *x > 0.0))
            };
            let places = chart.series().flat_map(|series| &series.points).flat_map(ends);
            let least = if reach(chart, &chart.x) == Reach::FromZero { 0.0 } else { f64::INFINITY };
            let ends = places.fold((least, f64::NEG_INFINITY), |(low, high): (f64, f64), x| (low.min(x), high.max(x)));
            (Side::Numbers(values()), Side::Numbers(Ruler::new(&chart.x, ends, reach(chart, &chart.x), 5)))
        }
        Geometry::Percent => {
            let axis = crate::figure::Axis::new(chart.y.name.clone(), "%");
            let values = Side::Numbers(Ruler::new(&axis, (0.0, 100.0), Reach::FromZero, 5));
            if page.is_screen() { (untitled(&chart.x), values) } else { (values, names(&chart.x)) }
        }
        Geometry::Lines | Geometry::Scaling => (Side::Numbers(values()), Side::Numbers(along_lines(chart))),
        Geometry::Gantt => {
            let ends = chart.series().flat_map(|series| &series.points).filter_map(|point| point.value.interval);
            let last = ends.map(|ends| ends.high).filter(|end| end.is_finite()).fold(0.0, f64::max);
            (names(&chart.y), Side::Numbers(Ruler::new(&chart.x, (0.0, last), Reach::FromZero, 6)))
        }
        Geometry::Heat => (names(&chart.y), names(&chart.x)),
        Geometry::Effects | Geometry::Tornado => {
            let (low, high) = span(chart);
            // 1 means no effect, so it is always visible.
            let ends = (low.min(1.0), high.max(1.0));
            (
                names(&crate::figure::Axis { name: String::new(), ..chart.x.clone() }),
                Side::Numbers(Ruler::new(&chart.y, ends, Reach::Enclosing, 5)),
            )
        }
    }
}

/// Which numbers an axis must include besides its values.
fn reach(chart: &Chart, axis: &crate::figure::Axis) -> Reach {
    match chart.geometry {
        Geometry::Lines | Geometry::Strip => Reach::Free,
        _ if axis.is_free => Reach::Free,
        // Means that are compared as ratios need ticks on both sides.
        Geometry::Profile if axis.scale == Scale::Log => Reach::Enclosing,
        Geometry::Profile => Reach::Free,
        Geometry::Scatter if axis.scale == Scale::Log => Reach::Free,
        _ => Reach::FromZero,
    }
}

/// Whether an axis of a chart begins at 0.
pub(super) fn begins_at_zero(chart: &Chart, axis: &crate::figure::Axis) -> bool {
    reach(chart, axis) == Reach::FromZero
}

/// The range of an axis of values: the values, and room for what is drawn above them.
pub(super) fn extent(chart: &Chart) -> (f64, f64) {
    // The names of roofs are above them.
    let is_roofed = chart.geometry == Geometry::Scatter && !chart.y.is_free && reach(chart, &chart.y) == Reach::Free;
    let (low, high) = span(chart);
    let high = if is_roofed { 2.0 * high } else { high };
    // Brackets and their text are above the marks.
    let brackets = chart.additions.iter().filter(|one| matches!(one.kind, AdditionKind::Bracket { .. })).count() as f64;
    let high = match chart.y.scale {
        _ if brackets == 0.0 => high,
        Scale::Linear => high + 0.14 * brackets * (high - low.min(0.0)),
        Scale::Log => high * (high / low).powf(0.14 * brackets).max(1.0),
    };
    (low, high)
}

/// The horizontal axis of lines, with whole numbers if all of its points have whole numbers.
fn along_lines(chart: &Chart) -> Ruler {
    let mut places: Vec<f64> = chart
        .series()
        .filter(|series| series.role == Role::Measured)
        .flat_map(|series| series.points.iter().map(|point| point.x))
        .filter(|x| x.is_finite())
        .collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let ends = (places.first().copied().unwrap_or(0.0), places.last().copied().unwrap_or(1.0));
    let whole = if chart.geometry == Geometry::Scaling { Ruler::at(&chart.x, &places) } else { None };
    // On a logarithmic axis of GPUs, the ticks are the numbers of GPUs that were used.
    let has_places = chart.geometry == Geometry::Scaling && chart.x.scale == Scale::Log && places.len() <= 8;
    let is_usual = chart.x.ticks.is_empty() && chart.x.tick_count.is_none();
    let ticks = if has_places && is_usual { places.clone() } else { chart.x.ticks.clone() };
    let axis = crate::figure::Axis { ticks, ..chart.x.clone() };
    let mut along = whole.unwrap_or_else(|| Ruler::new(&axis, ends, Reach::Free, 5));
    // For example, there is no half epoch.
    if chart.x.ticks.is_empty() && places.iter().all(|x| x.fract() == 0.0) {
        along.whole_numbers();
    }
    along
}

/// From the smallest to the greatest value, including the ends of intervals.
fn span(chart: &Chart) -> (f64, f64) {
    if chart.geometry == Geometry::Stacked {
        return (0.0, marks::greatest_sum(chart));
    }
    let points = chart.series().flat_map(|series| &series.points);
    let ends = points.flat_map(|point| {
        let interval = point.value.interval.map_or([point.value.median; 2], |ends| [ends.low, ends.high]);
        [point.value.median, interval[0], interval[1]]
    });
    let positive = chart.y.scale == Scale::Log;
    let ends = ends.filter(|end| end.is_finite() && (!positive || *end > 0.0));
    ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), end| (low.min(end), high.max(end)))
}
