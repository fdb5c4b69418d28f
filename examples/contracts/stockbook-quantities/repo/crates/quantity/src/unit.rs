//! What amounts are measured in.

use std::fmt;

/// A kind of measure. Amounts of different kinds cannot be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Kilogram,
    Liter,
    Piece,
}

impl Unit {
    /// The unit for a symbol, and how many thousandths of it one of the symbol is.
    pub fn from_symbol(symbol: &str) -> Option<(Unit, i64)> {
        match symbol {
            "kg" => Some((Unit::Kilogram, 1000)),
            "g" => Some((Unit::Kilogram, 1)),
            "l" => Some((Unit::Liter, 1000)),
            "ml" => Some((Unit::Liter, 1)),
            "pc" => Some((Unit::Piece, 1000)),
            _ => None,
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Unit::Kilogram => "kg",
            Unit::Liter => "l",
            Unit::Piece => "pc",
        })
    }
}
