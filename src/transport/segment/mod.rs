//! Shared segments: memory that other processes of this machine can map, without a name in any file system.
//!
//! A segment is a memfd (see `memfd`). It goes with the last process that has it, however that ends, and its space is
//! neither that of /dev/shm nor limited with it. The space is taken when the segment is made, so that a want
//! of it is an error then and no SIGBUS later; and the segment is sealed against shrinking, so that whoever
//! has mapped it may touch all of it, whatever becomes of its maker.
//!
//! Under miri, which has no memfd, ranks are threads and segments lie in their process's memory (`heap`).

#[cfg(miri)]
mod heap;
#[cfg(not(miri))]
mod memfd;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(miri)]
pub(super) use heap::{Mapping, Segment};
#[cfg(not(miri))]
pub(super) use memfd::{Mapping, Segment};

/// A segment among all of its process: what tells it from another one that has its descriptor's number later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Label {
    /// The descriptor's number in the process that made it.
    pub descriptor: u32,
    /// Never the same twice in a process.
    serial: u64,
}

/// Bits of a label for the descriptor's number (Linux allows 2^20 unless told otherwise), and for the serial:
/// together 63.
const DESCRIPTOR_BITS: u32 = 24;
const SERIAL_BITS: u32 = 39;

/// What helps where memory cannot be mapped.
pub(super) const MAPPING_CURE: &str = "ask for less, or raise `ulimit -v` and vm.max_map_count";

impl Label {
    /// As a number below 2^63.
    pub fn number(self) -> u64 {
        u64::from(self.descriptor) | self.serial << DESCRIPTOR_BITS
    }

    /// The label with this number.
    pub fn from_number(number: u64) -> Label {
        let descriptor = (number % (1 << DESCRIPTOR_BITS)) as u32;
        Label { descriptor, serial: (number >> DESCRIPTOR_BITS) % (1 << SERIAL_BITS) }
    }
}

/// A random word of this process, by which others know that they have found it and not a later one of its number.
pub(super) fn nonce() -> u64 {
    static NONCE: OnceLock<u64> = OnceLock::new();
    *NONCE.get_or_init(|| fastrand::u64(..))
}

/// Never the same twice.
fn next_serial() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) % (1 << SERIAL_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_told_in_a_number() {
        let label = Label { descriptor: (1 << DESCRIPTOR_BITS) - 1, serial: (1 << SERIAL_BITS) - 1 };
        assert_eq!(label.number(), u64::MAX >> 1);
        assert_eq!(Label::from_number(label.number()), label);
        let one = Label { descriptor: 3, serial: 1 };
        assert_eq!(Label::from_number(one.number()), one);
    }
}
