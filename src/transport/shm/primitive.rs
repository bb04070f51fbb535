//! The atomics of what ranks share: the processor's, or, where loom tries all orders, loom's.
#![forbid(unsafe_code)]

#[cfg(all(test, loom))]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(all(test, loom)))]
pub use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
