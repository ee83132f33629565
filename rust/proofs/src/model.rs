//! A model, and its run under every order of its steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A program of a few threads. `preemptions` bounds how many times a thread that could continue is interrupted.
pub struct Model {
    pub name: &'static str,
    pub preemptions: usize,
    pub run: fn(),
}

impl Model {
    /// Runs the model under every order and returns their number; a failure ends the program.
    pub fn check(&self) -> usize {
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = runs.clone();
        let run = self.run;
        println!("{} ...", self.name);
        let mut loom = loom::model::Builder::new();
        loom.preemption_bound = Some(self.preemptions);
        loom.max_branches = 10_000;
        loom.check(move || {
            counted.fetch_add(1, Relaxed);
            run();
        });
        runs.load(Relaxed)
    }
}
