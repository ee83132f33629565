//! Captures: work that is recorded from streams into a graph, and runs when the graph is launched.
//!
//! A stream that waits for an event of a capturing stream joins the capture, and must be waited for before the end. Whatever would
//! have to wait for captured work invalidates the capture. Nodes stand in the order in which they were recorded, which is one in
//! which they may run; the edges between them are those of their streams.

use std::collections::HashMap;
use std::sync::Arc;

use crate::status::{
    CAPTURE_INVALIDATED, CAPTURE_UNJOINED, CAPTURE_UNSUPPORTED, INVALID_HANDLE, INVALID_VALUE, SUCCESS, Status,
};
use crate::streams::Work;

/// `CU_STREAM_CAPTURE_MODE_RELAXED`.
const RELAXED: i32 = 2;

/// A stream that takes part in a capture.
#[derive(Clone, Default)]
struct Lane {
    /// The nodes after which its next work comes.
    last: Vec<usize>,
    /// Whether it has work that nothing waits for.
    pending: bool,
}

struct Capture {
    origin: usize,
    lanes: HashMap<usize, Lane>,
    graph: usize,
    invalid: bool,
    mode: i32,
}

#[derive(Clone)]
pub struct Node {
    pub handle: usize,
    pub work: Work,
    /// The nodes that it comes after.
    pub after: Vec<usize>,
}

#[derive(Clone, Default)]
pub struct Graph {
    pub nodes: Vec<Node>,
    /// The graphs of work on conditions, by their nodes, and where their values are.
    bodies: HashMap<usize, (usize, usize)>,
}

#[derive(Default)]
pub struct Graphs {
    captures: HashMap<usize, Capture>,
    /// The capture of an event that was recorded in one, the stream, and the nodes before it.
    events: HashMap<usize, (usize, usize, Vec<usize>)>,
    graphs: HashMap<usize, Graph>,
    last: usize,
}

impl Graphs {
    fn new_handle(&mut self) -> usize {
        self.last = self.last.max(0x30_0000) + 0x10;
        self.last
    }

    /// The capture in which a stream takes part.
    fn of(&self, stream: usize) -> Option<usize> {
        self.captures.iter().find(|(_, capture)| capture.lanes.contains_key(&stream)).map(|(&id, _)| id)
    }

    pub fn is_capturing(&self, stream: usize) -> bool {
        self.of(stream).is_some()
    }

    /// 0 without a capture, 1 during one, 2 after what is not permitted; and the number of the capture.
    pub fn state(&self, stream: usize) -> (i32, u64) {
        let found = self.of(stream).and_then(|id| self.captures.get(&id).map(|capture| (id, capture)));
        found.map_or((0, 0), |(id, capture)| (if capture.invalid { 2 } else { 1 }, id as u64))
    }

    /// The graph into which a stream is captured, and the nodes after which its next work comes.
    pub fn captured(&self, stream: usize) -> Option<(usize, &[usize])> {
        let capture = self.captures.get(&self.of(stream)?)?;
        Some((capture.graph, &capture.lanes.get(&stream)?.last))
    }

    /// Whether a call that is unsafe during captures is refused; it invalidates them.
    pub fn forbids(&mut self, mode: i32) -> bool {
        let mut forbids = false;
        for capture in self.captures.values_mut().filter(|capture| capture.mode != RELAXED && mode != RELAXED) {
            capture.invalid = true;
            forbids = true;
        }
        forbids
    }

    /// Invalidates the capture of a stream, if there is one.
    pub fn invalidate(&mut self, stream: usize) -> Status {
        match self.of(stream).and_then(|id| self.captures.get_mut(&id)) {
            Some(capture) => {
                capture.invalid = true;
                CAPTURE_UNSUPPORTED
            }
            None => SUCCESS,
        }
    }

    pub fn is_captured(&self, event: usize) -> bool {
        self.events.get(&event).is_some_and(|(id, ..)| self.captures.contains_key(id))
    }

    pub fn begin(&mut self, stream: usize, mode: i32) -> Status {
        if self.is_capturing(stream) {
            return INVALID_VALUE;
        }
        let graph = self.new_handle();
        self.graphs.insert(graph, Graph::default());
        self.begin_into(stream, graph, mode)
    }

    /// Begins to record work into a graph that exists.
    pub fn begin_into(&mut self, stream: usize, graph: usize, mode: i32) -> Status {
        if self.is_capturing(stream) || !self.graphs.contains_key(&graph) {
            return INVALID_VALUE;
        }
        let id = self.new_handle();
        let lanes = HashMap::from([(stream, Lane::default())]);
        self.captures.insert(id, Capture { origin: stream, lanes, graph, invalid: false, mode });
        SUCCESS
    }

