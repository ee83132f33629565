//! Each of the three operations against its definition, over strides, dilations, paddings, groups and element types.

use rushlight_core::DType;
use rushlight_core::dtype::{c64, c128};
use rushlight_core::window::WindowDim;

use super::*;

/// Small integers, so that every dtype's sums are exact.
fn values(count: usize, seed: &mut u64, complex: bool) -> Vec<c128> {
    let mut next = || {
        *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (*seed >> 60) as f64 - 8.0
    };
    (0..count).map(|_| c128::new(next(), if complex { next() } else { 0.0 })).collect()
}

fn defined(
    computed: Computed,
    g: &Geometry,
    input: &mut [c128],
    weight: &mut [c128],
    output: &mut [c128],
    bias: &[c128],
) {
    let places = |sizes: [usize; 3]| {
        (0..sizes.iter().product())
            .map(move |i: usize| [i / sizes[2] / sizes[1], i / sizes[2] % sizes[1], i % sizes[2]])
    };
    match computed {
        Computed::Output => output.fill(c128::default()),
        Computed::Input => input.fill(c128::default()),
        Computed::Weight => weight.fill(c128::default()),
    }
    for image in 0..g.batch * g.groups {
        for feature in 0..g.features {
            let filter = image % g.groups * g.features + feature;
            for (pixel, at) in places(g.output()).enumerate() {
                let o = (image * g.features + feature) * g.pixels() + pixel;
                if computed == Computed::Output {
                    output[o] = bias[filter];
                }
                for channel in 0..g.channels {
                    for (tap, k) in places(g.kernel()).enumerate() {
                        let seen = [0, 1, 2].map(|a| {
                            let dim = &g.space[a];
                            (at[a] * dim.stride + k[a] * dim.dilation).wrapping_sub(dim.padding)
                        });
                        if (0..3).any(|a| seen[a] >= g.space[a].input) {
                            continue;
                        }
                        let place = (seen[0] * g.space[1].input + seen[1]) * g.space[2].input + seen[2];
                        let i = (image * g.channels + channel) * g.area() + place;
                        let w = (filter * g.channels + channel) * g.window() + tap;
                        match computed {
                            Computed::Output => output[o] += input[i] * weight[w],
                            Computed::Input => input[i] += output[o] * weight[w],
                            Computed::Weight => weight[w] += output[o] * input[i],
                        }
                    }
                }
            }
        }
    }
}

/// Compares one operation in one dtype; `to` and `from` convert its elements.
fn compare<T: Copy>(dtype: DType, g: &Geometry, seed: &mut u64, to: fn(c128) -> T, from: fn(T) -> c128) {
    let complex = dtype.is_complex();
    let filters = g.groups * g.features;
    for computed in [Computed::Output, Computed::Input, Computed::Weight] {
        let mut input = values(g.batch * g.groups * g.channels * g.area(), seed, complex);
        let mut weight = values(filters * g.depth(), seed, complex);
        let mut output = values(g.batch * filters * g.pixels(), seed, complex);
        let bias = values(filters, seed, complex);
        let typed = |values: &[c128]| values.iter().map(|&value| to(value)).collect::<Vec<T>>();
        let (mut i, mut w, mut o, b) = (typed(&input), typed(&weight), typed(&output), typed(&bias));
        let operands = Operands {
            input: i.as_mut_ptr().cast(),
            weight: w.as_mut_ptr().cast(),
            output: o.as_mut_ptr().cast(),
            bias: (computed == Computed::Output).then_some(b.as_ptr().cast()),
        };
        // SAFETY: the vectors have the geometry's sizes.
        unsafe { convolve(dtype, computed, g, operands).unwrap() };
        defined(computed, g, &mut input, &mut weight, &mut output, &bias);
        let (found, wanted) = match computed {
            Computed::Output => (o, output),
            Computed::Input => (i, input),
            Computed::Weight => (w, weight),
        };
        let found: Vec<c128> = found.into_iter().map(from).collect();
        assert_eq!(found, wanted, "{computed:?} {dtype:?} {g:?}");
    }
}

#[test]
fn three_operations_follow_their_definition() {
    compare_many(200, [5, 20], 21);
}

/// Rows of several vectors and a remainder.
#[test]
fn so_they_do_where_groups_have_one_channel() {
    compare_many(60, [1, 1], 75);
}

/// Few pixels, with channels and features enough for the algorithm with columns.
#[test]
fn so_they_do_where_images_are_small() {
    compare_many(60, [40, 200], 5);
}

/// Random convolutions of at most so many channels and features for each group, and so many columns.
fn compare_many(cases: usize, [channels, features]: [usize; 2], columns: usize) {
    let seed = &mut 7u64;
    for case in 0..cases {
        let mut pick = |from: usize, count: usize| {
            *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            from + (*seed >> 33) as usize % count
        };
        let mut g = Geometry {
            batch: pick(0, 4),
            groups: pick(1, 3),
            channels: pick(1, channels),
            features: pick(1, features),
            space: [WindowDim::FLAT; 3],
        };
        for axis in usize::from(case % 4 != 0)..3 {
            let dim = &mut g.space[axis];
            (dim.kernel, dim.stride) = (pick(1, 4), pick(1, 3));
            (dim.dilation, dim.padding) = (pick(1, 2), pick(0, 4));
            dim.output = pick(1, if axis == 2 { columns } else { 6 });
            // Some inputs end before the last window, some after.
            let reach = (dim.output - 1) * dim.stride + (dim.kernel - 1) * dim.dilation + 1;
            dim.input = (reach + pick(0, 4)).saturating_sub(dim.padding + 2).max(1);
        }
        compare::<f32>(DType::F32, &g, seed, |x| x.re as f32, |x| c128::new(x as f64, 0.0));
        compare::<f64>(DType::F64, &g, seed, |x| x.re, |x| c128::new(x, 0.0));
        compare::<i32>(DType::I32, &g, seed, |x| x.re as i32, |x| c128::new(x as f64, 0.0));
        compare::<c64>(
            DType::C64,
            &g,
            seed,
            |x| c64::new(x.re as f32, x.im as f32),
            |x| c128::new(x.re as f64, x.im as f64),
        );
    }
}
