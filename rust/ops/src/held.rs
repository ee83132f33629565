//! Operands of kernels on CUDA devices: addresses in memory that is held for the current stream.

use rushlight_autograd::Tensor;
use rushlight_core::Result;
use rushlight_core::device_memory::StreamId;
use rushlight_core::storage::DevicePin;
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

    /// The address of a tensor's first element.
    pub fn address(&mut self, tensor: &'a Tensor) -> Result<u64> {
        let pin = tensor.storage().pin_on(self.stream)?;
        let offset = tensor.layout().offset * tensor.dtype().size() as isize;
        let address = pin.address().wrapping_add_signed(offset) as u64;
        self.pins.push(pin);
        Ok(address)
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
