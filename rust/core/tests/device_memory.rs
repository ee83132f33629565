//! Memory of another device, over an allocator whose blocks are numbers.
#![allow(clippy::undocumented_unsafe_blocks)] // the tests are the only threads

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use rushlight_core::Device;
use rushlight_core::block::Block;
use rushlight_core::device_memory::{DeviceMemory, StreamId};
use rushlight_core::storage::Storage;

/// An allocator of numbers, with streams that advance only when a test says so.
#[derive(Default)]
struct Allocator {
    /// The amounts of work enqueued and finished on each stream.
    streams: BTreeMap<usize, (usize, usize)>,
    /// Dropped blocks, with the work that must finish before they are free.
    waiting: Vec<(usize, Vec<(usize, usize)>)>,
}

impl Allocator {
    fn enqueue(&mut self, stream: StreamId) {
        self.streams.entry(stream.0).or_default().0 += 1;
    }

    fn run_all(&mut self, stream: StreamId) {
        let stream = self.streams.entry(stream.0).or_default();
        stream.1 = stream.0;
    }

    fn free(&self) -> Vec<usize> {
        let passed = |&(stream, work): &(usize, usize)| self.streams.get(&stream).is_none_or(|at| at.1 >= work);
        self.waiting.iter().filter(|(_, uses)| uses.iter().all(passed)).map(|(address, _)| *address).collect()
    }
}

struct Memory {
    address: usize,
    allocator: Arc<Mutex<Allocator>>,
    streams: Mutex<Vec<StreamId>>,
}

impl DeviceMemory for Memory {
    fn address(&self) -> usize {
        self.address
    }

    fn bytes(&self) -> usize {
        256
    }

    fn device(&self) -> Device {
        Device::Cuda(1)
    }

    fn record_stream(&self, stream: StreamId) {
        self.streams.lock().unwrap().push(stream);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let mut allocator = self.allocator.lock().unwrap();
        let work = |stream: &StreamId| (stream.0, allocator.streams.get(&stream.0).map_or(0, |at| at.0));
        let uses = self.streams.lock().unwrap().iter().map(work).collect();
        allocator.waiting.push((self.address, uses));
    }
}

fn storage(allocator: &Arc<Mutex<Allocator>>) -> Storage {
    let memory = Memory { address: 0x7000, allocator: allocator.clone(), streams: Mutex::default() };
    Storage::new(Block::device(Box::new(memory)))
}

#[test]
fn the_host_is_refused() {
    let storage = storage(&Arc::default());
    let error = storage.pin().err().unwrap();
    assert_eq!(error.sentence(), "the host cannot reach memory on cuda:1");
    // SAFETY: the only thread.
    assert!(unsafe { storage.unpinned() }.is_none());
    assert_eq!((storage.device(), storage.len(), storage.address()), (Device::Cuda(1), 256, 0x7000));
    assert!(!storage.is_resizable() && !storage.is_shared() && storage.file().is_none());
    // SAFETY: the only thread.
    let refused = unsafe { storage.resize(512) }.unwrap_err();
    assert_eq!(refused.sentence(), "Trying to resize storage that is not resizable");
}

#[test]
fn host_memory_is_refused_to_a_device() {
    let error = Storage::heap(8).unwrap().pin_on(StreamId(1)).err().unwrap();
    assert_eq!(error.sentence(), "the device cannot reach memory on cpu");
    assert!(Storage::new(Block::meta(8)).pin_on(StreamId(1)).is_err());
}

#[test]
fn a_block_is_free_once_its_streams_have_passed() {
    let allocator: Arc<Mutex<Allocator>> = Arc::default();
    let (first, second) = (StreamId(1), StreamId(2));
    let storage = storage(&allocator);
    for stream in [first, second] {
        let pin = storage.pin_on(stream).unwrap();
        assert_eq!(pin.address(), 0x7000);
        allocator.lock().unwrap().enqueue(stream);
    }
    drop(storage);
    assert_eq!(allocator.lock().unwrap().free(), []);
    allocator.lock().unwrap().run_all(first);
    assert_eq!(allocator.lock().unwrap().free(), []);
    allocator.lock().unwrap().run_all(second);
    assert_eq!(allocator.lock().unwrap().free(), [0x7000]);
}

#[test]
fn a_pinned_block_outlives_its_replacement() {
    let allocator: Arc<Mutex<Allocator>> = Arc::default();
    let storage = storage(&allocator);
    let pin = storage.pin_on(StreamId(1)).unwrap();
    // SAFETY: the only thread.
    unsafe { storage.replace(Block::heap(8).unwrap()) };
    assert_eq!(allocator.lock().unwrap().waiting.len(), 0);
    drop(pin);
    assert_eq!(allocator.lock().unwrap().free(), [0x7000]);
}
