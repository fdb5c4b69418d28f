//! Exact amounts, in thousandths of a unit.

use std::fmt;

use crate::unit::Unit;

/// An exact amount. Never negative when it comes from `parse`; a difference may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantity {
    thousandths: i64,
    unit: Unit,
}

/// Why there is no quantity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuantityError {
    /// Not digits, at most one point, and a unit.
    Malformed(String),
    /// No unit has this symbol.
    UnknownUnit(String),
    /// Finer than a thousandth of the unit.
    TooPrecise(String),
    /// Larger than any storeroom.
    TooLarge,
    /// Kilograms and liters, for example.
    DifferentUnits(Unit, Unit),
}

impl Quantity {
    pub fn zero(unit: Unit) -> Quantity {
        Quantity { thousandths: 0, unit }
    }

    /// Reads `12.5kg`, `750 g`, `3pc`.
    pub fn parse(text: &str) -> Result<Quantity, QuantityError> {
        let malformed = || QuantityError::Malformed(text.to_string());
        let start = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(malformed)?;
        let (number, symbol) = text.split_at(start);
        let (unit, scale) =
            Unit::from_symbol(symbol).ok_or_else(|| QuantityError::UnknownUnit(symbol.to_string()))?;
        let number = number.trim_end();
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        if !is_digits(whole) || !is_digits(fraction) {
            return Err(malformed());
        }
        let fraction = fraction.trim_end_matches('0');
        let places = if scale == 1000 { 3 } else { 0 };
        if fraction.len() > places {
            return Err(QuantityError::TooPrecise(text.to_string()));
        }
        let digits = format!("{whole}{fraction:0<places$}");
        let thousandths = digits.parse().map_err(|_| QuantityError::TooLarge)?;
        Ok(Quantity { thousandths, unit })
    }

    pub fn unit(&self) -> Unit {
        self.unit
    }

    pub fn is_negative(&self) -> bool {
        self.thousandths < 0
    }

    pub fn checked_add(self, other: Quantity) -> Result<Quantity, QuantityError> {
        self.combine(other, i64::checked_add)
    }

    pub fn checked_sub(self, other: Quantity) -> Result<Quantity, QuantityError> {
        self.combine(other, i64::checked_sub)
    }

    fn combine(
        self,
        other: Quantity,
        operation: fn(i64, i64) -> Option<i64>,
    ) -> Result<Quantity, QuantityError> {
        if self.unit != other.unit {
            return Err(QuantityError::DifferentUnits(self.unit, other.unit));
        }
        let thousandths =
            operation(self.thousandths, other.thousandths).ok_or(QuantityError::TooLarge)?;
        Ok(Quantity { thousandths, unit: self.unit })
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

impl fmt::Display for Quantity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.thousandths < 0 { "-" } else { "" };
        let size = self.thousandths.unsigned_abs();
        let text = format!("{}.{:03}", size / 1000, size % 1000);
        let text = text.trim_end_matches('0').trim_end_matches('.');
        write!(formatter, "{sign}{text}{}", self.unit)
    }
}

impl fmt::Display for QuantityError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QuantityError::Malformed(text) => write!(formatter, "not an amount: {text}"),
            QuantityError::UnknownUnit(symbol) => write!(formatter, "unknown unit: {symbol}"),
            QuantityError::TooPrecise(text) => write!(formatter, "finer than a thousandth: {text}"),
            QuantityError::TooLarge => formatter.write_str("amount too large"),
            QuantityError::DifferentUnits(one, other) => {
                write!(formatter, "{one} and {other} do not mix")
            }
        }
    }
}

impl std::error::Error for QuantityError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_units_are_thousandths() {
        assert_eq!(Quantity::parse("750g").unwrap().to_string(), "0.75kg");
        assert_eq!(Quantity::parse("2.50 l").unwrap().to_string(), "2.5l");
    }

    #[test]
    fn different_units_do_not_mix() {
        let flour = Quantity::parse("1kg").unwrap();
        let milk = Quantity::parse("1l").unwrap();
        assert!(flour.checked_add(milk).is_err());
    }
}
