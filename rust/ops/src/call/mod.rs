//! The life of a call, the same eight steps for every operator:
//! check devices, promote, broadcast, infer the shape, allocate, run, record for backward, record for the profiler.
//!
//! Before the steps, `call_into` asks in this order: whether memory stands behind the small requests that nobody could refuse;
//! whether mixed precision casts the operands (`autocast`; the call starts anew with what it cast); what the row itself checks;
//! whether its `inplace=` makes it a call in place; whether it draws inside a `vmap` (`mapped::random`); whether an operand
//! is sparse (`sparse`), mirrored (`mirrored`) or mapped (`mapped`), which then make the call; and whether the row hands over
//! to another one (`Run::Defer`). The order matters: autocast sees operands as the user gave them, a row refuses in its own
//! words before anything is copied, and whatever a row hands over to asks all of it again.

mod devices;
mod made;
pub mod mirrored;
mod numbers;
mod overlapping;
mod torn;
mod views;

use rushlight_autograd::Tensor;
use rushlight_core::alloc::out_of_memory;
use rushlight_core::file_map::tears;
use rushlight_core::plan::{Plan, result_layout};
use rushlight_core::storage::Block;
use rushlight_core::{Class, DType, Device, Dims, Error, Layout, Result, Scalar, Storage, reserve};
use rushlight_cpu::pointwise::{Lane, Numbers, Tile};
use smallvec::SmallVec;

use self::devices::check_devices;
use crate::autocast;
use crate::enclosed;
use crate::keeper;
use crate::mapped;
use crate::node;
use crate::profile;
use crate::promote;
use crate::row::{Accepts, Kernel, Pointwise, Promote, Row, Run, Spec, Traits, Update};
use crate::short;
use crate::short::{Operand, Operands};
use crate::signature::Kind;
use crate::sparse;
use crate::value::{Args, Output, Value};

/// Where the results go.
pub enum Target<'a> {
    Fresh,
    /// The first argument is overwritten.
    InPlace,
    /// `out=`: one tensor for each result.
    Out(&'a [Tensor]),
}

/// Calls the operator of `args` for a fresh result.
#[inline]
pub fn call(args: Args) -> Result<Output> {
    call_into(args, Target::Fresh)
}

/// Calls the operator of `args` for a result at `target`.
pub fn call_into<'a>(args: Args<'a>, target: Target<'_>) -> Result<Output> {
    // A node, a view or a tensor of no elements asks nobody for memory who could refuse it.
    if !reserve::hold() {
        return Err(out_of_memory(0));
    }
    if let (Some(lower), Target::Fresh) = (autocast::lower(), &target)
        && let Some((args, _off)) = autocast::cast(&args, lower)?
    {
        return call_into(args, target);
    }
    let row = args.row;
    if let Some(check) = row.check {
        check(&args).map_err(|error| placed(error, &args, matches!(target, Target::InPlace)))?;
    }
    let target = match (target, row.schema().inplace) {
        (Target::Fresh, Some(place)) if args.optional_bool(place) == Some(true) => Target::InPlace,
        (target, _) => target,
    };
    let in_place = matches!(target, Target::InPlace);
    if row.traits.has(Traits::DRAWS) && mapped::levels::inside() {
        return mapped::random::call(args, target);
    }
    if !all_plain(&args, &target) {
        if sparse::concerns(&args, &target) {
            return sparse::call(args, target).map_err(|error| error.operator(row.title(in_place)));
        }
        if mirrored::concerns(&args, &target) {
            return mirrored::call(args, target);
        }
        if mapped::concerns(&args, &target) {
            return mapped::call(args, target).map_err(|error| error.operator(row.title(in_place)));
        }
    }
    if let Run::Defer(choose) = row.run {
        if let Target::Out([first, ..]) = target {
            crate::variants::check_no_gradient(&args, first)?; // under the name that was called
        }
        let own = matches!(target, Target::InPlace).then(|| args.tensor(0).cloned()).transpose()?;
        let chosen: Result<Args<'a>> = choose(args);
        let chosen = chosen.map_err(|error| error.operator(row.title(in_place)))?;
        if let (Target::Out([first, ..]), Accepts::Same, Some((_, operand))) =
            (&target, row.out.accepts, chosen.each_tensor().next())
        {
            row.out.check(&chosen, 0, operand.dtype(), first.dtype())?;
        }
        if let Some(own) = own {
            let base = chosen.tensor(0)?;
            if !base.ptr_eq(&own) {
                return Err(Error::runtime(format!(
                    "the base given to {}_ has dtype {} but the operation's result requires dtype {}",
                    row.python_name(),
                    own.dtype().title(),
                    base.dtype().title()
                )));
            }
        }
        return call_into(chosen, target).map_err(|error| error.called(row.title(in_place), Vec::new()));
    }
    let span = profile::begin();
    let output = match target {
        Target::Fresh if keeper::is_expected() => keeper::through(&args, || carry_out(&args, Target::Fresh)),
        target => carry_out(&args, target),
    };
    profile::end(span, || profile::Name::Operator { row, in_place }, Some(&args));
    let output = if tears() > 0 { output.and_then(|output| torn::whole(&args, output)) } else { output };
    output.or_else(|error| overlapping::retry(&args, in_place, error)).map_err(|error| placed(error, &args, in_place))
}

