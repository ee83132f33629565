//! Operands of kernels on CUDA devices: addresses in memory that is held for the current stream.

use rushlight_autograd::Tensor;
use rushlight_core::device_memory::StreamId;
use rushlight_core::storage::DevicePin;
use rushlight_core::{Result, Storage};
use rushlight_cuda::card::{self, Card};
use rushlight_cuda::stream;

/// The device and the stream of a kernel, and the memory that stays in place while it is enqueued.
pub struct Held<'a> {
    pub card: &'static Card,
    pub stream: StreamId,
    pins: Vec<DevicePin<'a>>,
}

impl<'a> Held<'a> {
    /// The current stream of a tensor's device.
    pub fn on(tensor: &Tensor) -> Result<Held<'a>> {
        let card = card::of(tensor.device())?;
        Ok(Held { card, stream: stream::current(card.index), pins: Vec::new() })
    }

    /// The address of a storage's first byte. Loop nests add a tensor's offset to it.
    pub fn base(&mut self, storage: &'a Storage) -> Result<u64> {
        let pin = storage.pin_on(self.stream)?;
        let address = pin.address() as u64;
        self.pins.push(pin);
        Ok(address)
    }

    /// The first bytes of the storages of several tensors.
    pub fn bases<const N: usize>(&mut self, tensors: [&'a Tensor; N]) -> Result<[u64; N]> {
        let mut bases = [0; N];
        for (base, tensor) in bases.iter_mut().zip(tensors) {
            *base = self.base(tensor.storage())?;
        }
        Ok(bases)
    }

    /// The address of a tensor's first element.
    pub fn address(&mut self, tensor: &'a Tensor) -> Result<u64> {
        Ok(self.base(tensor.storage())?.wrapping_add_signed(tensor.first_byte() as i64))
    }

    /// The address of a tensor's first element, 0 for a missing tensor.
    pub fn optional(&mut self, tensor: Option<&'a Tensor>) -> Result<u64> {
        tensor.map_or(Ok(0), |tensor| self.address(tensor))
    }

    /// The addresses of several tensors.
    pub fn addresses<const N: usize>(&mut self, tensors: [&'a Tensor; N]) -> Result<[u64; N]> {
        let mut addresses = [0; N];
        for (address, tensor) in addresses.iter_mut().zip(tensors) {
            *address = self.address(tensor)?;
        }
        Ok(addresses)
    }
}
