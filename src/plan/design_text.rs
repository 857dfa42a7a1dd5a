//! `[design]` in plan files.

use toml::Spanned;
use toml::de::DeValue;
use toml_edit::{Array, ArrayOfTables, InlineTable, Item, Table as WrittenTable, Value};

use super::checked_table::{Table, kind};
use super::problem::{Problems, quoted, suggestion};
use super::{Added, Design, DesignKind, Factor, Interactions, Key, Level, MOST_RUNS, Size, WorkloadSpec};

pub(super) const KEYS: &[&str] = &["kind", "runs", "minutes", "run_s", "interactions", "base", "log", "add"];
pub(super) const ADD_KEYS: &[&str] = &["kind", "runs", "factor"];
/// The kind of all combinations, which needs no table.
const FULL: &str = "full";
const FOLD_OVER: &str = "fold-over";
/// All interactions of two factors.
const ALL: &str = "all";
/// The names of choices that are no kinds of designs.
pub(super) const CHOICES: &[&str] = &[FULL, FOLD_OVER, ALL];

/// The design of a block, from its table `design`; `None` for all combinations. `level` reads a level of a factor.
pub(super) fn read(
    block: &Table,
    spec: &WorkloadSpec,
    level: impl Fn(&Factor, &Spanned<DeValue>) -> Result<Level, String>,
    problems: &mut Problems,
) -> Option<Design> {
    let table = block.table("design", problems)?;
    table.check_keys(KEYS, &spec.factors, problems);
    let kinds: Vec<&str> = std::iter::once(FULL).chain(DesignKind::NAMES.iter().copied()).collect();
    let Some((span, _)) = table.find("kind") else {
        let (span, _) = block.find("design")?;
        problems.add(&span, table.path("kind"), format!("missing: a design is one of {}", kinds.join(", ")));
        return None;
    };
    let name = table.choice("kind", &kinds, problems)?;
    let chosen: Option<DesignKind> = name.parse().ok();
    let unused: &[&str] = match chosen {
        None => &["runs", "minutes", "run_s", "interactions", "base", "log", "add"],
        Some(DesignKind::OneAtATime) => &["runs", "minutes", "run_s", "interactions", "log"],
        Some(DesignKind::LatinHypercube) => &["interactions", "base", "add"],
        Some(_) => &["base", "log"],
    };
    for key in unused {
        if let Some((span, _)) = table.find(key) {
            problems.add(&span, table.path(key), format!("has no effect with kind = {name:?}: remove it"));
        }
    }
    let mut design = Design::new(chosen?);
    design.size = size(&table, &span, problems);
    design.interactions = interactions(&table, spec, problems);
    design.base = base(&table, spec, level, problems);
    design.logarithmic = keys(&table, "log", spec, problems);
    design.added =
        table.tables("add", problems).into_iter().filter_map(|(_, add)| added(&add, spec, problems)).collect();
    Some(design)
}

fn size(table: &Table, kind: &std::ops::Range<usize>, problems: &mut Problems) -> Size {
    let runs = table.whole("runs", 2..=MOST_RUNS.into(), problems);
    let (minutes, run_s) = (table.positive("minutes", 1e7, problems), table.positive("run_s", 1e7, problems));
    match (runs, minutes, run_s) {
        (Some(_), Some(_), _) => {
            problems.add(kind, table.path("minutes"), "runs is given too: remove one of them");
            Size::Usual
        }
        (Some(runs), None, _) => Size::Runs(u32::try_from(runs).unwrap_or(u32::MAX)),
        (None, Some(minutes), Some(run_s)) => Size::Time { minutes, run_s },
        (None, Some(_), None) => {
            let message = "needs run_s beside it: how long a run takes, in seconds (multicard plan estimates it)";
            problems.add(kind, table.path("minutes"), message);
            Size::Usual
        }
        (None, None, _) => Size::Usual,
    }
}

/// The factor that a text names.
fn factor<'s>(text: &str, spec: &'s WorkloadSpec) -> Result<&'s Factor, String> {
    spec.factor(text).ok_or_else(|| {
        let names: Vec<&Key> = spec.factors.iter().map(|factor| &factor.key).collect();
        format!("unknown factor {}{}", quoted(text), suggestion(text, &names))
    })
}

fn interactions(table: &Table, spec: &WorkloadSpec, problems: &mut Problems) -> Interactions {
    let mut pairs = Vec::new();
    let Some((span, value)) = table.find("interactions") else { return Interactions::These(pairs) };
    let path = table.path("interactions");
    match value.get_ref() {
        DeValue::String(text) if text == ALL => return Interactions::All,
        DeValue::Array(items) => {
            for item in items {
                let names: Vec<&str> = item
                    .get_ref()
                    .as_array()
                    .map_or_else(Vec::new, |names| names.iter().filter_map(|name| name.get_ref().as_str()).collect());
                match names[..] {
                    [one, other] if one != other => match (factor(one, spec), factor(other, spec)) {
                        (Ok(one), Ok(other)) => pairs.push((one.key.clone(), other.key.clone())),
                        (Err(message), _) | (_, Err(message)) => problems.add(&item.span(), &path, message),
                    },
                    _ => {
                        let message = "must be two different factors, such as [\"precision\", \"layout\"]";
                        problems.add(&item.span(), &path, message);
                    }
                }
            }
        }
        other => {
            let message = format!("must be \"all\", or a list of pairs of factors, not {}", kind(other));
            problems.add(&span, &path, message);
        }
    }
    Interactions::These(pairs)
}

