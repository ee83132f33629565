//! Conversions to the compressed formats, and from them to others.

use rushlight_autograd::sparse::layout_in_errors;
use rushlight_autograd::{CompressedFormat, CompressedParts, Tensor};
use rushlight_core::layout::{Shape, to_dims};
use rushlight_core::{Error, Result};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::op;
use rushlight_dispatch::operator::{
    Args, DTypes, Derivative, ExplicitAutograd, Implementation, Operator, Saves, Sparse, formula, operator,
};
use rushlight_dispatch::sparse::dense;
use rushlight_dispatch::value::{Output, Value};

use super::format_named;
use super::parts::{build, compress};
use crate::sparse::convert::{TO_DENSE, TO_SPARSE};
use crate::sparse::parts::{build as build_coo, entries};

const BASE: Operator = Operator { dtypes: DTypes::ALL, sparse: Sparse::Supported, ..Operator::BASE };

/// The prefix of torch's errors for conversions of a tensor.
fn converter(input: &Tensor) -> &'static str {
    match (input.compressed_parts(), input.is_sparse()) {
        (Some(_), _) => "sparse_compressed_to_sparse",
        (None, true) => "sparse_coo_to_sparse",
        (None, false) => "dense_to_sparse",
    }
}

/// A conversion to another layout, with torch's checks of its arguments.
struct Conversion<'a> {
    input: &'a Tensor,
    /// The called method: `to_sparse`, or one of a layout.
    called: &'a str,
    layout: &'a str,
    blocksize: Option<&'a [i64]>,
    dense_dim: Option<i64>,
}

/// The tensor in another layout. Errors name the called method.
pub fn to_layout(
    input: &Tensor,
    called: &str,
    layout: &str,
    blocksize: Option<&[i64]>,
    dense_dim: Option<i64>,
) -> Result<Tensor> {
    let asked = Conversion { input, called, layout, blocksize, dense_dim };
    if input.is_sparse() && dense_dim.is_some() {
        let name = if asked.from() == asked.to() { called } else { &asked.name() };
        return Err(asked.unsupported(name, "with dense_dim argument given is"));
    }
    let Some(format) = CompressedFormat::named(layout) else { return asked.uncompressed() };
    asked.check_blocksize(format)?;
    if let Some(held) = input.compressed_parts() {
        asked.check_compressed(&held, format)?;
        if held.format == format {
            return Ok(input.clone());
        }
    }
    if input.parts().is_some_and(|held| held.indices.sizes()[0] != 2) {
        return Err(asked.unsupported(&asked.name(), "for input tensors with sparse_dim()!=2 is"));
    }
    if !input.is_sparse() {
        asked.check_dense()?;
    }
    let batch_dims = match input.compressed_parts() {
        Some(held) => held.batch_dims(),
        None if input.is_sparse() => 0,
        None => input.rank() - 2 - dense_dim.unwrap_or(0) as usize,
    };
    asked.check_whole_blocks(batch_dims)?;
    let blocksize = blocksize.map_or(Value::None, Value::from);
    if input.is_sparse() {
        op!(CONVERTED, input, layout, blocksize)
    } else {
        op!(TO_COMPRESSED, input, layout, blocksize, batch_dims as i64)
    }
}

impl Conversion<'_> {
    /// torch's names of both layouts.
    fn from(&self) -> &'static str {
        self.input.layout_name()
    }

    fn to(&self) -> &'static str {
        layout_in_errors(self.layout)
    }

    /// torch's name of the function that converts.
    fn name(&self) -> String {
        let called = self.called;
        match (self.input.compressed_parts(), self.input.is_sparse()) {
            (Some(_), _) => format!("sparse_compressed_{called}"),
            (None, true) if called == "to_sparse" => format!("sparse_coo_{called}"),
            (None, true) => format!("coo_{called}"),
            (None, false) => format!("dense_{called}"),
        }
    }

    fn unsupported(&self, name: &str, why: &str) -> Error {
        Error::runtime(format!("{name}: conversion from {} to {} {why} not supported", self.from(), self.to()))
    }

    /// The tensor in a layout that is not compressed.
    fn uncompressed(&self) -> Result<Tensor> {
        let input = self.input;
        if self.blocksize.is_some() {
            return Err(with_argument(input, self.to(), "with blocksize"));
        }
        match (self.layout, input.is_sparse()) {
            ("strided", true) => op!(TO_DENSE, input),
            ("strided", false) => Ok(input.clone()),
            (_, true) if input.parts().is_some() => Ok(input.clone()),
            (_, true) => op!(CONVERTED, input, self.layout),
            (_, false) => {
                let dense_dims = self.dense_dim.unwrap_or(0);
                op!(TO_SPARSE, input, Value::Int(input.rank() as i64 - dense_dims))
            }
        }
    }

    /// The size of blocks is given for layouts of blocks, and is a pair of positive numbers.
    fn check_blocksize(&self, format: CompressedFormat) -> Result<()> {
        if format.blocks != self.blocksize.is_some() {
            let given = if format.blocks { "without blocksize" } else { "with blocksize" };
            return Err(with_argument(self.input, self.to(), given));
        }
        let Some(block) = self.blocksize else { return Ok(()) };
        if block.len() != 2 {
            return Err(Error::runtime(format!(
                "{}: blocksize needs to be a tuple of size 2, but got {}",
                self.name(),
                block.len()
            )));
        }
        if block.iter().any(|&size| size <= 0) {
            return Err(Error::runtime(format!(
                "{}: blocksize needs to be positive, but got {}",
                self.name(),
                Shape(&to_dims(block))
            )));
        }
        Ok(())
    }

    /// Blocks keep their size and stay blocks, and only single matrices are divided into blocks.
    fn check_compressed(&self, held: &CompressedParts, format: CompressedFormat) -> Result<()> {
        let same_format = held.format == format;
        if held.format.blocks && !format.blocks {
            return Err(Error::runtime(format!(
                "{}: expected SparseCsr or SparseCsc layout but got {}",
                self.name(),
                self.from()
            )));
        }
        let block: Vec<i64> = held.block().iter().map(|&size| size as i64).collect();
        if let Some(wanted) = self.blocksize.filter(|&wanted| held.format.blocks && wanted != block) {
            let name = if same_format { self.called } else { &self.name() };
            let (from, to) = (held.block(), to_dims(wanted));
            let why = format!("with blocksize changed from {} to {} is", Shape(&from), Shape(&to));
            return Err(self.unsupported(name, &why));
        }
        if !held.format.blocks && format.blocks && held.batch_dims() > 0 {
            return Err(self.unsupported(&self.name(), "for batched inputs is"));
        }
        Ok(())
    }

    /// A strided tensor has matrices beside its dense dimensions.
    fn check_dense(&self) -> Result<()> {
        let most = self.input.rank() as i64 - 2;
        if most < 0 {
            return Err(Error::index(format!(
                "{}: expected a tensor of two dimensions or more, got {}",
                self.name(),
                self.input.rank()
            )));
        }
        match self.dense_dim.filter(|dims| !(0..=most).contains(dims)) {
            Some(dims) => Err(Error::runtime(format!(
                "{}: dense_dim argument must be in [0,{most}] range, but {dims} is given",
                self.name()
            ))),
            None => Ok(()),
        }
    }

    /// The matrices are made of whole blocks.
    fn check_whole_blocks(&self, batch_dims: usize) -> Result<()> {
        let Some(&[height, width]) = self.blocksize else { return Ok(()) };
        let (rows, columns) = (self.input.sizes()[batch_dims] as i64, self.input.sizes()[batch_dims + 1] as i64);
        if rows % height == 0 && columns % width == 0 {
            return Ok(());
        }
        Err(Error::runtime(format!(
            "{}: tensor sparse size ({rows},{columns}) must be divisible by given blocksize ({height},{width})",
            self.name()
        )))
    }
}

