//! Convolutions, as `cudnn` enqueues them.

use crate::dtype::{DType, tf32};

/// Which of the three tensors is computed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Target {
    Output,
    Input,
    Weight,
}

/// A tensor: samples or features, channels, and dimensions of space. Strides are in elements.
#[derive(Clone, PartialEq)]
pub struct Place {
    pub address: usize,
    pub sizes: Vec<i64>,
    pub strides: Vec<i64>,
}

impl Place {
    pub fn count(&self) -> i64 {
        self.sizes.iter().product()
    }

    fn offset(&self, first: i64, second: i64, space: &[i64]) -> i64 {
        let within: i64 = space.iter().zip(&self.strides[2..]).map(|(at, stride)| at * stride).sum();
        first * self.strides[0] + second * self.strides[1] + within
    }
}

/// `target = alpha * sums + beta * target`.
#[derive(Clone)]
pub struct Convolution {
    pub target: Target,
    pub data: DType,
    pub tf32: bool,
    pub input: Place,
    pub weight: Place,
    pub output: Place,
    pub steps: Vec<i64>,
    pub padding: Vec<i64>,
    pub dilation: Vec<i64>,
    pub groups: i64,
    pub alpha: f64,
    pub beta: f64,
    /// Memory for sums of 64 bits.
    pub workspace: Option<usize>,
}

/// All places in a box, in row-major order.
fn places(sizes: &[i64]) -> impl Iterator<Item = Vec<i64>> {
    let (count, sizes) = (sizes.iter().product::<i64>(), sizes.to_vec());
    (0..count).map(move |mut n| {
        let mut place = vec![0; sizes.len()];
        for dim in (0..sizes.len()).rev() {
            place[dim] = n % sizes[dim];
            n /= sizes[dim];
        }
        place
    })
}

impl Convolution {
    fn result(&self) -> &Place {
        match self.target {
            Target::Output => &self.output,
            Target::Input => &self.input,
            Target::Weight => &self.weight,
        }
    }

    /// The element of the input that an output reads for a place in the kernel, if it is inside.
    fn read(&self, output: &[i64], kernel: &[i64]) -> Option<Vec<i64>> {
        let at = |dim: usize| output[dim] * self.steps[dim] + kernel[dim] * self.dilation[dim] - self.padding[dim];
        let place: Vec<i64> = (0..output.len()).map(at).collect();
        place.iter().zip(&self.input.sizes[2..]).all(|(at, size)| (0..*size).contains(at)).then_some(place)
    }

    /// # Safety
    /// The tensors lie in memory, and the workspace has room for a sum for each element of the result.
    pub unsafe fn run(&self) {
        let bytes = self.data.bytes() as i64;
        let load = |place: &Place, offset: i64| {
            // SAFETY: guaranteed by the caller.
            let [value, _] = unsafe { self.data.load(place.address + (offset * bytes) as usize) };
            if self.tf32 { tf32(value) } else { value }
        };
        let result = self.result();
        let mut sums = vec![0.0; result.count() as usize];
        let (samples, features, channels) =
            (self.input.sizes[0], self.weight.sizes[0] / self.groups, self.weight.sizes[1]);
        for output in places(&self.output.sizes[2..]) {
            for kernel in places(&self.weight.sizes[2..]) {
                let Some(input) = self.read(&output, &kernel) else { continue };
                for triple in places(&[samples, self.groups, features, channels]) {
                    let [sample, group, feature, channel] = triple[..] else { continue };
                    let x = self.input.offset(sample, group * channels + channel, &input);
                    let w = self.weight.offset(group * features + feature, channel, &kernel);
                    let y = self.output.offset(sample, group * features + feature, &output);
                    match self.target {
                        Target::Output => sums[y as usize] += load(&self.input, x) * load(&self.weight, w),
                        Target::Input => sums[x as usize] += load(&self.weight, w) * load(&self.output, y),
                        Target::Weight => sums[w as usize] += load(&self.input, x) * load(&self.output, y),
                    }
                }
            }
        }
        if let Some(space) = self.workspace {
            for (n, sum) in sums.iter_mut().enumerate() {
                // SAFETY: guaranteed by the caller.
                unsafe {
                    DType::R64.store(space + n * 8, [*sum, 0.0]);
                    *sum = DType::R64.load(space + n * 8)[0];
                }
            }
        }
        for (n, sum) in sums.iter().enumerate() {
            let at = result.address + n * bytes as usize;
            // SAFETY: guaranteed by the caller.
            unsafe {
                let before = if self.beta == 0.0 { 0.0 } else { self.beta * self.data.load(at)[0] };
                self.data.store(at, [self.alpha * sum + before, 0.0]);
            }
        }
    }
}
