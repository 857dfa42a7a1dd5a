//! Widgets shared by several screens.

use std::fmt::Display;
use std::path::PathBuf;

use eframe::egui::containers::menu::{MenuButton, MenuConfig};
use eframe::egui::text::{CCursor, CCursorRange, LayoutJob};
use eframe::egui::text_edit::TextEditState;
use eframe::egui::{
    Align, Align2, Area, Button, Color32, ComboBox, Context, FontFamily, FontId, Frame, Id, InnerResponse, Key, Layout,
    Margin, ModalResponse, Order, PopupCloseBehavior, Response, RichText, Role, ScrollArea, Stroke, TextEdit,
    TextFormat, TextStyle, TextWrapMode, Ui, Widget as _, WidgetInfo, WidgetText, vec2,
};

use super::task::typed_path;
use super::theme::{BODY, GRID, STRONG, palette};
use crate::analysis::setting_key;
use crate::foreign::{code_parts, shortened, with_ellipsis};
use crate::plan::{Filter, Unordered, factor_key, suggestion};

/// Text in semibold.
pub fn strong(text: impl Into<String>) -> RichText {
    RichText::new(text).family(FontFamily::Name(STRONG.into()))
}

/// Secondary text.
pub fn muted(ui: &Ui, text: impl Into<String>) -> RichText {
    RichText::new(text).color(palette(ui.visuals()).muted)
}

/// Right-aligned text.
pub fn right(ui: &mut Ui, text: impl Into<WidgetText>) -> Response {
    ui.with_layout(Layout::right_to_left(Align::Center), |ui| ui.label(text)).inner
}

/// A sentence whose parts between backticks are set as code, as in messages that are also for the terminal.
pub fn prose(ui: &Ui, sentence: &str, colour: Color32) -> WidgetText {
    prose_of_size(ui, sentence, colour, BODY)
}

/// A sentence as [`prose`] sets it, in letters of this size, in points.
pub fn prose_of_size(ui: &Ui, sentence: &str, colour: Color32, size: f32) -> WidgetText {
    if !sentence.contains('`') {
        return RichText::new(sentence).color(colour).size(size).into();
    }
    let mut job = LayoutJob::default();
    for (part, is_code) in code_parts(sentence) {
        let style = if is_code { TextStyle::Monospace } else { TextStyle::Body };
        let font = FontId { size, ..style.resolve(ui.style()) };
        job.append(part, 0.0, TextFormat::simple(font, colour));
    }
    job.into()
}

/// The frame of a card.
pub fn card(ui: &Ui) -> Frame {
    let palette = palette(ui.visuals());
    Frame::new()
        .fill(palette.card)
        .stroke(Stroke::new(1.0, palette.line))
        .corner_radius(6)
        .inner_margin(Margin::same((3.0 * GRID) as i8))
}

/// The primary button of a screen.
pub fn main_button(ui: &mut Ui, enabled: bool, text: impl Into<String>) -> Response {
    let palette = palette(ui.visuals());
    let text = strong(text).color(if enabled { palette.on_accent } else { palette.muted });
    let button = if enabled { Button::new(text).fill(palette.accent) } else { Button::new(text) };
    ui.add_enabled_ui(enabled, |ui| button.ui(ui)).inner
}

/// A button with a menu that stays open until a click outside of it, Esc, or until its content closes it: for content that is typed into,
/// ticked, scrolled or read. The menu of [`Ui::menu_button`] closes at every click. Neither can hold a drop-down list such as [`choice`]: egui
/// keeps one popup open, so that opening the list would close the menu.
pub fn lasting_menu<R>(
    ui: &mut Ui,
    button: Button<'_>,
    content: impl FnOnce(&mut Ui) -> R,
) -> InnerResponse<Option<R>> {
    let config = MenuConfig::new().close_behavior(PopupCloseBehavior::CloseOnClickOutside);
    let (response, drawn) = MenuButton::from_button(button).config(config).ui(ui, content);
    InnerResponse::new(drawn.map(|drawn| drawn.inner), response)
}

