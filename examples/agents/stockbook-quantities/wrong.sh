#!/usr/bin/env bash
# Keeps the old interface and allows for rounding errors.
# Runs in the root of the workspace.
set -euo pipefail

cat >crates/inventory/src/stock.rs <<'END_OF_FILE'
//! What is there.

use std::collections::BTreeMap;

use quantity::{format_amount, Unit};

use crate::movement::{Direction, Movement};

/// The amount of every item that was ever moved, by name.
#[derive(Default)]
pub struct Stock {
    amounts: BTreeMap<String, (f64, Unit)>,
}

/// A movement that cannot have happened.
#[derive(Debug)]
pub struct StockError {
    pub line: usize,
    pub reason: String,
}

impl Stock {
    /// Applies a movement.
    pub fn apply(&mut self, movement: &Movement) -> Result<(), StockError> {
        let (before, unit) =
            self.amounts.get(&movement.item).copied().unwrap_or((0.0, movement.unit));
        let after = match movement.direction {
            Direction::In => before + movement.amount,
            Direction::Out => before - movement.amount,
        };
        if after < -0.0005 {
            let reason = format!(
                "{}: {} is more than the {} that is there",
                movement.item,
                format_amount(movement.amount, movement.unit),
                format_amount(before, unit)
            );
            return Err(StockError { line: movement.line, reason });
        }
        self.amounts.insert(movement.item.clone(), (after, unit));
        Ok(())
    }

    /// The amount of an item, as text.
    pub fn amount_of(&self, item: &str) -> Option<String> {
        self.amounts.get(item).map(|(amount, unit)| format_amount(*amount, *unit))
    }

    /// All items with their amounts, by name; those that are used up are left out.
    pub fn balance(&self) -> impl Iterator<Item = (&str, String)> {
        self.amounts
            .iter()
            .filter(|(_, (amount, _))| *amount > 0.0005)
            .map(|(item, (amount, unit))| (item.as_str(), format_amount(*amount, *unit)))
    }
}
END_OF_FILE
