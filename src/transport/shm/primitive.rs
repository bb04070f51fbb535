//! The atomics of what ranks share: the processor's, or, where loom tries all orders, loom's. And fences.

use std::sync::OnceLock;
use std::time::Duration;

use rustix::thread::{MembarrierCommand, membarrier};

#[cfg(all(test, loom))]
use loom::sync::atomic as atomics;
#[cfg(not(all(test, loom)))]
use std::sync::atomic as atomics;

pub use atomics::{AtomicU32, AtomicU64, Ordering};

/// `fence(SeqCst)`: what was written before is seen by all before anything is read after. Compilers make an `mfence` of
/// that, for which a processor also finishes what has nothing to do with memory; a locked instruction orders memory alike.
#[inline(always)]
pub fn fence() {
    #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
    {
        let mut word = 0_u32;
        // SAFETY: - the word is this call's own, aligned, and stays as it is
        //         - the compiler is told of all else: flags change, and any memory may be read or written
        unsafe { std::arch::asm!("lock or dword ptr [{}], 0", in(reg) &raw mut word, options(nostack)) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(any(miri, loom)))))]
    atomics::fence(Ordering::SeqCst);
}

/// Keeps the compiler from changing the order, and not the processor. Loom, which knows neither this nor
/// [`fence_for_all`], takes it for a fence.
#[inline(always)]
pub fn keep_order() {
    #[cfg(not(all(test, loom)))]
    atomics::compiler_fence(Ordering::SeqCst);
    #[cfg(all(test, loom))]
    atomics::fence(Ordering::SeqCst);
}

/// Whether other processes can [fence](fence_for_all) for this one, which the system is told of at the first call.
pub fn may_be_fenced() -> bool {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    let register = || membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok();
    !cfg!(any(miri, loom)) && *REGISTERED.get_or_init(register)
}

/// How long no store is on its way to where others see it: it waits for its cache line, and for those of stores before it. No
/// architecture names a bound; a thousandth of this is long.
pub const STORED: Duration = Duration::from_millis(1);

/// A fence of every thread of every process that [may be fenced](may_be_fenced), wherever it is in its program. Where the system has no
/// memory for it, or what let it at first has been taken away since, it is as good as sure: nothing else is left then.
pub fn fence_for_all() {
    if membarrier(MembarrierCommand::GlobalExpedited).is_err() {
        std::thread::sleep(STORED);
    }
}
