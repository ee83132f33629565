//! The list of the folds of all reductions, from which the device functions are generated.

use rushlight_cpu::folds::Folds;

use super::{all_any, extreme, hash, norm, prod, sum};

/// The folds of the rows, by the name that their device functions have.
pub const FOLDS: [(&str, Folds); 16] = [
    ("sum", sum::SUMS),
    ("nansum", sum::NAN_SUMS),
    ("mean", sum::MEANS),
    ("prod", prod::PRODUCTS),
    ("all", all_any::ALL_TRUE),
    ("any", all_any::ANY_TRUE),
    ("count_nonzero", all_any::COUNTS),
    ("amax", extreme::LARGEST),
    ("amin", extreme::SMALLEST),
    ("hash", hash::HASHES),
    ("norm_two", norm::EUCLIDEAN),
    ("norm_one", norm::MANHATTAN),
    ("norm_zero", norm::NONZERO),
    ("norm_inf", norm::GREATEST),
    ("norm_neg_inf", norm::LEAST),
    ("norm", norm::POWERS),
];