/// Whether the user closes a dialog that holds typed or chosen input: with Esc, or because its content closes it. A click beside such a
/// dialog, which would lose the input, does nothing.
pub fn is_dismissed<T>(modal: &ModalResponse<T>) -> bool {
    !modal.backdrop_response.clicked() && modal.should_close()
}

/// The share of the window's height that the menu of notes takes at most.
const MOST_OF_WINDOW: f32 = 0.6;

/// Draws a menu of texts, such as the notes on a table. All texts can be reached, however low the window is.
pub fn notes_menu_ui(ui: &mut Ui, name: &str, notes: &[&String]) {
    lasting_menu(ui, Button::new(format!("{name} ({})", notes.len())), |ui| {
        ui.set_max_width(520.0);
        let height = MOST_OF_WINDOW * ui.ctx().content_rect().height();
        ScrollArea::vertical().max_height(height).min_scrolled_height(height).show(ui, |ui| {
            notes.iter().for_each(|note| drop(ui.label(format!("• {note}"))));
        });
    });
}

/// The accessible name of a button whose label is a symbol or too short.
pub fn named(name: &str) -> WidgetInfo {
    WidgetInfo::labeled(Role::Button, true, name)
}

/// The accessible name of a text field, with its text.
pub fn named_text(name: &str, text: &str) -> WidgetInfo {
    WidgetInfo { current_text_value: Some(text.to_owned()), ..WidgetInfo::labeled(Role::TextInput, true, name) }
}

/// A drop-down list; `now` is the current choice.
pub fn choice(ui: &mut Ui, name: &str, now: &str, width: f32, content: impl FnOnce(&mut Ui)) {
    choice_until(ui, name, now, width, PopupCloseBehavior::CloseOnClick, content);
}

/// A drop-down list with a search field: it stays open until its content closes it.
pub fn searched_choice(ui: &mut Ui, name: &str, now: &str, width: f32, content: impl FnOnce(&mut Ui)) {
    choice_until(ui, name, now, width, PopupCloseBehavior::CloseOnClickOutside, content);
}

fn choice_until(
    ui: &mut Ui,
    name: &str,
    now: &str,
    width: f32,
    close: PopupCloseBehavior,
    content: impl FnOnce(&mut Ui),
) {
    let list = ComboBox::from_id_salt(name).selected_text(now).width(width).height(480.0).truncate();
    let list = list.close_behavior(close);
    let response = list.show_ui(ui, content).response;
    response.widget_info(|| {
        let mut info = WidgetInfo::labeled(Role::ComboBox, true, name);
        info.current_text_value = Some(now.to_owned());
        info
    });
    response.on_hover_text(format!("{name}: {now}"));
}

/// A check box, filled with the accent colour when on and pale when disabled. A disabled one still takes the focus, so that its reason can be read with the keyboard; the caller
/// ignores its clicks.
pub fn tick_ui(ui: &mut Ui, mut on: bool, enabled: bool, text: impl Into<RichText>) -> Response {
    let text = text.into();
    styled(ui, on, enabled, |ui| ui.checkbox(&mut on, text))
}

/// A check box that is always enabled.
pub fn check_ui(ui: &mut Ui, on: &mut bool, text: impl Into<RichText>) -> Response {
    let text = text.into();
    styled(ui, *on, true, |ui| ui.checkbox(on, text))
}

/// A radio button. A disabled one behaves like [`tick_ui`].
pub fn radio_ui(ui: &mut Ui, on: bool, enabled: bool, text: impl Into<RichText>) -> Response {
    let text = text.into();
    styled(ui, on, enabled, |ui| ui.radio(on, text))
}

