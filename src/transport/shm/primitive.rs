//! The atomics of what ranks share: the processor's, or, where loom tries all orders, loom's.
#![forbid(unsafe_code)]

// Loom knows of no processor that another one fences.
#[cfg(all(test, loom))]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence, fence as light_fence};
#[cfg(not(all(test, loom)))]
pub use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence as light_fence, fence};
