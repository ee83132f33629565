//! The small lock of graph nodes: one thread at a time, and what it wrote is seen by the next.

use std::sync::Arc;

use loom::thread;

use super::number::Number;
use crate::lock::Slot;
use crate::model::Model;

pub const MODELS: &[Model] = &[Model { name: "slot-excludes", preemptions: 3, run: excludes }];

fn excludes() {
    let shared = Arc::new((Slot::new(Some(0)), Number::new()));
    let turn = |shared: &(Slot<usize>, Number)| {
        shared.0.with(|value| {
            shared.1.add(1);
            *value = value.map(|value| value + 1);
        });
    };
    let same = shared.clone();
    let other = thread::spawn(move || turn(&same));
    turn(&shared);
    other.join().expect("no panic");
    assert_eq!(shared.0.replace(None), Some(2));
    assert_eq!(shared.0.get(), None);
}