#[inline(always)]
fn carry_out(args: &Args, target: Target) -> Result<Output> {
    match (&args.row.run, target) {
        (Run::Pointwise(body), target) => pointwise(body, args, target),
        (Run::Kernel(body), Target::Fresh) => kernel(body, args),
        (Run::Update(body), target) => update(body, args, target),
        (Run::View(layout), Target::Fresh) => views::view(*layout, args),
        (Run::View(layout), Target::InPlace) => views::reshape_in_place(*layout, args),
        (Run::Retype(form), Target::Fresh) => views::retype(*form, args),
        (Run::Views(layouts), Target::Fresh) => views::views(*layouts, args),
        (Run::Compose(body), Target::Fresh) => check_devices(args).and_then(|_| enclosed::compose(*body, args)),
        (Run::Body(body), Target::Fresh) => unrecorded(*body, args),
        (Run::Overwrite(body), Target::Fresh) => overwrite(*body, args),
        (_, target) => crate::variants::through_copy(args, target),
    }
}

/// Whether the elements of all tensors of the call are what is stored, as they nearly always are.
#[inline]
fn all_plain(args: &Args, target: &Target) -> bool {
    args.all_tensors(Tensor::is_plain) && !matches!(target, Target::Out(outs) if !outs.iter().all(Tensor::is_plain))
}

/// The error with what it is about: the operator, and its operands' shapes where the error does not know better ones.
#[cold]
pub(crate) fn placed(error: Error, args: &Args, in_place: bool) -> Error {
    let shapes: Vec<Dims> = args.each_tensor().map(|(_, tensor)| tensor.sizes().clone()).collect();
    error.called(args.row.title(in_place), shapes)
}

/// Splits the arguments into operands and numbers, by the kinds of the signature.
#[inline]
fn split<'a>(args: &'a Args) -> Result<(Operands<'a>, Numbers)> {
    let mut operands = Operands::new();
    let mut numbers = Numbers::new();
    for (param, value) in args.row.schema().params.iter().zip(&args.values) {
        match (param.kind, value) {
            (_, Value::Tensor(tensor)) => operands.push(Operand::Tensor(tensor)),
            (_, Value::Own(tensor)) => operands.push(Operand::Tensor(tensor)),
            (Kind::Operand, Value::Scalar(number)) => operands.push(Operand::Number(*number)),
            (Kind::Operand, Value::Int(number)) => operands.push(Operand::Number(Scalar::Int(*number))),
            (Kind::Operand, Value::Float(number)) => operands.push(Operand::Number(Scalar::Float(*number))),
            (Kind::Operand, Value::Bool(flag)) => operands.push(Operand::Number(Scalar::Bool(*flag))),
            (_, Value::Scalar(number)) => numbers.push(*number),
            (_, Value::Bool(flag)) => numbers.push(Scalar::Bool(*flag)),
            (_, Value::Int(number)) => numbers.push(Scalar::Int(*number)),
            (_, Value::Float(number)) => numbers.push(Scalar::Float(*number)),
            (_, Value::None | Value::Str(_) | Value::DType(_)) => {}
            _ => return Err(Error::type_(format!("{}(): unexpected argument", args.row.python_name()))),
        }
    }
    Ok((operands, numbers))
}

