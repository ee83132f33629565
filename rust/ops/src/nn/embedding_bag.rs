//! Bags: sums, means or maxima of a table's rows, for each bag of indices.

use rushlight_autograd::Tensor;
use rushlight_autograd::modes::recording;
use rushlight_core::alloc::{self, collected, filled};
use rushlight_core::dtype::promote;
use rushlight_core::storage::Pin;
use rushlight_core::{DType, Device, Error, Result};
use rushlight_cpu::nn::embedding;
use rushlight_dispatch::create::from_slice;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operands::plain;
use rushlight_dispatch::operator::{
    Args, BatchRule, DTypes, Derivative, Implementation, Operator, Tags, Variants, operator,
};
use rushlight_dispatch::value::{Output, sizes_value};
use rushlight_dispatch::{create, handled, op};

use super::embedding::{check_indices, numbers_or};
use crate::convert::{to_dtype, to_vec};
use crate::expr_ext::ExprExt;
use crate::index::gather::GATHER;
use crate::index::index_select::INDEX_ADD;
use crate::nn::embedding::EMBEDDING;
use crate::pointwise::arith::MUL;

#[operator]
pub static EMBEDDING_BAG: Operator = Operator {
    name: "embedding_bag",
    node: "EmbeddingBagBackward0",
    variants: Variants::FUNCTION,
    signature: "(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int? padding_idx=None) -> (Tensor, Tensor, Tensor, Tensor)",
    doc: "The sum (mode 0), mean (1) or maximum (2) of the rows of `weight` in each bag of `indices`; zeros for an empty bag.

Bag `i` begins at `offsets[i]` and ends where the next one begins; with `include_last_offset` the last offset is an end alone. Rows
are first multiplied with `per_sample_weights` (mode 0 only); the row `padding_idx` counts for nothing. Beside the bags come
the bag of each index, and how many rows each bag has; for maxima the row that each element is from. For sums these are empty, or
zeros, where torch does not compute them.

    >>> w = torch.tensor([[1., 2.], [3., 4.], [5., 6.]])
    >>> torch.embedding_bag(w, torch.tensor([0, 1, 2]), torch.tensor([0, 2]))[0]
    tensor([[4., 6.],
            [5., 6.]])",
    dtypes: DTypes::FLOATS,
    tags: Tags::DATA_DEPENDENT,
    batch_rule: BatchRule::FallbackIf(&[INDICES, OFFSETS]),
    implementation: Implementation::CompositeImplicit(bags),
    derivative: Derivative::CompositeImplicit,
    samples: &[
        "t(4, 3), i(4, 5), torch.tensor([0, 2, 2])",
        "t(4, 3), i(4, 5), torch.tensor([0, 2, 5]), False, 1, False, None, True",
        "t(4, 3), i(4, 5), torch.tensor([0, 3]), False, 2",
        "t(4, 3), i(4, 5), torch.tensor([0, 3]), False, 0, False, t(5), False, 1",
    ],
    errors: &[
        (
            "t(4, 3), i(4, 3), torch.tensor([1, 2])",
            "RuntimeError",
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got 1",
        ),
        (
            "t(4, 3), i(4, 3), torch.tensor([0, 9])",
            "RuntimeError",
            "offsets[-1] can not be greater than input's length 3 but got offsets[-1] of 9",
        ),
        (
            "t(4, 3), i(4, 3), torch.tensor([0, 9]), False, 1, False, t(4)",
            "RuntimeError",
            "offsets[-1] can not be greater than input's length 3 but got offsets[-1] of 9",
        ),
        (
            "t(4, 3), i(4, 3), torch.tensor([0]), False, 0, False, t(4)",
            "RuntimeError",
            "Expected per_sample_weights.value().numel() == indices.numel() to be true, but got false.",
        ),
        (
            "t(4, 3), t(3), torch.tensor([0])",
            "RuntimeError",
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got torch.FloatTensor instead (while checking arguments for embedding_bag)",
        ),
        (
            "t(4, 3), i(4, 3), torch.tensor([0]), False, 0, False, None, False, 12",
            "RuntimeError",
            "padding_idx must be within the number of embeddings, -4 through 3, but got 12",
        ),
    ],
    reference: "",
    ..Operator::BASE
};

/// Whether torch has a kernel for such tables that needs neither the bag of each index nor their sizes.
fn is_fast(weight: &Tensor, scaled: Option<&Tensor>, padding: Option<i64>) -> bool {
    let is_row_major = |tensor: &Tensor| tensor.layout().strides.last() == Some(&1);
    matches!(weight.dtype(), DType::F32 | DType::F16 | DType::BF16)
        && padding.is_none()
        && is_row_major(weight)
        && scaled.is_none_or(is_row_major)
}

