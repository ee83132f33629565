//! Storages whose block is replaced while kernels read: a block ends once, after the last that pinned it has left.

use std::sync::Arc;

use loom::thread;

use super::number::Number;
use crate::block::Block;
use crate::model::Model;
use crate::storage::Storage;

pub const MODELS: &[Model] = &[
    Model { name: "storage-replaced-while-read", preemptions: 3, run: || replaced(1, 1) },
    Model { name: "storage-replaced-twice", preemptions: 3, run: || replaced(1, 2) },
    Model { name: "storage-of-two-readers", preemptions: 3, run: || replaced(2, 1) },
    Model { name: "storage-dropped-by-a-reader", preemptions: 3, run: dropped },
];

/// Bytes whose end is a write, which must be ordered with every read.
struct Ends(Arc<Number>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.add(1);
    }
}

fn block(number: &Arc<Number>) -> Block {
    let pointer = Arc::as_ptr(number).cast_mut().cast();
    // SAFETY: the owner keeps the number, and so does the model.
    unsafe { Block::foreign(pointer, size_of::<Number>(), false, Box::new(Ends(number.clone()))) }
}

fn read(storage: &Storage) {
    let pin = storage.pin().expect("memory of the host");
    // SAFETY: each block of the storage is a number, and a pinned one has not ended.
    assert_eq!(unsafe { (*pin.as_ptr().cast::<Number>()).get() }, 0);
}

fn replaced(readers: usize, times: usize) {
    let numbers: Vec<Arc<Number>> = (0..=times).map(|_| Arc::new(Number::new())).collect();
    let storage = Storage::new(block(&numbers[0]));
    let alone = readers == 1;
    let readers: Vec<_> = (0..readers)
        .map(|_| {
            let storage = storage.clone();
            thread::spawn(move || {
                read(&storage);
                if alone {
                    read(&storage);
                }
            })
        })
        .collect();
    for number in &numbers[1..] {
        // SAFETY: all readers pin.
        unsafe { storage.replace(block(number)) };
    }
    if alone {
        read(&storage);
    }
    readers.into_iter().for_each(|reader| reader.join().expect("no panic"));
    drop(storage);
    assert!(numbers.iter().all(|number| number.get() == 1));
}

/// The last handle may go in any thread.
fn dropped() {
    let numbers = [(); 2].map(|()| Arc::new(Number::new()));
    let storage = Storage::new(block(&numbers[0]));
    let weak = storage.downgrade();
    let same = storage.clone();
    let reader = thread::spawn(move || {
        read(&same);
        drop(same);
        if let Some(again) = weak.upgrade() {
            read(&again);
        }
    });
    // SAFETY: all readers pin.
    unsafe { storage.replace(block(&numbers[1])) };
    drop(storage);
    reader.join().expect("no panic");
    assert!(numbers.iter().all(|number| number.get() == 1));
}
