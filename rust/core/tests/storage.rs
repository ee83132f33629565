//! Storages: pins, replacement, growth, exports.
#![allow(clippy::undocumented_unsafe_blocks)] // the tests read memory that they have just made

use rushlight_core::Device;
use rushlight_core::block::Block;
use rushlight_core::storage::Storage;

#[test]
fn a_pinned_block_outlives_its_replacement() {
    let storage = Storage::heap(8).unwrap();
    let pin = storage.pin().unwrap();
    unsafe { pin.as_ptr().cast::<u64>().write(7) };
    // SAFETY: no other thread uses the storage; the pin keeps the old block.
    unsafe { storage.replace(Block::heap(16).unwrap()) };
    assert_eq!(unsafe { pin.as_ptr().cast::<u64>().read() }, 7);
    assert_eq!(storage.len(), 16);
    drop(pin);
}

#[test]
fn where_the_host_has_no_memory_there_is_no_pointer() {
    let storage = Storage::new(Block::meta(8));
    let error = storage.pin().err().unwrap();
    assert_eq!(error.class(), rushlight_core::Class::NotImplemented);
    assert_eq!(error.sentence(), "Cannot copy out of meta tensor; no data!");
    assert!(Block::meta(8).as_ptr().is_err());
    assert_eq!((storage.len(), storage.address()), (8, 0));
    // SAFETY: the only thread.
    unsafe { storage.resize(16).unwrap() };
    assert_eq!((storage.len(), storage.device()), (16, Device::Meta));
    let other = Storage::new(Block::meta(8));
    assert!(storage.shares_bytes(&storage.clone()) && !storage.shares_bytes(&other));
}

#[test]
fn growing_keeps_the_bytes() {
    let storage = Storage::heap(8).unwrap();
    // SAFETY: the storage has eight bytes.
    unsafe { storage.pin().unwrap().as_ptr().cast::<u64>().write(7) };
    // SAFETY: the only thread.
    unsafe { storage.resize(64).unwrap() };
    // SAFETY: the storage has more than eight bytes now.
    assert_eq!(unsafe { storage.pin().unwrap().as_ptr().cast::<u64>().read() }, 7);
    assert_eq!(storage.len(), 64);
}

#[test]
fn shrinking_keeps_the_memory_of_tensors() {
    let storage = Storage::heap(64).unwrap();
    // SAFETY: the only thread.
    unsafe { storage.resize(8).unwrap() };
    assert_eq!((storage.len(), storage.pin().unwrap().block().reserved()), (8, 64));
    // SAFETY: as above.
    unsafe { storage.resize(0).unwrap() };
    assert!(storage.pin().is_err());
    // SAFETY: as above.
    unsafe { storage.resize(16).unwrap() };
    assert_eq!((storage.len(), storage.pin().unwrap().block().reserved()), (16, 64));
}

#[test]
fn what_others_show_keeps_its_size() {
    let storage = Storage::heap(8).unwrap();
    let shown = storage.export().unwrap();
    // SAFETY: the only thread.
    let refused = unsafe { storage.resize(64) }.unwrap_err();
    assert_eq!(refused.sentence(), "Trying to resize storage that is not resizable");
    drop(shown);
    // SAFETY: the only thread.
    unsafe { storage.resize(64).unwrap() };
    assert_eq!(storage.len(), 64);
}

#[test]
fn replacing_while_others_read() {
    let storage = Storage::heap(8).unwrap();
    unsafe { storage.pin().unwrap().as_ptr().cast::<u64>().write(1) };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..20_000 {
                    assert_eq!(unsafe { storage.pin().unwrap().as_ptr().cast::<u64>().read() }, 1);
                }
            });
        }
        for _ in 0..2_000 {
            let block = Block::heap(8).unwrap();
            unsafe { block.as_ptr().unwrap().cast::<u64>().write(1) };
            // SAFETY: all readers pin.
            unsafe { storage.replace(block) };
        }
    });
}
