#!/usr/bin/env bash
# Moves all crates to Quantity, in another way than the reference.
# Runs in the root of the workspace.
set -euo pipefail

rm crates/quantity/src/legacy.rs

cat >crates/inventory/src/lib.rs <<'END_OF_FILE'
//! Movements in and out of a storeroom, and the stock that follows from them.

mod movement;
mod stock;

pub use movement::{read_movements, Direction, LineError, Movement};
pub use stock::{Stock, StockError};
END_OF_FILE

cat >crates/inventory/src/movement.rs <<'END_OF_FILE'
//! The list of movements.

use std::fmt;

use quantity::Quantity;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    In,
    Out,
}

/// One line of the list.
#[derive(Clone, Debug)]
pub struct Movement {
    pub line: usize,
    pub date: String,
    pub direction: Direction,
    pub item: String,
    pub amount: Quantity,
}

/// A line that cannot be read.
#[derive(Debug)]
pub struct LineError {
    pub line: usize,
    pub reason: String,
}

/// All movements of a text; comments and blank lines are left out.
pub fn read_movements(text: &str) -> Result<Vec<Movement>, LineError> {
    let mut movements = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        if !line.is_empty() {
            let movement = read_movement(index + 1, line)
                .map_err(|reason| LineError { line: index + 1, reason })?;
            movements.push(movement);
        }
    }
    Ok(movements)
}

fn read_movement(line: usize, text: &str) -> Result<Movement, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [date, direction, item, amount @ ..] = words.as_slice() else {
        return Err("expected: date, in or out, item, amount".to_string());
    };
    let direction = match *direction {
        "in" => Direction::In,
        "out" => Direction::Out,
        other => return Err(format!("expected in or out, found {other}")),
    };
    let amount = Quantity::parse(&amount.join(" ")).map_err(|error| error.to_string())?;
    Ok(Movement {
        line,
        date: date.to_string(),
        direction,
        item: item.to_string(),
        amount,
    })
}

impl fmt::Display for Direction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Direction::In => "in",
            Direction::Out => "out",
        })
    }
}
END_OF_FILE

cat >crates/inventory/src/stock.rs <<'END_OF_FILE'
//! What is there.

use std::collections::BTreeMap;

use quantity::{Quantity, QuantityError};

use crate::movement::{Direction, Movement};

/// The amount of every item that was ever moved, by name.
#[derive(Default)]
pub struct Stock {
    amounts: BTreeMap<String, Quantity>,
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
        let nothing = Quantity::zero(movement.amount.unit());
        let before = *self.amounts.get(&movement.item).unwrap_or(&nothing);
        match change(before, movement) {
            Ok(after) if after.is_negative() => Err(refuse(
                movement,
                format!("{} is more than the {} that is there", movement.amount, before),
            )),
            Ok(after) => {
                self.amounts.insert(movement.item.clone(), after);
                Ok(())
            }
            Err(error) => Err(refuse(movement, error.to_string())),
        }
    }

    /// The amount of an item, as text.
    pub fn amount_of(&self, item: &str) -> Option<String> {
        self.amounts.get(item).map(Quantity::to_string)
    }

    /// All items with their amounts, by name; those that are used up are left out.
    pub fn balance(&self) -> impl Iterator<Item = (&str, String)> {
        self.amounts
            .iter()
            .filter(|(_, amount)| **amount != Quantity::zero(amount.unit()))
            .map(|(item, amount)| (item.as_str(), amount.to_string()))
    }
}

fn change(before: Quantity, movement: &Movement) -> Result<Quantity, QuantityError> {
    match movement.direction {
        Direction::In => before.checked_add(movement.amount),
        Direction::Out => before.checked_sub(movement.amount),
    }
}

fn refuse(movement: &Movement, reason: String) -> StockError {
    StockError { line: movement.line, reason: format!("{}: {reason}", movement.item) }
}
END_OF_FILE

cat >crates/quantity/src/lib.rs <<'END_OF_FILE'
//! Amounts of things in a storeroom.

mod exact;
mod unit;

pub use exact::{Quantity, QuantityError};
pub use unit::Unit;
END_OF_FILE

cat >crates/stockbook/src/main.rs <<'END_OF_FILE'
//! The command.

use std::env;
use std::fs;
use std::process::ExitCode;

use inventory::{read_movements, Movement, Stock};

const USAGE: &str = "usage: stockbook balance FILE | history FILE ITEM | check FILE";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["balance", file] => with_movements(file, balance),
        ["history", file, item] => with_movements(file, |movements| history(movements, item)),
        ["check", file] => with_movements(file, check),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("stockbook: {message}");
            ExitCode::from(1)
        }
    }
}

/// A failure of a command: which line, and why.
type Failure = (usize, String);

fn with_movements(
    file: &str,
    command: impl FnOnce(&[Movement]) -> Result<String, Failure>,
) -> Result<String, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let movements = read_movements(&text).map_err(|error| (error.line, error.reason));
    movements
        .and_then(|movements| command(&movements))
        .map_err(|(line, reason)| format!("{file}:{line}: {reason}"))
}

fn balance(movements: &[Movement]) -> Result<String, Failure> {
    let stock = apply_all(movements)?;
    Ok(stock.balance().map(|(item, amount)| format!("{item}\t{amount}\n")).collect())
}

fn history(movements: &[Movement], item: &str) -> Result<String, Failure> {
    let mut stock = Stock::default();
    let mut text = String::new();
    for movement in movements {
        stock.apply(movement).map_err(|error| (error.line, error.reason))?;
        if movement.item == item {
            let amount = movement.amount;
            let after = stock.amount_of(item).unwrap_or_default();
            text += &format!("{}\t{}\t{amount}\t{after}\n", movement.date, movement.direction);
        }
    }
    Ok(text)
}

fn check(movements: &[Movement]) -> Result<String, Failure> {
    apply_all(movements)?;
    Ok(format!("{} movements\n", movements.len()))
}

fn apply_all(movements: &[Movement]) -> Result<Stock, Failure> {
    let mut stock = Stock::default();
    for movement in movements {
        stock.apply(movement).map_err(|error| (error.line, error.reason))?;
    }
    Ok(stock)
}
END_OF_FILE