fn styled(ui: &mut Ui, on: bool, enabled: bool, draw: impl FnOnce(&mut Ui) -> Response) -> Response {
    let (style, opacity) = (ui.style().clone(), ui.opacity());
    let palette = palette(ui.visuals());
    let text = ui.visuals().text_color();
    ui.visuals_mut().override_text_color.get_or_insert(text);
    let widgets = &mut ui.visuals_mut().widgets;
    for widget in [&mut widgets.inactive, &mut widgets.hovered, &mut widgets.active] {
        widget.bg_fill = if on { palette.accent } else { palette.card };
        widget.bg_stroke = Stroke::new(1.0, if on { palette.accent } else { palette.muted });
        widget.fg_stroke.color = palette.on_accent;
    }
    // Outline on hover and focus.
    widgets.hovered.bg_stroke = Stroke::new(1.5, text);
    widgets.active.bg_stroke = Stroke::new(2.0, text);
    // Keep a box and its label on one line.
    ui.style_mut().wrap_mode = Some(TextWrapMode::Extend);
    if !enabled {
        ui.multiply_opacity(0.45);
    }
    let response = draw(ui);
    ui.set_opacity(opacity);
    ui.set_style(style);
    response
}

/// A text field of one line. Its text and its hint are vertically centred, in menus too.
pub fn text_field<'t>(text: &'t mut String, hint: impl Into<String>, width: f32) -> TextEdit<'t> {
    TextEdit::singleline(text).hint_text(hint.into()).desired_width(width).align(Align2::LEFT_CENTER)
}

/// Whether a menu or page with this id opens in this frame: it was not drawn in the frame before. A frame may have several passes, the first
/// of which only measure.
pub fn opens(context: &Context, id: Id) -> bool {
    let (now, id) = (context.cumulative_frame_nr(), id.with("drawn"));
    let known: Option<(u64, u64)> = context.data(|data| data.get_temp(id));
    let first = known.filter(|(_, last)| last + 1 >= now).map_or(now, |(first, _)| first);
    context.data_mut(|data| data.insert_temp(id, (first, now)));
    first == now
}

/// Whether the focus has left a control since it was drawn last. egui's `lost_focus` holds for two frames, and a command must be sent once.
pub fn focus_left(context: &Context, id: Id, has_focus: bool) -> bool {
    let memory = id.with("has the focus");
    let had_focus: bool = context.data(|data| data.get_temp(memory)).unwrap_or(false);
    context.data_mut(|data| data.insert_temp(memory, has_focus));
    had_focus && !has_focus
}

/// Selects the whole text of a field that has the focus, so that typing replaces it.
pub fn select_all(ui: &Ui, field: &Response, text: &str) {
    let mut state = TextEditState::load(ui.ctx(), field.id).unwrap_or_default();
    let all = CCursorRange::two(CCursor::new(0), CCursor::new(text.chars().count()));
    state.cursor.set_char_range(Some(all));
    state.store(ui.ctx(), field.id);
}

/// Selects the whole text of a field when it gets the focus, so that typing replaces it. While a button of the pointer is down, the field
/// places its cursor itself.
pub fn select_at_focus(ui: &Ui, field: &Response, text: &str) {
    let memory = field.id.with("selects its text");
    let is_due = field.gained_focus() || ui.data(|data| data.get_temp(memory)).unwrap_or(false);
    let is_pressed = ui.input(|input| input.pointer.any_down());
    ui.data_mut(|data| data.insert_temp(memory, is_due && is_pressed));
    if is_due && !is_pressed {
        select_all(ui, field, text);
    }
}

/// A field for a path with its button, for systems without a file dialog; returns the path that was entered. `name` is the field's name,
/// `verb` the button's text. The typed text is stored in egui's memory.
pub fn path_ui(ui: &mut Ui, id: Id, name: &str, verb: &str, width: f32) -> Option<PathBuf> {
    let mut text: String = ui.data(|data| data.get_temp(id)).unwrap_or_default();
    let asked = ui.horizontal(|ui| {
        let field = ui.add(text_field(&mut text, name, width));
        field.widget_info(|| named_text(name, &text));
        let is_entered = field.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter));
        let path = typed_path(&text);
        let is_pressed = ui.add_enabled(path.is_some(), Button::new(verb)).clicked();
        path.filter(|_| is_entered || is_pressed)
    });
    if asked.inner.is_some() {
        text.clear();
    }
    ui.data_mut(|data| data.insert_temp(id, text));
    asked.inner
}

