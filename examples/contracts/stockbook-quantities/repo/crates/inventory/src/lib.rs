//! Movements in and out of a storeroom, and the stock that follows from them.
#![allow(deprecated)]

mod movement;
mod stock;

pub use movement::{read_movements, Direction, LineError, Movement};
pub use stock::{Stock, StockError};
