//! The arenas' claims: a slot is not used again while another process holds it, whether as a block, in a message or since a
//! fork, and is used again once nobody does.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use loom::thread;

use crate::model::Model;
use crate::shared::arena::{Arena, Slot};
use crate::shared::sys;

pub const MODELS: &[Model] = &[
    Model { name: "arena-message", preemptions: 4, run: message },
    Model { name: "arena-message-goes-on", preemptions: 2, run: goes_on },
    Model { name: "arena-message-comes-back", preemptions: 3, run: comes_back },
    Model { name: "arena-receiver-renews", preemptions: 3, run: renews },
    Model { name: "arena-map-stays", preemptions: 3, run: map_stays },
    Model { name: "arena-fork", preemptions: 4, run: forked },
    Model { name: "arena-fork-sends", preemptions: 3, run: child_sends },
];

const SIZE: usize = 2 * sys::PAGE;

/// A slot, and whether some process or message beside the owner holds it.
#[derive(Clone)]
struct SharedSlot {
    slot: Slot,
    elsewhere: Arc<AtomicBool>,
}

impl SharedSlot {
    fn new(slot: Slot) -> SharedSlot {
        SharedSlot { slot, elsewhere: Arc::new(AtomicBool::new(true)) }
    }

    /// What a holder says just before it lets go. Others come between the two steps: what it did before the first has happened.
    fn ends(&self) {
        sys::step();
        sys::step();
        self.elsewhere.store(false, SeqCst);
    }
}

fn take(arena: &mut Arena) -> Option<Slot> {
    arena.take(64, &mut |_| Ok(())).expect("memory is there")
}

/// The owner looks for free slots, twice, while others do as they like; then nothing is lost.
fn reclaim(arena: &mut Arena, held: &SharedSlot) {
    for _ in 0..2 {
        arena.reclaim().expect("the kernel answers");
        look(arena, held);
    }
}

/// Nothing that another process holds is free: no model has more than two slots, and they are the first.
fn look(arena: &mut Arena, held: &SharedSlot) {
    let found = [(); 2].map(|()| take(arena).expect("there is a free slot"));
    assert!(!found.contains(&held.slot) || !held.elsewhere.load(SeqCst), "used while it is held elsewhere");
    found.into_iter().for_each(|slot| arena.release(slot));
}

/// Once nobody holds anything all of it is free again.
fn all_is_free(arena: &mut Arena) {
    arena.reclaim().expect("the kernel answers");
    assert_eq!(arena.pending(), 0);
    assert!(arena.is_empty());
    let all = SIZE - sys::HEADER;
    assert!(arena.take(all, &mut |_| Ok(())).expect("memory is there").is_some());
}

/// A process that takes the slots out of a message.
fn receive(message: OwnedFd, slots: &[Slot]) -> Arena {
    let (identity, size) = sys::inspect(message.as_fd()).expect("an arena");
    let mut arena = Arena::open(identity, size, message.as_fd()).expect("it can be mapped");
    slots.iter().for_each(|&slot| arena.receive(slot).expect("it is in the arena"));
    arena
}

fn owner() -> (Arena, SharedSlot, OwnedFd) {
    let mut arena = Arena::create(SIZE).expect("memory is there");
    let slot = take(&mut arena).expect("it is empty");
    let message = arena.lend(std::iter::once(slot)).expect("a descriptor is free");
    (arena, SharedSlot::new(slot), message)
}

/// The arena as a forked child finds it: claims by the same open file description. `lease` is what `last_lease` gave in
/// the parent.
fn inherited(lease: RawFd, held: Slot) -> Arena {
    // SAFETY: the parent's arena, and so its lease, outlives the call.
    let lease = unsafe { BorrowedFd::borrow_raw(lease) };
    let (identity, size) = sys::inspect(lease).expect("an arena");
    sys::inherit_next_lease();
    let mut arena = Arena::open(identity, size, lease).expect("it can be mapped");
    arena.hold(held);
    arena
}

/// One block goes to another process while the owner lets go of it and looks for free slots.
fn message() {
    let (mut arena, held, message) = owner();
    let there = held.clone();
    let receiver = thread::spawn(move || {
        let mut arena = receive(message, &[there.slot]);
        there.ends();
        arena.release(there.slot);
    });
    arena.release(held.slot);
    reclaim(&mut arena, &held);
    receiver.join().expect("no panic");
    all_is_free(&mut arena);
}

