//! The identity of a cell, which is the same in every plan, session and version.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::data::Data;
use super::level::{Key, Level, Levels};
use super::mode::Mode;
use super::tracing::Tracer;
use super::workload::WorkloadSpec;

/// The identity of a cell: the SHA-256 of its canonical text.
///
/// The text has a line for the workload (`workload image`), one for the data set (`data "digits"`), one for each of its settings
/// (`data.decode "each_epoch"`), one for the command of a program (`command "9f86…"`), `traced` where a profiler records its runs
/// (`traced "built-in"` where its ranks do), `quick 0.01` where runs end once their step time is known to ±1 %, and one for each level
/// (`precision "fp16"`), sorted by key. Two kinds of levels are left out: levels that all cells had before the factor existed
/// ([`super::Factor::frozen_default`]), and levels that have no effect in the cell. Adding a factor later therefore changes no identity.
/// Factors that this version does not know are included as they are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Identity([u8; 32]);

impl Identity {
    /// Its first bytes as hexadecimal digits, two digits for each byte.
    pub fn digits(&self, bytes: usize) -> String {
        self.0.iter().take(bytes).map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.digits(32))
    }
}

/// The identity of a cell that was read from a session. For a workload that this version does not know, all levels are included as they
/// are.
pub fn identity(spec: &WorkloadSpec, data: &Data, tracer: Tracer, mode: Mode, levels: &Levels) -> Identity {
    let head = Head::new(spec, data, tracer, mode);
    let meant = |key: &str, level: &Level| {
        spec.factor(key)
            .is_none_or(|factor| *level != factor.frozen_default && spec.idle(factor, levels, data).is_none())
    };
    let mut lines: Vec<(&Key, String)> =
        levels.iter().filter(|(key, level)| meant(key, level)).map(|(key, level)| (key, line(key, level))).collect();
    lines.sort_by(|a, b| a.0.cmp(b.0));
    head.identity(lines.iter().map(|(_, line)| line.as_str()))
}

impl WorkloadSpec {
    /// Whether a factor has an effect in a cell with these levels. A factor whose effect depends on the data set counts as effective.
    ///
    /// Two cells that differ only in levels without effect are equal in everything else: for example `tf32 = conv` in an fp32 cell and
    /// `tf32 = off` in the corresponding fp64 cell.
    pub fn has_meaning(&self, factor: &str, levels: &Levels) -> bool {
        let factor = self.factor(factor);
        factor.is_none_or(|factor| self.idle(factor, levels, &Data::default()).is_none())
    }

    /// The setting and its level that make a factor ineffective in a cell; `None` if the factor has an effect.
    pub(super) fn idle<'a>(
        &'a self,
        factor: &'a super::Factor,
        levels: &'a Levels,
        data: &'a Data,
    ) -> Option<(&'a Key, &'a Level)> {
        let (key, level) = factor.idle.iter().find_map(|(key, idle)| {
            let level = self.level(key, levels, data)?;
            idle.contains(level).then_some((key, level))
        })?;
        Some((key, level))
    }
}

/// The lines of the canonical text that all cells of a block share.
pub(super) struct Head(String);

impl Head {
    pub(super) fn new(spec: &WorkloadSpec, data: &Data, tracer: Tracer, mode: Mode) -> Self {
        let mut text = format!("workload {}\n", spec.key);
        if !data.set.is_empty() {
            text.push_str(&line("data", &Level::text(&data.set)));
        }
        let rule = spec.data_set(&data.set);
        let mut stated: Vec<&(Key, Level)> = data.keys.iter().collect();
        stated.retain(|(key, level)| rule.and_then(|rule| rule.default_of(key)) != Some(level));
        stated.sort_by(|a, b| a.0.cmp(&b.0));
        text.extend(stated.into_iter().map(|(key, level)| format!("data.{}", line(key, level))));
        if let Some(command) = &spec.command {
            text.push_str(&line("command", &Level::text(&command.digest())));
        }
        match tracer {
            Tracer::Off => {}
            Tracer::Nsys => text.push_str("traced\n"),
            built_in => text.push_str(&line("traced", &Level::text(built_in.name()))),
        }
        if let Mode::Quick { step_precision } = mode {
            text.push_str(&line(mode.name(), &Level::Number(step_precision)));
        }
        Self(text)
    }

    /// The identity of a cell with these lines for its levels, sorted by key.
    pub(super) fn identity<'a>(&self, lines: impl Iterator<Item = &'a str>) -> Identity {
        let mut hasher = Sha256::new();
        hasher.update(&self.0);
        lines.for_each(|line| hasher.update(line));
        Identity(hasher.finalize().into())
    }
}

/// A level in the canonical text; whole numbers have no fraction, whatever their type.
pub(super) fn line(key: &str, level: &Level) -> String {
    let value: serde_json::Value = match level {
        Level::Number(value) if value.fract() == 0.0 && value.abs() < 1e15 => (*value as i64).into(),
        Level::Number(value) => (*value).into(),
        Level::Integer(value) => (*value).into(),
        Level::Text(name) => name.as_ref().into(),
    };
    format!("{key} {value}\n")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::plan::image;

    fn image_cell(levels: &[(&str, Level)]) -> Identity {
        identity(&image::spec(), &Data::of_set("digits"), Tracer::Off, Mode::Full, &Levels::new(levels.to_vec()))
    }

    fn hash(text: &str) -> Identity {
        Identity(Sha256::digest(text).into())
    }

    #[test]
    fn the_identity_is_that_of_the_canonical_text() {
        let levels = [
            ("width_multiplier", Level::Number(2.0)),
            ("gpus", Level::Integer(2)),
            ("precision", Level::text("bf16")),
            ("layout", Level::text("nchw")),
        ];
        let text = "workload image\ndata \"digits\"\ngpus 2\nprecision \"bf16\"\nwidth_multiplier 2\n";
        assert_eq!(image_cell(&levels), hash(text));
        let photos: Data = image::DataSet::files("photos").into();
        let traced = identity(&image::spec(), &photos, Tracer::Nsys, Mode::Full, &Levels::new(levels[2..].to_vec()));
        let text = "workload image\ndata \"folder\"\ndata.folder \"photos\"\ntraced\nprecision \"bf16\"\n";
        assert_eq!(traced, hash(text));
    }

    #[test]
    fn levels_that_all_had_before_a_factor_joined_change_nothing() {
        let all =
            image::spec().factors.iter().map(|factor| (factor.key.clone(), factor.frozen_default.clone())).collect();
        let with_all =
            identity(&image::spec(), &Data::of_set("digits"), Tracer::Off, Mode::Full, &Levels::new::<Key>(all));
        assert_eq!(with_all, image_cell(&[]));
        assert_ne!(with_all, image_cell(&[("layout", Level::text("nhwc"))]));
    }

    #[test]
    fn what_this_version_does_not_know_counts_as_it_stands() {
        let sparse = image_cell(&[("sparsity", Level::text("2:4"))]);
        assert_eq!(sparse, hash("workload image\ndata \"digits\"\nsparsity \"2:4\"\n"));
        let levels = Levels::new(vec![("precision", Level::text("fp32"))]);
        let other = identity(&WorkloadSpec::unknown("video"), &Data::default(), Tracer::Off, Mode::Full, &levels);
        assert_eq!(other, hash("workload video\nprecision \"fp32\"\n"));
    }
}
