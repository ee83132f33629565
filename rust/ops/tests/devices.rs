//! Operators on tensors of a GPU, whose memory is simulated by a number.

use rushlight::{DType, Device, Layout, Operator, Output, Storage, Tensor};
use rushlight_core::Class;
use rushlight_core::block::Block;
use rushlight_core::device_memory::{DeviceMemory, StreamId};
use rushlight_dispatch::operator::{ExplicitAutograd, Implementation};

struct Memory;

impl DeviceMemory for Memory {
    fn address(&self) -> usize {
        0x7000
    }

    fn bytes(&self) -> usize {
        24
    }

    fn device(&self) -> Device {
        Device::Cuda(0)
    }

    fn record_stream(&self, _stream: StreamId) {}
}

/// Six numbers on a GPU.
fn on_card() -> Tensor {
    rushlight::install();
    let storage = Storage::new(Block::device(Box::new(Memory)));
    Tensor::new(storage, Layout::contiguous(&[2, 3]), DType::F32, Device::Cuda(0))
}

/// An operator that has no form for GPUs.
static ON_HOST_ALONE: Operator = Operator {
    name: "on_host_alone",
    signature: "(Tensor self) -> Tensor",
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_cpu_alone("Call x.cpu().", |_| {
        Ok(Output::Nothing)
    })),
    ..Operator::BASE
};

#[test]
fn views_run_on_any_device() {
    let x = on_card();
    let view = rushlight::op!(rushlight::view::transpose::T, &x).unwrap();
    assert_eq!((view.device(), &view.sizes()[..]), (Device::Cuda(0), &[3, 2][..]));
}

#[test]
fn an_operator_without_a_kernel_for_the_device_is_refused() {
    let x = on_card();
    let error = ON_HOST_ALONE.call([(&x).into()]).err().unwrap();
    let sentence = "Could not run 'aten::on_host_alone' with arguments from the 'CUDA' backend.";
    assert_eq!((error.class(), error.sentence()), (Class::NotImplemented, sentence));
    let error = x.storage().pin().err().unwrap();
    assert_eq!(error.sentence(), "the host cannot reach memory on cuda:0");
}

#[test]
fn tensors_of_two_devices_do_not_meet() {
    let (here, there) = (rushlight::from_slice(&[1.0f32, 2.0, 3.0]).unwrap(), on_card());
    let error = rushlight::op!(rushlight::pointwise::arith::ADD, &here, &there).unwrap_err();
    assert_eq!(
        error.sentence(),
        "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
    );
}

/// The lists of torch's sentences name operators and arguments that exist.
#[test]
fn sentences_for_two_devices_are_those_of_operators() {
    use rushlight_dispatch::call::two_devices::{METHODS, SENTENCES, SENTENCES_ON_GPUS};
    let schemas = |name: &str| {
        let found: Vec<_> =
            rushlight::table::OPERATORS.iter().filter(|op| op.name == name).map(|op| op.schema()).collect();
        assert!(!found.is_empty(), "there is no operator {name}");
        found
    };
    for (name, _, order) in METHODS {
        for argument in order.split_whitespace().map(|pair| pair.split_once('=').map_or(pair, |(_, own)| own)) {
            assert!(schemas(name).iter().any(|schema| schema.place(argument).is_some()), "{name} has no {argument}");
        }
        schemas(name);
    }
    for (name, arguments, _) in SENTENCES.iter().chain(SENTENCES_ON_GPUS) {
        for argument in *arguments {
            assert!(schemas(name).iter().any(|schema| schema.place(argument).is_some()), "{name} has no {argument}");
        }
    }
}
