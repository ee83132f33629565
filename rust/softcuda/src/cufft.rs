//! The entry points of cuFFT that rushlight calls. NVIDIA's documentation of cuFFT describes them.
//!
//! Every transform is checked: the order of calls on a plan, sizes and placings, ranges of memory, alignments and the workspace. The
//! workspace is overwritten, and so is the operand of a transform to real numbers.
#![allow(non_snake_case, clippy::missing_safety_doc, clippy::too_many_arguments)]

use std::collections::HashMap;
use std::f64::consts::TAU;
use std::ffi::{c_int, c_longlong};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::driver::current;
use crate::dtype::{DType, Number, plus, times};
use crate::library::{Enqueued, enqueue};
use crate::status::SUCCESS;
use crate::streams::Library;

type Status = c_int;
const INVALID_PLAN: Status = 1;
const INVALID_TYPE: Status = 3;
const INVALID_VALUE: Status = 4;
const EXEC_FAILED: Status = 6;
const SETUP_FAILED: Status = 7;
const INVALID_SIZE: Status = 8;
const UNALIGNED_DATA: Status = 9;
const NO_WORKSPACE: Status = 13;

/// How operand or result lie in memory. Distances are in elements.
#[derive(Clone, PartialEq)]
struct Placing {
    data: DType,
    sizes: Vec<usize>,
    embed: Vec<usize>,
    stride: usize,
    step: usize,
}

impl Placing {
    fn offset(&self, transform: usize, mut place: usize) -> usize {
        let mut at = vec![0; self.sizes.len()];
        for dim in (0..self.sizes.len()).rev() {
            at[dim] = place % self.sizes[dim];
            place /= self.sizes[dim];
        }
        let inner = at.iter().zip(&self.embed).fold(0, |offset, (at, embed)| offset * embed + at);
        (transform * self.step + inner * self.stride) * self.data.bytes()
    }

    fn count(&self) -> usize {
        self.sizes.iter().product()
    }

    /// The bytes from the first to the last one.
    fn extent(&self, transforms: usize) -> u64 {
        (self.offset(transforms - 1, self.count() - 1) + self.data.bytes()) as u64
    }

    fn is_valid(&self) -> bool {
        let fits = self.sizes.iter().zip(&self.embed).skip(1).all(|(size, embed)| embed >= size);
        fits && self.stride > 0 && self.step > 0
    }
}

#[derive(Clone)]
struct Shape {
    sizes: Vec<usize>,
    from: Placing,
    to: Placing,
    transforms: usize,
}

struct Plan {
    device: c_int,
    allocates: bool,
    shape: Option<Shape>,
    bytes: u64,
    space: usize,
    stream: usize,
}

static PLANS: Mutex<Option<HashMap<c_int, Plan>>> = Mutex::new(None);

fn plans() -> MutexGuard<'static, Option<HashMap<c_int, Plan>>> {
    PLANS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a function on a plan of the current device.
fn with_plan(handle: c_int, run: impl FnOnce(&mut Plan) -> Status) -> Status {
    let mut plans = plans();
    match plans.as_mut().and_then(|plans| plans.get_mut(&handle)) {
        Some(plan) if current() == Ok(plan.device) => run(plan),
        _ => INVALID_PLAN,
    }
}

