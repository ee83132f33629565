//! Operators that sort or search elements, or count them by their value.

pub mod counts;
mod counts_on_cuda;
pub mod histogram;
pub mod isin;
pub mod on_cuda;
pub mod quantile;
pub mod search;
pub mod sort;
pub mod topk;
pub mod unique;
