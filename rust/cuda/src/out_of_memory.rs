//! The error for memory that a device does not have.

use rushlight_core::{Class, Error};

use crate::card::{self, Card};
use crate::statistics::Statistics;

fn in_words(bytes: usize) -> String {
    let bytes = bytes as f64;
    match bytes {
        1073741824.0.. => format!("{:.2} GiB", bytes / 1073741824.0),
        1048576.0.. => format!("{:.2} MiB", bytes / 1048576.0),
        1024.0.. => format!("{:.2} KiB", bytes / 1024.0),
        _ => format!("{bytes} bytes"),
    }
}

/// What the error of a failed allocation shows.
pub struct Table {
    pub statistics: Statistics,
    pub largest: Option<usize>,
    pub limit: Option<usize>,
}

#[cold]
pub fn out_of_memory(device: u8, bytes: usize, table: &Table) -> Error {
    // A device that has failed has memory, but gives none.
    let (free, total) = match card::get(device).and_then(Card::memory_info) {
        Ok(known) => known,
        Err(error) => return error,
    };
    let all = table.statistics.all();
    let (reserved, used) = (all.reserved_bytes.current, all.allocated_bytes.current);
    let allowed = table.limit.map_or(String::new(), |limit| format!(" {} allowed;", in_words(limit)));
    let rows = [
        ("tensors", used, format!("in {} blocks", all.allocation.current)),
        (
            "freed, kept for reuse",
            reserved - used,
            format!("the largest block is {}", in_words(table.largest.unwrap_or(0))),
        ),
        ("from the driver", reserved, format!("in {} segments", all.segment.current)),
        ("most tensors so far", all.allocated_bytes.peak, String::new()),
    ];
    let rows: String = rows
        .iter()
        .map(|(what, bytes, more)| format!("\n    {what:<22} {:>12}  {more}", in_words(*bytes)).trim_end().to_string())
        .collect();
    Error::new(
        Class::DeviceMemory,
        format!(
            "CUDA out of memory. Tried to allocate {}. GPU {device} has a total capacity of {} of which {} is free.{allowed} \
             Of the allocated memory {} is allocated by PyTorch, and {} is reserved by PyTorch but unallocated.",
            in_words(bytes),
            in_words(total),
            in_words(free),
            in_words(used),
            in_words(reserved - used)
        ),
    )
    .hint(format!("A smaller batch, or del and torch.cuda.empty_cache(), may help. The memory of GPU {device}:{rows}"))
}
