//! Pools of memory that a program makes, and from which a part of its work takes memory.

use rushlight_core::{Result, fork};

use crate::allocator::{PoolId, PoolOptions};
use crate::user_allocator::UserAllocator;
use crate::{card, graph, memory};

/// `torch.cuda.MemPool`: a pool of the device that was current when it was made.
pub struct MemPool {
    pub id: PoolId,
    device: u8,
    generation: u64,
}

impl MemPool {
    /// A new pool; `user` gives out its memory in place of the driver.
    pub fn new(options: PoolOptions, user: Option<UserAllocator>) -> Result<MemPool> {
        let device = card::current();
        card::select(device)?;
        let id = graph::new_pool();
        memory::make_pool(device, id, options, user);
        Ok(MemPool { id, device, generation: fork::generation() })
    }

    /// How many owners and users the pool has.
    pub fn use_count(&self) -> usize {
        memory::uses_of_pool(self.device, self.id)
    }
}

impl Drop for MemPool {
    fn drop(&mut self) {
        if self.generation == fork::generation() {
            memory::end_pool(self.device, self.id);
        }
    }
}
