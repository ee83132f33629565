//! The tensor: a counted handle on a body that holds geometry, version, history and the link to its Python object.
//!
//! A tensor that nobody differentiates is one allocation: history, view and the rest stand empty. A view holds its base, and
//! counts its changes there.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use once_cell::race::OnceBox;
use rushlight_core::counted::{Counted, WeakCounted};
use rushlight_core::layout::{Dims, Shape};
use rushlight_core::{DType, Device, Error, Layout, Result, Storage};

use crate::arithmetic::arithmetic;
use crate::edge::Edge;
use crate::history::Extra;
use crate::lock::Slot;
use crate::mapped::Axis;
use crate::modes;
use crate::sparse::Coo;
use crate::version::{Counter, Version};
use crate::view::{Replay, View, ViewKind, shown};

/// What the elements are and where they lie.
#[derive(Clone)]
pub struct Meta {
    pub storage: Storage,
    pub layout: Layout,
    pub dtype: DType,
    pub device: Device,
    pub form: Form,
}

/// How the elements follow from what is stored.
#[derive(Clone)]
pub enum Form {
    /// They are what is stored.
    Plain,
    /// They are the mirror images, in the real axis, of what is stored: of complex numbers the conjugates, of real ones,
    /// which then are imaginary parts of such a tensor, the negatives. torch's conjugate and negative bits.
    Mirrored,
    /// They stand elsewhere, with their places.
    Sparse(Arc<Coo>),
    /// They are those of one sample of a batch; the others lie in the same storage.
    Mapped(Arc<[Axis]>),
}

impl Meta {
    /// Elements that are what is stored.
    #[inline]
    pub fn new(storage: Storage, layout: Layout, dtype: DType, device: Device) -> Meta {
        Meta { storage, layout, dtype, device, form: Form::Plain }
    }
}

/// A leaf that gradients are collected for.
pub(crate) const REQUIRES_GRAD: u8 = 1;
/// A result of a recorded operator.
pub(crate) const HISTORY: u8 = 2;
pub(crate) const VIEW: u8 = 4;
pub(crate) const RETAINS_GRAD: u8 = 8;
const INFERENCE: u8 = 16;
/// Its gradients serve tangents alone: nobody else sees that it requires any.
pub(crate) const FOR_TANGENTS: u8 = 32;

pub(crate) struct Body {
    meta: UnsafeCell<Meta>,
    pub(crate) flags: AtomicU8,
    /// The node that made this tensor.
    pub(crate) history: Slot<Edge>,
    /// Unused in a view, whose base counts.
    version: Counter,
    view: Option<View>,
    pub(crate) extra: OnceBox<Extra>,
    /// The tensor's Python object: borrowed, unless `owns_python`.
    python: AtomicPtr<c_void>,
    owns_python: AtomicBool,
}

// SAFETY: `meta` is the one unsynchronised field. It is changed only through `set_meta`, whose callers see to it that nobody reads.
unsafe impl Sync for Body {}

/// A handle; clones are the same tensor.
#[derive(Clone)]
pub struct Tensor(pub(crate) Counted<Body>);

/// A handle that does not keep the tensor alive.
#[derive(Clone)]
pub struct WeakTensor(WeakCounted<Body>);

impl WeakTensor {
    pub fn upgrade(&self) -> Option<Tensor> {
        self.0.upgrade().map(Tensor)
    }

    /// Whether this is a handle on `tensor`.
    pub fn is(&self, tensor: &Tensor) -> bool {
        self.0.as_ptr() == Counted::as_ptr(&tensor.0)
    }
}

static PYTHON_RELEASE: OnceLock<fn(*mut c_void)> = OnceLock::new();

/// Installs what is called with the Python object that a dying body owns. It may be called on any thread, attached or not.
pub fn set_python_release(release: fn(*mut c_void)) {
    let _ = PYTHON_RELEASE.set(release);
}

impl Drop for Body {
    #[inline]
    fn drop(&mut self) {
        if *self.owns_python.get_mut()
            && let Some(release) = PYTHON_RELEASE.get()
        {
            release(*self.python.get_mut());
        }
    }
}

impl Tensor {
    #[inline(always)]
    fn build(meta: Meta, flags: u8, version: Counter, view: Option<View>) -> Tensor {
        Tensor(Counted::new(Body {
            meta: UnsafeCell::new(meta),
            flags: AtomicU8::new(flags),
            history: Slot::new(None),
            version,
            view,
            extra: OnceBox::new(),
            python: AtomicPtr::new(std::ptr::null_mut()),
            owns_python: AtomicBool::new(false),
        }))
    }

    /// A plain tensor: no history, version zero. In inference mode it becomes an inference tensor.
    #[inline]
    pub fn new(storage: Storage, layout: Layout, dtype: DType, device: Device) -> Tensor {
        Tensor::with_meta(Meta::new(storage, layout, dtype, device))
    }

    /// The same of any form.
    #[inline]
    pub fn with_meta(meta: Meta) -> Tensor {
        let flags = if modes::inference_enabled() { INFERENCE } else { 0 };
        Tensor::build(meta, flags, Counter::default(), None)
    }

    /// Another geometry over the elements of `base`, of the same dtype. History is the caller's to record.
    #[inline]
    pub fn view_of(base: &Tensor, layout: Layout) -> Tensor {
        Tensor::view(base, base.meta_with(layout), None, false)
    }