#[cold]
fn with_argument(input: &Tensor, to: &str, argument: &str) -> Error {
    let from = input.layout_name();
    let name = if from == to { "to_sparse" } else { converter(input) };
    Error::runtime(format!("{name}: conversion from {from} to {to} {argument} argument given is not supported"))
}

fn block_of(args: &Args, arg: rushlight_dispatch::value::Arg) -> [isize; 2] {
    match args.optional_ints(arg) {
        Some(&[height, width]) => [height as isize, width as isize],
        _ => [1, 1],
    }
}

/// The entries of a dense tensor in a compressed format.
#[operator]
pub static TO_COMPRESSED: Operator = Operator {
    name: "_to_sparse_compressed",
    signature: "(Tensor self, str layout, int[]? blocksize=None, int batch_dims=0) -> Tensor",
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(|args| {
        let input = args.tensor(INPUT)?.detach();
        let format = format_named(args.optional_str(LAYOUT).unwrap_or_default())?;
        let (batch_dims, block) = (args.int(BATCH_DIMS)? as usize, block_of(args, BLOCKSIZE));
        let held = op!(TO_SPARSE, &input, Value::Int(batch_dims as i64 + 2))?;
        let held = entries(&held, "to_sparse")?;
        build(input.sizes(), compress(&held, input.sizes(), format, batch_dims, block)?).map(Output::Tensor)
    })),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| {
        Expr::new(d.grad().done().and_then(|grad| dense(&grad)))
    })]),
    node: "ToSparseBackward0",
    ..BASE
};

/// A sparse tensor in another sparse layout. The gradient gets the layout of the tensor.
#[operator]
pub static CONVERTED: Operator = Operator {
    name: "_to_sparse_layout",
    signature: "(Tensor self, str layout, int[]? blocksize=None) -> Tensor",
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(|args| {
        let input = args.tensor(INPUT)?;
        let layout = args.optional_str(LAYOUT).unwrap_or_default();
        let batch_dims = input.compressed_parts().map_or(0, |held| held.batch_dims());
        let held = entries(input, "to_sparse")?;
        let Some(format) = CompressedFormat::named(layout) else {
            return build_coo(input.sizes(), (*held).clone()).map(Output::Tensor);
        };
        build(input.sizes(), compress(&held, input.sizes(), format, batch_dims, block_of(args, BLOCKSIZE))?)
            .map(Output::Tensor)
    })),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        let gradient = || in_layout_of(&d.grad().done()?, &d.input(INPUT).done()?);
        Expr::new(gradient())
    })]),
    node: "ToSparseBackward0",
    ..BASE
};

/// A gradient in the layout of the sparse tensor that it belongs to.
pub fn in_layout_of(grad: &Tensor, input: &Tensor) -> Result<Tensor> {
    if grad.layout_name() == input.layout_name() {
        return Ok(grad.clone());
    }
    let Some(held) = input.compressed_parts() else {
        return if grad.is_sparse() { op!(CONVERTED, grad, "sparse_coo") } else { op!(TO_SPARSE, grad) };
    };
    let block: Vec<i64> = held.block().iter().map(|&size| size as i64).collect();
    let block = if held.format.blocks { Value::from(&*block) } else { Value::None };
    if grad.is_sparse() && grad.compressed_parts().is_none_or(|input| input.batch_dims() == held.batch_dims()) {
        return op!(CONVERTED, grad, held.format.name(), block);
    }
    op!(TO_COMPRESSED, &dense(grad)?, held.format.name(), block, held.batch_dims() as i64)
}
