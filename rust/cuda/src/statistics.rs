//! What `torch.cuda.memory_stats` counts: amounts of all blocks, of small ones and of large ones.

/// An amount now, the most there was, and the sums of increases and decreases.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Count {
    pub current: usize,
    pub peak: usize,
    pub allocated: usize,
    pub freed: usize,
}

impl Count {
    pub fn add(&mut self, amount: usize) {
        self.current += amount;
        self.allocated += amount;
        self.peak = self.peak.max(self.current);
    }

    pub fn subtract(&mut self, amount: usize) {
        self.current = self.current.saturating_sub(amount);
        self.freed += amount;
    }
}

macro_rules! amounts {
    ($($name:ident: $doc:literal,)*) => {
        /// The amounts that are counted for each kind of block.
        #[derive(Clone, Copy, Default, Debug)]
        pub struct Amounts {
            $(#[doc = $doc] pub $name: Count,)*
        }

        impl Amounts {
            /// All amounts with their names in torch.
            pub fn named(&self) -> Vec<(&'static str, Count)> {
                vec![$((stringify!($name), self.$name),)*]
            }

            fn each(&mut self) -> Vec<&mut Count> {
                vec![$(&mut self.$name,)*]
            }
        }
    };
}

amounts! {
    allocation: "Blocks of tensors.",
    segment: "Segments from the driver.",
    active: "Blocks of tensors, and those that streams still use.",
    inactive_split: "Free blocks in segments of which another part may be in use.",
    allocated_bytes: "Bytes of the blocks of tensors.",
    reserved_bytes: "Bytes from the driver.",
    active_bytes: "Bytes of active blocks.",
    inactive_split_bytes: "Bytes of the free blocks in divided segments.",
    requested_bytes: "Bytes that were asked for.",
}

/// The statistics of one device.
#[derive(Clone, Copy, Default, Debug)]
pub struct Statistics {
    /// Of all blocks, of those in small segments, and of the others.
    pub kinds: [Amounts; 3],
    /// Blocks of tensors, and segments, that are not divided.
    pub oversize_allocations: Count,
    pub oversize_segments: Count,
    pub retries: usize,
    pub out_of_memory: usize,
    /// How often freed blocks were waited for, because memory was short.
    pub waits: usize,
    pub device_allocations: usize,
    pub device_frees: usize,
}

impl Statistics {
    pub fn all(&self) -> &Amounts {
        &self.kinds[0]
    }

    fn of(&mut self, small: bool) -> impl Iterator<Item = &mut Amounts> {
        let [all, one, other] = &mut self.kinds;
        [all, if small { one } else { other }].into_iter()
    }

    pub fn add<const N: usize>(&mut self, small: bool, which: impl Fn(&mut Amounts) -> [(&mut Count, usize); N]) {
        for amounts in self.of(small) {
            which(amounts).into_iter().for_each(|(count, amount)| count.add(amount));
        }
    }

    pub fn subtract<const N: usize>(&mut self, small: bool, which: impl Fn(&mut Amounts) -> [(&mut Count, usize); N]) {
        for amounts in self.of(small) {
            which(amounts).into_iter().for_each(|(count, amount)| count.subtract(amount));
        }
    }

    fn counts(&mut self) -> impl Iterator<Item = &mut Count> {
        let oversize = [&mut self.oversize_allocations, &mut self.oversize_segments];
        self.kinds.iter_mut().flat_map(Amounts::each).chain(oversize)
    }

    /// Makes the present amounts the highest ones.
    pub fn reset_peaks(&mut self) {
        for count in self.counts() {
            count.peak = count.current;
        }
    }

    /// Makes the sums zero.
    pub fn reset_sums(&mut self) {
        for count in self.counts() {
            (count.allocated, count.freed) = (0, 0);
        }
        (self.retries, self.out_of_memory, self.waits) = (0, 0, 0);
        (self.device_allocations, self.device_frees) = (0, 0);
    }
}
