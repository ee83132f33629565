//! Captures: work that is recorded from streams, and runs when its graph is launched.
//!
//! A stream that waits for an event of a capturing stream joins the capture, and must be waited for before the end. Whatever would
//! have to wait for captured work invalidates the capture.

use std::collections::HashMap;

use crate::status::{
    CAPTURE_INVALIDATED, CAPTURE_UNJOINED, CAPTURE_UNSUPPORTED, INVALID_HANDLE, INVALID_VALUE, SUCCESS, Status,
};
use crate::streams::Work;

/// `CU_STREAM_CAPTURE_MODE_RELAXED`.
const RELAXED: i32 = 2;

struct Capture {
    origin: usize,
    /// The streams that take part, and whether one has work that nothing waits for.
    streams: HashMap<usize, bool>,
    work: Vec<Work>,
    invalid: bool,
    mode: i32,
}

#[derive(Default)]
pub struct Graphs {
    captures: HashMap<usize, Capture>,
    /// The capture of an event that was recorded in one, and the stream.
    events: HashMap<usize, (usize, usize)>,
    graphs: HashMap<usize, Vec<Work>>,
    last: usize,
}

impl Graphs {
    fn new_handle(&mut self) -> usize {
        self.last = self.last.max(0x30_0000) + 0x10;
        self.last
    }

    /// The capture in which a stream takes part.
    fn of(&self, stream: usize) -> Option<usize> {
        self.captures.iter().find(|(_, capture)| capture.streams.contains_key(&stream)).map(|(&id, _)| id)
    }

    pub fn is_capturing(&self, stream: usize) -> bool {
        self.of(stream).is_some()
    }

    /// 0 without a capture, 1 during one, 2 after what is not permitted; and the number of the capture.
    pub fn state(&self, stream: usize) -> (i32, u64) {
        let found = self.of(stream).and_then(|id| self.captures.get(&id).map(|capture| (id, capture)));
        found.map_or((0, 0), |(id, capture)| (if capture.invalid { 2 } else { 1 }, id as u64))
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
        self.events.get(&event).is_some_and(|(id, _)| self.captures.contains_key(id))
    }

    pub fn begin(&mut self, stream: usize, mode: i32) -> Status {
        if self.is_capturing(stream) {
            return INVALID_VALUE;
        }
        let id = self.new_handle();
        let streams = HashMap::from([(stream, false)]);
        self.captures.insert(id, Capture { origin: stream, streams, work: Vec::new(), invalid: false, mode });
        SUCCESS
    }

    pub fn end(&mut self, stream: usize) -> Result<usize, Status> {
        let id = self.of(stream).ok_or(INVALID_VALUE)?;
        if self.captures[&id].origin != stream {
            return Err(INVALID_VALUE);
        }
        let Some(capture) = self.captures.remove(&id) else { return Err(INVALID_VALUE) };
        if capture.invalid {
            return Err(CAPTURE_INVALIDATED);
        }
        if capture.streams.iter().any(|(&other, &pending)| other != stream && pending) {
            return Err(CAPTURE_UNJOINED);
        }
        let graph = self.new_handle();
        self.graphs.insert(graph, capture.work);
        Ok(graph)
    }

    /// Takes work into the capture of a stream; gives it back if there is none.
    pub fn take(&mut self, stream: usize, work: Work) -> Option<Work> {
        let joined = match &work {
            Work::Wait { event, .. } => {
                self.events.get(event).copied().filter(|(id, _)| self.captures.contains_key(id))
            }
            _ => None,
        };
        if let Some((id, from)) = joined {
            let capture = self.captures.get_mut(&id)?;
            capture.streams.entry(stream).or_insert(false);
            capture.streams.insert(from, false);
            return None;
        }
        let Some(id) = self.of(stream) else { return Some(work) };
        if let Work::Record { event, .. } = work {
            self.events.insert(event, (id, stream));
            return None;
        }
        let capture = self.captures.get_mut(&id)?;
        // A wait for what is not captured orders nothing in the graph.
        if !matches!(work, Work::Wait { .. }) {
            capture.streams.insert(stream, true);
            capture.work.push(work);
        }
        None
    }

    /// The work of a graph.
    pub fn work(&self, graph: usize) -> Option<Vec<Work>> {
        self.graphs.get(&graph).cloned()
    }

    /// The executable form of a graph.
    pub fn instantiate(&mut self, graph: usize) -> Result<usize, Status> {
        let work = self.graphs.get(&graph).cloned().ok_or(INVALID_HANDLE)?;
        let ready = self.new_handle();
        self.graphs.insert(ready, work);
        Ok(ready)
    }

    pub fn destroy(&mut self, graph: usize) -> Status {
        if self.graphs.remove(&graph).is_some() { SUCCESS } else { INVALID_HANDLE }
    }
}