    pub fn end(&mut self, stream: usize) -> Result<usize, Status> {
        let id = self.of(stream).ok_or(INVALID_VALUE)?;
        if self.captures[&id].origin != stream {
            return Err(INVALID_VALUE);
        }
        let Some(capture) = self.captures.remove(&id) else { return Err(INVALID_VALUE) };
        let status = if capture.invalid {
            CAPTURE_INVALIDATED
        } else if capture.lanes.iter().any(|(&other, lane)| other != stream && lane.pending) {
            CAPTURE_UNJOINED
        } else {
            return Ok(capture.graph);
        };
        self.graphs.remove(&capture.graph);
        Err(status)
    }

    /// Takes work into the capture of a stream; gives it back if there is none.
    pub fn take(&mut self, stream: usize, work: Work) -> Option<Work> {
        let joined = match &work {
            Work::Wait { event, .. } => {
                self.events.get(event).cloned().filter(|(id, ..)| self.captures.contains_key(id))
            }
            _ => None,
        };
        if let Some((id, from, before)) = joined {
            let capture = self.captures.get_mut(&id)?;
            let lane = capture.lanes.entry(stream).or_default();
            let missing = before.into_iter().filter(|node| !lane.last.contains(node));
            lane.last.extend(missing.collect::<Vec<_>>());
            capture.lanes.entry(from).or_default().pending = false;
            return None;
        }
        let Some(id) = self.of(stream) else { return Some(work) };
        if let Work::Record { event, .. } = work {
            let last = self.captures.get(&id)?.lanes.get(&stream)?.last.clone();
            self.events.insert(event, (id, stream, last));
            return None;
        }
        // A wait for what is not captured orders nothing in the graph.
        if !matches!(work, Work::Wait { .. }) {
            let handle = self.new_handle();
            let capture = self.captures.get_mut(&id)?;
            let lane = capture.lanes.entry(stream).or_default();
            let after = std::mem::replace(&mut lane.last, vec![handle]);
            lane.pending = true;
            self.graphs.get_mut(&capture.graph)?.nodes.push(Node { handle, work, after });
        }
        None
    }

    /// Adds work that runs if the value at an address is not zero; its node, and its graph, which is empty.
    pub fn add_conditional(&mut self, graph: usize, value: usize, after: Vec<usize>) -> Result<(usize, usize), Status> {
        let (handle, body) = (self.new_handle(), self.new_handle());
        let own = self.graphs.get_mut(&graph).ok_or(INVALID_HANDLE)?;
        own.nodes.push(Node { handle, work: Work::If { value, body: Arc::default() }, after });
        own.bodies.insert(handle, (body, value));
        self.graphs.insert(body, Graph::default());
        Ok((handle, body))
    }

    /// Sets the nodes after which the next work of a capturing stream comes.
    pub fn set_last(&mut self, stream: usize, last: Vec<usize>) -> Status {
        let capture = self.of(stream).and_then(|id| self.captures.get_mut(&id));
        let Some(lane) = capture.and_then(|capture| capture.lanes.get_mut(&stream)) else { return INVALID_VALUE };
        lane.last = last;
        SUCCESS
    }

    pub fn find(&self, graph: usize) -> Option<&Graph> {
        self.graphs.get(&graph)
    }

    /// The graph of a node.
    pub fn graph_of(&self, node: usize) -> Option<usize> {
        let found = self.graphs.iter().find(|(_, graph)| graph.nodes.iter().any(|own| own.handle == node));
        found.map(|(&graph, _)| graph)
    }

    pub fn node(&self, handle: usize) -> Option<&Node> {
        self.graphs.values().flat_map(|graph| &graph.nodes).find(|node| node.handle == handle)
    }

    /// The work of a graph, with that of its conditions.
    pub fn work(&self, graph: usize) -> Option<Vec<Work>> {
        let graph = self.graphs.get(&graph)?;
        let whole = |node: &Node| match graph.bodies.get(&node.handle) {
            Some(&(body, value)) => Work::If { value, body: self.work(body).unwrap_or_default().into() },
            None => node.work.clone(),
        };
        Some(graph.nodes.iter().map(whole).collect())
    }

    /// The executable form of a graph.
    pub fn instantiate(&mut self, graph: usize) -> Result<usize, Status> {
        let work = self.work(graph).ok_or(INVALID_HANDLE)?;
        let ready = self.new_handle();
        let nodes = work.into_iter().map(|work| Node { handle: 0, work, after: Vec::new() }).collect();
        self.graphs.insert(ready, Graph { nodes, bodies: HashMap::new() });
        Ok(ready)
    }

    pub fn destroy(&mut self, graph: usize) -> Status {
        let Some(graph) = self.graphs.remove(&graph) else { return INVALID_HANDLE };
        for (body, _) in graph.bodies.into_values() {
            self.destroy(body);
        }
        SUCCESS
    }
}