fn base(
    table: &Table,
    spec: &WorkloadSpec,
    level: impl Fn(&Factor, &Spanned<DeValue>) -> Result<Level, String>,
    problems: &mut Problems,
) -> Vec<(Key, Level)> {
    let Some(levels) = table.table("base", problems) else { return Vec::new() };
    let mut base = Vec::new();
    for (key, value) in levels.entries {
        match factor(key.get_ref(), spec).and_then(|factor| Ok((factor.key.clone(), level(factor, value)?))) {
            Ok(pair) => base.push(pair),
            Err(message) => problems.add(&key.span(), levels.path(key.get_ref()), message),
        }
    }
    base
}

/// A list of factors.
fn keys(table: &Table, name: &str, spec: &WorkloadSpec, problems: &mut Problems) -> Vec<Key> {
    let Some((span, value)) = table.find(name) else { return Vec::new() };
    let texts = value
        .get_ref()
        .as_array()
        .and_then(|items| items.iter().map(|item| item.get_ref().as_str()).collect::<Option<Vec<_>>>());
    let keys = match texts {
        None => Err("must be a list of factors".to_owned()),
        Some(texts) => texts.into_iter().map(|text| factor(text, spec).map(|factor| factor.key.clone())).collect(),
    };
    keys.unwrap_or_else(|message| {
        problems.add(&span, table.path(name), message);
        Vec::new()
    })
}

fn added(table: &Table, spec: &WorkloadSpec, problems: &mut Problems) -> Option<Added> {
    table.check_keys(ADD_KEYS, &spec.factors, problems);
    let (optimal, span) = (DesignKind::DOptimal.name(), table.entries.values().next().map_or(0..0, Spanned::span));
    let kinds = [FOLD_OVER, optimal];
    let Some(kind) = table.choice("kind", &kinds, problems) else {
        if table.find("kind").is_none() {
            problems.add(&span, table.path("kind"), format!("missing: runs are added by {FOLD_OVER} or {optimal}"));
        }
        return None;
    };
    if kind == FOLD_OVER {
        let named = table.text("factor", problems).map(|(span, text)| (span, factor(text, spec)));
        return match named {
            None => Some(Added::FoldOver(None)),
            Some((_, Ok(factor))) => Some(Added::FoldOver(Some(factor.key.clone()))),
            Some((span, Err(message))) => {
                problems.add(&span, table.path("factor"), message);
                None
            }
        };
    }
    let runs = table.whole("runs", 1..=MOST_RUNS.into(), problems);
    if table.find("runs").is_none() {
        problems.add(&span, table.path("runs"), "missing: how many combinations are added");
    }
    Some(Added::DOptimal(u32::try_from(runs?).unwrap_or(u32::MAX)))
}

