//! Elements without their repetitions.

use rushlight_autograd::Tensor;
use rushlight_core::{Bool, DType, Error, Result, dispatch};
use rushlight_cpu::order::{Line, Ranked, each_line};
use rushlight_cpu::reduce::scan::Lines;

use crate::derive::Derivative;
use crate::reduce::along::ORDERED;
use crate::row::{Row, Run, Variants};
use crate::value::Output;

const WHY: Derivative = Derivative::NonDifferentiable("the number of its results depends on the values");

/// What `torch.unique` stands on.
pub static UNIQUE: Row = Row {
    name: "_unique2",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor)",
    doc: "The different elements in order, where each element went, and how often each occurs.

    >>> torch._unique2(torch.tensor([3, 1, 1]), True, True, True)
    (tensor([1, 3]), tensor([1, 0, 0]), tensor([2, 1]))",
    dtypes: ORDERED,
    run: Run::Body(|args| {
        let own = args.tensor(0)?;
        if !args.row.dtypes.has(own.dtype()) {
            return Err(crate::call::not_implemented(args.row, own.dtype()));
        }
        distinct(own, true, args.bool(2)?, args.bool(3)?)
    }),
    derivative: WHY,
    samples: &["i(4, 9)", "i(4, 3, 4), True, True, True"],
    ..Row::BASE
};

/// What `torch.unique_consecutive` stands on.
pub static UNIQUE_CONSECUTIVE: Row = Row {
    name: "_unique_consecutive",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor)",
    doc: "The elements without those that equal the one before, where each element went, and how long each run is.

    >>> torch._unique_consecutive(torch.tensor([3, 1, 1, 3]), True, True)
    (tensor([3, 1, 3]), tensor([0, 1, 1, 2]), tensor([1, 2, 1]))",
    dtypes: ORDERED,
    run: Run::Body(|args| {
        let own = args.tensor(0)?;
        if !args.row.dtypes.has(own.dtype()) {
            return Err(crate::call::not_implemented(args.row, own.dtype()));
        }
        distinct(own, false, args.bool(1)?, args.bool(2)?)
    }),
    derivative: WHY,
    samples: &["i(2, 9)", "i(2, 3, 4), True, True"],
    ..Row::BASE
};

/// Runs of equal elements, after sorting or as they stand; NaN equals nothing.
fn distinct(own: &Tensor, sorted: bool, inverse: bool, counts: bool) -> Result<Output> {
    let flat = crate::convert::contiguous(&own.detach())?;
    let n = own.numel();
    let pin = flat.storage().pin();
    let offset = flat.layout().offset;
    let found = std::sync::Mutex::new((Vec::new(), vec![0i64; if inverse { n } else { 0 }], Vec::new()));
    dispatch!(own.dtype(), T in [u8, i8, i16, i32, i64, f32, f64, rushlight_core::dtype::f16_, rushlight_core::dtype::bf16_, Bool] => {
        // SAFETY: the operand is contiguous; all of it is one line.
        unsafe {
            let from = pin.as_ptr().cast::<T>().offset(offset);
            each_line(Lines { outer: 1, n, inner: 1 }, from, false, |line: Line<T>| {
                if sorted {
                    line.ranks.sort_unstable();
                }
                let mut found = found.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                let (firsts, places, lengths) = &mut *found;
                for (i, rank) in line.ranks.iter().enumerate() {
                    let fresh = i == 0 || !rank.ties(line.ranks[i - 1]) || rushlight_cpu::order::Sortable::is_nan(line.element(rank.place()));
                    if fresh {
                        firsts.push(rank.place() as i64);
                        lengths.push(0i64);
                    }
                    if inverse {
                        places[rank.place()] = firsts.len() as i64 - 1;
                    }
                    if let Some(length) = lengths.last_mut() {
                        *length += 1;
                    }
                }
            });
        }
    }, else => return Err(Error::not_implemented(format!("unique is not implemented for {}", own.dtype()))));
    let (firsts, places, lengths) = found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let index = crate::create::from_slice(&firsts)?;
    let line = crate::view::RESHAPE.tensor([(&flat).into(), crate::view::reshape::sizes_value(&[-1])])?;
    let values = crate::op!(crate::index::along::INDEX_SELECT, &line, 0i64, &index)?;
    let empty = || crate::create::empty(&[0], DType::I64, own.device());
    let places = if inverse {
        let flat = crate::create::from_slice(&places)?;
        crate::view::RESHAPE.tensor([(&flat).into(), crate::view::reshape::sizes_value(own.sizes())])?
    } else {
        empty()?
    };
    let lengths = if counts { crate::create::from_slice(&lengths)? } else { empty()? };
    Ok(Output::Tuple(vec![values, places, lengths]))
}
