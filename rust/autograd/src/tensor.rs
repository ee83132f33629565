//! The tensor: a counted handle on a `TensorImpl` that holds layout, version, history and the link to its Python
//! object.
//!
//! A tensor without gradients is one allocation: history, view and the rest are empty. A view holds its base, and
//! counts its changes there.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::fmt;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use once_cell::race::OnceBox;
use rushlight_core::counted::{self, Counted};
use rushlight_core::layout::Shape;
use rushlight_core::{DType, Device, Dims, Error, Layout, Result, Storage};

use crate::arithmetic::arithmetic;
use crate::graph::{
    Form, INFERENCE, OPAQUE_VIEW, Reachable, Replay, Tensor, TensorImpl, TensorMeta, VIEW, View, ViewKind, WeakTensor,
};
use crate::lock::Slot;
use crate::modes;
use crate::version::{Counter, Version};
use crate::view::replay_view;

impl TensorMeta {
    /// Elements that are stored as they are.
    #[inline]
    pub fn new(storage: Storage, layout: Layout, dtype: DType, device: Device) -> TensorMeta {
        TensorMeta { storage, layout, dtype, device, form: Form::Plain }
    }
}

impl WeakTensor {
    pub fn upgrade(&self) -> Option<Tensor> {
        self.0.upgrade().map(Tensor)
    }

    /// Whether this is a handle on `tensor`.
    pub fn is(&self, tensor: &Tensor) -> bool {
        self.0.as_ptr() == Counted::as_ptr(&tensor.0)
    }
}

static LEFT_ALONE: OnceLock<fn(Tensor)> = OnceLock::new();

/// Installs the function that receives the last handle of a tensor besides that of its Python object, which the tensor
/// keeps alive (see `keep_python`). It is called on any thread, with or without the GIL.
pub fn set_left_alone(function: fn(Tensor)) {
    let _ = LEFT_ALONE.set(function);
}

impl counted::Value for TensorImpl {
    fn left_alone(last: Counted<TensorImpl>) {
        match LEFT_ALONE.get() {
            Some(function) => function(Tensor(last)),
            None => std::mem::forget(last),
        }
    }
}

impl Tensor {
    #[inline(always)]
    fn build(meta: TensorMeta, flags: u8, transforms: u8, version: Counter, view: Option<View>) -> Tensor {
        Tensor(Counted::new(TensorImpl {
            meta: UnsafeCell::new(meta),
            flags: AtomicU8::new(flags),
            transforms: AtomicU8::new(transforms),
            history: Slot::new(None),
            version,
            view,
            autograd_meta: OnceBox::new(),
            python: AtomicPtr::new(std::ptr::null_mut()),
        }))
    }

    /// A plain tensor without history, at version zero. In inference mode it becomes an inference tensor.
    #[inline]
    pub fn new(storage: Storage, layout: Layout, dtype: DType, device: Device) -> Tensor {
        Tensor::with_meta(TensorMeta::new(storage, layout, dtype, device))
    }

    /// The same with any form.
    #[inline]
    pub fn with_meta(meta: TensorMeta) -> Tensor {
        let modes = modes::current();
        let flags = if modes.inference { INFERENCE } else { 0 };
        Tensor::build(meta, flags, modes.transforms, Counter::default(), None)
    }

    /// Another geometry over the elements of `base`, of the same dtype. The caller records the history.
    #[inline]
    pub fn view_of(base: &Tensor, layout: Layout) -> Tensor {
        Tensor::view(base, base.meta_with(layout), None, false)
    }

    /// Like `view_of`, for one of several views that one function returns.
    pub fn view_of_many(base: &Tensor, layout: Layout) -> Tensor {
        Tensor::view(base, base.meta_with(layout), None, true)
    }

    /// A view that geometry alone does not describe; `replay` makes the same view of another tensor shaped like `base`.
    pub fn view_with(base: &Tensor, meta: TensorMeta, replay: Replay) -> Tensor {
        Tensor::view(base, meta, Some(replay), false)
    }