const KEPT_SHAPE: &str = "A change in place keeps the shape of the first tensor, to which the others broadcast.";

/// Steps 3 and 4: the sizes that all operands broadcast to, which are the result's.
fn common_sizes(row: &Row, operands: &Operands, in_place: bool) -> Result<Dims> {
    let mut sizes: Option<Dims> = None;
    for operand in operands {
        if let Operand::Tensor(tensor) = operand {
            let own = &tensor.layout().sizes;
            match &sizes {
                None => sizes = Some(own.clone()),
                Some(all) if all == own => {}
                Some(all) => {
                    let met = crate::backcompat::meet(row.title(in_place), all, own);
                    sizes = Some(if in_place { met.map_err(|error| error.hint(KEPT_SHAPE))? } else { met? });
                }
            }
        }
    }
    Ok(sizes.unwrap_or_default())
}

/// Runs the row's loop, computing in the dtype `compute`, over elements that exist on the host.
fn compute_into(
    out: &Tensor,
    row: &Row,
    body: &Pointwise,
    operands: &Operands,
    numbers: &Numbers,
    compute: DType,
) -> Result<()> {
    let Some((wide, tile)) = loop_for(body, compute) else { return Err(not_implemented(row, compute)) };
    let kernel = Loop { tile, numbers, compute: wide, result: body.promote.result(wide) };
    let result = body.promote.result(compute);
    if result.is_half() && out.dtype() != result {
        // Rounded to the half type first, as if the result had been a tensor of its own.
        let rounded = allocate(&Spec::new(out.sizes(), result, out))?;
        kernel.over(&rounded, operands)?;
        return crate::copy::copy(out, &rounded);
    }
    kernel.over(out, operands)
}

/// Steps 1 to 7 for an operator that treats each element alone.
fn pointwise(body: &Pointwise, args: &Args, target: Target) -> Result<Output> {
    let device = check_devices(args)?;
    let in_place = matches!(target, Target::InPlace);
    let (operands, numbers) = split(args)?;
    let small = numbers::all_small(&numbers);
    if small && let Some(output) = in_short(body, args, &target, &operands, &numbers)? {
        return Ok(output);
    }
    // Shapes that do not meet are told of before dtypes that do not fit.
    let compute = promoted(body, args.row, &operands, &numbers)
        .or_else(|error| common_sizes(args.row, &operands, in_place).and(Err(error)))?;
    if !small && !args.row.traits.has(Traits::WIDE_NUMBERS) {
        numbers::check(args, compute)?;
    }
    let rounded =
        if body.promote == Promote::ToBool { made::in_half(&operands, compute, device)? } else { made::Made::new() };
    let operands = made::instead(operands, &rounded);
    let sizes = common_sizes(args.row, &operands, in_place)?;
    let layout = match args.row.traits.has(Traits::ROW_MAJOR) {
        true => Layout::contiguous(&sizes),
        false => result_layout(&sizes, layouts(&operands)),
    };
    let result = Spec { layout, dtype: body.promote.result(compute), device };
    let written = Written::find(args, target, result)?;
    let copies = made::copied(&written, &operands)?;
    let operands = made::instead(operands, &copies);
    run(written.tensor(), body, args.row, &operands, &numbers, compute)?;
    written.record(args)
}

/// The whole call by the short way, where the operands are made for it.
fn in_short(
    body: &Pointwise,
    args: &Args,
    target: &Target,
    operands: &Operands,
    numbers: &Numbers,
) -> Result<Option<Output>> {
    match target {
        Target::Fresh => match short::attempt(args.row, body, operands, numbers, None, None)? {
            Some(result) => node::record(args, Output::Tensor(result)).map(Some),
            None => Ok(None),
        },
        Target::InPlace => {
            let own = short::attempt(args.row, body, operands, numbers, Some(args), None)?;
            Ok(own.map(Output::Tensor))
        }
        Target::Out(_) => Ok(None),
    }
}

