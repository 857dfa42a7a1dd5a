//! Lays charts out on a page: panels in a grid with their letters and axes, and the legend.

use super::annotations;
use super::bars::BARS;
use super::below::{say_below, sayings};
use super::blank::blank;
use super::field::Field;
use super::grid::{BETWEEN, Grid, ends, starts};
use super::legend::Legend;
use super::letter::{Anchor, Line, Typist};
use super::look::INK;
use super::marks;
use super::page::{MARGIN, Page};
use super::path::Area;
use super::scene::{Part, Scene, Stroke};
use super::side::{AXIS, Side, Type, wrapped};
use super::spot::{Spot, spots};
use crate::figure::chart::{Chart, Geometry, Look, Role, Series};
use crate::figure::overrides::{LegendPlace, Overrides};
use crate::figure::style::{Palette, Style};

/// Lays charts out on paper, below or next to each other. Charts that cannot be drawn are left out; if none can be drawn, the page says
/// so.
pub fn lay_out(charts: &[Chart], style: &Style) -> Scene {
    lay_out_with(charts, style, &Overrides::default())
}

/// Lays charts out on paper, with an author's overrides for the page: title, height, legend, widths of bars and lines, caption.
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
            LegendPlace::Above | LegendPlace::Below => legend(&shown, whole, overrides.most_legend_columns()),
        };
        let aside = if overrides.legend == LegendPlace::Right { common.width() + BETWEEN.0 } else { 0.0 };
        let grid = Grid::new(spots, page, kind, whole - aside);
        let own = |spot: &Spot| legend(&[spot.chart], grid.data_width, overrides.most_legend_columns());
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

/// The charts with a different sign for each look. In grey, signs must replace colours, even though a level then does not have the same
/// sign in every figure.
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
        let usual_bars = (BARS.0, self.grid.most_enlarged(spot, self.page) * BARS.1);
        let field = Field {
            area: *area,
            left: &spot.left,
            bottom: &spot.bottom,
            palette: self.page.palette,
            kind,
            place: [spot.place, spot.panel_place],
            bars: overrides.bar_share().map_or(usual_bars, |share| (share, area.width)),
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
            let stroke = Stroke::new(INK, AXIS);
            scene.line(&[(area.left, area.top), (area.left, area.bottom())], stroke);
        }
        spot.bottom.draw_bottom(scene, kind, area, edges.title_room, (spot.place, spot.axes().1));
    }
}
