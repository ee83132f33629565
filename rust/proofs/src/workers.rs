//! In the place of rayon: threads that take tasks from one queue.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use loom::sync::{Condvar, Mutex};
use loom::thread::{self, JoinHandle};

use crate::sync;

type Task = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Queue {
    tasks: VecDeque<Task>,
    is_closed: bool,
}

struct Crew {
    queue: Mutex<Queue>,
    news: Condvar,
}

impl Crew {
    fn spawn(&self, task: Task) {
        self.queue.lock().expect("no task panics").tasks.push_back(task);
        self.news.notify_one();
    }

    /// The threads end after what they have been given.
    fn close(&self) {
        self.queue.lock().expect("no task panics").is_closed = true;
        self.news.notify_all();
    }

    fn work(&self) {
        loop {
            let mut queue = self.queue.lock().expect("no task panics");
            while queue.tasks.is_empty() && !queue.is_closed {
                queue = self.news.wait(queue).expect("no task panics");
            }
            let Some(task) = queue.tasks.pop_front() else { return };
            drop(queue);
            task();
        }
    }
}

sync::statics! {
    static CREWS: Mutex<Vec<(Arc<Crew>, Vec<JoinHandle<()>>)>> = Mutex::new(Vec::new());
}

sync::thread_local! {
    static PLACE: std::cell::RefCell<Option<(Arc<Crew>, usize)>> = std::cell::RefCell::new(None);
}

pub struct ThreadPool(Arc<Crew>);

impl ThreadPool {
    pub fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        self.0.spawn(Box::new(task));
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[derive(Default)]
pub struct ThreadPoolBuilder {
    threads: usize,
    start: Option<Arc<dyn Fn(usize)>>,
}

impl ThreadPoolBuilder {
    pub fn new() -> Self {
        ThreadPoolBuilder::default()
    }

    pub fn num_threads(self, threads: usize) -> Self {
        ThreadPoolBuilder { threads, ..self }
    }

    pub fn thread_name(self, _: impl Fn(usize) -> String) -> Self {
        self
    }

    pub fn start_handler(self, start: impl Fn(usize) + 'static) -> Self {
        ThreadPoolBuilder { start: Some(Arc::new(start)), ..self }
    }

    pub fn build(self) -> Result<ThreadPool, Infallible> {
        let crew = Arc::new(Crew { queue: Mutex::new(Queue::default()), news: Condvar::new() });
        let threads = (0..self.threads).map(|index| {
            let (crew, start) = (crew.clone(), self.start.clone());
            thread::spawn(move || {
                PLACE.with(|place| place.replace(Some((crew.clone(), index))));
                start.iter().for_each(|start| start(index));
                crew.work();
            })
        });
        let threads = threads.collect();
        CREWS.lock().expect("nobody panics here").push((crew.clone(), threads));
        Ok(ThreadPool(crew))
    }
}

/// Leaves a task to the workers that this thread is one of.
pub fn spawn(task: impl FnOnce() + Send + 'static) {
    let crew = PLACE.with(|place| place.borrow().as_ref().map(|(crew, _)| crew.clone()));
    crew.expect("only workers call this").spawn(Box::new(task));
}

pub fn current_thread_index() -> Option<usize> {
    PLACE.with(|place| place.borrow().as_ref().map(|(_, index)| *index))
}

/// Ends all workers: the last thing that a model does.
pub fn end() {
    let crews = std::mem::take(&mut *CREWS.lock().expect("nobody panics here"));
    crews.iter().for_each(|(crew, _)| crew.close());
    for handle in crews.into_iter().flat_map(|(_, handles)| handles) {
        handle.join().expect("no worker panics");
    }
}
