//! Operators that order elements, find them, or count them by their value.

pub mod counts;
pub mod histogram;
pub mod isin;
mod mapped;
pub mod quantile;
pub mod search;
pub mod sort;
pub mod topk;
pub mod unique;
