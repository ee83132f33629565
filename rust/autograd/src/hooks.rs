//! User functions that are called during backward.
//!
//! A list is exchanged as a whole, so that one thread may add or remove while another calls. The order is torch's: the
//! hooks of a tensor, then the gradients that `retain_grad` keeps, then the hooks of the node around its function.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use rushlight_core::Result;

use crate::lock::Slot;
use crate::node::Gradients;
use crate::tensor::{Tensor, WeakTensor};

/// Sees a gradient and may replace it.
pub type TensorHook = Arc<dyn Fn(&Tensor) -> Result<Option<Tensor>> + Send + Sync>;
/// Sees a node's incoming gradients before its function runs, and may replace them.
pub type PreHook = Arc<dyn Fn(&Gradients) -> Result<Option<Gradients>> + Send + Sync>;
/// Sees what a node's function returned and what it was given, and may replace the former.
pub type PostHook = Arc<dyn Fn(&Gradients, &Gradients) -> Result<Option<Gradients>> + Send + Sync>;
/// Sees a leaf after a gradient was added to its `.grad`.
pub type AfterAccumulate = Arc<dyn Fn(&Tensor) -> Result<()> + Send + Sync>;

static NEXT_ID: AtomicU64 = AtomicU64::new(0);

/// Python's object that a hook calls and keeps alive, or null. Only shown to its collector.
#[derive(Clone, Copy)]
struct Object(*mut c_void);
// SAFETY: an address; only the collector follows it, while the hook keeps it alive.
unsafe impl Send for Object {}
// SAFETY: see above.
unsafe impl Sync for Object {}

#[derive(Clone)]
struct Entry<H> {
    id: u64,
    object: Object,
    /// What messages call the hook.
    name: Arc<str>,
    hook: H,
}

type Listed<H> = Slot<Arc<Vec<Entry<H>>>>;

/// Functions in the order in which they were added.
pub struct HookList<H>(Arc<Listed<H>>);

impl<H> Default for HookList<H> {
    fn default() -> Self {
        HookList(Arc::new(Slot::new(None)))
    }
}

/// Takes a hook out again.
pub struct HookHandle {
    list: Weak<dyn Removable>,
    id: u64,
}

trait Removable: Send + Sync {
    fn remove(&self, id: u64);
    fn own(&self, id: u64, object: Object, name: &Arc<str>);
}

impl<H: Clone + Send + Sync> Removable for Listed<H> {
    fn remove(&self, id: u64) {
        edit(self, |hooks| hooks.retain(|entry| entry.id != id));
    }

    fn own(&self, id: u64, object: Object, name: &Arc<str>) {
        edit(self, |hooks| {
            for entry in hooks.iter_mut().filter(|entry| entry.id == id) {
                (entry.object, entry.name) = (object, name.clone());
            }
        });
    }
}

impl HookHandle {
    pub fn remove(&self) {
        if let Some(list) = self.list.upgrade() {
            list.remove(self.id);
        }
    }

    /// Says which of Python's objects the hook keeps alive, so that its collector finds cycles through it, and what the
    /// object is called there.
    pub fn owning(self, object: *mut c_void, name: &str) -> HookHandle {
        if let Some(list) = self.list.upgrade() {
            list.own(self.id, Object(object), &name.into());
        }
        self
    }
}

/// Replaces the list by what `edit` makes of a copy, again if somebody else was quicker.
fn edit<H: Clone>(list: &Listed<H>, edit: impl Fn(&mut Vec<Entry<H>>)) {
    loop {
        let before = list.get();
        let mut hooks = before.as_ref().map_or_else(Vec::new, |hooks| hooks.to_vec());
        edit(&mut hooks);
        let mut after = Some(Arc::new(hooks));
        let unchanged = list.with(|place| {
            let same = place.as_ref().map(Arc::as_ptr) == before.as_ref().map(Arc::as_ptr);
            if same {
                std::mem::swap(place, &mut after);
            }
            same
        });
        if unchanged {
            return;
        }
    }
}

