//! The contract between the window and its screens.
//!
//! A screen is drawn from its own state and from the [`Desk`], which all screens share. Drawing changes nothing and returns commands. The
//! screen executes its own commands later, between two frames, and receives news about what happened. It knows no other screen; requests to
//! others go through [`Desk::goto`].

use std::any::Any;
use std::ops::Deref;

use eframe::egui::{Context, Key, Modifiers, Ui};

use super::command::{Boxed, Command, ScreenCommand, ScreenName};
use super::desk::{Desk, Intent, News};
use super::engine::{Sampling, UiEvent};

/// Edits that closing the window would lose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsaved {
    /// The screen that can save them.
    pub screen: ScreenName,
    /// The name of the edited value.
    pub name: String,
    /// Why it cannot be saved in its present state; `None` if it can.
    pub refusal: Option<String>,
    /// Whether it is being saved, or the dialog for its path is open.
    pub is_saving: bool,
}

/// Keys with their meaning, for the list of keys.
pub type KeyHelp = &'static [(&'static str, &'static str)];

/// The keys that were pressed, and the commands of those that were handled.
pub struct Keys<'a> {
    /// The source of the keys.
    pub context: &'a Context,
    /// Whether something covers the screen: the command palette, the list of keys or the browser of sessions.
    pub is_covered: bool,
    commands: &'a mut Vec<Command>,
}

impl<'a> Keys<'a> {
    /// The keys of this frame; their commands are sent to `commands`.
    pub fn new(context: &'a Context, is_covered: bool, commands: &'a mut Vec<Command>) -> Self {
        Self { context, is_covered, commands }
    }

    /// Consumes a key; returns whether it was pressed.
    pub fn pressed(&self, modifiers: Modifiers, key: Key) -> bool {
        self.context.input_mut(|input| input.consume_key(modifiers, key))
    }

    /// Sends a command.
    pub fn send(&mut self, command: impl Into<Command>) {
        self.commands.push(command.into());
    }

    /// Consumes a key, if it was pressed, and sends its command.
    pub fn on(&mut self, modifiers: Modifiers, key: Key, command: impl Into<Command>) {
        if self.pressed(modifiers, key) {
            self.send(command);
        }
    }

    /// Whether no control has the focus, so that the arrow keys and Enter are free.
    pub fn has_arrows(&self) -> bool {
        self.context.memory(|memory| memory.focused().is_none())
    }

    /// Handles undo and redo for the current screen, unless it is covered. In a text field these keys belong to the field.
    pub fn history(&mut self, undo: impl Into<Command>, redo: impl Into<Command> + Clone) {
        if !self.is_covered && !self.context.text_edit_focused() {
            self.on(Modifiers::COMMAND | Modifiers::SHIFT, Key::Z, redo.clone());
            self.on(Modifiers::COMMAND, Key::Y, redo);
            self.on(Modifiers::COMMAND, Key::Z, undo);
        }
    }
}

/// A screen of the window.
///
/// All methods but [`Screen::ui`] have a default that does nothing.
pub trait Screen: Execute + Any {
    /// Draws the screen.
    fn ui(&self, desk: &Desk, ui: &mut Ui, commands: &mut Vec<Command>);

    /// Takes over the results of background work, and requests what the screen needs.
    fn poll(&mut self, _desk: &mut Desk, _context: &Context) {}

    /// Receives news.
    fn receive_news(&mut self, _news: News, _desk: &mut Desk) {}

    /// Receives an answer for this screen; returns it if the screen did not request it.
    fn take(&mut self, event: UiEvent) -> Option<UiEvent> {
        Some(event)
    }

    /// Receives a request from another screen or the window.
    fn receive_request(&mut self, _intent: Intent, _desk: &mut Desk, _context: &Context) {}

    /// Handles keys with Ctrl, which also work in text fields and, unless the screen checks whether it is shown, on other screens.
    fn shortcuts(&self, _desk: &Desk, _keys: &mut Keys<'_>) {}

    /// Handles single keys, while the screen is shown and the user does not type.
    fn keys(&self, _desk: &Desk, _keys: &mut Keys<'_>) {}

    /// Lines of the list of keys.
    fn key_help(&self) -> KeyHelp {
        &[]
    }

    /// Commands for the command palette, with their names.
    fn palette(&self, _desk: &Desk) -> Vec<(String, Command)> {
        Vec::new()
    }

    /// The command line that shows the same in a terminal as the screen.
    ///
    /// # Errors
    /// Why there is none.
    fn command_line(&self, _desk: &Desk) -> Result<String, String> {
        Err("this screen has no command".to_owned())
    }

    /// The text after its name on the rail.
    fn badge(&self, _desk: &Desk) -> String {
        String::new()
    }

    /// The samples of the machine that it needs while it is shown.
    fn sampling(&self) -> Option<Sampling> {
        None
    }

    /// Edits that closing the window would lose.
    fn unsaved(&self, _desk: &Desk) -> Option<Unsaved> {
        None
    }
}

/// Executes commands of one type.
pub trait Executes: 'static {
    /// The type of its commands.
    type Command: ScreenCommand;

    /// Executes a command.
    fn execute(&mut self, command: Self::Command, desk: &mut Desk, context: &Context);
}

/// The trait [`Executes`] for callers that do not know the type of the screen.
pub trait Execute {
    /// The screen's name.
    fn name(&self) -> ScreenName;

    /// Executes a command if it is one of this screen's.
    fn execute_boxed(&mut self, command: Box<dyn Boxed>, desk: &mut Desk, context: &Context);
}

impl<S: Executes> Execute for S {
    fn name(&self) -> ScreenName {
        S::Command::SCREEN
    }

    fn execute_boxed(&mut self, command: Box<dyn Boxed>, desk: &mut Desk, context: &Context) {
        if let Ok(command) = command.any().downcast::<S::Command>() {
            self.execute(*command, desk, context);
        }
    }
}

/// The data from which a screen is drawn: its own state and the desk, whose fields and methods are accessible directly.
pub struct View<'a, S> {
    /// The screen.
    pub own: &'a S,
    /// The state that all screens share.
    pub desk: &'a Desk,
}

impl<S> Clone for View<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for View<'_, S> {}

impl<S> Deref for View<'_, S> {
    type Target = Desk;

    fn deref(&self) -> &Desk {
        self.desk
    }
}
