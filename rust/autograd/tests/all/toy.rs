//! Toy operators: slow loops over float64 elements of any strides, recorded like real operators.

use std::sync::Once;

use rushlight_autograd::engine::Options;
use rushlight_autograd::*;
use rushlight_core::layout::contiguous_strides;
use rushlight_core::{DType, Device, Error, Layout, Result, Storage};
use smallvec::smallvec;

/// The element offsets in row-major order.
fn offsets(layout: &Layout) -> Vec<isize> {
    (0..layout.numel()).map(|i| layout.locate(i)).collect()
}

pub fn read(tensor: &Tensor) -> Vec<f64> {
    let pin = tensor.storage().pin().unwrap();
    let pointer = pin.as_ptr().cast::<f64>();
    // SAFETY: the toys make no layout that exceeds its storage.
    offsets(tensor.layout()).into_iter().map(|i| unsafe { pointer.offset(i).read() }).collect()
}

fn write(tensor: &Tensor, values: &[f64]) {
    let pin = tensor.storage().pin().unwrap();
    let pointer = pin.as_ptr().cast::<f64>();
    for (i, offset) in offsets(tensor.layout()).into_iter().enumerate() {
        // SAFETY: as above.
        unsafe { pointer.offset(offset).write(values[i % values.len()]) };
    }
}

fn fresh(sizes: &[isize], values: &[f64]) -> Tensor {
    let tensor = empty(&Layout::contiguous(sizes), DType::F64, Device::Cpu).unwrap();
    write(&tensor, values);
    tensor
}

pub fn tensor(values: &[f64]) -> Tensor {
    setup();
    fresh(&[values.len() as isize], values)
}

pub fn matrix(rows: isize, columns: isize, values: &[f64]) -> Tensor {
    setup();
    fresh(&[rows, columns], values)
}

pub fn leaf(values: &[f64]) -> Tensor {
    let tensor = tensor(values);
    tensor.set_requires_grad(true).unwrap();
    tensor
}

pub fn run(output: &Tensor) -> Result<()> {
    backward(std::slice::from_ref(output), &[], None, Options::default())
}

pub fn grads(output: &Tensor, inputs: &[&Tensor], create_graph: bool) -> Vec<Tensor> {
    let inputs: Vec<Tensor> = inputs.iter().map(|&input| input.clone()).collect();
    let options = Options { retain_graph: create_graph, create_graph };
    let grads = grad(std::slice::from_ref(output), &inputs, &[], false, options).unwrap();
    grads.into_iter().map(Option::unwrap).collect()
}

pub fn grad_of(tensor: &Tensor) -> Vec<f64> {
    read(&tensor.grad().expect("a gradient"))
}

static ARITHMETIC: Arithmetic = Arithmetic {
    add,
    add_,
    clone,
    detach: |tensor| Ok(tensor.detach()),
    empty: |layout, like| empty(layout, like.dtype(), like.device()),
    full,
    copy_,
    as_strided,
    sum_to,
    cast,
    has_nan,
    has_inf,
    elements: |tensor| Ok(read(tensor)),
};

fn setup() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        install(&ARITHMETIC);
        source_location::set_source_locator(source_location::SourceLocator {
            here: || LINE.with(|line| SourceLocation { code: 1, offset: line.get() }),
            describe: |source_location| {
                (source_location.offset != 0).then(|| format!("program.py, line {}", source_location.offset))
            },
            trace: || {
                rushlight_core::fork::assert_no_lock_held();
                Some(format!("program.py, line {}", LINE.with(std::cell::Cell::get)))
            },
            announce: |message| WARNINGS.with_borrow_mut(|warnings| warnings.push(message.to_string())),
        });
    });
}