/// Step 2: the dtype of the computation.
fn promoted(body: &Pointwise, row: &Row, operands: &Operands, numbers: &Numbers) -> Result<DType> {
    let extra: &[Scalar] = if body.promote == Promote::WithNumbers { numbers } else { &[] };
    let common = promote::common(operands, extra)?;
    let compute = match body.promote {
        Promote::IntToFloat if !common.is_differentiable() => rushlight_core::dtype::default_dtype(),
        _ => common,
    };
    if row.dtypes.has(compute) { Ok(compute) } else { Err(not_implemented(row, compute)) }
}

fn layouts<'a>(operands: &Operands<'a>) -> impl Iterator<Item = &'a Layout> {
    operands.iter().filter_map(|operand| match operand {
        Operand::Tensor(tensor) => Some(tensor.layout()),
        Operand::Number(_) => None,
    })
}

/// Where a pointwise result is written, and how the call is recorded that wrote it.
enum Written<'a, 'v> {
    Fresh(Tensor),
    InPlace(node::Change<'a, 'v>, &'a Tensor),
    Out(&'a Tensor),
}

impl<'a, 'v> Written<'a, 'v> {
    /// Step 5: allocates the result, or finds out whether the target may take it.
    fn find(args: &'a Args<'v>, target: Target<'a>, result: Spec) -> Result<Written<'a, 'v>> {
        let row = args.row;
        match target {
            Target::Fresh => allocate(&result).map(Written::Fresh),
            Target::InPlace => {
                let own = args.tensor(0)?;
                let change = node::Change::begin(args)?;
                crate::variants::check_in_place(row, own, &result.layout.sizes, result.dtype)?;
                Ok(Written::InPlace(change, own))
            }
            Target::Out(outs) => {
                let Some(out) = outs.first() else { return Err(Error::type_("out= needs a tensor")) };
                crate::variants::check_out(args, 0, out, &result)?;
                Ok(Written::Out(out))
            }
        }
    }

    fn tensor(&self) -> &Tensor {
        match self {
            Written::Fresh(fresh) => fresh,
            Written::InPlace(_, own) => own,
            Written::Out(out) => out,
        }
    }

    /// Step 7: leaves a node behind, or counts the change.
    fn record(self, args: &Args) -> Result<Output> {
        match self {
            Written::Fresh(fresh) => node::record(args, Output::Tensor(fresh)),
            Written::InPlace(change, _) => change.finish(),
            Written::Out(out) => {
                out.bump_version();
                Ok(Output::Tensor(out.clone()))
            }
        }
    }
}

/// Step 6: the loop, where there are elements.
fn run(
    out: &Tensor,
    body: &Pointwise,
    row: &Row,
    operands: &Operands,
    numbers: &Numbers,
    compute: DType,
) -> Result<()> {
    match out.device() {
        Device::Cpu if out.layout().numel() > 0 => compute_into(out, row, body, operands, numbers, compute),
        Device::Cuda(_) => Err(no_cuda(row)),
        _ => Ok(()),
    }
}

/// The row's loop for a dtype, and what it computes in: half types go by way of float32, unless the loop is about their bits.
fn loop_for(body: &Pointwise, dtype: DType) -> Option<(DType, Tile)> {
    let in_dtype = |dtype: DType| (body.cpu)(dtype).map(|tile| (dtype, tile));
    in_dtype(dtype).or_else(|| in_dtype(dtype.compute()))
}

struct Loop<'a> {
    tile: Tile,
    numbers: &'a Numbers,
    compute: DType,
    result: DType,
}

impl Loop<'_> {
    /// Runs the loop, without the interpreter's lock where it is long.
    fn over(&self, out: &Tensor, operands: &Operands) -> Result<()> {
        crate::host::while_detached(out.layout().numel(), || match operands.len() {
            1 => self.run::<2>(out, operands),
            2 => self.run::<3>(out, operands),
            3 => self.run::<4>(out, operands),
            4 => self.run::<5>(out, operands),
            _ => self.run::<1>(out, operands),
        })
    }