    /// Like `view_of`, for one of several views that one function returns.
    pub fn view_of_many(base: &Tensor, layout: Layout) -> Tensor {
        Tensor::view(base, base.meta_with(layout), None, true)
    }

    /// A view that geometry alone does not describe; `replay` makes the same view of another tensor shaped like `base`.
    pub fn view_with(base: &Tensor, meta: Meta, replay: Replay) -> Tensor {
        Tensor::view(base, meta, Some(replay), false)
    }

    #[inline(always)]
    fn view(base: &Tensor, meta: Meta, replay: Option<Replay>, many: bool) -> Tensor {
        if base.is_inference() {
            return Tensor::build(meta, INFERENCE, Counter::default(), None);
        }
        let modes = modes::current();
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
                // A view of a view forbids what its parent forbade.
                let kind = if parent.kind() == ViewKind::Ordinary { kind } else { parent.kind() };
                View::new(parent.base.clone(), chain(base, parent, replay, &meta.layout), kind)
            }
        };
        Tensor::build(meta, VIEW, Counter::default(), Some(view))
    }

    /// The same elements without history; changes in place are counted together.
    pub fn detach(&self) -> Tensor {
        self.detach_as(self.meta().clone())
    }

    /// The same bytes as elements of another kind or geometry, without history; changes in place are counted together.
    pub fn detach_as(&self, meta: Meta) -> Tensor {
        if self.is_inference() {
            return Tensor::build(meta, INFERENCE, Counter::default(), None);
        }
        Tensor::build(meta, 0, Counter::shared(self.shared_version()), None)
    }

    /// The same elements without history, whose changes in place nobody counts: torch's `.data`.
    pub fn data(&self) -> Tensor {
        Tensor::build(self.meta().clone(), self.0.flags.load(Ordering::Relaxed) & INFERENCE, Counter::default(), None)
    }

    #[inline]
    pub fn meta(&self) -> &Meta {
        // SAFETY: see `set_meta`.
        unsafe { &*self.0.meta.get() }
    }

    /// Changes storage, geometry or type of the tensor itself.
    ///
    /// # Safety
    /// Nobody holds a borrow of the old value (`meta`, `layout`, `sizes`...), and no other thread reads it now. Threads that
    /// compute without the interpreter's lock do read it, so to hold that lock is not enough: they have to be waited for.
    pub unsafe fn set_meta(&self, meta: Meta) {
        // Living graphs go on collecting for this leaf, whatever its sizes are now, but not in another dtype.
        if (self.dtype(), self.device()) != (meta.dtype, meta.device) {
            self.reset_accumulator();
        }
        // SAFETY: by the caller's word nobody reads.
        unsafe { *self.0.meta.get() = meta };
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

    /// Whether the elements are what is stored.
    #[inline]
    pub fn is_plain(&self) -> bool {
        matches!(self.meta().form, Form::Plain)
    }

    /// See `Form::Mirrored`.
    #[inline]
    pub fn is_mirrored(&self) -> bool {
        matches!(self.meta().form, Form::Mirrored)
    }

    /// What the tensor is, in another geometry.
    #[inline]
    pub fn meta_with(&self, layout: Layout) -> Meta {
        let Meta { storage, dtype, device, form, .. } = self.meta();
        Meta { storage: storage.clone(), layout, dtype: *dtype, device: *device, form: form.clone() }
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

    /// Whether both handles are the same tensor.
    #[inline]
    pub fn ptr_eq(&self, other: &Tensor) -> bool {
        Counted::ptr_eq(&self.0, &other.0)
    }

    /// A number that no other living tensor has.
    #[inline]
    pub fn id(&self) -> usize {
        Counted::as_ptr(&self.0) as usize
    }

    pub fn downgrade(&self) -> WeakTensor {
        WeakTensor(Counted::downgrade(&self.0))
    }

    /// How many handles there are.
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

    /// The tensor that this one is a view of.
    pub fn base(&self) -> Option<&Tensor> {
        self.view_info().map(|view| &view.base)
    }

    pub fn set_view_kind(&self, kind: ViewKind) {
        if let Some(view) = self.view_info() {
            view.set_kind(kind);
        }
    }

    /// The counter of in-place changes: a view's is its base's, and detached tensors share it.
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

    /// Counts an in-place change and notes where it happened.
    #[inline]
    pub fn bump_version(&self) {
        if !self.is_inference() {
            self.counter().get_or_make().bump();
        }
    }

    /// The tensor's Python object, or null. The pointer is borrowed unless `owns_python`.
    #[inline]
    pub fn python(&self) -> *mut c_void {
        self.0.python.load(Ordering::Acquire)
    }

    #[inline]
    pub fn set_python(&self, object: *mut c_void) {
        self.0.python.store(object, Ordering::Release);
    }

    /// Whether the body keeps its Python object alive (instead of the other way round).
    #[inline]
    pub fn owns_python(&self) -> bool {
        self.0.owns_python.load(Ordering::Acquire)
    }

    #[inline]
    pub fn set_owns_python(&self, owns: bool) {
        self.0.owns_python.store(owns, Ordering::Release);
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Meta { layout, dtype, device, .. } = self.meta();
        write!(f, "Tensor({}, {dtype}, {device})", Shape(&layout.sizes))
    }
}

/// How the base shows a view of the view `parent`: by geometry, unless one of the two steps needs a replay.
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
            Some(Arc::new(move |base| second(&shown(base, Some(&first), &layout)?)))
        }
    }
}