    #[inline(always)]
    fn view(base: &Tensor, meta: TensorMeta, replay: Option<Replay>, many: bool) -> Tensor {
        if base.is_inference() {
            return Tensor::build(meta, INFERENCE, base.transforms(), Counter::default(), None);
        }
        let modes = modes::current();
        if modes.below {
            // The view is made of what the handler returns.
            return base.detach_as(meta);
        }
        let kind = if modes.inference {
            ViewKind::Inference
        } else if !modes.grad {
            ViewKind::NoGrad
        } else if many {
            ViewKind::MultiOutput
        } else {
            ViewKind::Ordinary
        };
        let view = match base.view_info() {
            None => View::new(base.clone(), replay, kind),
            Some(parent) => {
                // A view of a view inherits its parent's restriction.
                let kind = if parent.kind() == ViewKind::Ordinary { kind } else { parent.kind() };
                View::new(parent.base.clone(), chain(base, parent, replay, &meta.layout), kind)
            }
        };
        Tensor::build(meta, VIEW, base.transforms(), Counter::default(), Some(view))
    }

    /// The same elements without history; the version counter is shared.
    pub fn detach(&self) -> Tensor {
        self.detach_as(self.meta().clone())
    }

    /// The same bytes with another dtype or geometry, without history; the version counter is shared.
    pub fn detach_as(&self, meta: TensorMeta) -> Tensor {
        if self.is_inference() {
            return Tensor::build(meta, INFERENCE, self.transforms(), Counter::default(), None);
        }
        Tensor::build(meta, 0, self.transforms(), Counter::shared(self.shared_version()), None)
    }

    /// The same elements without history and with a version counter of their own: torch's `.data`.
    pub fn data(&self) -> Tensor {
        let flags = self.0.flags.load(Ordering::Relaxed) & INFERENCE;
        Tensor::build(self.meta().clone(), flags, self.transforms(), Counter::default(), None)
    }

    #[inline]
    fn transforms(&self) -> u8 {
        self.0.transforms.load(Ordering::Relaxed)
    }

    /// Whether the function of a transform runs that began after this tensor, or the one it is a view of, was made.
    #[inline]
    pub fn is_captured(&self) -> bool {
        self.transforms() < modes::current().transforms
    }

    /// Makes this new tensor one of the function of the transform that is about to begin.
    pub fn enter_transform(&self) {
        self.0.transforms.store(modes::current().transforms.saturating_add(1), Ordering::Relaxed);
    }

    #[inline]
    pub fn meta(&self) -> &TensorMeta {
        // SAFETY: see `set_meta`.
        unsafe { &*self.0.meta.get() }
    }

    /// Changes storage, geometry or type of the tensor itself.
    ///
    /// # Safety
    /// No borrow of the old value exists (`meta`, `layout`, `sizes`...), and no other thread reads it now. Threads that
    /// compute without the GIL do read it, so holding the GIL is not enough: the caller must wait for them.
    pub unsafe fn set_meta(&self, meta: TensorMeta) {
        // Existing graphs continue to accumulate into this leaf even if its sizes change, but not in another dtype.
        if (self.dtype(), self.device()) != (meta.dtype, meta.device) {
            self.reset_accumulator();
        }
        // SAFETY: the caller guarantees that nothing reads the old value.
        unsafe { *self.0.meta.get() = meta };
    }

    /// Whether another tensor's storage and geometry may replace this one's: both have one layout, and lie on the host or on a GPU, or both on
    /// one other device.
    ///
    /// # Errors
    /// RuntimeError: they may not.
    pub fn check_data(&self, other: &Tensor) -> Result<()> {
        let family = |device| if let Device::Cuda(_) = device { Device::Cpu.kind() } else { device.kind() };
        if family(self.device()) == family(other.device()) && self.layout_name() == other.layout_name() {
            return Ok(());
        }
        Err(Error::runtime(
            "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible tensor type.",
        ))
    }

