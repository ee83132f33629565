//! Graphs: work that is recorded once, from the streams of a thread, and enqueued again as a whole.
//!
//! Captured work does not run. Its memory comes from a pool of the graph, so that it stays where the graph expects it. Its random
//! numbers come from generators that are registered before; see `replayed`.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::{self, CUgraph, CUgraphExec, CUstreamCaptureMode};
use rushlight_core::device_memory::StreamId;
use rushlight_core::fork;
use rushlight_core::{Error, Result};

use crate::allocator::PoolId;
use crate::capture::{self, CaptureId};
use crate::conditional::Body;
use crate::driver::{check, initialize};
use crate::nodes::{self, Nodes};
use crate::replayed::{self, Generator, Replayed};
use crate::stream::{self, handle};
use crate::{card, memory, profile};

static LAST_POOL: AtomicU64 = AtomicU64::new(0);

/// A pool for graphs.
pub fn new_pool() -> PoolId {
    PoolId(LAST_POOL.fetch_add(1, Ordering::Relaxed) + 1)
}

/// The mode of a name in `torch.cuda.graph`.
fn mode(name: &str) -> Option<CUstreamCaptureMode> {
    Some(match name {
        "global" | "default" => CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL,
        "thread_local" => CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
        "relaxed" => CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED,
        _ => return None,
    })
}

#[derive(Default)]
enum Stage {
    #[default]
    Empty,
    /// The device, the first stream, and how strictly other calls are refused.
    Capturing(u8, StreamId, CaptureId, CUstreamCaptureMode),
    /// The recorded work, and the form of it that can be enqueued.
    Captured(u8, CUgraph, CUgraphExec),
}

struct State {
    stage: Stage,
    pool: PoolId,
    /// The work on conditions that is being recorded, the innermost last.
    bodies: Vec<Body>,
    /// The generators of which recorded work may draw.
    generators: Vec<Arc<dyn Generator>>,
    /// Those of the recorded work.
    replayed: Vec<Replayed>,
    /// The streams on which the recorded work has been enqueued.
    runs: Vec<StreamId>,
}

impl State {
    /// Waits until the recorded work has run. While other work of the device is captured, nothing may wait for the whole device, but
    /// graphs may be dropped at any time: by the garbage collector, for example.
    fn wait(&mut self, device: u8) -> Result<()> {
        let _relaxed = capture::Relaxed::begin();
        // A stream that is captured itself cannot be waited for. The driver keeps what is still to run.
        let mut waited = self.runs.drain(..).filter(|&stream| !capture::is_capturing(device, stream));
        waited.try_for_each(|stream| stream::synchronize(device, stream))
    }

    /// Ends a capture, and keeps the recorded work if it is valid.
    fn end_capture(&mut self, device: u8, stream: StreamId, capture: CaptureId) -> Result<()> {
        card::select(device)?;
        for body in std::mem::take(&mut self.bodies).into_iter().rev() {
            // What is wrong with a part is wrong with the whole.
            let _ = body.end(device);
        }
        let (mut graph, pool) = (std::ptr::null_mut(), self.pool);
        // SAFETY: a context is current, and the pointer is that of a local variable.
        let ended = check(unsafe { sys::cuStreamEndCapture(handle(stream), &raw mut graph) });
        memory::end_capture(device, pool);
        capture::count(false);
        let replayed = replayed::end(capture);
        (self.stage, self.pool) = (Stage::Empty, PoolId::SHARED);
        let captured = ended.and_then(|()| {
            let mut ready = std::ptr::null_mut();
            // SAFETY: the graph was just recorded, and the pointer is that of a local variable.
            check(unsafe { sys::cuGraphInstantiateWithFlags(&raw mut ready, graph, 0) }).map(|()| ready)
        });
        match captured {
            Ok(ready) => {
                (self.stage, self.pool) = (Stage::Captured(device, graph, ready), pool);
                self.replayed = replayed;
                Ok(())
            }
            Err(error) => {
                if !graph.is_null() {
                    // SAFETY: nothing else refers to the graph.
                    unsafe { sys::cuGraphDestroy(graph) };
                }
                memory::let_go_of_pool(device, pool);
                Err(error)
            }
        }
    }
}

/// `torch.cuda.CUDAGraph`.
pub struct Graph {
    state: Mutex<State>,
    generation: u64,
}

// SAFETY: the driver's graphs may be used by any thread, one at a time: the lock sees to that.
unsafe impl Send for Graph {}
// SAFETY: see above.
unsafe impl Sync for Graph {}