entries! {
    cufftGetVersion(version: *mut c_int) { *version = 12_000; SUCCESS }

    cufftCreate(handle: *mut c_int) {
        let Ok(device) = current() else { return SETUP_FAILED };
        let mut plans = plans();
        let plans = plans.get_or_insert_default();
        *handle = plans.keys().max().map_or(1, |last| last + 1);
        plans.insert(*handle, Plan { device, allocates: true, shape: None, bytes: 0, space: 0, stream: 0 });
        SUCCESS
    }

    cufftDestroy(handle: c_int) {
        match plans().as_mut().and_then(|plans| plans.remove(&handle)) {
            Some(plan) if current() == Ok(plan.device) => SUCCESS,
            _ => INVALID_PLAN,
        }
    }

    cufftSetAutoAllocation(handle: c_int, allocates: c_int) {
        with_plan(handle, |plan| {
            plan.allocates = allocates != 0;
            if plan.shape.is_none() { SUCCESS } else { INVALID_PLAN }
        })
    }

    cufftXtMakePlanMany(
        handle: c_int, rank: c_int, sizes: *const c_longlong, from: *const c_longlong, from_stride: c_longlong,
        from_step: c_longlong, from_type: c_int, to: *const c_longlong, to_stride: c_longlong, to_step: c_longlong,
        to_type: c_int, transforms: c_longlong, bytes: *mut usize, computed: c_int
    ) {
        if !(1..=3).contains(&rank) || transforms < 1 || from_stride < 1 || to_stride < 1 || from_step < 1 || to_step < 1 {
            return INVALID_SIZE;
        }
        let list = |at: *const c_longlong| -> Option<Vec<usize>> {
            std::slice::from_raw_parts(at, rank as usize).iter().map(|&size| usize::try_from(size).ok().filter(|&size| size > 0)).collect()
        };
        let (Some(sizes), Some(from), Some(to)) = (list(sizes), list(from), list(to)) else { return INVALID_SIZE };
        let kind = |code: c_int| DType::of(code as u32);
        let (Some(operand), Some(result), Some(computed)) = (kind(from_type), kind(to_type), kind(computed)) else { return INVALID_TYPE };
        let real = if computed == DType::C32 { DType::R32 } else { DType::R64 };
        let known = [(computed, computed), (real, computed), (computed, real)].contains(&(operand, result));
        if !computed.is_complex() || !known { return INVALID_TYPE; }
        let mut half = sizes.clone();
        half[rank as usize - 1] = half[rank as usize - 1] / 2 + 1;
        let own = |data: DType, other: DType| if data.is_complex() && !other.is_complex() { half.clone() } else { sizes.clone() };
        let shape = Shape {
            from: Placing { data: operand, sizes: own(operand, result), embed: from, stride: from_stride as usize, step: from_step as usize },
            to: Placing { data: result, sizes: own(result, operand), embed: to, stride: to_stride as usize, step: to_step as usize },
            sizes,
            transforms: transforms as usize,
        };
        if !shape.from.is_valid() || !shape.to.is_valid() { return INVALID_SIZE; }
        with_plan(handle, |plan| {
            if plan.shape.is_some() || plan.allocates { return INVALID_PLAN; }
            // Lengths that are powers of two need no workspace here.
            let plain = shape.sizes.iter().all(|size| size.is_power_of_two());
            plan.bytes = if plain { 0 } else { (shape.sizes.iter().product::<usize>() * 16) as u64 };
            *bytes = plan.bytes as usize;
            plan.shape = Some(shape);
            SUCCESS
        })
    }

    cufftSetStream(handle: c_int, stream: usize) {
        with_plan(handle, |plan| { plan.stream = stream; SUCCESS })
    }

    cufftSetWorkArea(handle: c_int, space: usize) {
        with_plan(handle, |plan| { plan.space = space; SUCCESS })
    }

    cufftXtExec(handle: c_int, from: usize, to: usize, direction: c_int) {
        with_plan(handle, |plan| {
            let Some(shape) = plan.shape.clone() else { return INVALID_PLAN };
            if direction != -1 && direction != 1 { return INVALID_VALUE; }
            let pair = |data: DType| if data.is_complex() { data.bytes() } else { 2 * data.bytes() };
            if !from.is_multiple_of(pair(shape.from.data)) || !to.is_multiple_of(pair(shape.to.data)) { return UNALIGNED_DATA; }
            let forward = direction == -1;
            match (shape.from.data.is_complex(), shape.to.data.is_complex()) {
                (true, true) => {}
                (false, _) if !forward => return INVALID_VALUE,
                (_, false) if forward => return INVALID_VALUE,
                _ => {}
            }
            let mut ranges = vec![(from, shape.from.extent(shape.transforms)), (to, shape.to.extent(shape.transforms))];
            let apart = from + ranges[0].1 as usize <= to || to + ranges[1].1 as usize <= from;
            if !apart && (from != to || shape.from != shape.to) { return INVALID_VALUE; }
            if plan.bytes > 0 {
                if plan.space == 0 { return NO_WORKSPACE; }
                if !plan.space.is_multiple_of(16) { return UNALIGNED_DATA; }
                ranges.push((plan.space, plan.bytes));
            }
            let (space, bytes) = (plan.space, plan.bytes as usize);
            let run = move || {
                // SAFETY: ranges are checked when the work is enqueued, and freeing memory waits for its device.
                unsafe {
                    std::ptr::with_exposed_provenance_mut::<u8>(space).write_bytes(0xff, bytes);
                    (0..shape.transforms).for_each(|transform| shape.run(transform, from, to, forward));
                }
            };
            match enqueue(plan.device, plan.stream, &ranges, Library::Transforms, run) {
                Enqueued::Done => SUCCESS,
                Enqueued::Invalid => INVALID_VALUE,
                Enqueued::Stopped => EXEC_FAILED,
            }
        })
    }
}

