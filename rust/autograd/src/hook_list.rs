//! A list of hooks, which one thread may change while another calls them.
//!
//! A list is replaced as a whole, so that a call runs the hooks of the list as it was at the start.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use rushlight_core::Result;

use crate::lock::Slot;

static NEXT_ID: AtomicU64 = AtomicU64::new(0);

/// The Python object that a hook calls and keeps alive, or null. Used only by Python's garbage collector.
#[derive(Clone, Copy)]
struct Object(*mut c_void);
// SAFETY: an address that only the collector dereferences, while the hook keeps the object alive.
unsafe impl Send for Object {}
// SAFETY: see above.
unsafe impl Sync for Object {}

#[derive(Clone)]
struct Entry<H> {
    id: u64,
    object: Object,
    /// The hook's name in messages.
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

/// Removes a hook.
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

    /// Sets the Python object that the hook keeps alive, so that the garbage collector finds cycles through it, and the
    /// object's name in messages.
    pub fn owning(self, object: *mut c_void, name: &str) -> HookHandle {
        if let Some(list) = self.list.upgrade() {
            list.own(self.id, Object(object), &name.into());
        }
        self
    }
}

/// Replaces the list by what `edit` makes of a copy, and retries if another thread changed it meanwhile.
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

    pub(crate) fn retain(&self, keep: impl Fn(&H) -> bool) {
        edit(&self.0, |hooks| hooks.retain(|entry| keep(&entry.hook)));
    }

    /// Calls `visit` with each hook of the list as it was at the start, even if hooks change the list.
    pub fn each(&self, mut visit: impl FnMut(&H) -> Result<()>) -> Result<()> {
        self.each_named(|hook, _| visit(hook))
    }

    /// The same, with the hook's name.
    pub(crate) fn each_named(&self, mut visit: impl FnMut(&H, &str) -> Result<()>) -> Result<()> {
        let Some(hooks) = self.0.get() else { return Ok(()) };
        hooks.iter().try_for_each(|entry| visit(&entry.hook, &entry.name))
    }

    /// Visits each hook with the object that it calls, null for a hook of the engine's.
    pub(crate) fn each_object(&self, mut visit: impl FnMut(&H, *mut c_void)) {
        if let Some(hooks) = self.0.get() {
            hooks.iter().for_each(|entry| visit(&entry.hook, entry.object.0));
        }
    }

    /// Visits the Python objects, unless a call of the hooks holds them too.
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
