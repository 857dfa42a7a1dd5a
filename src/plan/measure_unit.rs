//! Units as factors and dimensions: `GB/s` is 1e9 times B/s. Measures and the numbers of formulas have them.

use std::collections::BTreeMap;
use std::fmt;

/// A symbol, its factor, and the parts of its unit with their exponents.
type Symbol = (&'static str, f64, &'static [(&'static str, f64)]);

/// Units with a symbol: the symbol, the factor to the unit that it is measured in, and that unit's parts with their exponents. Prefixes
/// are allowed before the first [`PREFIXED`].
const SYMBOLS: &[Symbol] = &[
    ("s", 1.0, &[("s", 1.0)]),
    ("B", 1.0, &[("B", 1.0)]),
    ("J", 1.0, &[("J", 1.0)]),
    ("W", 1.0, &[("J", 1.0), ("s", -1.0)]),
    ("FLOP", 1.0, &[("FLOP", 1.0)]),
    ("Hz", 1.0, &[("s", -1.0)]),
    ("Wh", 3600.0, &[("J", 1.0)]),
    ("bit", 0.125, &[("B", 1.0)]),
    ("min", 60.0, &[("s", 1.0)]),
    ("h", 3600.0, &[("s", 1.0)]),
    ("d", 86_400.0, &[("s", 1.0)]),
    ("%", 0.01, &[]),
    ("°C", 1.0, &[("°C", 1.0)]),
];
/// The number of symbols that take a prefix.
const PREFIXED: usize = 8;
const PREFIXES: &[(&str, f64)] = &[
    ("n", 1e-9),
    ("\u{b5}", 1e-6),
    ("\u{3bc}", 1e-6),
    ("u", 1e-6),
    ("m", 1e-3),
    ("k", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
    ("P", 1e15),
    ("Ki", 1024.0),
    ("Mi", 1_048_576.0),
    ("Gi", 1_073_741_824.0),
    ("Ti", 1_099_511_627_776.0),
];

/// A unit: a factor, and a product of powers of base units.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasureUnit {
    /// How many of the product of base units it is.
    pub factor: f64,
    /// Base units with their exponents, which are not 0: `s`, `B`, `J`, `FLOP`, `°C`, and words such as `token`.
    parts: BTreeMap<String, f64>,
}

impl Default for MeasureUnit {
    fn default() -> Self {
        Self { factor: 1.0, parts: BTreeMap::new() }
    }
}

impl MeasureUnit {
    /// Reads a unit as measures write it: `s`, `GB/s`, `J/token`, `%`, and nothing for a plain number. Words without a known symbol are
    /// base units of their own, the same in singular and plural. A text with spaces is one such word.
    pub fn parse(text: &str) -> Self {
        let text = text.trim();
        if text.starts_with('%') {
            return Self { factor: 0.01, ..Self::default() };
        }
        if text.contains(char::is_whitespace) {
            return Self::word(text);
        }
        let mut unit = Self::default();
        for (place, product) in text.split('/').enumerate() {
            for word in product.trim_matches(['(', ')']).split(['·', '*']).filter(|word| !["", "1"].contains(word)) {
                let (word, exponent) = word.split_once('^').unwrap_or((word, "1"));
                let part = Self::symbol(word).unwrap_or_else(|| Self::word(singular(word)));
                let part = part.power(exponent.parse().unwrap_or(1.0));
                unit = if place == 0 { unit.times(&part) } else { unit.over(&part) };
            }
        }
        unit
    }

    /// The unit of a symbol with or without a prefix: `s`, `ms`, `GB`, `kWh`; in plural, too.
    pub fn symbol(word: &str) -> Option<Self> {
        let find = |word: &str, known: &[Symbol]| {
            let (_, factor, parts) = known.iter().find(|(symbol, ..)| *symbol == word)?;
            let parts = parts.iter().map(|(part, exponent)| ((*part).to_owned(), *exponent)).collect();
            Some(Self { factor: *factor, parts })
        };
        let prefixed = |(prefix, factor): &(&str, f64)| {
            let unit = find(word.strip_prefix(prefix)?, &SYMBOLS[..PREFIXED])?;
            Some(Self { factor: unit.factor * factor, ..unit })
        };
        find(word, SYMBOLS)
            .or_else(|| PREFIXES.iter().find_map(prefixed))
            .or_else(|| Self::symbol(word.strip_suffix('s').filter(|one| one.len() > 1)?))
    }

    /// A base unit that is called by this word.
    fn word(word: &str) -> Self {
        Self { factor: 1.0, parts: BTreeMap::from([(word.to_owned(), 1.0)]) }
    }

    /// Whether values of both can be added, whatever their factors are.
    pub fn is_like(&self, other: &Self) -> bool {
        self.parts == other.parts
    }

    /// Whether it is a plain number or a multiple of one, such as percent.
    pub fn is_plain(&self) -> bool {
        self.parts.is_empty()
    }

    /// The base units in it.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        self.parts.keys().map(String::as_str)
    }

    /// The product of two units.
    pub fn times(&self, other: &Self) -> Self {
        let mut parts = self.parts.clone();
        for (part, exponent) in &other.parts {
            *parts.entry(part.clone()).or_default() += exponent;
        }
        parts.retain(|_, exponent| *exponent != 0.0);
        Self { factor: self.factor * other.factor, parts }
    }

    /// The quotient of two units.
    pub fn over(&self, other: &Self) -> Self {
        self.times(&other.power(-1.0))
    }

    /// The unit with its exponents multiplied.
    pub fn power(&self, exponent: f64) -> Self {
        let parts = self.parts.iter().map(|(part, own)| (part.clone(), own * exponent)).collect();
        Self { factor: self.factor.powf(exponent), parts }
    }

    /// The unit without its factor: `B/s` for `GB/s`.
    pub fn base(&self) -> Self {
        Self { factor: 1.0, parts: self.parts.clone() }
    }
}

/// A word in singular.
fn singular(word: &str) -> &str {
    word.strip_suffix('s').filter(|one| one.len() > 1 && !one.ends_with('s')).unwrap_or(word)
}

/// The base units as measures write them, without the factor: `tokens/J`, `W`; empty for a plain number.
impl fmt::Display for MeasureUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_watt = |parts: &BTreeMap<String, f64>| {
            parts.len() == 2 && parts.get("J") == Some(&1.0) && parts.get("s") == Some(&-1.0)
        };
        if is_watt(&self.parts) {
            return f.write_str("W");
        }
        let side = |above: bool| -> Vec<String> {
            let of_side = self.parts.iter().filter(|(_, exponent)| (**exponent > 0.0) == above);
            let part = |(part, exponent): (&String, &f64)| {
                let is_counted = above && SYMBOLS.iter().all(|(symbol, ..)| symbol != part) && !part.contains(' ');
                let plural = if is_counted { "s" } else { "" };
                let exponent = exponent.abs();
                if exponent == 1.0 { format!("{part}{plural}") } else { format!("{part}^{exponent}") }
            };
            of_side.map(part).collect()
        };
        let (above, below) = (side(true), side(false));
        let above = if above.is_empty() && !below.is_empty() { "1".to_owned() } else { above.join("·") };
        match below.as_slice() {
            [] => f.write_str(&above),
            [one] => write!(f, "{above}/{one}"),
            several => write!(f, "{above}/({})", several.join("·")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_and_written_as_measures_write_them() {
        for text in
            ["", "s", "W", "J/token", "images/s", "B/s", "FLOP/B", "CPUs", "1/s", "tokens/J", "°C", "J/(image·s)"]
        {
            assert_eq!(MeasureUnit::parse(text).to_string(), text);
        }
        assert_eq!(MeasureUnit::parse("s of 720 s").to_string(), "s of 720 s");
        assert_eq!(MeasureUnit::parse("token"), MeasureUnit::parse("tokens"));
        assert_eq!(MeasureUnit::parse("J/s"), MeasureUnit::parse("W"));
    }

    #[test]
    fn prefixes_and_long_times_are_factors() {
        for (text, factor, base) in [
            ("GB/s", 1e9, "B/s"),
            ("MiB", 1_048_576.0, "B"),
            ("ms", 1e-3, "s"),
            ("MHz", 1e6, "1/s"),
            ("kWh", 3.6e6, "J"),
            ("h", 3600.0, "s"),
            ("Gbit/s", 1.25e8, "B/s"),
            ("% of wall", 0.01, ""),
            ("FLOPs", 1.0, "FLOP"),
        ] {
            let unit = MeasureUnit::parse(text);
            assert_eq!((unit.base().to_string().as_str(), unit.factor), (base, factor), "{text}");
        }
    }

    #[test]
    fn products_and_quotients_cancel() {
        let [rate, power] = ["tokens/s", "W"].map(MeasureUnit::parse);
        assert_eq!(rate.over(&power).to_string(), "tokens/J");
        assert!(rate.over(&rate).is_plain());
        assert_eq!(MeasureUnit::parse("B").times(&MeasureUnit::parse("B")).power(0.5), MeasureUnit::parse("B"));
        assert_eq!(MeasureUnit::parse("s").power(0.5).to_string(), "s^0.5");
    }
}