/// Transforms numbers of row-major sizes along one dimension.
fn along(numbers: &mut [Number], sizes: &[usize], dim: usize, forward: bool) {
    let (n, inner) = (sizes[dim], sizes[dim + 1..].iter().product::<usize>());
    let sign = if forward { -TAU } else { TAU };
    let roots: Vec<Number> =
        (0..n).map(|k| (sign * k as f64 / n as f64).sin_cos()).map(|(sin, cos)| [cos, sin]).collect();
    for line in 0..numbers.len() / n {
        let first = line / inner * n * inner + line % inner;
        let old: Vec<Number> = (0..n).map(|k| numbers[first + k * inner]).collect();
        for k in 0..n {
            let terms = old.iter().enumerate().map(|(j, &value)| times(value, roots[j * k % n]));
            numbers[first + k * inner] = terms.fold([0.0; 2], plus);
        }
    }
}

impl Shape {
    /// # Safety
    /// Operand and result lie in memory.
    unsafe fn run(&self, transform: usize, from: usize, to: usize, forward: bool) {
        let (operand, result) = (&self.from, &self.to);
        let last = self.sizes.len() - 1;
        // SAFETY: guaranteed by the caller.
        let load = |place: usize| unsafe { operand.data.load(from + operand.offset(transform, place)) };
        let mut numbers: Vec<Number> = (0..operand.count()).map(load).collect();
        let becomes_real = !result.data.is_complex();
        (0..last).for_each(|dim| along(&mut numbers, &operand.sizes, dim, forward));
        if becomes_real {
            numbers = self.with_conjugates(&numbers);
            for place in 0..operand.count() {
                // SAFETY: guaranteed by the caller.
                unsafe { operand.data.store(from + operand.offset(transform, place), [f64::NAN; 2]) };
            }
        }
        along(&mut numbers, &self.sizes, last, forward);
        let (all, kept) = (self.sizes[last], result.sizes[last]);
        for place in 0..result.count() {
            let value = numbers[place / kept * all + place % kept];
            // SAFETY: guaranteed by the caller.
            unsafe { result.data.store(to + result.offset(transform, place), value) };
        }
    }

    /// Lines of which the first half is given.
    fn with_conjugates(&self, half: &[Number]) -> Vec<Number> {
        let n = self.sizes[self.sizes.len() - 1];
        let line = |given: &[Number]| -> Vec<Number> {
            let whole = |k: usize| if 2 * k > n { [given[n - k][0], -given[n - k][1]] } else { given[k] };
            (0..n).map(|k| if 2 * k % n == 0 { [given[k][0], 0.0] } else { whole(k) }).collect()
        };
        half.chunks(n / 2 + 1).flat_map(line).collect()
    }
}
