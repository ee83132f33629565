//! Attention on CUDA devices: kernels that never have the whole matrix of scores, for elements of up to 32 bits and rows of up to
//! 128 elements.

use rushlight_autograd::Tensor;
use rushlight_core::loop_nest::LoopNest;
use rushlight_core::{Dims, Layout, Result};
use rushlight_cuda::attention::{Attention, Operands, Sizes};
use rushlight_dispatch::operands::{plain, plain_workplace, settle};
use rushlight_dispatch::operator::Args;
use rushlight_dispatch::value::Arg;

use crate::held::Held;

/// The operands of a call, and over them those of the gradient.
pub struct Call<'a> {
    pub tensors: [&'a Tensor; 3],
    pub mask: Option<&'a Tensor>,
    pub batch: &'a [isize],
    pub scale: f64,
    pub causal: bool,
}

impl<'a> Call<'a> {
    pub fn read(args: &'a Args, operands: [Arg; 4], batch: &'a [isize], numbers: [Arg; 2]) -> Result<Call<'a>> {
        let [query, key, value, mask] = operands;
        Ok(Call {
            tensors: [args.tensor(query)?, args.tensor(key)?, args.tensor(value)?],
            mask: args.optional_tensor(mask),
            batch,
            scale: args.float(numbers[0])?,
            causal: args.bool(numbers[1])?,
        })
    }

    /// Runs a function on the call of the kernels, unless they do not take it; whether it ran.
    fn with(&self, grad: &Tensor, run: impl FnOnce(&Attention, &Held) -> Result<()>) -> Result<bool> {
        let [query, key, value] = self.tensors;
        let [queries, width] = [query.sizes()[query.rank() - 2], query.sizes()[query.rank() - 1]];
        let [keys, depth] = [value.sizes()[value.rank() - 2], value.sizes()[value.rank() - 1]];
        let mask = self.mask.unwrap_or(query);
        let laid = |tensor: &Tensor, rows: isize, columns: isize| {
            let mut sizes = Dims::from_slice(self.batch);
            sizes.extend([rows, columns]);
            tensor.layout().broadcast_to(&sizes)
        };
        let layouts = [
            laid(query, queries, width)?,
            laid(key, keys, width)?,
            laid(value, keys, depth)?,
            if self.mask.is_some() { laid(mask, queries, keys)? } else { laid(query, queries, width)? },
            laid(grad, queries, depth)?,
        ];
        let widths = [query, key, value, mask, grad].map(|tensor| tensor.dtype().size());
        let rank = self.batch.len();
        let outer = layouts.each_ref().map(|layout| Layout {
            sizes: Dims::from_slice(&layout.sizes[..rank]),
            strides: Dims::from_slice(&layout.strides[..rank]),
            offset: 0,
        });
        let bytes = |dim: usize| std::array::from_fn(|n| (layouts[n].strides[dim] * widths[n] as isize) as i64);
        let nest = LoopNest::new(outer.each_ref(), widths);
        let mut held = Held::on(query)?;
        let attention = Attention {
            dtype: query.dtype(),
            mask: self.mask.map(Tensor::dtype),
            operands: Operands {
                at: held.addresses([query, key, value, mask, grad])?,
                rows: bytes(rank),
                columns: bytes(rank + 1),
            },
            sizes: Sizes {
                queries: queries as u64,
                keys: keys as u64,
                width: width as u64,
                depth: depth as u64,
                scale: self.scale as f32,
                causal: u32::from(self.causal),
            },
            batch: &nest,
        };
        let alike = [key, value, grad].iter().all(|tensor| tensor.dtype() == query.dtype());
        let fits = alike && attention.fits();
        if fits {
            run(&attention, &held)?;
        }
        Ok(fits)
    }

    /// Computes the results; whether the kernels take the call.
    pub fn forward(&self, results: &[Tensor]) -> Result<bool> {
        let [out, sums] =
            [plain_workplace(&results[0], results[0].dtype())?, plain_workplace(&results[1], results[1].dtype())?];
        let took = self.with(&out, |attention, held| {
            let mut to = Held::on(&out)?;
            let addresses = to.addresses([&out, &sums])?;
            // SAFETY: layouts stay within their storages, which are held for the stream; results are row-major.
            unsafe { attention.forward(held.card, held.stream, addresses) }
        })?;
        if took {
            settle(&out, &results[0])?;
            settle(&sums, &results[1])?;
        }
        Ok(took)
    }

    /// Computes the gradients from that of the result; whether the kernels take the call. `sums` and `means` are in `f32`.
    pub fn backward(&self, grad: &Tensor, sums: &Tensor, means: &Tensor, results: &[Tensor]) -> Result<bool> {
        let dtype = self.tensors[0].dtype();
        let (grad, sums, means) = (plain(grad, dtype)?, plain(sums, sums.dtype())?, plain(means, sums.dtype())?);
        let place = |at: usize| plain_workplace(&results[at], dtype);
        let places = [place(0)?, place(1)?, place(2)?];
        let took = self.with(&grad, |attention, held| {
            let mut to = Held::on(&grad)?;
            let (from, into) = (to.addresses([&sums, &means])?, to.addresses(places.each_ref())?);
            // SAFETY: as for `forward`.
            unsafe { attention.backward(held.card, held.stream, from, into) }
        })?;
        if took {
            places.iter().zip(results).try_for_each(|(place, result)| settle(place, result))?;
        }
        Ok(took)
    }
}