impl<H: Clone + Send + Sync + 'static> HookList<H> {
    pub fn add(&self, hook: H) -> HookHandle {
        let id = NEXT_ID.fetch_add(1, Relaxed);
        edit(&self.0, |hooks| {
            hooks.push(Entry { id, object: Object(null_mut()), name: "<unknown>".into(), hook: hook.clone() });
        });
        let list: Weak<Listed<H>> = Arc::downgrade(&self.0);
        HookHandle { list, id }
    }

    fn retain(&self, keep: impl Fn(&H) -> bool) {
        edit(&self.0, |hooks| hooks.retain(|entry| keep(&entry.hook)));
    }

    /// Calls `visit` with each hook. The list stays as it was at the start, whatever the hooks do to it.
    pub fn each(&self, mut visit: impl FnMut(&H) -> Result<()>) -> Result<()> {
        self.each_named(|hook, _| visit(hook))
    }

    /// The same, with the hook's name.
    fn each_named(&self, mut visit: impl FnMut(&H, &str) -> Result<()>) -> Result<()> {
        let Some(hooks) = self.0.get() else { return Ok(()) };
        hooks.iter().try_for_each(|entry| visit(&entry.hook, &entry.name))
    }

    /// Visits the host's objects, unless somebody is calling the hooks and so keeps them too.
    pub(crate) fn objects(&self, visit: &mut dyn FnMut(*mut c_void)) {
        let Some(hooks) = self.0.get() else { return };
        if Arc::strong_count(&hooks) == 2 {
            hooks.iter().map(|entry| entry.object.0).filter(|object| !object.is_null()).for_each(visit);
        }
    }

    pub(crate) fn clear(&self) {
        drop(self.0.replace(None));
    }
}

/// The hooks of a node and of the tensors that are its outputs.
#[derive(Default)]
pub struct NodeHooks {
    tensor: HookList<(u32, TensorHook)>,
    retained: HookList<(u32, WeakTensor)>,
    pub pre: HookList<PreHook>,
    pub post: HookList<PostHook>,
}

impl NodeHooks {
    pub(crate) fn add_tensor_hook(&self, output: u32, hook: TensorHook) -> HookHandle {
        self.tensor.add((output, hook))
    }

    pub(crate) fn retain(&self, tensor: &Tensor, output: u32) {
        self.retained.add((output, tensor.downgrade()));
    }

    pub(crate) fn forget(&self, tensor: &Tensor) {
        self.retained.retain(|(_, kept)| !kept.is(tensor));
    }

    pub(crate) fn objects(&self, visit: &mut dyn FnMut(*mut c_void)) {
        self.tensor.objects(visit);
        self.pre.objects(visit);
        self.post.objects(visit);
    }

    pub(crate) fn clear(&self) {
        self.tensor.clear();
        self.pre.clear();
        self.post.clear();
    }

    /// Runs the tensors' hooks over the gradients that arrived at their node, and keeps what is to be kept.
    pub(crate) fn run_tensor_hooks(&self, grads: &mut Gradients) -> Result<()> {
        self.tensor.each_named(|(output, hook), name| {
            let Some(Some(place)) = grads.get_mut(*output as usize) else { return Ok(()) };
            if let Some(new) = hook(place)? {
                crate::validate::check_hook_result(name, place, &new)?;
                *place = new;
            }
            Ok(())
        })?;
        self.retained.each(|(output, kept)| match (kept.upgrade(), grads.get(*output as usize)) {
            (Some(tensor), Some(Some(grad))) => crate::accumulate::retain(&tensor, grad),
            _ => Ok(()),
        })
    }

    pub(crate) fn run_pre_hooks(&self, grads: &mut Gradients) -> Result<()> {
        self.pre.each_named(|hook, name| {
            if let Some(new) = hook(grads)? {
                crate::validate::check_hook_results(name, grads, &new)?;
                *grads = new;
            }
            Ok(())
        })
    }

    pub(crate) fn run_post_hooks(&self, results: &mut Gradients, grads: &Gradients) -> Result<()> {
        self.post.each_named(|hook, name| {
            if let Some(new) = hook(results, grads)? {
                crate::validate::check_hook_results(name, results, &new)?;
                *results = new;
            }
            Ok(())
        })
    }
}
