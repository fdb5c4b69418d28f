//! The list of movements.

use std::fmt;

use quantity::{parse_amount, Unit};

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
    pub amount: f64,
    pub unit: Unit,
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
    let (amount, unit) =
        parse_amount(&amount.join(" ")).ok_or_else(|| "cannot read the amount".to_string())?;
    Ok(Movement {
        line,
        date: date.to_string(),
        direction,
        item: item.to_string(),
        amount,
        unit,
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
