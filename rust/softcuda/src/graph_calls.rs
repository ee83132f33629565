//! The entry points of the driver for graphs: their nodes, work on conditions, and launches.
#![allow(non_snake_case, clippy::missing_safety_doc)]

use std::ffi::{CStr, c_char, c_int, c_uint};

use crate::driver::{give, on_device, on_stream};
use crate::graphs::Node;
use crate::machine::with;
use crate::status::{INVALID_HANDLE, INVALID_VALUE, SUCCESS, Status};
use crate::streams::Work;

/// `CU_GRAPH_NODE_TYPE_CONDITIONAL`, and `CU_GRAPH_COND_TYPE_IF`.
const CONDITIONAL: c_int = 13;
const IF: c_int = 0;
/// `CU_STREAM_SET_CAPTURE_DEPENDENCIES`.
const SET: c_uint = 1;

/// `CUgraphNodeParams` of a node on a condition.
#[repr(C)]
pub struct Parameters {
    kind: c_int,
    reserved: [c_int; 3],
    condition: u64,
    condition_kind: c_int,
    size: c_uint,
    bodies: *mut usize,
    context: usize,
}

/// The kind of a node's work, as `CUgraphNodeType` numbers it.
fn kind(work: &Work) -> c_int {
    match work {
        Work::Launch(_) | Work::Compute(..) => 0,
        Work::Copy { .. } => 1,
        Work::Fill { .. } => 2,
        Work::Call(_) | Work::Exchange(_) => 3,
        Work::If { .. } => CONDITIONAL,
        Work::Wait { .. } => 6,
        Work::Record { .. } => 7,
    }
}

/// Stores a list, if there is room for it, and its length.
///
/// # Safety
/// `to` is null or has room for `count` elements, which can be read and written.
unsafe fn list(all: &[usize], to: *mut usize, count: *mut usize) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if !to.is_null() {
            to.copy_from_nonoverlapping(all.as_ptr(), all.len().min(*count));
        }
        *count = all.len();
    }
}

/// Runs a function on a node.
fn on_node(node: usize, mut run: impl FnMut(&Node) -> Status) -> Status {
    on_device(|machine, _| machine.graphs.node(node).map_or(INVALID_HANDLE, &mut run))
}

