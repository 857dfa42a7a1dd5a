//! Shares that options give as percent.

use std::ops::RangeBounds;

use crate::figure::{percent_of, share_of};

/// A share within a range of percent, written as percent: `2%`. `allowed` says in words what is allowed.
pub(super) fn share(text: &str, range: impl RangeBounds<f64>, allowed: &str) -> Result<f64, String> {
    let text = text.trim();
    let percent = text.strip_suffix('%').unwrap_or(text).trim();
    let number = percent.parse::<f64>().ok();
    if let Some(bare) = number.filter(|bare| !text.ends_with('%') && 0.0 < *bare && *bare < 1.0) {
        // It may be meant as a share.
        let as_share = percent_of(bare);
        return Err(format!("is that {bare} % or {as_share} %? Write {bare}% or {as_share}%"));
    }
    number
        .filter(|number| range.contains(number))
        .and_then(|_| share_of(percent))
        .ok_or_else(|| format!("give percent {allowed}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_below_1_need_their_sign() {
        let error = |message: &str| Err(message.to_owned());
        let share = |text: &str| share(text, 0.0..100.0, "from 0 to below 100, such as 2%");
        assert_eq!(share("0.5"), error("is that 0.5 % or 50 %? Write 0.5% or 50%"));
        assert_eq!(share("0.07"), error("is that 0.07 % or 7 %? Write 0.07% or 7%"));
        assert_eq!([share("0.5%"), share(" 2 % "), share("0")], [Ok(0.005), Ok(0.02), Ok(0.0)]);
        assert_eq!(share("0.7%"), Ok(0.007), "not 0.7 / 100.0, which is less");
        for wrong in ["101%", "-1%", "100", "NaN", "%", "few"] {
            assert_eq!(share(wrong), error("give percent from 0 to below 100, such as 2%"), "{wrong}");
        }
    }
}
