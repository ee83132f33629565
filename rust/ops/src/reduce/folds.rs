//! The list of the folds of all reductions, from which the device functions are generated.

use rushlight_cpu::folds::Folds;

use super::{all_any, extreme, hash, norm, prod, sum};

pub const FOLDS: [Folds; 16] = [
    sum::SUMS,
    sum::NAN_SUMS,
    sum::MEANS,
    prod::PRODUCTS,
    all_any::ALL_TRUE,
    all_any::ANY_TRUE,
    all_any::COUNTS,
    extreme::LARGEST,
    extreme::SMALLEST,
    hash::HASHES,
    norm::EUCLIDEAN,
    norm::MANHATTAN,
    norm::NONZERO,
    norm::GREATEST,
    norm::LEAST,
    norm::POWERS,
];
