//! What tests ask of the card: how much of each kind of work has run.

use crate::machine::{Machine, with};
use crate::status::SUCCESS;
use crate::streams::Library;

/// How many blocks of memory were given out.
#[unsafe(no_mangle)]
pub extern "C" fn softcuda_allocations() -> u64 {
    counter(|machine| machine.memory.allocations)
}

/// Whether a profiler collects.
#[unsafe(no_mangle)]
pub extern "C" fn softcuda_is_profiled() -> u64 {
    counter(|machine| u64::from(machine.is_profiled))
}

/// How many kernels have run.
#[unsafe(no_mangle)]
pub extern "C" fn softcuda_launches() -> u64 {
    counter(|machine| machine.launches)
}

/// How many products of matrices have run.
#[unsafe(no_mangle)]
pub extern "C" fn softcuda_products() -> u64 {
    computed(Library::Products)
}

/// How many transforms have run.
#[unsafe(no_mangle)]
pub extern "C" fn softcuda_transforms() -> u64 {
    computed(Library::Transforms)
}

/// How many factorisations and triangular systems have run.
#[unsafe(no_mangle)]
pub extern "C" fn softcuda_factorisations() -> u64 {
    computed(Library::Factorisations)
}

/// How many convolutions have run.
#[unsafe(no_mangle)]
pub extern "C" fn softcuda_convolutions() -> u64 {
    [Library::Convolutions, Library::LooseConvolutions].into_iter().map(computed).sum()
}

/// How many convolutions that may differ from call to call have run.
#[unsafe(no_mangle)]
pub extern "C" fn softcuda_loose_convolutions() -> u64 {
    computed(Library::LooseConvolutions)
}

/// How many passes of recurrent networks have run; a pass backward is two.
#[unsafe(no_mangle)]
pub extern "C" fn softcuda_networks() -> u64 {
    computed(Library::Networks)
}

/// How often the algorithms for a convolution were measured.
#[unsafe(no_mangle)]
pub extern "C" fn softcuda_measurements() -> u64 {
    counter(|machine| machine.measurements)
}

/// How many launches were on all multiprocessors (0), or on a part of so many.
#[unsafe(no_mangle)]
pub extern "C" fn softcuda_launches_on(multiprocessors: u32) -> u64 {
    counter(|machine| machine.launches_on.get(&multiprocessors).copied().unwrap_or(0))
}

/// How often the algorithm of a product was asked for.
#[unsafe(no_mangle)]
pub extern "C" fn softcuda_choices() -> u64 {
    counter(|machine| machine.choices)
}

fn computed(library: Library) -> u64 {
    counter(|machine| machine.computed[library as usize])
}

fn counter(read: impl Fn(&Machine) -> u64) -> u64 {
    let mut count = 0;
    with(|machine| {
        count = read(machine);
        SUCCESS
    });
    count
}
