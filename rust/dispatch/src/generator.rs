//! A random generator that can be shared, and the default ones for calls without `generator=`: one for each device.

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use once_cell::race::OnceBox;
use rushlight_core::Device;
use rushlight_core::fork::{ForkGuard, ForkMutex, Rank};
use rushlight_cuda::random::Place;
use rushlight_cuda::replayed;
use rushlight_rng::{DEFAULT_SEED, Stream};

/// A handle on a stream of random numbers; clones draw from the same stream.
#[derive(Clone)]
pub struct Generator(Arc<Shared>);

struct Shared {
    device: Device,
    state: State,
}

/// The contents of cells are accessed only under the lock that belongs to the address of what is shared.
enum State {
    Host(UnsafeCell<Box<Stream>>),
    /// A state that several generators may share, and that graphs draw from.
    Device(UnsafeCell<Arc<DeviceState>>),
}

// SAFETY: see `State`.
unsafe impl Sync for Shared {}

/// The state of a device's generators.
struct DeviceState {
    /// Accessed only under the lock.
    counter: UnsafeCell<Counter>,
}

// SAFETY: `with` takes the lock that belongs to the state's address.
unsafe impl Sync for DeviceState {}

impl DeviceState {
    fn new(counter: Counter) -> Arc<DeviceState> {
        Arc::new(DeviceState { counter: UnsafeCell::new(counter) })
    }

    fn with<T>(self: &Arc<Self>, run: impl FnOnce(&mut Counter) -> T) -> T {
        let _turn = lock_of(self);
        // SAFETY: this thread holds the state's lock.
        run(unsafe { &mut *self.counter.get() })
    }

    /// Reserves `count` numbers: the state before them.
    fn reserve(self: &Arc<Self>, count: u64) -> Counter {
        self.with(|counter| {
            let before = *counter;
            let steps = count.wrapping_add(Counter::STEP - 1) / Counter::STEP;
            counter.offset = counter.offset.wrapping_add(steps.wrapping_mul(Counter::STEP));
            before
        })
    }
}

/// What a graph draws from, whichever state the generator has later.
struct Recorded(Arc<DeviceState>);

impl replayed::Generator for Recorded {
    fn take(&self, words: u64) -> Place {
        let Counter { seed, offset } = self.0.reserve(words);
        Place { seed, offset, run: 0 }
    }

    fn id(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }
}

/// The state of a device's generator: a seed, and how far its numbers were used. Equal states give equal numbers on devices with
/// equally many multiprocessors.
#[derive(Clone, Copy)]
pub struct Counter {
    pub seed: u64,
    pub offset: u64,
}

impl Counter {
    /// How much one draw adds to the offset.
    const STEP: u64 = 4;

    /// The stream for one draw.
    fn stream(&mut self) -> Stream {
        // The engine takes 32 bits, so that seed and offset are mixed (the finaliser of MurmurHash3).
        let mut bits = self.seed ^ self.offset.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bits = (bits ^ bits >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        bits = (bits ^ bits >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        self.offset = self.offset.wrapping_add(Counter::STEP);
        Stream::new(bits ^ bits >> 33)
    }
}

/// Locks for drawing from a stream, which are also taken by a fork; all streams share these few locks.
static LOCKS: [ForkMutex<()>; 16] = [const { ForkMutex::new(Rank::Random, ()) }; 16];

/// The lock of what lies at an address. No thread takes two.
fn lock_of<T>(shared: &Arc<T>) -> ForkGuard<'static, ()> {
    LOCKS[Arc::as_ptr(shared).addr() / 64 % LOCKS.len()].lock()
}

static DEFAULT: OnceBox<Generator> = OnceBox::new();
static ON_DEVICES: [OnceBox<Generator>; 256] = [const { OnceBox::new() }; 256];
/// The seed of devices' generators that nothing has used yet.
static SEED: AtomicU64 = AtomicU64::new(DEFAULT_SEED);

impl Generator {
    fn new(device: Device, state: State) -> Self {
        Generator(Arc::new(Shared { device, state }))
    }

    fn with_state(device: Device, state: Arc<DeviceState>) -> Self {
        Generator::new(device, State::Device(UnsafeCell::new(state)))
    }

    /// The default generator of the process, for the CPU.
    pub fn default_stream() -> Self {
        DEFAULT.get_or_init(|| Box::new(Generator::fresh())).clone()
    }

    /// The default generator of a device.
    pub fn default_of(device: Device) -> Self {
        let Device::Cuda(index) = device else { return Generator::default_stream() };
        let fresh = || {
            let generator = Generator::fresh_on(device);
            generator.manual_seed(SEED.load(Ordering::Relaxed));
            Box::new(generator)
        };
        ON_DEVICES[usize::from(index)].get_or_init(fresh).clone()
    }