    /// Gives this tensor the storage and geometry of another one, as torch's `set_data`. Its gradient and its hooks stay.
    ///
    /// # Errors
    /// RuntimeError: there are other handles of this tensor, such as that of a graph or of a view; or `check_data` refuses the other one.
    pub fn set_data(&mut self, other: &Tensor) -> Result<()> {
        self.check_data(other)?;
        if self.owners() > 1 {
            return Err(Error::runtime("set_data() needs the only handle of the tensor")
                .hint("Drop its clones, its views and the graphs that lead to it first."));
        }
        let meta = other.meta().clone();
        // SAFETY: this is the only handle, and it is borrowed exclusively, so that nothing else borrows or reads the old value.
        unsafe { self.set_meta(meta) };
        Ok(())
    }

    #[inline]
    pub fn storage(&self) -> &Storage {
        &self.meta().storage
    }

    #[inline]
    pub fn layout(&self) -> &Layout {
        &self.meta().layout
    }

    #[inline]
    pub fn dtype(&self) -> DType {
        self.meta().dtype
    }

    #[inline]
    pub fn device(&self) -> Device {
        self.meta().device
    }

    /// Whether the elements are stored as they are.
    #[inline]
    pub fn is_plain(&self) -> bool {
        matches!(self.meta().form, Form::Plain)
    }

    /// See `Form::Wrapper`.
    #[inline]
    pub fn is_wrapper(&self) -> bool {
        matches!(self.meta().form, Form::Wrapper)
    }

    /// Counts changes together with `other`, if it was never changed itself.
    pub fn follow_version(&self, other: &Tensor) {
        self.counter().follow(other.shared_version());
    }

    /// Marks a handler's result of a view, whose base is not known.
    pub fn mark_opaque_view(&self) {
        self.0.flags.fetch_or(OPAQUE_VIEW, Ordering::Relaxed);
    }

    /// See `mark_opaque_view`.
    pub fn is_opaque_view(&self) -> bool {
        self.0.flags.load(Ordering::Relaxed) & OPAQUE_VIEW != 0
    }

    /// See `Form::LazyConj`.
    #[inline]
    pub fn is_lazy_conj(&self) -> bool {
        matches!(self.meta().form, Form::LazyConj)
    }

    /// The tensor's metadata with another geometry.
    #[inline]
    pub fn meta_with(&self, layout: Layout) -> TensorMeta {
        let TensorMeta { storage, dtype, device, form, .. } = self.meta();
        TensorMeta { storage: storage.clone(), layout, dtype: *dtype, device: *device, form: form.clone() }
    }

    #[inline]
    pub fn sizes(&self) -> &Dims {
        &self.meta().layout.sizes
    }

    #[inline]
    pub fn rank(&self) -> usize {
        self.meta().layout.rank()
    }

    #[inline]
    pub fn numel(&self) -> usize {
        self.meta().layout.numel()
    }

    /// The distance of the first element from the storage's first byte, in bytes.
    #[inline]
    pub fn first_byte(&self) -> isize {
        let meta = self.meta();
        meta.layout.offset * meta.dtype.size() as isize
    }

    /// Whether both handles refer to the same tensor.
    #[inline]
    pub fn ptr_eq(&self, other: &Tensor) -> bool {
        Counted::ptr_eq(&self.0, &other.0)
    }

    /// A number that is unique among living tensors.
    #[inline]
    pub fn id(&self) -> usize {
        Counted::as_ptr(&self.0) as usize
    }

    pub fn downgrade(&self) -> WeakTensor {
        WeakTensor(Counted::downgrade(&self.0))
    }

    /// The number of handles.
    #[inline]
    pub fn owners(&self) -> usize {
        Counted::owners(&self.0)
    }

