//! The first interface: amounts as floating-point numbers.

use crate::unit::Unit;

/// The amount in whole units, if the text can be read.
#[deprecated(since = "0.4.0", note = "inexact, and gives no reason; use Quantity::parse")]
pub fn parse_amount(text: &str) -> Option<(f64, Unit)> {
    let start = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, symbol) = text.split_at(start);
    let (unit, thousandths) = Unit::from_symbol(symbol)?;
    let amount: f64 = number.trim().parse().ok()?;
    Some((amount * thousandths as f64 / 1000.0, unit))
}

/// The amount as people write it.
#[deprecated(since = "0.4.0", note = "inexact; Quantity implements Display")]
pub fn format_amount(amount: f64, unit: Unit) -> String {
    let text = format!("{amount:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}{unit}")
}