/// Tooltip of the filter field.
const FILTER_HELP: &str = "Words, or key=value with =, != and for numbers <, <=, >, >=. Join them with and, or, not and parentheses; \
     terms with nothing between them are joined with and; several values of one key mean any of them. Key: /";

/// Draws a filter field; returns the text if it changed. [`crate::plan::filter`] describes the grammar. Errors are shown over the content
/// below the field, so nothing moves while the user types. `keys` are the existing keys; empty if unknown. `unordered` is what is wrong with
/// the filter among what it chooses from, if that is known here.
pub fn filter_field(
    ui: &mut Ui,
    id: Id,
    (name, hint): (&str, &str),
    text: &str,
    width: f32,
    keys: &[&str],
    unordered: Option<&Unordered>,
) -> Option<String> {
    let error = filter_error(text, keys, unordered);
    let wrong = error.is_some().then(|| palette(ui.visuals()).bad);
    let mut text = text.to_owned();
    let field = text_field(&mut text, hint, width).id(id).text_color_opt(wrong);
    let response = ui.add(field).on_hover_text(FILTER_HELP);
    response.widget_info(|| named_text(name, &text));
    if let Some(error) = error {
        let below = response.rect.left_bottom() + vec2(0.0, 2.0);
        let area = Area::new(id.with("error")).order(Order::Tooltip).fixed_pos(below).interactable(false);
        area.show(ui.ctx(), |ui| {
            let bad = palette(ui.visuals()).bad;
            card(ui).inner_margin(Margin::same(6)).stroke(Stroke::new(1.0, bad)).show(ui, |ui| {
                ui.set_max_width(420.0);
                ui.colored_label(bad, error);
            });
        });
    }
    response.changed().then_some(text)
}

/// The filter of a list, which hides nothing if it asks for an order of levels that have none; then it is told why.
pub fn filter_of_list(among: Result<Filter, Unordered>) -> (Filter, Option<Unordered>) {
    among.map_or_else(|error| (Filter::default(), Some(error)), |filter| (filter, None))
}

/// What is wrong with a filter, if anything.
fn filter_error(text: &str, keys: &[&str], unordered: Option<&Unordered>) -> Option<String> {
    let refused = |error: &dyn Display| Some(format!("Filter: {error}. It hides nothing until it is corrected."));
    let filter = match (Filter::typed(text), unordered) {
        (Err(error), _) => return refused(&error),
        (Ok(_), Some(error)) => return refused(error),
        (Ok(filter), None) => filter,
    };
    let is = |name: &str| keys.iter().any(|known| known.eq_ignore_ascii_case(name));
    let is_known =
        |key: &str| [key, factor_key(key), setting_key(key)].into_iter().any(is) || key.eq_ignore_ascii_case("gpu");
    let unknown = filter.keys().into_iter().find(|key| !keys.is_empty() && !is_known(key))?;
    Some(format!("Filter: nothing here has {unknown}{}", suggestion(unknown, keys)))
}

/// Width of a text.
pub fn text_width(ui: &Ui, text: &str) -> f32 {
    let font = FontId::proportional(BODY);
    ui.painter().layout_no_wrap(text.to_owned(), font, Color32::WHITE).size().x
}

/// A text whose end is cut off if there is no room for it.
pub fn cut_to(ui: &Ui, text: &str, room: f32) -> String {
    cut(ui, text, room, |kept| with_ellipsis(&text.chars().take(kept).collect::<String>(), ""))
}

/// A text whose middle is cut out if there is no room for it: of a path, both ends tell where it is.
pub fn cut_middle(ui: &Ui, text: &str, room: f32) -> String {
    cut(ui, text, room, |kept| shortened(text, kept).into_owned())
}

