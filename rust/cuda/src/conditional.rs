//! Work of a graph that runs only if a value of the device is true when the graph comes to it.
//!
//! A kernel before the work hands the value to the driver. Its device function is NVIDIA's, and the driver links it when it loads the
//! kernel. The work is captured from a stream of its own, into the graph that the driver makes for it.

use std::ptr::{null, null_mut};

use cudarc::driver::sys::{self, CUgraph, CUstreamCaptureMode};
use rushlight_core::device_memory::StreamId;
use rushlight_core::{Error, Result};

use crate::capture::{self, Capture, CaptureId};
use crate::card::Card;
use crate::driver::check;
use crate::launch::{argument, launch};
use crate::program::{Key, Program};
use crate::stream::{Stream, handle};

/// Work that is being captured.
pub struct Body {
    /// The stream from which it is captured, and the one that was current before.
    pub stream: StreamId,
    pub outer: StreamId,
    capture: CaptureId,
}

/// Enqueues the kernel that hands a value of the device to the driver.
fn set(card: &Card, stream: StreamId, mut condition: u64, mut value: u64) -> Result<()> {
    let program = Program::find(card, Key::new("condition", []), &[c"run"], || {
        r#"#include "prelude.cuh"
extern "C" __device__ void cudaGraphSetConditional(unsigned long long condition, unsigned int value);
extern "C" __global__ void run(unsigned long long condition, const bool* value) {
    if (threadIdx.x == 0) cudaGraphSetConditional(condition, *value);
}
"#
        .into()
    })?;
    let mut arguments = [argument(&mut condition), argument(&mut value)];
    // SAFETY: the graph that is captured keeps the value; the arguments have the types of the program.
    unsafe { launch(card, program.kernel(0), [1, 1], stream, &mut arguments) }
}

impl Body {
    /// Begins to capture work that runs if the bool at an address of the device is true. It comes after that of `outer`, which is being
    /// captured by `capture` and whose context is current. The stream of the body becomes the current one of this thread.
    pub fn begin(
        card: &Card,
        outer: StreamId,
        capture: CaptureId,
        value: u64,
        mode: CUstreamCaptureMode,
    ) -> Result<Body> {
        let none = || Error::runtime("capture_begin() must be called before begin_capture_to_if_node()");
        let graph = Capture::of(outer)?.ok_or_else(none)?.graph;
        // Streams are shared by those that ask for many: one that is free of captures.
        let mut streams = (0..Stream::MOST).map(|_| Stream::new(card.index, 0));
        let is_captured = |stream: &Stream| capture::is_capturing(card.index, stream.id());
        let stream = streams.find(|stream| !stream.as_ref().is_ok_and(is_captured)).ok_or_else(|| {
            Error::runtime(format!("all {} streams of the device are being captured", Stream::MOST))
                .hint("Conditions may not be nested as deeply as there are streams.")
        })??;
        let mut condition = 0;
        // SAFETY: the graph is being captured, and the pointer is that of a local variable.
        check(unsafe { sys::cuGraphConditionalHandleCreate(&raw mut condition, graph, card.context(), 0, 0) })?;
        set(card, outer, condition, value)?;
        let Capture { graph, last } = Capture::of(outer)?.ok_or_else(none)?;
        let body = add(graph, &last, outer, condition, card)?;
        // SAFETY: the graph is that of the new node, and nothing else captures into it.
        check(unsafe { sys::cuStreamBeginCaptureToGraph(handle(stream.id()), body, null(), null(), 0, mode) })?;
        let own = capture::id_of(stream.id()).ok_or_else(none)?;
        capture::put_inside(own, capture);
        stream.set_current();
        Ok(Body { stream: stream.id(), outer, capture: own })
    }

    /// Ends the capture of the work. The stream that was current before is so again.
    pub fn end(self, device: u8) -> Result<()> {
        let mut graph = null_mut();
        // SAFETY: streams are never destroyed, and the pointer is that of a local variable.
        let ended = check(unsafe { sys::cuStreamEndCapture(handle(self.stream), &raw mut graph) });
        capture::take_out(self.capture);
        Stream::of(device, self.outer).set_current();
        ended
    }
}

/// Adds a node behind the work that a stream has captured; the graph of its work.
fn add(graph: CUgraph, last: &[sys::CUgraphNode], outer: StreamId, condition: u64, card: &Card) -> Result<CUgraph> {
    // SAFETY: zeros are a value of this type, which consists of numbers and pointers.
    let mut parameters: sys::CUgraphNodeParams = unsafe { std::mem::zeroed() };
    parameters.type_ = sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_CONDITIONAL;
    parameters.__bindgen_anon_1.conditional = sys::CUDA_CONDITIONAL_NODE_PARAMS {
        handle: condition,
        type_: sys::CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_IF,
        size: 1,
        phGraph_out: null_mut(),
        ctx: card.context(),
    };
    let mut node = null_mut();
    // SAFETY: the graph is being captured, `last` are its nodes, and the other pointers are those of local variables. The driver
    // stores where the graphs of the node are, of which there is one.
    unsafe {
        check(sys::cuGraphAddNode_v2(&raw mut node, graph, last.as_ptr(), null(), last.len(), &raw mut parameters))?;
        let replace = sys::CUstreamUpdateCaptureDependencies_flags::CU_STREAM_SET_CAPTURE_DEPENDENCIES as u32;
        check(sys::cuStreamUpdateCaptureDependencies_v2(handle(outer), &raw mut node, null(), 1, replace))?;
        Ok(*parameters.__bindgen_anon_1.conditional.phGraph_out)
    }
}