    /// Seeds the default generators of all devices, used or not.
    pub fn seed_devices(seed: u64) {
        SEED.store(seed, Ordering::Relaxed);
        for generator in ON_DEVICES.iter().filter_map(OnceBox::get) {
            generator.manual_seed(seed);
        }
    }

    /// A new generator, with torch's initial seed.
    pub fn fresh() -> Self {
        Generator::new(Device::Cpu, State::Host(UnsafeCell::default()))
    }

    /// A new generator for a device.
    pub fn fresh_on(device: Device) -> Self {
        match device {
            Device::Cuda(_) => {
                Generator::with_state(device, DeviceState::new(Counter { seed: DEFAULT_SEED, offset: 0 }))
            }
            _ => Generator::fresh(),
        }
    }

    pub fn device(&self) -> Device {
        self.0.device
    }

    /// The state in this generator's cell.
    fn state_in(&self, cell: &UnsafeCell<Arc<DeviceState>>) -> Arc<DeviceState> {
        let _turn = lock_of(&self.0);
        // SAFETY: this thread holds the lock.
        Arc::clone(unsafe { &*cell.get() })
    }

    /// The state of a device's generator; `None` for the CPU.
    fn device_state(&self) -> Option<Arc<DeviceState>> {
        match &self.0.state {
            State::Host(_) => None,
            State::Device(cell) => Some(self.state_in(cell)),
        }
    }

    /// Draws from the stream, with exclusive access. For a device, the host draws what is copied there.
    pub fn draw<T>(&self, draw: impl FnOnce(&mut Stream) -> T) -> T {
        match &self.0.state {
            State::Host(stream) => {
                let _turn = lock_of(&self.0);
                // SAFETY: this thread holds the lock.
                draw(unsafe { &mut *stream.get() })
            }
            State::Device(state) => self.state_in(state).with(|counter| draw(&mut counter.stream())),
        }
    }

    /// Reserves `count` numbers of a device's generator: the state before them.
    pub fn reserve(&self, count: u64) -> Counter {
        match self.device_state() {
            Some(state) => state.reserve(count),
            None => Counter { seed: self.draw(Stream::random64), offset: 0 },
        }
    }

    /// The state of a device's generator; `None` for the CPU.
    pub fn counter(&self) -> Option<Counter> {
        self.device_state().map(|state| state.with(|counter| *counter))
    }

    /// Sets the state of a device's generator.
    pub fn set_counter(&self, to: Counter) {
        if let Some(state) = self.device_state() {
            state.with(|counter| *counter = to);
        }
    }

    /// A generator that shares the state of this one; `None` for the CPU.
    pub fn sharing_state(&self) -> Option<Self> {
        self.device_state().map(|state| Generator::with_state(self.device(), state))
    }

    /// Shares the state of another generator from now on; false if one of both is the CPU's.
    pub fn share_state(&self, other: &Generator) -> bool {
        let (State::Device(own), Some(mut shared)) = (&self.0.state, other.device_state()) else { return false };
        let turn = lock_of(&self.0);
        // SAFETY: this thread holds the lock.
        std::mem::swap(unsafe { &mut *own.get() }, &mut shared);
        drop(turn);
        true
    }

    /// What a graph draws from: the present state.
    pub fn recorded(&self) -> Option<Arc<dyn replayed::Generator>> {
        self.device_state().map(|state| Arc::new(Recorded(state)) as Arc<dyn replayed::Generator>)
    }

    /// Begins again from a seed.
    pub fn manual_seed(&self, seed: u64) {
        match self.device_state() {
            Some(state) => state.with(|counter| *counter = Counter { seed, offset: 0 }),
            None => self.draw(|stream| stream.manual_seed(seed)),
        }
    }

    /// Begins again from a seed of the operating system, which is returned.
    pub fn seed(&self) -> u64 {
        let seed = Stream::default().seed();
        self.manual_seed(seed);
        seed
    }

    pub fn initial_seed(&self) -> u64 {
        match self.counter() {
            Some(counter) => counter.seed,
            None => self.draw(|stream| stream.initial_seed()),
        }
    }

    pub fn same(&self, other: &Generator) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl replayed::Generator for Generator {
    fn take(&self, words: u64) -> Place {
        let Counter { seed, offset } = self.reserve(words);
        Place { seed, offset, run: 0 }
    }

    fn id(&self) -> usize {
        self.device_state().map_or(0, |state| Arc::as_ptr(&state).addr())
    }
}

impl Default for Generator {
    fn default() -> Self {
        Generator::default_stream()
    }
}
