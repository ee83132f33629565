//! A device: its context, its properties, and which one is current.

use std::cell::Cell;
use std::ffi::CStr;

use cudarc::driver::sys::{self, CUcontext, CUdevice, CUdevice_attribute_enum as Attribute};
use once_cell::race::OnceBox;
use rushlight_core::{Class, Device, Error, Result};

use crate::driver::{check, device_count, initialize};
use crate::{failures, settings};

/// A device that was used.
pub struct Card {
    pub index: u8,
    context: CUcontext,
    pub properties: Properties,
}

// SAFETY: a context may be used by any thread.
unsafe impl Send for Card {}
// SAFETY: see above.
unsafe impl Sync for Card {}

/// What `torch.cuda.get_device_properties` shows.
#[derive(Clone, Debug)]
pub struct Properties {
    pub name: String,
    pub major: i32,
    pub minor: i32,
    pub total_memory: usize,
    pub multiprocessors: i32,
    pub threads_per_multiprocessor: i32,
    pub threads_per_block: i32,
    pub warp_size: i32,
    pub shared_memory_per_block: i32,
    pub registers_per_multiprocessor: i32,
    pub second_level_cache: i32,
    /// The highest clocks of the multiprocessors and of the memory, in kHz, and the bits of its bus.
    pub clock_rate: i32,
    pub memory_clock_rate: i32,
    pub memory_bus_width: i32,
    pub uuid: [u8; 16],
}

/// The most devices of a process.
const MOST: usize = 256;
static CARDS: [OnceBox<Card>; MOST] = [const { OnceBox::new() }; MOST];

thread_local! {
    static CURRENT: Cell<u8> = const { Cell::new(0) };
}

/// The index of this thread's current device.
pub fn current() -> u8 {
    CURRENT.get()
}

/// Makes a device current in this thread; returns the previous one.
pub fn set_current(index: u8) -> Result<u8> {
    select(index)?;
    Ok(CURRENT.replace(index))
}

/// A device, whose context is made if this is its first use.
#[inline]
pub fn get(index: u8) -> Result<&'static Card> {
    let count = initialize()?;
    if usize::from(index) >= count {
        return Err(no_such(count));
    }
    CARDS[usize::from(index)].get_or_try_init(|| Card::new(index).map(Box::new))
}

/// The device, whose context becomes that of this thread. Another library may have changed it since the last call.
pub fn select(index: u8) -> Result<&'static Card> {
    let card = get(index)?;
    // SAFETY: the context was retained and is never released.
    check(unsafe { sys::cuCtxSetCurrent(card.context) })?;
    Ok(card)
}

#[cold]
fn no_such(count: usize) -> Error {
    Error::new(Class::Accelerator, "CUDA error: invalid device ordinal").hint(match count {
        1 => "The only device is cuda:0.".to_string(),
        _ => format!("The devices are cuda:0 to cuda:{}.", count - 1),
    })
}

/// The device of a tensor on CUDA.
pub fn of(device: Device) -> Result<&'static Card> {
    match device {
        Device::Cuda(index) => select(index),
        _ => Err(Error::new(Class::Unreachable, format!("{device} is no CUDA device"))),
    }
}

/// The devices that were used.
pub fn used() -> impl Iterator<Item = &'static Card> {
    CARDS.iter().take(device_count()).filter_map(OnceBox::get)
}

impl Card {
    fn new(index: u8) -> Result<Card> {
        // A mistake in torch's variable is told before anything is allocated.
        settings::check()?;
        let (mut device, mut context) = (0, std::ptr::null_mut());
        // SAFETY: the driver was initialised, and the pointers are those of local variables.
        unsafe {
            check(sys::cuDeviceGet(&raw mut device, i32::from(index)))?;
            check(sys::cuDevicePrimaryCtxRetain(&raw mut context, device))?;
        }
        Ok(Card { index, context, properties: Properties::read(device)? })
    }

    pub fn context(&self) -> CUcontext {
        self.context
    }

    /// The free and the whole memory, in bytes.
    pub fn memory_info(&self) -> Result<(usize, usize)> {
        select(self.index)?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: a context is current, and the pointers are those of local variables.
        check(unsafe { sys::cuMemGetInfo_v2(&raw mut free, &raw mut total) })?;
        Ok((free, total))
    }

    /// Whether the device can read and write the memory of another one.
    pub fn can_access(&self, other: u8) -> Result<bool> {
        let mut can = 0;
        let device = |index: u8| {
            let mut device = 0;
            select(index)?;
            // SAFETY: the driver was initialised, and the pointer is that of a local variable.
            check(unsafe { sys::cuDeviceGet(&raw mut device, i32::from(index)) })?;
            Ok::<CUdevice, Error>(device)
        };
        let (own, peer) = (device(self.index)?, device(other)?);
        // SAFETY: both devices exist, and the pointer is that of a local variable.
        check(unsafe { sys::cuDeviceCanAccessPeer(&raw mut can, own, peer) })?;
        Ok(can != 0)
    }

    /// Waits until everything enqueued on the device has run.
    pub fn synchronize(&self) -> Result<()> {
        select(self.index)?;
        // SAFETY: a context is current.
        check(unsafe { sys::cuCtxSynchronize() })?;
        failures::check(self.index)
    }
}

impl Properties {
    fn read(device: CUdevice) -> Result<Properties> {
        let get = |what: Attribute| {
            let mut value = 0;
            // SAFETY: the device exists, and the pointer is that of a local variable.
            check(unsafe { sys::cuDeviceGetAttribute(&raw mut value, what, device) })?;
            Ok::<i32, Error>(value)
        };
        let mut name = [0; 256];
        let mut total_memory = 0;
        let mut uuid = sys::CUuuid { bytes: [0; 16] };
        // SAFETY: as above; the buffer has the length that is passed.
        let name = unsafe {
            check(sys::cuDeviceGetName(name.as_mut_ptr(), name.len() as i32, device))?;
            check(sys::cuDeviceTotalMem_v2(&raw mut total_memory, device))?;
            check(sys::cuDeviceGetUuid_v2(&raw mut uuid, device))?;
            CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned()
        };
        Ok(Properties {
            name,
            major: get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            minor: get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            total_memory,
            multiprocessors: get(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            threads_per_multiprocessor: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?,
            threads_per_block: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            warp_size: get(Attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE)?,
            shared_memory_per_block: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)?,
            registers_per_multiprocessor: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR)?,
            second_level_cache: get(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?,
            clock_rate: get(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?,
            memory_clock_rate: get(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?,
            memory_bus_width: get(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?,
            uuid: uuid.bytes.map(|byte| byte as u8),
        })
    }
}
