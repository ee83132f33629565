//! `cargo dev devices`: how operators run on CUDA devices.
//!
//! The table counts the operators by kind of implementation: those with a form of their own (expressions, views and
//! compositions run on any device), those that run on the host with one copy each way, and those that are refused. The lists
//! below it name the last two.

use std::collections::BTreeMap;

use rushlight::linalg::out_dtype;
use rushlight::{sparse, table};
use rushlight_dispatch::operator::OnCuda;

const LINE: usize = 110;

#[derive(Default)]
struct Count {
    own: usize,
    on_host: Vec<&'static str>,
    refused: Vec<&'static str>,
}

pub fn run() {
    let mut kinds: BTreeMap<&'static str, Count> = BTreeMap::new();
    for op in table::OPERATORS.iter().chain(sparse::OPERATORS).chain(out_dtype::OPERATORS).copied() {
        let count = kinds.entry(op.implementation.kind()).or_default();
        match op.implementation.on_cuda() {
            OnCuda::Own(()) => count.own += 1,
            OnCuda::Host => count.on_host.push(op.name),
            OnCuda::Refused(_) => count.refused.push(op.name),
        }
    }
    println!("{:<17} {:>9} {:>8} {:>8}", "kind", "on device", "on host", "refused");
    let line = |kind: &str, own: usize, on_host: usize, refused: usize| {
        println!("{kind:<17} {own:>9} {on_host:>8} {refused:>8}");
    };
    for (kind, count) in &kinds {
        line(kind, count.own, count.on_host.len(), count.refused.len());
    }
    let total = |part: fn(&Count) -> usize| kinds.values().map(part).sum::<usize>();
    line("all", total(|count| count.own), total(|count| count.on_host.len()), total(|count| count.refused.len()));
    for (kind, count) in &kinds {
        for (names, how) in [(&count.on_host, "through the host"), (&count.refused, "refused")] {
            if !names.is_empty() {
                println!("\n{kind}, {how}:");
                print_wrapped(names);
            }
        }
    }
}

fn print_wrapped(names: &[&str]) {
    let mut line = String::new();
    for name in names {
        if line.len() + name.len() + 3 > LINE {
            println!(" {line}");
            line.clear();
        }
        line.push(' ');
        line.push_str(name);
    }
    println!(" {line}");
}
