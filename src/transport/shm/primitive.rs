//! The atomics of what ranks share: the processor's, or, where loom tries all orders, loom's.

#[cfg(all(test, loom))]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(not(all(test, loom)))]
pub use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// `fence(SeqCst)`: what was written before is seen by all before anything is read after. A compiler makes an `mfence` of
/// that, for which processors also finish what has nothing to do with memory; a locked instruction orders as much of it.
#[inline(always)]
pub fn fence() {
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    // SAFETY: - a word within the red zone, which is the thread's own, stays as it is
    //         - the compiler is told of all else: flags change, and any memory may be read or written
    unsafe {
        std::arch::asm!("lock or dword ptr [rsp - 4], 0", options(nostack))
    };
    #[cfg(not(all(target_arch = "x86_64", not(miri), not(loom))))]
    {
        #[cfg(all(test, loom))]
        use loom::sync::atomic::fence;
        #[cfg(not(all(test, loom)))]
        use std::sync::atomic::fence;
        fence(Ordering::SeqCst);
    }
}