/// Checks the dimensions and the dtypes in torch's order. Returns the common dtype of indices and offsets.
fn check_operands(weight: &Tensor, indices: &Tensor, offsets: &Tensor) -> Result<DType> {
    if weight.rank() != 2 {
        return Err(Error::runtime(format!(
            "weight has to be a 2D Tensor, but got Tensor of dimension {}",
            weight.rank()
        )));
    }
    if !(1..=2).contains(&indices.rank()) {
        return Err(Error::runtime(format!(
            "input has to be a 1D or 2D Tensor, but got Tensor of dimension {}",
            indices.rank()
        )));
    }
    if offsets.rank() != 1 {
        return Err(Error::runtime(format!(
            "offsets has to be a 1D Tensor, but got Tensor of dimension {}",
            offsets.rank()
        )));
    }
    let common = promote(indices.dtype(), offsets.dtype())?;
    check_indices(common, indices.device(), 1, "embedding_bag")?;
    if !weight.dtype().is_floating() {
        return Err(Error::runtime(format!(
            "Expected tensor for argument #1 'weight' to have one of the following scalar types: Half, BFloat16, Float, Double; but got {} instead (while checking arguments for embedding_bag)",
            weight.dtype().class_name(weight.device())
        )));
    }
    Ok(common)
}

/// The row that does not count, as a number from the first row on.
fn padding_row(args: &Args, weight: &Tensor) -> Result<Option<i64>> {
    let rows = weight.sizes()[0] as i64;
    match args.optional_int(EMBEDDING_BAG::PADDING_IDX) {
        Some(place) if place < -rows || place >= rows => Err(Error::runtime(format!(
            "padding_idx must be within the number of embeddings, {} through {}, but got {place}",
            -rows,
            rows - 1
        ))),
        Some(place) if place < 0 => Ok(Some(place + rows)),
        place => Ok(place),
    }
}

/// Checks the first and the last offset.
fn check_ends(indices: &Tensor, offsets: &Tensor) -> Result<()> {
    let (offsets, count) = (to_vec::<i64>(&to_dtype(offsets, DType::I64)?)?, indices.sizes()[0] as i64);
    if let Some(&first) = offsets.first()
        && first != 0
    {
        return Err(Error::runtime(format!(
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got {first}"
        )));
    }
    if let Some(&last) = offsets.last()
        && last > count
    {
        return Err(Error::runtime(format!(
            "offsets[-1] can not be greater than input's length {count} but got offsets[-1] of {last}"
        )));
    }
    Ok(())
}

/// torch's error for an index that is not a row: for tables that its fast kernels support, the message includes the
/// position.
#[cold]
fn outside_of(args: &Args, weight: &Tensor, padding: Option<i64>, at: usize, bad: i64) -> Error {
    use EMBEDDING_BAG::*;

    let rows = weight.sizes()[0];
    let fast = args.int(MODE).is_ok_and(|mode| mode != 2)
        && is_fast(weight, args.optional_tensor(PER_SAMPLE_WEIGHTS), padding);
    Error::runtime(if fast {
        format!("Index {at} of input takes value {bad} which is not in the valid range [0, {rows})")
    } else {
        format!("embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be {bad}")
    })
    .hint(format!("Row {bad} is out of range for a table with {rows} rows."))
}

/// The positions of the bags, and which indices count.
struct Bags {
    /// The bag of each index.
    of: Vec<i64>,
    /// The indices that count.
    rows: Vec<i64>,
    /// Their positions, unless these are all positions in order.
    places: Option<Vec<usize>>,
    sizes: Vec<i64>,
}

