//! Counted handles: the value ends once, after its last use, and its memory after the last look at the counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use loom::thread;

use super::number::Number;
use crate::counted::{self, Counted};
use crate::model::Model;

pub const MODELS: &[Model] = &[
    Model { name: "counted-strong", preemptions: 4, run: strong },
    Model { name: "counted-weak", preemptions: 4, run: weak },
    Model { name: "counted-kept", preemptions: 3, run: kept },
    Model { name: "counted-three-threads", preemptions: 3, run: three },
];

struct Value {
    number: Number,
    ends: Arc<AtomicUsize>,
}

impl counted::Value for Value {
    /// What the owner of the kept handle does when it learns that it is alone, here at once.
    fn left_alone(last: Counted<Self>) {
        last.number.get();
        Counted::release_kept(&last);
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        // Ordered with every use, or loom says so.
        self.number.add(1);
        self.ends.fetch_add(1, Relaxed);
    }
}

fn value() -> (Counted<Value>, Arc<AtomicUsize>) {
    let ends = Arc::new(AtomicUsize::new(0));
    (Counted::new(Value { number: Number::new(), ends: ends.clone() }), ends)
}

fn strong() {
    let (first, ends) = value();
    let second = first.clone();
    let other = thread::spawn(move || {
        second.number.get();
        drop(second.clone());
    });
    first.number.get();
    drop(first);
    other.join().expect("no panic");
    assert_eq!(ends.load(Relaxed), 1);
}

/// Both threads drop their handles while a third handle is kept: exactly one of them is told.
fn kept() {
    let (first, ends) = value();
    let (second, third) = (first.clone(), first.clone());
    assert!(Counted::keep(&first));
    let other = thread::spawn(move || drop(second));
    drop(third);
    other.join().expect("no panic");
    assert!(!Counted::is_kept(&first) && Counted::owners(&first) == 1);
    drop(first);
    assert_eq!(ends.load(Relaxed), 1);
}

fn weak() {
    let (first, ends) = value();
    let look = Counted::downgrade(&first);
    let other = thread::spawn(move || {
        if let Some(again) = look.upgrade() {
            again.number.get();
        }
        drop(look.clone());
    });
    drop(first);
    other.join().expect("no panic");
    assert_eq!(ends.load(Relaxed), 1);
}

fn three() {
    let (first, ends) = value();
    let (second, look) = (first.clone(), Counted::downgrade(&first));
    let others = [
        thread::spawn(move || {
            second.number.get();
            drop(Counted::downgrade(&second));
        }),
        thread::spawn(move || drop(look.upgrade())),
    ];
    drop(first);
    others.into_iter().for_each(|other| other.join().expect("no panic"));
    assert_eq!(ends.load(Relaxed), 1);
}
