//! Amounts of things in a storeroom.

mod exact;
mod legacy;
mod unit;

pub use exact::{Quantity, QuantityError};
#[allow(deprecated)]
pub use legacy::{format_amount, parse_amount};
pub use unit::Unit;