impl Bags {
    fn read(args: &Args) -> Result<Bags> {
        use EMBEDDING_BAG::*;

        let (weight, indices, offsets) = (args.tensor(WEIGHT)?, args.valued(INDICES)?, args.valued(OFFSETS)?);
        let indices = &to_dtype(indices, check_operands(weight, indices, offsets)?)?;
        let (rows, padding) = (weight.sizes()[0] as i64, padding_row(args, weight)?);
        let offsets = to_vec::<i64>(offsets)?;
        let count = indices.sizes()[0] as i64;
        if indices.rank() != 1 {
            return Err(Error::runtime("input has to be a 1D Tensor, but got Tensor of dimension 2"));
        }
        let with_end = args.bool(INCLUDE_LAST_OFFSET)?;
        if with_end && offsets.is_empty() {
            return Err(Error::runtime("include_last_offset: number of offset should be at least 1"));
        }
        let bags = offsets.len() - usize::from(with_end);
        let mut list = numbers_or(indices, rows as isize, |at, bad| outside_of(args, weight, padding, at, bad))?;
        let mut of = filled(0i64, list.len())?;
        let mut sizes = filled(0i64, bags)?;
        let mut covered = 0;
        for bag in 0..bags {
            let end = offsets.get(bag + 1).copied().unwrap_or(count);
            let (start, end) = (offsets[bag], if !with_end && bag + 1 == bags { count } else { end });
            if start > end || start < 0 || end > count {
                return Err(Error::runtime(format!("offsets must not decrease, but bag {bag} has {start} to {end}")));
            }
            covered = end as usize;
            let own = start as usize..covered;
            of[own.clone()].fill(bag as i64);
            sizes[bag] = match padding {
                Some(padding) => list[own].iter().filter(|&&index| index != padding).count() as i64,
                None => end - start,
            };
        }
        list.truncate(covered);
        let places = match padding {
            Some(padding) => {
                let mut places = alloc::list(list.len())?;
                places.extend((0..list.len()).filter(|&at| list[at] != padding));
                list.retain(|&index| index != padding);
                Some(places)
            }
            None => None,
        };
        Ok(Bags { of, rows: list, places, sizes })
    }

    /// The positions of the indices that count.
    fn places(&self) -> impl ExactSizeIterator<Item = usize> {
        (0..self.rows.len()).map(|at| self.places.as_ref().map_or(at, |places| places[at]))
    }

    /// The sums in one step, if the operands are ordinary ones of the host that are not recorded.
    fn sums(&self, weight: &Tensor, scaled: Option<&Tensor>) -> Result<Option<Tensor>> {
        let operands = || [Some(weight), scaled].into_iter().flatten();
        let width = weight.sizes()[1];
        if weight.device() != Device::Cpu
            || !(width <= 1 || weight.layout().strides[1] == 1)
            || operands().any(|tensor| !tensor.is_plain() || (tensor.is_tracked() && recording()))
        {
            return Ok(None);
        }
        let dtype = weight.dtype();
        let scaled = scaled.map(|scaled| plain(scaled, dtype)).transpose()?;
        let sums = create::empty(&[self.sizes.len() as isize, width], dtype, Device::Cpu)?;
        let size = dtype.size() as isize;
        let first =
            |pin: &Pin, tensor: &Tensor| pin.as_ptr().wrapping_offset(tensor.layout().offset * size).cast_const();
        let table = weight.storage().pin()?;
        let factors = scaled.as_ref().map(|scaled| scaled.storage().pin()).transpose()?;
        let factors_at = factors.as_ref().zip(scaled.as_ref()).map(|(pin, scaled)| first(pin, scaled));
        let out = sums.storage().pin()?;
        let list = embedding::Bags { sizes: &self.sizes, rows: &self.rows, places: self.places.as_deref() };
        let step = weight.layout().strides[0].wrapping_mul(size);
        // SAFETY: `read` has checked the rows and counted those of each bag; the weights are as many as indices.
        unsafe {
            embedding::sum_bags(dtype, first(&table, weight), step, width as usize, &list, factors_at, out.as_ptr())?
        };
        drop(out);
        Ok(Some(sums))
    }
}

/// Integers on the device of a table.
fn on_device(weight: &Tensor, list: &[i64]) -> Result<Tensor> {
    crate::convert::to_device(&from_slice(list)?, weight.device())
}