/// The receiver sends it on to a third process.
fn goes_on() {
    let (mut arena, held, message) = owner();
    let there = held.clone();
    let receiver = thread::spawn(move || {
        let mut arena = receive(message, &[there.slot]);
        let message = arena.lend(std::iter::once(there.slot)).expect("a descriptor is free");
        let last = there.clone();
        let third = thread::spawn(move || {
            let mut arena = receive(message, &[last.slot]);
            last.ends();
            arena.release(last.slot);
        });
        arena.release(there.slot);
        drop(arena);
        third.join().expect("no panic");
    });
    arena.release(held.slot);
    reclaim(&mut arena, &held);
    receiver.join().expect("no panic");
    all_is_free(&mut arena);
}

/// The receiver sends it back, and goes; the owner, who had let go, has it again.
fn comes_back() {
    let (mut arena, held, message) = owner();
    let there = held.clone();
    let receiver = thread::spawn(move || {
        let mut arena = receive(message, &[there.slot]);
        let back = arena.lend(std::iter::once(there.slot)).expect("a descriptor is free");
        arena.release(there.slot);
        back
    });
    arena.release(held.slot);
    reclaim(&mut arena, &held);
    let back = receiver.join().expect("no panic");
    let (identity, _) = sys::inspect(back.as_fd()).expect("an arena");
    assert!(identity == arena.identity());
    arena.receive(held.slot).expect("it was held all the time");
    drop(back);
    arena.reclaim().expect("the kernel answers");
    assert!(take(&mut arena).expect("there is a free slot") != held.slot);
}

/// The receiver gives up one of two blocks by a new lease, and keeps the other.
fn renews() {
    let mut arena = Arena::create(SIZE).expect("memory is there");
    let [first, second] = [(); 2].map(|()| take(&mut arena).expect("it is empty"));
    let message = arena.lend([first, second].into_iter()).expect("a descriptor is free");
    let held = SharedSlot::new(second);
    let there = held.clone();
    let receiver = thread::spawn(move || {
        let mut arena = receive(message, &[first, second]);
        arena.renew().expect("the kernel answers");
        arena.release(first);
        arena.renew().expect("the kernel answers");
        there.ends();
        arena.release(second);
    });
    arena.release(first);
    arena.release(second);
    reclaim(&mut arena, &held);
    receiver.join().expect("no panic");
    all_is_free(&mut arena);
}

/// The receiver lets go of all that it got, and keeps the arena mapped for what may come.
fn map_stays() {
    let (mut arena, held, message) = owner();
    let there = held.clone();
    let receiver = thread::spawn(move || {
        let mut arena = receive(message, &[there.slot]);
        there.ends();
        arena.release(there.slot);
        arena.renew().expect("the kernel answers");
        arena
    });
    arena.release(held.slot);
    reclaim(&mut arena, &held);
    let there = receiver.join().expect("no panic");
    all_is_free(&mut arena);
    drop(there);
}

/// A forked child holds what its parent held, before and after it knows that it is a child.
fn forked() {
    let mut arena = Arena::create(SIZE).expect("memory is there");
    let slot = take(&mut arena).expect("it is empty");
    let held = SharedSlot::new(slot);
    let there = held.clone();
    let mut own = inherited(sys::last_lease(), slot);
    let child = thread::spawn(move || {
        own.inherited();
        there.ends();
        own.release(slot);
    });
    arena.release(slot);
    reclaim(&mut arena, &held);
    child.join().expect("no panic");
    all_is_free(&mut arena);
}

/// The child passes what it inherited on, and ends before it is received.
fn child_sends() {
    let mut arena = Arena::create(SIZE).expect("memory is there");
    let slot = take(&mut arena).expect("it is empty");
    let held = SharedSlot::new(slot);
    let there = held.clone();
    let mut own = inherited(sys::last_lease(), slot);
    let child = thread::spawn(move || {
        own.inherited();
        let message = own.lend(std::iter::once(slot)).expect("a descriptor is free");
        own.release(slot);
        drop(own);
        let mut arena = receive(message, &[slot]);
        there.ends();
        arena.release(slot);
    });
    arena.release(slot);
    reclaim(&mut arena, &held);
    child.join().expect("no panic");
    all_is_free(&mut arena);
}