impl Default for Graph {
    fn default() -> Graph {
        let state = State {
            stage: Stage::Empty,
            pool: PoolId::SHARED,
            bodies: Vec::new(),
            generators: Vec::new(),
            replayed: Vec::new(),
            runs: Vec::new(),
        };
        Graph { state: Mutex::new(state), generation: fork::generation() }
    }
}

impl Graph {
    /// The state; a forked child leaves the graph of its parent alone.
    fn state(&self) -> Result<MutexGuard<'_, State>> {
        if self.generation != fork::generation() {
            initialize()?;
        }
        Ok(self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lets later recorded work draw of a generator.
    pub fn register(&self, generator: Arc<dyn Generator>) -> Result<()> {
        let mut state = self.state()?;
        if state.generators.iter().all(|known| known.id() != generator.id()) {
            state.generators.push(generator);
        }
        Ok(())
    }

    /// Begins to record the work of this thread's current stream, with memory of a pool.
    pub fn begin(&self, pool: Option<PoolId>, error_mode: &str) -> Result<()> {
        let mut state = self.state()?;
        if !matches!(state.stage, Stage::Empty) {
            return Err(Error::runtime(
                "This CUDAGraph instance already owns a captured graph. To capture a new graph, create a new instance.",
            ));
        }
        let mode = mode(error_mode).ok_or_else(|| {
            Error::runtime(format!(
                "Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got {error_mode}"
            ))
        })?;
        let device = card::current();
        card::select(device)?;
        let stream = stream::current(device);
        if stream == stream::DEFAULT {
            return Err(Error::runtime(
                "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay them on the \
                 default stream.)",
            ));
        }
        let replayed = state.generators.iter().map(|generator| Replayed::new(device, generator.clone()));
        let replayed = replayed.collect::<Result<Vec<_>>>()?;
        let pool = pool.unwrap_or_else(new_pool);
        memory::begin_capture(device, pool)?;
        capture::count(true);
        // SAFETY: a context is current, and streams are never destroyed.
        let begun = check(unsafe { sys::cuStreamBeginCapture_v2(handle(stream), mode) });
        let capture = begun.and_then(|()| {
            capture::of(device, stream).ok_or_else(|| {
                let mut abandoned = std::ptr::null_mut();
                // SAFETY: as above, and the pointer is that of a local variable.
                unsafe { sys::cuStreamEndCapture(handle(stream), &raw mut abandoned) };
                Error::runtime("Invalid capture.")
            })
        });
        match capture {
            Ok(capture) => {
                memory::name_capture(device, pool, capture);
                replayed::begin(capture, replayed);
                (state.stage, state.pool) = (Stage::Capturing(device, stream, capture, mode), pool);
                Ok(())
            }
            Err(error) => {
                memory::end_capture(device, pool);
                memory::let_go_of_pool(device, pool);
                capture::count(false);
                Err(error)
            }
        }
    }

    /// Ends the record.
    pub fn end(&self) -> Result<()> {
        let mut state = self.state()?;
        match state.stage {
            Stage::Capturing(device, stream, ..) if stream::current(device) != stream => {
                Err(Error::runtime("Capture must end on the same stream it began on."))
            }
            Stage::Capturing(device, stream, capture, _) => state.end_capture(device, stream, capture),
            _ => Err(Error::runtime("capture_end() called before capture_begin().")),
        }
    }

    /// The number of the capture that is recorded.
    pub fn capture(&self) -> Result<Option<CaptureId>> {
        Ok(match self.state()?.stage {
            Stage::Capturing(_, _, capture, _) => Some(capture),
            _ => None,
        })
    }

    /// Begins to record work that runs if the bool at an address of a device is true when the graph comes to it.
    pub fn begin_if(&self, value: u64, on: u8) -> Result<()> {
        let mut state = self.state()?;
        let Stage::Capturing(device, _, capture, mode) = state.stage else {
            return Err(Error::runtime("capture_begin() must be called before begin_capture_to_if_node()"));
        };
        if on != device {
            return Err(Error::runtime(format!(
                "the condition is on cuda:{on}, and the work that is recorded on cuda:{device}"
            )));
        }
        let card = card::select(device)?;
        let body = Body::begin(card, stream::current(device), capture, value, mode)?;
        state.bodies.push(body);
        Ok(())
    }

    /// Ends the record of work on a condition.
    pub fn end_if(&self) -> Result<()> {
        let mut state = self.state()?;
        let Stage::Capturing(device, ..) = state.stage else {
            return Err(Error::runtime("capture_end() called before capture_begin()."));
        };
        card::select(device)?;
        match state.bodies.pop() {
            Some(body) => body.end(device),
            None => Err(Error::runtime("Missing capture ID for conditional node.")
                .hint("begin_capture_to_if_node() comes before end_capture_to_conditional_node().")),
        }
    }

    /// The pieces of the recorded work and the number of its form that can be enqueued, if it was captured.
    pub fn nodes(&self) -> Result<Option<(Nodes, Option<u32>)>> {
        let state = self.state()?;
        let Stage::Captured(device, graph, ready) = state.stage else { return Ok(None) };
        card::select(device)?;
        // SAFETY: a context is current, and both forms are alive.
        Ok(Some(unsafe { (Nodes::of(graph)?, nodes::number_of(ready)) }))
    }

    /// Enqueues the recorded work on this thread's current stream of the graph's device.
    pub fn replay(&self) -> Result<()> {
        let mut state = self.state()?;
        let Stage::Captured(device, _, ready) = state.stage else {
            return Err(Error::runtime("Called CUDAGraph::replay without a preceding successful capture."));
        };
        card::select(device)?;
        let stream = stream::current(device);
        for generator in &state.replayed {
            generator.prepare(device, stream)?;
        }
        if !state.runs.contains(&stream) {
            state.runs.push(stream);
        }
        let before = profile::before(device, stream);
        // SAFETY: a context is current, and the graph is alive.
        check(unsafe { sys::cuGraphLaunch(ready, handle(stream)) })?;
        profile::after(before, "graph", stream);
        Ok(())
    }

    /// Forgets the recorded work.
    pub fn reset(&self) -> Result<()> {
        let mut state = self.state()?;
        if let (Stage::Captured(device, graph, ready), pool) = (&state.stage, state.pool) {
            let (device, graph, ready) = (*device, *graph, *ready);
            state.wait(device)?;
            card::select(device)?;
            // SAFETY: a context is current; the work has run or the driver keeps it, and nothing else refers to the graph.
            unsafe {
                sys::cuGraphExecDestroy(ready);
                sys::cuGraphDestroy(graph);
            }
            memory::let_go_of_pool(device, pool);
            (state.stage, state.pool) = (Stage::Empty, PoolId::SHARED);
            state.replayed.clear();
            state.generators.clear();
        }
        Ok(())
    }

    /// Makes the form that can be enqueued again, from the recorded work as it is now.
    pub fn instantiate(&self) -> Result<()> {
        let mut state = self.state()?;
        let Stage::Captured(device, graph, old) = state.stage else {
            return Err(Error::runtime("capture_end() must have been called before calling instantiate"));
        };
        state.wait(device)?;
        card::select(device)?;
        let mut ready = std::ptr::null_mut();
        // SAFETY: a context is current, the graph is alive, and the pointer is that of a local variable.
        check(unsafe { sys::cuGraphInstantiateWithFlags(&raw mut ready, graph, 0) })?;
        // SAFETY: the work has run or the driver keeps it, and nothing else refers to the old form.
        unsafe { sys::cuGraphExecDestroy(old) };
        state.stage = Stage::Captured(device, graph, ready);
        Ok(())
    }

    /// The driver's handles of the recorded work and of the form that can be enqueued, if it was captured.
    pub fn handles(&self) -> Result<Option<[usize; 2]>> {
        Ok(match self.state()?.stage {
            Stage::Captured(_, graph, ready) => Some([graph.expose_provenance(), ready.expose_provenance()]),
            _ => None,
        })
    }

    /// Writes the recorded work to a file as a picture of Graphviz.
    pub fn print(&self, path: &CStr) -> Result<()> {
        let Stage::Captured(device, graph, _) = self.state()?.stage else {
            return Err(Error::runtime("capture_end() must have been called before calling debug_dump"));
        };
        card::select(device)?;
        let verbose = sys::CUgraphDebugDot_flags_enum::CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE as u32;
        // SAFETY: a context is current, the graph is alive, and the path ends with a zero byte.
        check(unsafe { sys::cuGraphDebugDotPrint(graph, path.as_ptr(), verbose) })
    }

    /// The pool of the graph, if it was captured.
    pub fn pool(&self) -> Result<Option<PoolId>> {
        let state = self.state()?;
        Ok(matches!(state.stage, Stage::Captured(..)).then_some(state.pool))
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.generation == fork::generation() {
            // A capture that nobody ends has streams that no other work can use.
            if let Ok(mut state) = self.state()
                && let Stage::Capturing(device, stream, capture, _) = state.stage
            {
                let _ = state.end_capture(device, stream, capture);
            }
            let _ = self.reset();
        }
    }
}
