//! The pieces of work of a recorded graph, and their order.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_int, c_uint};
use std::ptr::{null, null_mut};

use cudarc::driver::sys::{self, CUgraph, CUgraphExec, CUgraphNode, CUgraphNodeType};
use rushlight_core::Result;
use rushlight_core::device_memory::StreamId;

use crate::capture::Capture;
use crate::driver::check;
use crate::library::functions;

functions! {
    /// Numbers of graphs and nodes under which tools know them, of drivers since CUDA 13.1.
    struct Numbers from &["libcuda.so.1"];
    of_node = c"cuGraphNodeGetToolsId" (CUgraphNode, *mut u64) -> c_int;
    of_ready = c"cuGraphExecGetId" (CUgraphExec, *mut c_uint) -> c_int;
}

/// Whether the driver numbers nodes for tools.
pub fn has_numbers() -> bool {
    Numbers::found().is_some()
}

/// The number of a graph that can be enqueued; `None` from an older driver.
///
/// # Safety
/// A context is current, and the graph is alive.
pub unsafe fn number_of(ready: CUgraphExec) -> Option<u32> {
    let mut number = 0;
    // SAFETY: guaranteed by the caller, and the pointer is that of a local variable.
    (unsafe { (Numbers::found()?.of_ready)(ready, &raw mut number) } == 0).then_some(number)
}

/// A piece of work.
pub struct Node {
    handle: usize,
    pub kind: &'static str,
    /// Under which number tools know it, with that of its graph in the upper half; 0 from an older driver.
    pub number: u64,
    /// The name of a kernel.
    pub kernel: Option<String>,
}

/// The nodes of a graph, and the pairs of which the second one comes after the first.
#[derive(Default)]
pub struct Nodes {
    pub all: Vec<Node>,
    pub edges: Vec<(usize, usize)>,
    /// The nodes after which the next work of a stream comes, if the graph is being captured.
    pub last: Vec<usize>,
}

/// The name of a kind of node in torch. A later driver may have more of them than the enumeration.
fn kind(of: c_uint) -> &'static str {
    use CUgraphNodeType as Kind;
    let names = [
        (Kind::CU_GRAPH_NODE_TYPE_KERNEL, "kernel"),
        (Kind::CU_GRAPH_NODE_TYPE_MEMCPY, "memcpy"),
        (Kind::CU_GRAPH_NODE_TYPE_MEMSET, "memset"),
        (Kind::CU_GRAPH_NODE_TYPE_HOST, "host"),
        (Kind::CU_GRAPH_NODE_TYPE_GRAPH, "child_graph"),
        (Kind::CU_GRAPH_NODE_TYPE_EMPTY, "empty"),
        (Kind::CU_GRAPH_NODE_TYPE_WAIT_EVENT, "wait_event"),
        (Kind::CU_GRAPH_NODE_TYPE_EVENT_RECORD, "event_record"),
        (Kind::CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL, "semaphore_signal"),
        (Kind::CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT, "semaphore_wait"),
        (Kind::CU_GRAPH_NODE_TYPE_MEM_ALLOC, "mem_alloc"),
        (Kind::CU_GRAPH_NODE_TYPE_MEM_FREE, "mem_free"),
        (Kind::CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, "batch_mem_op"),
        (Kind::CU_GRAPH_NODE_TYPE_CONDITIONAL, "conditional"),
    ];
    names.iter().find(|(kind, _)| *kind as c_uint == of).map_or("unknown", |(_, name)| name)
}

/// The name of the kernel of a node.
fn kernel_of(node: CUgraphNode) -> Option<String> {
    // SAFETY: zeros are a value of this type, which consists of numbers and pointers.
    let mut parameters: sys::CUDA_KERNEL_NODE_PARAMS = unsafe { std::mem::zeroed() };
    let mut name = null();
    // SAFETY: the node is alive and a kernel's; the pointers are those of local variables, and names live as long as their modules.
    unsafe {
        check(sys::cuGraphKernelNodeGetParams_v2(node, &raw mut parameters)).ok()?;
        if parameters.func.is_null() {
            return None;
        }
        check(sys::cuFuncGetName(&raw mut name, parameters.func)).ok()?;
        Some(CStr::from_ptr(name).to_string_lossy().into_owned())
    }
}

impl Nodes {
    /// Those of a graph.
    ///
    /// # Safety
    /// A context is current, and the graph is alive.
    pub unsafe fn of(graph: CUgraph) -> Result<Nodes> {
        let (mut count, mut edges) = (0, 0);
        // SAFETY: guaranteed by the caller; lists have the lengths that the driver has told.
        let (handles, from, to) = unsafe {
            check(sys::cuGraphGetNodes(graph, null_mut(), &raw mut count))?;
            let mut handles = vec![null_mut(); count];
            if count != 0 {
                check(sys::cuGraphGetNodes(graph, handles.as_mut_ptr(), &raw mut count))?;
            }
            check(sys::cuGraphGetEdges_v2(graph, null_mut(), null_mut(), null_mut(), &raw mut edges))?;
            let (mut from, mut to) = (vec![null_mut(); edges], vec![null_mut(); edges]);
            let mut data = vec![std::mem::zeroed(); edges];
            if edges != 0 {
                let lists = (from.as_mut_ptr(), to.as_mut_ptr(), data.as_mut_ptr());
                check(sys::cuGraphGetEdges_v2(graph, lists.0, lists.1, lists.2, &raw mut edges))?;
            }
            (handles, from, to)
        };
        let place: BTreeMap<CUgraphNode, usize> = handles.iter().enumerate().map(|(n, &node)| (node, n)).collect();
        let pair = |(from, to)| Some((*place.get(from)?, *place.get(to)?));
        let edges = from.iter().zip(&to).filter_map(pair).collect();
        let mut all = Vec::new();
        for node in handles {
            let (mut found, mut number) = (0, 0);
            // SAFETY: the node is one of the graph, and the pointers are those of local variables; the enumeration has the size of a number.
            unsafe {
                check(sys::cuGraphNodeGetType(node, (&raw mut found).cast()))?;
                if let Some(all) = Numbers::found() {
                    (all.of_node)(node, &raw mut number);
                }
            }
            let is_kernel = found == CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL as c_uint;
            let kernel = if is_kernel { kernel_of(node) } else { None };
            all.push(Node { handle: node.expose_provenance(), kind: kind(found), number, kernel });
        }
        Ok(Nodes { all, edges, last: Vec::new() })
    }

    /// Those that the capture of a stream has recorded so far; `None` without a capture.
    pub fn captured_from(stream: StreamId) -> Result<Option<Nodes>> {
        let Some(capture) = Capture::of(stream)? else { return Ok(None) };
        // SAFETY: the stream has a context, which is current, and its capture a graph.
        let mut nodes = unsafe { Nodes::of(capture.graph)? };
        let place = |node: &CUgraphNode| nodes.all.iter().position(|own| own.handle == node.addr());
        nodes.last = capture.last.iter().filter_map(place).collect();
        Ok(Some(nodes))
    }
}
