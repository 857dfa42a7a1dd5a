//! The names of the variants of enums, as their attributes and documentation tell them.

/// Gives an enum methods for what strum derives from its attributes: `all` needs `VariantArray`, `names` needs `VariantNames`, `key` and
/// `name` need `IntoStaticStr`, and `label`, `help` and `sentences` need `EnumMessage`.
macro_rules! named {
    ($type:ident: $($method:ident),+) => {
        impl $type { $($crate::plan::named! { @$method })+ }
    };
    (@all) => {
        /// All of them, in the order in which they are offered.
        pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;
    };
    (@names) => {
        /// The names in files.
        pub const NAMES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;
    };
    (@key) => {
        /// The name in files and on the command line.
        pub fn key(self) -> &'static str {
            self.into()
        }
    };
    (@name) => {
        /// The name in files, on the command line and on screen.
        pub fn name(self) -> &'static str {
            self.into()
        }
    };
    (@label) => {
        /// The name on screen.
        pub fn name(self) -> &'static str {
            strum::EnumMessage::get_message(&self).unwrap_or_default()
        }
    };
    (@help) => {
        /// One line that says what it is.
        pub fn help(self) -> &'static str {
            strum::EnumMessage::get_documentation(&self).unwrap_or_default().trim_end_matches('.')
        }
    };
    (@sentences) => {
        /// What it is, in sentences.
        pub fn help(self) -> &'static str {
            strum::EnumMessage::get_documentation(&self).unwrap_or_default()
        }
    };
}
pub(crate) use named;