entries! {
    cuStreamBeginCaptureToGraph(
        stream: usize, graph: usize, _last: *const usize, _data: *const u8, count: usize, mode: c_int
    ) {
        if count != 0 { return INVALID_VALUE; }
        on_stream(stream, |machine, stream| machine.graphs.begin_into(stream, graph, mode))
    }

    cuStreamUpdateCaptureDependencies_v2(
        stream: usize, nodes: *const usize, _data: *const u8, count: usize, flags: c_uint
    ) {
        if flags != SET { return INVALID_VALUE; }
        let last = std::slice::from_raw_parts(nodes, count);
        on_stream(stream, |machine, stream| machine.graphs.set_last(stream, last.to_vec()))
    }

    // The handle is where the value is. It stays for ever, because kernels of any graph may set it.
    cuGraphConditionalHandleCreate(handle: *mut u64, graph: usize, _context: usize, value: c_uint, _flags: c_uint) {
        on_device(|machine, _| {
            if machine.graphs.find(graph).is_none() { return INVALID_HANDLE; }
            let cell: *mut c_uint = Box::leak(Box::new(value));
            *handle = cell.expose_provenance() as u64;
            SUCCESS
        })
    }

    cuGraphAddNode_v2(
        node: *mut usize, graph: usize, after: *const usize, _data: *const u8, count: usize, parameters: *mut Parameters
    ) {
        let parameters = &mut *parameters;
        if (parameters.kind, parameters.condition_kind, parameters.size) != (CONDITIONAL, IF, 1) {
            return INVALID_VALUE;
        }
        let after = if count == 0 { Vec::new() } else { std::slice::from_raw_parts(after, count).to_vec() };
        on_device(|machine, _| match machine.graphs.add_conditional(graph, parameters.condition as usize, after.clone()) {
            Ok((made, body)) => {
                *node = made;
                // As the driver's, the list stays as long as the node, which may be as long as the process.
                parameters.bodies = Box::leak(Box::new(body));
                SUCCESS
            }
            Err(status) => status,
        })
    }

    cuGraphGetNodes(graph: usize, nodes: *mut usize, count: *mut usize) {
        on_device(|machine, _| {
            let Some(graph) = machine.graphs.find(graph) else { return INVALID_HANDLE };
            let all: Vec<usize> = graph.nodes.iter().map(|node| node.handle).collect();
            list(&all, nodes, count);
            SUCCESS
        })
    }

    cuGraphGetEdges_v2(graph: usize, from: *mut usize, to: *mut usize, _data: *mut u8, count: *mut usize) {
        on_device(|machine, _| {
            let Some(graph) = machine.graphs.find(graph) else { return INVALID_HANDLE };
            let edges = graph.nodes.iter().flat_map(|node| node.after.iter().map(|&before| (before, node.handle)));
            let (before, after): (Vec<usize>, Vec<usize>) = edges.unzip();
            let mut room = *count;
            list(&before, from, &raw mut room);
            list(&after, to, count);
            SUCCESS
        })
    }

    cuGraphNodeGetType(node: usize, to: *mut c_int) { on_node(node, |node| { *to = kind(&node.work); SUCCESS }) }

    // Nodes have the numbers of their handles; those of graphs stand in the upper half.
    cuGraphNodeGetToolsId(node: usize, number: *mut u64) {
        on_device(|machine, _| {
            let Some(graph) = machine.graphs.graph_of(node) else { return INVALID_HANDLE };
            *number = (graph as u64) << 32 | node as u64;
            SUCCESS
        })
    }

    cuGraphExecGetId(ready: usize, number: *mut c_uint) { *number = ready as c_uint; SUCCESS }

    cuGraphKernelNodeGetParams_v2(node: usize, parameters: *mut usize) {
        // The kernel is the first member; libraries' calls have none.
        on_node(node, |node| match &node.work {
            Work::Launch(launch) => { *parameters = launch.function; SUCCESS }
            _ => INVALID_VALUE,
        })
    }

    cuFuncGetName(name: *mut *const c_char, function: usize) {
        on_device(|machine, _| {
            let Some(found) = machine.modules.find(function) else { return INVALID_HANDLE };
            *name = found.name.as_ptr();
            SUCCESS
        })
    }

    cuGraphInstantiateWithFlags(ready: *mut usize, graph: usize, _flags: u64) {
        on_device(|machine, _| give(machine.graphs.instantiate(graph), ready))
    }

    cuGraphLaunch(ready: usize, stream: usize) { on_stream(stream, |machine, stream| machine.launch_graph(ready, stream)) }

    cuGraphDebugDotPrint(graph: usize, path: *const c_char, _flags: c_uint) {
        let Some(picture) = picture(graph) else { return INVALID_VALUE };
        std::fs::write(CStr::from_ptr(path).to_string_lossy().as_ref(), picture).map_or(INVALID_VALUE, |()| SUCCESS)
    }

    cuGraphExecDestroy(ready: usize) { with(|machine| machine.graphs.destroy(ready)) }

    cuGraphDestroy(graph: usize) { with(|machine| machine.graphs.destroy(graph)) }
}

/// A graph in the language of Graphviz: a node for each piece of work.
fn picture(graph: usize) -> Option<String> {
    let mut found = None;
    with(|machine| {
        found = machine.graphs.work(graph).map(|work| work.len());
        SUCCESS
    });
    let nodes: String = (0..found?).map(|n| format!("  work_{n};\n")).collect();
    Some(format!("digraph captured {{\n{nodes}}}\n"))
}
