//! Tensors in a compressed format that change their sizes or overwrite their stored values: `resize_`, `fill_`, `normal_`, and the
//! `out=` of factories, which is both.

use rushlight_autograd::modes::GradMode;
use rushlight_autograd::{CompressedParts, Tensor};
use rushlight_core::layout::{Shape, checked_numel, to_dims};
use rushlight_core::{Error, Result, Scalar};
use rushlight_dispatch::operator::Args;
use rushlight_dispatch::sparse::unsupported;
use rushlight_dispatch::value::{Arg, Output, sizes_value};
use rushlight_dispatch::{interpreter, op};

use super::compressed::parts::build;
use super::elementwise::on_stored;
use crate::create::constant::FULL;
use crate::create::draw::NORMAL_;
use crate::create::fill::{FILL_, ZERO_};
use crate::create::random::{NORMAL_SIZE, RANDN};
use crate::create::resize::{RESIZE_, RESIZE_AS_};
use crate::join::cat::CAT;
use crate::view::narrow::NARROW;

/// Overwrites the stored values, and no other elements.
pub fn overwrite(args: &Args, name: &str) -> Result<Output> {
    let own = args.tensor(Arg::FIRST)?;
    match own.compressed_parts() {
        Some(_) => on_stored(args, Arg::FIRST, name).map(Output::Tensor),
        None => Err(unsupported(name, own)),
    }
}

pub fn resize(args: &Args) -> Result<Output> {
    resize_to(args.tensor(RESIZE_::INPUT)?, &to_dims(args.ints(RESIZE_::SIZE)?))
}

pub fn resize_as(args: &Args) -> Result<Output> {
    let input = args.tensor(RESIZE_AS_::INPUT)?;
    let sizes = args.tensor(RESIZE_AS_::THE_TEMPLATE)?.sizes().clone();
    if *input.sizes() == sizes { Ok(Output::Tensor(input.clone())) } else { resize_to(input, &sizes) }
}

fn resize_to(input: &Tensor, sizes: &[isize]) -> Result<Output> {
    let Some(parts) = input.compressed_parts() else { return Err(unsupported("resize_", input)) };
    checked_numel(sizes)?;
    let own = input.sizes();
    if sizes.len() < 2 {
        return Err(Error::runtime(format!(
            "torch.resize_: Only batched sparse CSR matrices are supported, but got size {}",
            Shape(sizes)
        )));
    }
    let rank = own.len();
    let (line, across) = if parts.format.columns { (rank - 1, rank - 2) } else { (rank - 2, rank - 1) };
    let is_matrix = parts.batch_dims() == 0 && rank == 2;
    let block = parts.block();
    let divides = is_matrix && sizes.len() == rank && block.iter().zip(sizes).all(|(block, size)| size % block == 0);
    if !divides && own.as_slice() != sizes {
        return Err(Error::runtime(format!(
            "torch.resize_: only a matrix can be resized, to whole blocks, but the tensor has size {} and would have {}",
            Shape(own),
            Shape(sizes)
        ))
        .hint("Make a tensor of the new size from x.to_dense()."));
    }
    if sizes[across] < own[across] {
        let (kind, format) = if parts.format.columns { ("rows", "CSC") } else { ("columns", "CSR") };
        return Err(Error::runtime(format!(
            "torch.resize_: Resizing {kind} of sparse {format} tensors to a smaller value is not supported. The original number of {kind} is {} while the requested new number of {kind} is {}.",
            own[across], sizes[across]
        )));
    }
    if own.as_slice() != sizes {
        let resized = build(sizes, with_lines(&parts, sizes[line] / block[line])?)?;
        interpreter::replace_meta(input, resized.meta().clone());
        input.bump_version();
    }
    Ok(Output::Tensor(input.clone()))
}

/// The parts of a matrix of another number of lines: new ones are empty, and those at the end are dropped.
fn with_lines(parts: &CompressedParts, lines: isize) -> Result<CompressedParts> {
    let _off = GradMode::new(false);
    let own = parts.compressed.sizes()[0] - 1;
    let mut kept = parts.clone();
    if lines > own {
        let end = op!(NARROW, &parts.compressed, 0i64, own as i64, 1i64)?;
        let ends = op!(crate::view::expand::EXPAND, &end, sizes_value(&[lines - own]))?;
        kept.compressed = op!(CAT, vec![parts.compressed.clone(), ends], 0i64)?;
    } else if lines < own {
        kept.compressed = op!(NARROW, &parts.compressed, 0i64, 0i64, lines as i64 + 1)?;
        let count = crate::convert::item(&op!(NARROW, &kept.compressed, 0i64, lines as i64, 1i64)?)?.f64() as i64;
        kept.plain = op!(NARROW, &parts.plain, 0i64, 0i64, count)?;
        kept.values = op!(NARROW, &parts.values, 0i64, 0i64, count)?;
    }
    Ok(kept)
}

/// Writes the result of a factory to a tensor in a compressed format, as torch does: its sizes change, and its stored values. None
/// for factories that torch refuses.
pub fn into_compressed(args: &Args, out: &Tensor) -> Option<Result<()>> {
    let change = match args.op.python_name() {
        "empty" => None,
        "zeros" => Some(Args::new(&ZERO_, [out.into()])),
        "ones" => Some(Args::new(&FILL_, [out.into(), Scalar::ONE.into()])),
        "full" => Some(Args::new(&FILL_, [out.into(), args.value(FULL::FILL_VALUE).clone()])),
        "randn" => {
            Some(Args::new(&NORMAL_, [out.into(), 0.0.into(), 1.0.into(), args.value(RANDN::GENERATOR).clone()]))
        }
        "normal" => {
            use NORMAL_SIZE::*;
            let values = [out.into(), args.value(MEAN).clone(), args.value(STD).clone(), args.value(GENERATOR).clone()];
            Some(Args::new(&NORMAL_, values))
        }
        _ => return None,
    };
    let sizes = args.op.schema().arg("size").map(|size| args.ints(size))?;
    let write = || {
        resize_to(out, &to_dims(sizes?))?;
        change.map_or(Ok(()), |change| change.call().map(drop))
    };
    Some(write())
}