thread_local! {
    static LINE: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
    static WARNINGS: std::cell::RefCell<Vec<String>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// Pretends that the user's program is at this line.
pub fn at_line(line: u32) {
    LINE.set(line);
}

/// The warnings of this thread since the last call.
pub fn warnings() -> Vec<String> {
    WARNINGS.take()
}

type Derivative = dyn Fn(&BackwardCall<'_>, &[SavedTensor], Tensor) -> Result<Gradients> + Send + Sync;

/// A derivative as a closure over what was saved; for functions with one output.
struct Toy {
    name: &'static str,
    saved: Vec<SavedTensor>,
    derivative: Box<Derivative>,
}

impl Backward for Toy {
    fn name(&self) -> &str {
        self.name
    }
    fn apply(&self, call: &BackwardCall<'_>, mut grads: Gradients) -> Result<Gradients> {
        let grad = grads.pop().flatten().ok_or_else(|| Error::runtime("no gradient"))?;
        (self.derivative)(call, &self.saved, grad)
    }
    fn release(&self) {
        self.saved.iter().for_each(SavedTensor::release);
    }
}

fn toy(
    name: &'static str,
    saved: Vec<SavedTensor>,
    derivative: impl Fn(&BackwardCall<'_>, &[SavedTensor], Tensor) -> Result<Gradients> + Send + Sync + 'static,
) -> Toy {
    Toy { name, saved, derivative: Box::new(derivative) }
}

fn empty(layout: &Layout, dtype: DType, device: Device) -> Result<Tensor> {
    let span = layout.span().map_or(0, |(_, high)| high as usize + 1);
    Ok(Tensor::new(Storage::heap(span * 8)?, layout.clone(), dtype, device))
}

fn full(sizes: &[isize], value: f64, _: DType, _: Device) -> Result<Tensor> {
    Ok(fresh(sizes, &[value]))
}

fn cast(tensor: &Tensor, _: DType) -> Result<Tensor> {
    Ok(tensor.clone())
}

fn has_inf(tensor: &Tensor) -> Result<bool> {
    Ok(read(tensor).iter().any(|x| x.is_infinite()))
}

fn has_nan(tensor: &Tensor) -> Result<bool> {
    Ok(read(tensor).iter().any(|x| x.is_nan()))
}

fn pairs(a: &Tensor, b: &Tensor, f: impl Fn(f64, f64) -> f64) -> Result<Vec<f64>> {
    let b = Tensor::new(b.storage().clone(), b.layout().broadcast_to(a.sizes())?, b.dtype(), b.device());
    Ok(read(a).into_iter().zip(read(&b)).map(|(x, y)| f(x, y)).collect())
}

pub fn add(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let out = fresh(a.sizes(), &pairs(a, b, |x, y| x + y)?);
    if should_record(&[Some(a), Some(b)]) {
        record(
            toy("AddBackward0", vec![], |_, _, grad| Ok(smallvec![Some(grad.clone()), Some(grad)])),
            &[Some(a), Some(b)],
            &[&out],
        )?;
    }
    Ok(out)
}

pub fn add_(a: &Tensor, b: &Tensor) -> Result<()> {
    let change = InPlace::begin(a, &[Some(a), Some(b)])?;
    write(a, &pairs(a, b, |x, y| x + y)?);
    change.finish(|| Ok(toy("AddBackward0", vec![], |_, _, grad| Ok(smallvec![Some(grad.clone()), Some(grad)]))))
}

fn mul_toy(a: &Tensor, b: &Tensor) -> Result<Toy> {
    let saved = vec![SavedTensor::input(a)?, SavedTensor::input(b)?];
    Ok(toy("MulBackward0", saved, |call, saved, grad| {
        let times = |place: usize| mul(&grad, &call.unpack(&saved[place])?).map(Some);
        Ok(smallvec![if call.needs(0) { times(1)? } else { None }, if call.needs(1) { times(0)? } else { None }])
    }))
}

pub fn mul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let out = fresh(a.sizes(), &pairs(a, b, |x, y| x * y)?);
    if should_record(&[Some(a), Some(b)]) {
        record(mul_toy(a, b)?, &[Some(a), Some(b)], &[&out])?;
    }
    Ok(out)
}

/// Multiplies in place; the second operand is saved, and the first too if the second needs a gradient.
pub fn mul_(a: &Tensor, b: &Tensor) -> Result<()> {
    let change = InPlace::begin(a, &[Some(a), Some(b)])?;
    let before = if change.is_recorded() && b.requires_grad() { Some(SavedTensor::input(&clone(a)?)?) } else { None };
    write(a, &pairs(a, b, |x, y| x * y)?);
    change.finish(|| {
        let mut saved = vec![SavedTensor::input(b)?];
        saved.extend(before);
        Ok(toy("MulBackward0", saved, |call, saved, grad| {
            let times = |place: usize| mul(&grad, &call.unpack(&saved[place])?).map(Some);
            Ok(smallvec![if call.needs(0) { times(0)? } else { None }, if call.needs(1) { times(1)? } else { None }])
        }))
    })
}

fn exp_toy(out: &Tensor) -> Result<Toy> {
    Ok(toy("ExpBackward0", vec![SavedTensor::output(out, 0)?], |call, saved, grad| {
        Ok(smallvec![Some(mul(&grad, &call.unpack(&saved[0])?)?)])
    }))
}

pub fn exp(a: &Tensor) -> Result<Tensor> {
    let out = fresh(a.sizes(), &read(a).into_iter().map(f64::exp).collect::<Vec<_>>());
    if should_record(&[Some(a)]) {
        record(exp_toy(&out)?, &[Some(a)], &[&out])?;
    }
    Ok(out)
}

pub fn exp_(a: &Tensor) -> Result<()> {
    let change = InPlace::begin(a, &[Some(a)])?;
    write(a, &read(a).into_iter().map(f64::exp).collect::<Vec<_>>());
    change.finish(|| exp_toy(a))
}

pub fn sum(a: &Tensor) -> Result<Tensor> {
    let out = fresh(&[], &[read(a).iter().sum()]);
    if should_record(&[Some(a)]) {
        let sizes = a.sizes().clone();
        record(
            toy("SumBackward0", vec![], move |_, _, grad| Ok(smallvec![Some(expand(&grad, &sizes)?)])),
            &[Some(a)],
            &[&out],
        )?;
    }
    Ok(out)
}

pub fn expand(a: &Tensor, sizes: &[isize]) -> Result<Tensor> {
    let out = Tensor::view_of(a, a.layout().broadcast_to(sizes)?);
    if should_record(&[Some(a)]) {
        record(toy("ExpandBackward0", vec![], |_, _, grad| Ok(smallvec![Some(grad)])), &[Some(a)], &[&out])?;
    }
    Ok(out)
}

pub fn sum_to(a: &Tensor, sizes: &[isize]) -> Result<Tensor> {
    let out = fresh(sizes, &[0.0]);
    let stretched = out.layout().broadcast_to(a.sizes())?;
    let pin = out.storage().pin().unwrap();
    for (offset, value) in offsets(&stretched).into_iter().zip(read(a)) {
        // SAFETY: a broadcast layout stays within its storage.
        unsafe { *pin.as_ptr().cast::<f64>().offset(offset) += value };
    }
    drop(pin);
    if should_record(&[Some(a)]) {
        let sizes = a.sizes().clone();
        record(
            toy("SumToBackward0", vec![], move |_, _, grad| Ok(smallvec![Some(expand(&grad, &sizes)?)])),
            &[Some(a)],
            &[&out],
        )?;
    }
    Ok(out)
}

pub fn clone(a: &Tensor) -> Result<Tensor> {
    let out = fresh(a.sizes(), &read(a));
    if should_record(&[Some(a)]) {
        record(toy("CloneBackward0", vec![], |_, _, grad| Ok(smallvec![Some(grad)])), &[Some(a)], &[&out])?;
    }
    Ok(out)
}

pub fn copy_(a: &Tensor, b: &Tensor) -> Result<()> {
    let change = InPlace::begin(a, &[Some(a), Some(b)])?;
    write(a, &pairs(a, b, |_, y| y)?);
    change.finish(|| Ok(toy("CopyBackwards", vec![], |_, _, grad| Ok(smallvec![None, Some(grad)]))))
}

fn record_view(a: &Tensor, out: &Tensor, name: &'static str, place: u32, outputs: &[&Tensor]) -> Result<()> {
    debug_assert!(outputs[place as usize].ptr_eq(out));
    let (base, view) = (a.layout().clone(), out.layout().clone());
    record(
        toy(name, vec![], move |_, _, grad| {
            let (_, high) = base.span().unwrap();
            let buffer = fresh(&[high + 1], &[0.0]);
            let slice = as_strided(&buffer, &view)?;
            copy_(&slice, &grad)?;
            Ok(smallvec![Some(as_strided(&buffer, &base)?)])
        }),
        &[Some(a)],
        outputs,
    )
}

pub fn as_strided(a: &Tensor, layout: &Layout) -> Result<Tensor> {
    let out = Tensor::view_of(a, layout.clone());
    if should_record(&[Some(a)]) {
        record_view(a, &out, "AsStridedBackward0", 0, &[&out])?;
    }
    Ok(out)
}

pub fn slice(a: &Tensor, start: isize, length: isize) -> Tensor {
    as_strided(a, &a.layout().slice(0, start, length, 1)).unwrap()
}

/// Two halves from one function, as with `chunk`.
pub fn halves(a: &Tensor) -> (Tensor, Tensor) {
    let half = a.sizes()[0] / 2;
    let first = Tensor::view_of_many(a, a.layout().slice(0, 0, half, 1));
    let second = Tensor::view_of_many(a, a.layout().slice(0, half, half, 1));
    if should_record(&[Some(a)]) {
        let sizes = a.sizes().clone();
        let function = Halves { sizes };
        record(function, &[Some(a)], &[&first, &second]).unwrap();
    }
    (first, second)
}

struct Halves {
    sizes: rushlight_core::Dims,
}

impl Backward for Halves {
    fn name(&self) -> &str {
        "SplitBackward0"
    }
    fn apply(&self, call: &BackwardCall<'_>, grads: Gradients) -> Result<Gradients> {
        let whole = fresh(&self.sizes, &[0.0]);
        let half = self.sizes[0] / 2;
        for (place, grad) in grads.into_iter().enumerate() {
            let grad = grad.map_or_else(|| call.zeros(place), Ok)?;
            copy_(&slice(&whole, place as isize * half, half), &grad)?;
        }
        Ok(smallvec![Some(whole)])
    }
    fn release(&self) {}
}

/// A non-contiguous leaf, stored column by column.
pub fn transposed_leaf(rows: isize, columns: isize, values: &[f64]) -> Tensor {
    setup();
    let mut layout = Layout::contiguous(&[columns, rows]);
    layout.strides = contiguous_strides(&[columns, rows]);
    let tensor = empty(&layout.transpose(0, 1), DType::F64, Device::Cpu).unwrap();
    write(&tensor, values);
    tensor.set_requires_grad(true).unwrap();
    tensor
}