    /// Brings result and operands to one shape and walks them together; `N` counts the result too.
    fn run<const N: usize>(&self, out: &Tensor, operands: &Operands) -> Result<()> {
        let target = out.layout();
        let mut stretched: [Option<Layout>; N] = [const { None }; N];
        let mut numbers = [[0u64; 2]; N];
        let mut pins: SmallVec<[rushlight_core::storage::Pin; 5]> = SmallVec::new();
        pins.push(out.storage().pin()?);
        let mut lanes = [Lane { pointer: pins[0].as_ptr(), dtype: out.dtype() }; N];
        for (n, operand) in operands.iter().enumerate().take(N - 1) {
            match operand {
                Operand::Tensor(tensor) => {
                    let layout = tensor.layout();
                    if layout.sizes != target.sizes {
                        stretched[n + 1] = Some(layout.broadcast_to(&target.sizes)?);
                    }
                    let pin = tensor.storage().pin()?;
                    lanes[n + 1] = Lane { pointer: pin.as_ptr(), dtype: tensor.dtype() };
                    pins.push(pin);
                }
                Operand::Number(number) => {
                    numbers[n + 1] = promote::bits(*number, self.compute);
                    let strides = Dims::from_elem(0, target.rank());
                    stretched[n + 1] = Some(Layout { sizes: target.sizes.clone(), strides, offset: 0 });
                    let pointer = std::ptr::from_mut(&mut numbers[n + 1]).cast::<u8>();
                    lanes[n + 1] = Lane { pointer, dtype: self.compute };
                }
            }
        }
        let layouts: [&Layout; N] = std::array::from_fn(|n| match (&stretched[n], n) {
            (Some(layout), _) => layout,
            (None, 0) => target,
            (None, _) => match operands.get(n - 1) {
                Some(Operand::Tensor(tensor)) => tensor.layout(),
                _ => target,
            },
        });
        let plan = Plan::new(layouts, std::array::from_fn(|n| lanes[n].dtype.size()));
        let mut dtypes = [self.compute; N];
        dtypes[0] = self.result;
        // SAFETY: every layout stays within its pinned storage (tensors are built that way), numbers live on this
        // stack frame, and the loop was made for these dtypes.
        unsafe { rushlight_cpu::pointwise::run(&plan, lanes, dtypes, self.tile, self.numbers) };
        Ok(())
    }
}

/// The dtype in which the operands of a pointwise call meet, if there are operands; `numbers` may take part.
pub fn common_dtype_of(args: &Args, with_numbers: bool) -> Result<Option<DType>> {
    let (operands, numbers) = split(args)?;
    let extra: &[Scalar] = if with_numbers { &numbers } else { &[] };
    if operands.is_empty() { Ok(None) } else { promote::common(&operands, extra).map(Some) }
}

/// Bytes on `device`; on `meta` only their number.
pub fn storage(device: Device, bytes: usize) -> Result<Storage> {
    match device {
        Device::Cpu => Storage::heap(bytes),
        Device::Meta => Ok(Storage::new(Block::meta(bytes))),
        Device::Cuda(_) => Err(rushlight_cuda::refusal()),
    }
}

/// Step 5 for a result of its own.
pub fn allocate(spec: &Spec) -> Result<Tensor> {
    let storage = storage(spec.device, spec.layout.checked_bytes(spec.dtype.size())?)?;
    Ok(Tensor::new(storage, spec.layout.clone(), spec.dtype, spec.device))
}

fn kernel(body: &Kernel, args: &Args) -> Result<Output> {
    let device = check_devices(args)?;
    let specs = (body.infer)(args)?;
    let results = specs.iter().map(allocate).collect::<Result<Vec<_>>>()?;
    // A factory has no operand to say where it runs.
    let device =
        if args.row.schema().options.is_some() { specs.first().map_or(device, |spec| spec.device) } else { device };
    match device {
        Device::Cpu => {
            let work = elements(results.iter().chain(args.each_tensor().map(|(_, tensor)| tensor)));
            crate::host::while_detached(work, || (body.cpu)(args, &results))?;
        }
        Device::Meta => {}
        Device::Cuda(_) => return Err(no_cuda(args.row)),
    }
    if let (Some(first), [result]) = (args.row.schema().options, results.as_slice()) {
        crate::create::ask_gradient(result, args.optional_bool(first + 4).unwrap_or(false))?;
    }
    node::record(args, gather(args.row, results))
}