/// A text, or the longest of its shorter forms that fits into a width. `form` makes the form that keeps a number of characters.
fn cut(ui: &Ui, text: &str, room: f32, form: impl Fn(usize) -> String) -> String {
    let count = text.chars().count();
    if count <= 2 || text_width(ui, text) <= room {
        return text.to_owned();
    }
    // With one character less and an ellipsis, a text is hardly shorter.
    form(most_that_fits(count - 1, |kept| text_width(ui, &form(kept)) <= room))
}

/// The greatest number below `end` that fits, where all smaller ones fit, too; 1 if none does.
fn most_that_fits(mut end: usize, fits: impl Fn(usize) -> bool) -> usize {
    let mut most = 1;
    while most + 1 < end {
        let middle = usize::midpoint(most, end);
        if fits(middle) {
            most = middle;
        } else {
            end = middle;
        }
    }
    most
}

/// The most levels of a factor that a list shows: thousands would take longer than a frame to draw, and no user would read them.
const MOST_LISTED: usize = 60;

/// The levels that a list shows, and the number of levels that it leaves out.
pub fn listed<T>(levels: &[T]) -> (&[T], usize) {
    let (shown, left_out) = levels.split_at(levels.len().min(MOST_LISTED));
    (shown, left_out.len())
}

/// Says how many levels a list leaves out, if it leaves out any, and how they are chosen.
pub fn left_out_ui(ui: &mut Ui, left_out: usize) {
    if left_out > 0 {
        let help = "Too many levels for a list. The filter chooses among all of them: batch_size>=64, commit=1a2b3c";
        ui.label(muted(ui, format!("and {left_out} more: use the filter"))).on_hover_text(help);
    }
}

/// Draws content of a given width that must not be split when lines wrap.
pub fn together_ui(ui: &mut Ui, width: f32, content: impl FnOnce(&mut Ui)) {
    let size = vec2(
        width.min(ui.available_size_before_wrap().x.max(ui.max_rect().width())).ceil(),
        ui.spacing().interact_size.y,
    );
    ui.allocate_ui_with_layout(size, Layout::left_to_right(Align::Center), |ui| {
        ui.spacing_mut().item_spacing.x = 4.0;
        content(ui);
    });
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn of_a_text_without_room_as_much_is_kept_as_fits_and_of_a_path_both_ends() {
        let text = "/home/me/a-folder-with-a-long-name/plans";
        let mut drawn = Context::default().run_ui(eframe::egui::RawInput::default(), |ui| {
            let room = text_width(ui, "/home/me/a-folder");
            let (start, both) = (cut_to(ui, text, room), cut_middle(ui, text, room));
            assert!(start.starts_with("/home/me/") && start.ends_with('…'), "{start}");
            assert!(both.starts_with("/home") && both.ends_with("plans") && both.contains('…'), "{both}");
            for shown in [start, both] {
                let width = text_width(ui, &shown);
                assert!(width <= room && width > 0.7 * room, "{shown}");
            }
            assert_eq!([cut_to(ui, text, 1e4), cut_middle(ui, text, 1e4)], [text, text]);
            assert_eq!(cut_to(ui, text, 0.0), "/…");
        });
        drawn.textures_delta.clear();
    }

    #[test]
    fn a_long_text_is_measured_few_times_until_it_fits() {
        for expected in [1, 2, 617, 99_998] {
            let measured = Cell::new(0);
            let fits = |kept: usize| {
                measured.set(measured.get() + 1);
                kept <= expected
            };
            assert_eq!(most_that_fits(99_999, fits), expected);
            assert!(measured.get() <= 17, "{}", measured.get());
        }
    }

    #[test]
    fn a_filter_may_name_a_setting_whose_key_a_factor_has() {
        let error = |text: &str| filter_error(text, &["mode", "gpus"], None);
        assert_eq!(["setting_mode=full", "factor_mode=x", "mode=x"].map(error), [None, None, None]);
        assert!(error("setting_gpus=1").is_some(), "no setting");
    }
}