/// Writes a design into the table of its block; `value` writes a level.
pub(super) fn write(block: &mut WrittenTable, design: Option<&Design>, value: impl Fn(&Level) -> Value) {
    block.remove("design");
    let Some(design) = design else { return };
    let mut table = WrittenTable::new();
    table.decor_mut().set_prefix("\n");
    let mut put = |key: &str, value: Value| drop(table.insert(key, Item::Value(value)));
    put("kind", design.kind.name().into());
    match design.size {
        Size::Usual => {}
        Size::Runs(runs) => put("runs", i64::from(runs).into()),
        Size::Time { minutes, run_s } => {
            put("minutes", minutes.into());
            put("run_s", run_s.into());
        }
    }
    match &design.interactions {
        Interactions::All => put("interactions", ALL.into()),
        Interactions::These(pairs) if pairs.is_empty() => {}
        Interactions::These(pairs) => {
            let pair = |(one, other): &(Key, Key)| Value::Array([one.as_str(), other.as_str()].into_iter().collect());
            put("interactions", Value::Array(pairs.iter().map(pair).collect::<Array>()));
        }
    }
    if !design.base.is_empty() {
        let base = design.base.iter().map(|(key, level)| (key.as_str(), value(level)));
        put("base", Value::InlineTable(base.collect::<InlineTable>()));
    }
    if !design.logarithmic.is_empty() {
        put("log", Value::Array(design.logarithmic.iter().map(Key::as_str).collect::<Array>()));
    }
    if !design.added.is_empty() {
        let mut all = ArrayOfTables::new();
        for added in &design.added {
            let mut one = WrittenTable::new();
            one.decor_mut().set_prefix("\n");
            let (kind, entry): (_, Option<(&str, Value)>) = match added {
                Added::FoldOver(factor) => (FOLD_OVER, factor.as_ref().map(|key| ("factor", key.as_str().into()))),
                Added::DOptimal(runs) => (DesignKind::DOptimal.name(), Some(("runs", i64::from(*runs).into()))),
            };
            one.insert("kind", Item::Value(kind.into()));
            entry.map(|(key, value)| one.insert(key, Item::Value(value)));
            all.push(one);
        }
        table.insert("add", Item::ArrayOfTables(all));
    }
    block.insert("design", Item::Table(table));
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::plan::Plan;

    const FACTORS: &str =
        "[factors]\nprecision = [\"fp32\", \"bf16\"]\nlayout = [\"nchw\", \"nhwc\"]\nbatch_size = [32, 64]\n";

    fn parsed(design: &str) -> Result<Plan, String> {
        Plan::parse(&format!("version = 1\n{FACTORS}\n{design}"), "p.toml").map_err(|error| error.to_string())
    }

    #[test]
    fn every_design_is_written_as_it_was_read() {
        for design in [
            "[design]\nkind = \"fraction\"\nruns = 4\n[[design.add]]\nkind = \"fold-over\"\nfactor = \"layout\"\n",
            "[design]\nkind = \"plackett-burman\"\ninteractions = \"all\"\n",
            "[design]\nkind = \"one-at-a-time\"\nbase = { precision = \"bf16\", batch_size = 64 }\n",
            "[design]\nkind = \"latin-hypercube\"\nruns = 9\nlog = [\"batch_size\"]\n",
            "[design]\nkind = \"d-optimal\"\nminutes = 30\nrun_s = 20\ninteractions = [[\"precision\", \"layout\"]]\n\
             [[design.add]]\nkind = \"d-optimal\"\nruns = 2\n[[design.add]]\nkind = \"fold-over\"\n",
        ] {
            let plan = parsed(design).unwrap();
            let text = plan.to_toml();
            assert_eq!(Plan::parse(&text, "p.toml").unwrap(), plan, "{text}");
            let mut edited = plan.clone();
            edited.repeats = 4;
            let kept = edited.to_toml_in(&format!("version = 1\n{FACTORS}\n{design}"), "p.toml");
            assert!(kept.contains(design), "{kept}");
            edited.first.design = None;
            assert!(!edited.to_toml_in(&text, "p.toml").contains("design"));
        }
        assert_eq!(parsed("[design]\nkind = \"full\"\n").unwrap(), parsed("").unwrap());
    }

    #[test]
    fn a_block_has_a_design_of_its_own() {
        let block = format!(
            "[[block]]\n{}\n[block.design]\nkind = \"one-at-a-time\"\n",
            FACTORS.replace("[factors]", "[block.factors]")
        );
        let plan = parsed(&block).unwrap();
        assert_eq!((plan.first.design.is_none(), plan.combinations()), (true, 8 + 4));
        assert_eq!(Plan::parse(&plan.to_toml(), "p.toml").unwrap(), plan);
    }

    #[test]
    fn wrong_designs_are_named_with_their_line_and_what_to_do() {
        for (design, message) in [
            ("[design]\nruns = 4\n", "design.kind: missing: a design is one of full, one-at-a-time"),
            ("[design]\nkind = \"fractional\"\n", "design.kind: unknown \"fractional\"; did you mean \"fraction\"?"),
            ("[design]\nkind = \"fraction\"\nrun = 4\n", "design.run: unknown key; did you mean \"runs\"?"),
            ("[design]\nkind = \"fraction\"\nruns = 1\n", "design.runs: must be a whole number from 2"),
            ("[design]\nkind = \"full\"\nruns = 4\n", "design.runs: has no effect with kind = \"full\""),
            ("[design]\nkind = \"d-optimal\"\nminutes = 3\n", "design.minutes: needs run_s"),
            ("[design]\nkind = \"d-optimal\"\nruns = 4\nminutes = 3\n", "design.minutes: runs is given too"),
            ("[design]\nkind = \"d-optimal\"\ninteractions = [[\"layout\"]]\n", "must be two different factors"),
            (
                "[design]\nkind = \"d-optimal\"\ninteractions = [[\"layout\", \"precison\"]]\n",
                "did you mean \"precision\"?",
            ),
            (
                "[design]\nkind = \"one-at-a-time\"\nbase = { precision = \"fp31\" }\n",
                "design.base.precision: unknown level",
            ),
            ("[design]\nkind = \"latin-hypercube\"\nlog = \"batch_size\"\n", "design.log: must be a list of factors"),
            ("[design]\nkind = \"fraction\"\n[[design.add]]\nkind = \"d-optimal\"\n", "design.add.runs: missing"),
            ("[design]\nkind = \"fraction\"\n[[design.add]]\nruns = 3\n", "design.add.kind: missing"),
            (
                "[design]\nkind = \"fraction\"\n[[design.add]]\nkind = \"fold-over\"\nfactor = \"x\"\n",
                "unknown factor \"x\"",
            ),
            ("design = 3\n", "design: must be a table [design], not a whole number"),
        ] {
            let text = if design.starts_with("design =") {
                Plan::parse(&format!("version = 1\n{design}"), "p.toml").unwrap_err().to_string()
            } else {
                parsed(design).unwrap_err()
            };
            assert!(text.contains(message) && text.starts_with("p.toml:"), "{design}: {text}");
        }
    }
}
