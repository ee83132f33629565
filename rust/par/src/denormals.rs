//! Whether arithmetic flushes denormal numbers to zero: a processor flag of each thread.
//!
//! Denormals arise, for example, in a momentum whose gradient is zero, and each costs a processor a hundred times the
//! work of another number. The helpers of a loop use the flag of its caller, so that results do not depend on which
//! thread takes a piece.

/// Makes this thread's arithmetic flush denormal numbers to zero, or keep them; false if the processor has no such
/// flag.
pub fn set_flush_denormal(flush: bool) -> bool {
    register::FLUSH != 0 && {
        let word = register::read();
        let wanted = if flush { word | register::FLUSH } else { word & !register::FLUSH };
        if wanted != word {
            register::write(wanted);
        }
        true
    }
}

pub(crate) fn flushes() -> bool {
    register::read() & register::FLUSH != 0
}

/// Calls `work` with denormals flushed or kept, and restores the thread's flag afterwards.
pub(crate) fn with_flush<R>(flush: bool, work: impl FnOnce() -> R) -> R {
    let before = flushes();
    set_flush_denormal(flush);
    let result = work();
    set_flush_denormal(before);
    result
}

#[cfg(target_arch = "x86_64")]
mod register {
    use std::arch::asm;

    /// The bits of MXCSR that flush denormal results and operands to zero.
    pub const FLUSH: u32 = 1 << 15 | 1 << 6;

    pub fn read() -> u32 {
        let mut word = 0u32;
        // SAFETY: stores the register into a local.
        unsafe { asm!("stmxcsr [{}]", in(reg) &mut word, options(nostack, preserves_flags)) };
        word
    }

    pub fn write(word: u32) {
        // SAFETY: only bits of `FLUSH` differ from what the register held, and nothing here depends on denormals.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &word, options(nostack, preserves_flags, readonly)) };
    }
}

#[cfg(target_arch = "aarch64")]
mod register {
    use std::arch::asm;

    /// The bit of FPCR that flushes denormal operands and results to zero.
    pub const FLUSH: u64 = 1 << 24;

    pub fn read() -> u64 {
        let word: u64;
        // SAFETY: reads a register of this thread.
        unsafe { asm!("mrs {}, fpcr", out(reg) word, options(nomem, nostack, preserves_flags)) };
        word
    }

    pub fn write(word: u64) {
        // SAFETY: only bits of `FLUSH` differ from what the register held, and nothing here depends on denormals.
        unsafe { asm!("msr fpcr, {}", in(reg) word, options(nostack, preserves_flags)) };
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod register {
    pub const FLUSH: u32 = 0;

    pub fn read() -> u32 {
        0
    }

    pub fn write(_: u32) {}
}