    #[inline]
    pub fn is_inference(&self) -> bool {
        self.0.flags.load(Ordering::Relaxed) & INFERENCE != 0
    }

    #[inline]
    pub(crate) fn view_info(&self) -> Option<&View> {
        self.0.view.as_ref()
    }

    #[inline]
    pub fn is_view(&self) -> bool {
        self.0.view.is_some()
    }

    /// The tensor of which this one is a view.
    pub fn base(&self) -> Option<&Tensor> {
        self.view_info().map(|view| &view.base)
    }

    pub fn set_view_kind(&self, kind: ViewKind) {
        if let Some(view) = self.view_info() {
            view.set_kind(kind);
        }
    }

    /// The counter of in-place changes: a view uses its base's, and detached tensors share it.
    #[inline]
    fn counter(&self) -> &Counter {
        match self.view_info() {
            Some(view) => &view.base.0.version,
            None => &self.0.version,
        }
    }

    #[inline]
    pub fn shared_version(&self) -> Arc<Version> {
        self.counter().share()
    }

    #[inline]
    pub(crate) fn version_or_zero(&self) -> u32 {
        self.counter().get().map_or(0, Version::current)
    }

    pub fn version(&self) -> Result<u32> {
        if self.is_inference() {
            return Err(Error::runtime("Inference tensors do not track version counter."));
        }
        Ok(self.version_or_zero())
    }

    /// Counts an in-place change and records where it happened.
    #[inline]
    pub fn bump_version(&self) {
        if !self.is_inference() {
            self.counter().get_or_make().bump();
        }
    }

    /// The tensor's Python object, or null. The pointer is borrowed unless `keeps_python`.
    #[inline]
    pub fn python(&self) -> *mut c_void {
        self.0.python.load(Ordering::Acquire)
    }

    #[inline]
    pub fn set_python(&self, object: *mut c_void) {
        self.0.python.store(object, Ordering::Release);
    }

    /// Whether the tensor keeps its Python object alive (instead of the reverse).
    #[inline]
    pub fn keeps_python(&self) -> bool {
        Counted::is_kept(&self.0)
    }

    /// What is reachable through one handle on this tensor, of which the caller has `more` besides.
    pub(crate) fn reachable(&self, more: usize) -> Option<Reachable> {
        let owners = self.owners() - more;
        match self.keeps_python() {
            true => Some(Reachable::Object { python: self.python(), owners }),
            false if owners == 1 => self.stored_history().map(Reachable::History),
            false => None,
        }
    }

    /// Makes the tensor keep its Python object alive, unless the object's handle is the only one: then it returns false.
    pub fn keep_python(&self) -> bool {
        Counted::keep(&self.0)
    }

    /// The tensor keeps its Python object no longer; the caller gets the reference.
    pub fn release_python(&self) {
        Counted::release_kept(&self.0);
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TensorMeta { layout, dtype, device, .. } = self.meta();
        write!(f, "Tensor({}, {dtype}, {device})", Shape(&layout.sizes))
    }
}

/// How to make a view of the view `parent` directly from the base: by geometry, unless one of the two steps needs a
/// replay.
fn chain(parent: &Tensor, info: &View, replay: Option<Replay>, layout: &Layout) -> Option<Replay> {
    let first = info.replay.clone();
    match (first, replay) {
        (None, None) => None,
        (Some(first), None) => {
            let layout = layout.clone();
            Some(Arc::new(move |base| (arithmetic()?.as_strided)(&first(base)?, &layout)))
        }
        (None, Some(second)) => {
            let layout = parent.layout().clone();
            Some(Arc::new(move |base| second(&(arithmetic()?.as_strided)(base, &layout)?)))
        }
        (Some(first), Some(second)) => {
            let layout = parent.layout().clone();
            Some(Arc::new(move |base| second(&replay_view(base, Some(&first), &layout)?)))
        }
    }
}