/// How many elements a kernel has before it.
fn elements<'a>(tensors: impl Iterator<Item = &'a Tensor>) -> usize {
    tensors.fold(0, |sum: usize, tensor| sum.saturating_add(tensor.layout().numel()))
}

/// A copy of the first argument is changed, or the argument itself.
fn update(body: &Update, args: &Args, target: Target) -> Result<Output> {
    let device = check_devices(args)?;
    (body.check)(args)?;
    let own = args.tensor(0)?;
    let run = |tensor: &Tensor| match device {
        Device::Cpu => {
            let work = elements(args.each_tensor().map(|(_, tensor)| tensor));
            let apart = crate::variants::apart(args, tensor)?;
            crate::host::while_detached(work, || (body.cpu)(apart.as_ref().unwrap_or(args), tensor))
        }
        Device::Meta => Ok(()),
        Device::Cuda(_) => Err(no_cuda(args.row)),
    };
    match target {
        Target::Fresh => {
            let result = crate::copy::to_change(args.row, own)?;
            run(&result)?;
            node::record(args, Output::Tensor(result))
        }
        Target::InPlace => {
            let change = node::Change::begin(args)?;
            crate::variants::check_in_place(args.row, own, own.sizes(), own.dtype())?;
            run(own)?;
            change.finish()
        }
        Target::Out(outs) => {
            let Some(out) = outs.first() else { return Err(Error::type_("out= needs a tensor")) };
            crate::variants::check_out(args, 0, out, &Spec::like(own))?;
            if own.dtype() == out.dtype() && crate::variants::apart(args, out)?.is_none() {
                crate::copy::copy(out, own)?;
                run(out)?;
            } else {
                let result = crate::copy::clone(own)?;
                run(&result)?;
                crate::copy::copy(out, &result)?;
            }
            out.bump_version();
            Ok(Output::Tensor(out.clone()))
        }
    }
}

/// Results in the form that the signature promises.
pub fn gather(row: &Row, mut results: Vec<Tensor>) -> Output {
    use crate::signature::Returns;
    match row.schema().returns {
        Returns::List => Output::List(results),
        Returns::Named(_) => Output::Tuple(results),
        _ if results.len() == 1 => results.pop().map_or(Output::Nothing, Output::Tensor),
        _ => Output::Tuple(results),
    }
}

fn unrecorded(body: fn(&Args) -> Result<Output>, args: &Args) -> Result<Output> {
    check_devices(args)?;
    let output = {
        let _off = rushlight_autograd::modes::GradMode::new(false);
        body(args)?
    };
    node::record(args, output)
}

/// Runs a body that fills the first argument, between autograd's checks and its record.
fn overwrite(body: fn(&Args, &Tensor) -> Result<()>, args: &Args) -> Result<Output> {
    check_devices(args)?;
    let own = args.tensor(0)?;
    crate::variants::check_writable(own)?;
    let each = if args.row.traits.has(Traits::UNIFORM) && own.layout().expanded().next().is_some() {
        let layout = own.layout();
        let seen_once = layout.expanded().collect::<Vec<_>>().into_iter().rev();
        &Tensor::with_meta(own.meta_with(seen_once.fold(layout.clone(), |layout, dim| layout.select(dim, 0))))
    } else {
        own
    };
    crate::variants::check_no_self_overlap(each)?;
    let change = node::Change::begin(args)?;
    body(args, each)?;
    change.finish()
}

#[cold]
pub fn not_implemented(row: &Row, dtype: DType) -> Error {
    let name = if row.refuses.is_empty() { &format!("{}_cpu", row.python_name()) } else { row.refuses };
    let sentence = format!("\"{name}\" not implemented for '{}'", dtype.title());
    let accepted: Vec<&str> = row.dtypes.list().map(DType::name).collect();
    Error::new(Class::NotImplemented, sentence).hint(format!("It accepts {}.", accepted.join(", ")))
}

#[cold]
fn no_cuda(row: &Row) -> Error {
    Error::new(Class::NotImplemented, format!("{} has no CUDA kernel yet", row.python_name()))
        .hint("Move the operands to the host: x.cpu().")
}
