//! `cargo dev devices`: which operators have an implementation on which device.
//!
//! The table counts the operators by kind of implementation. Pointwise operators have no kernel of their own for a GPU:
//! a device function is generated from their expression. The list below the table names the operators without an
//! implementation for CUDA.

use std::collections::BTreeMap;

use rushlight::{Device, sparse, table};

const LINE: usize = 110;

#[derive(Default)]
struct Count {
    operators: usize,
    cpu: usize,
    cuda: usize,
    missing: Vec<&'static str>,
}

pub fn run() {
    let mut kinds: BTreeMap<&'static str, Count> = BTreeMap::new();
    let operators = table::OPERATORS.iter().chain(sparse::OPERATORS).copied();
    for op in operators {
        let count = kinds.entry(op.implementation.kind()).or_default();
        count.operators += 1;
        count.cpu += usize::from(op.implementation.runs_on(Device::Cpu));
        if op.implementation.runs_on(Device::Cuda(0)) {
            count.cuda += 1;
        } else {
            count.missing.push(op.name);
        }
    }
    println!("{:<17} {:>9} {:>5} {:>5}", "kind", "operators", "cpu", "cuda");
    for (kind, count) in &kinds {
        println!("{kind:<17} {:>9} {:>5} {:>5}", count.operators, count.cpu, count.cuda);
    }
    let total = |part: fn(&Count) -> usize| kinds.values().map(part).sum::<usize>();
    println!(
        "{:<17} {:>9} {:>5} {:>5}",
        "all",
        total(|count| count.operators),
        total(|count| count.cpu),
        total(|count| count.cuda)
    );
    for (kind, count) in kinds.iter().filter(|(_, count)| !count.missing.is_empty()) {
        println!("\n{kind}, not on cuda:");
        print_wrapped(&count.missing);
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