fn bags(args: &Args) -> Result<Output> {
    use EMBEDDING_BAG::*;

    let (weight, mode, scaled) = (args.tensor(WEIGHT)?, args.int(MODE)?, args.optional_tensor(PER_SAMPLE_WEIGHTS));
    check_operands(weight, args.valued(INDICES)?, args.valued(OFFSETS)?)?;
    padding_row(args, weight)?;
    check_ends(args.valued(INDICES)?, args.valued(OFFSETS)?)?;
    if scaled.is_some() && mode != 0 {
        return Err(Error::runtime("embedding_bag: per_sample_weights only supported with mode='sum'"));
    }
    if !(0..=2).contains(&mode) {
        return Err(Error::runtime("`mode` must be sum, mean, or max."));
    }
    if let Some(scaled) = scaled {
        if scaled.dtype() != weight.dtype() {
            return Err(Error::runtime(format!(
                "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 'per_sample_weights'; but type {} does not equal {} (while checking arguments for embedding_bag)",
                weight.dtype().class_name(weight.device()),
                scaled.dtype().class_name(scaled.device())
            )));
        }
        let count = args.tensor(INDICES)?.numel();
        for (unmet, condition) in [
            (scaled.rank() != 1, "per_sample_weights.value().dim() == 1"),
            (scaled.numel() != count, "per_sample_weights.value().numel() == indices.numel()"),
        ] {
            if unmet {
                return Err(Error::runtime(format!(
                    "Expected {condition} to be true, but got false.  (Could this error message be improved?  If so, please report an enhancement request to PyTorch.)"
                ))
                .hint("Each index needs one weight."));
            }
        }
    }
    let bags = Bags::read(args)?;
    let padding = args.optional_int(PADDING_IDX);
    let of = on_device(weight, if mode == 0 && is_fast(weight, scaled, padding) { &[] } else { &bags.of })?;
    let sizes = match mode {
        0 => create::zeros(&[bags.sizes.len() as isize], DType::I64, weight.device())?,
        _ => on_device(weight, &bags.sizes)?,
    };
    if mode == 2 {
        let (best, places) = largest(weight, &bags)?;
        return Ok(Output::Tuple(vec![best, of, sizes, places]));
    }
    let sums = match bags.sums(weight, scaled)? {
        Some(sums) => sums,
        None => recorded_sums(args, weight, scaled, &bags)?,
    };
    let result = if mode == 0 {
        sums
    } else {
        let counts = on_device(weight, &collected(bags.sizes.iter().map(|&n| n.max(1)))?)?;
        let counts = op!(crate::view::RESHAPE, &to_dtype(&counts, weight.dtype())?, sizes_value(&[-1, 1]))?;
        (Expr::from(&sums) / Expr::from(counts)).done()?
    };
    Ok(Output::Tuple(vec![result, of, sizes.clone(), sizes]))
}

/// The sums from operators that are recorded, and run on every device. Those of half types are rounded once.
fn recorded_sums(args: &Args, weight: &Tensor, scaled: Option<&Tensor>, bags: &Bags) -> Result<Tensor> {
    use EMBEDDING_BAG::*;

    let dtype = weight.dtype();
    let wide = if matches!(dtype, DType::F16 | DType::BF16) { DType::F32 } else { dtype };
    let rows = on_device(weight, &bags.rows)?;
    let owners = on_device(weight, &collected(bags.places().map(|at| bags.of[at]))?)?;
    let looked_up = op!(EMBEDDING, weight, &rows, -1i64, args.bool(SCALE_GRAD_BY_FREQ)?, args.bool(SPARSE)?)?;
    let mut looked_up = to_dtype(&looked_up, wide)?;
    if let Some(scaled) = scaled {
        let places = on_device(weight, &collected(bags.places().map(|at| at as i64))?)?;
        let own = op!(crate::index::index_select::INDEX_SELECT, scaled, 0i64, &places)?;
        let own = op!(crate::view::RESHAPE, &to_dtype(&own, wide)?, sizes_value(&[-1, 1]))?;
        looked_up = op!(MUL, &looked_up, &own)?;
    }
    let zeros = create::zeros(&[bags.sizes.len() as isize, weight.sizes()[1]], wide, weight.device())?;
    to_dtype(&op!(INDEX_ADD, &zeros, 0i64, &owners, &looked_up)?, dtype)
}

/// The largest element of each bag's rows, and its row; the first of several equal ones.
fn largest(weight: &Tensor, bags: &Bags) -> Result<(Tensor, Tensor)> {
    let (count, width) = (bags.sizes.len(), weight.sizes()[1] as usize);
    let table = to_vec::<f64>(&handled::detach(weight)?)?;
    let mut places = filled(-1i64, count * width)?;
    for (&row, at) in bags.rows.iter().zip(bags.places()) {
        let own = bags.of[at] as usize * width;
        for j in 0..width {
            let place = &mut places[own + j];
            if *place < 0 || table[row as usize * width + j] > table[*place as usize * width + j] {
                *place = row;
            }
        }
    }
    let empty = places.iter().any(|&place| place < 0);
    let kept = collected(places.iter().map(|&place| i64::from(place >= 0)))?;
    places.iter_mut().for_each(|place| *place = (*place).max(0));
    let shape = sizes_value(&[count as isize, width as isize]);
    let places = op!(crate::view::RESHAPE, &on_device(weight, &places)?, shape.clone())?;
    if weight.numel() == 0 {
        let zeros = create::zeros(places.sizes(), weight.dtype(), weight.device())?;
        return Ok((zeros, places));
    }
    let best = op!(GATHER, weight, 0i64, &places)?;
    let best = if empty {
        let kept = op!(crate::view::RESHAPE, &on_device(weight, &kept)?, shape)?;
        Expr::from(kept).above(0i64).choose(Expr::from(best), 0.0).done()?
    } else {
        best
    };
    Ok((best, places))
}
