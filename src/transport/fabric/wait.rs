//! Waiting for a completion queue without holding a core.
//!
//! Where the provider has a file descriptor that works, the wait is one `poll`. Others must be polled,
//! with naps between: they grow while nothing happens, so that an idle rank costs nothing, and are gone
//! after the first event, so that a busy one loses nothing. A wait may overlook whatever else it is for,
//! for a millisecond, no longer.

use std::os::fd::RawFd;
use std::time::Duration;

use crate::transport::wait::Bed;

/// How many times the core is only offered to others before there are naps.
const YIELDS: u32 = 16;
const FIRST_NAP: Duration = Duration::from_micros(20);
const LONGEST_NAP: Duration = Duration::from_micros(500);
/// Naps beside another transport, of 2 ms together, before a stale descriptor is made true.
const NAPS: u32 = 8;

/// How to wait for one completion queue.
pub(super) struct Waiter {
    /// Its descriptor, which the queue owns; without one there are naps.
    pub descriptor: Option<RawFd>,
    /// How many waits in a row, those for something else not counted, there was nothing.
    idle: u32,
}

impl Waiter {
    pub fn descriptor(descriptor: RawFd) -> Waiter {
        Waiter { descriptor: Some(descriptor), idle: 0 }
    }

    pub fn naps() -> Waiter {
        Waiter { descriptor: None, idle: 0 }
    }

    /// Something has happened: naps begin anew.
    #[inline]
    pub fn refresh(&mut self) {
        self.idle = 0;
    }

    /// The descriptor was readable.
    pub fn rung(&mut self) {
        self.idle = self.idle.saturating_add(1);
    }

    /// Whether the descriptor was readable for nothing. It may be stale: on `net` 1.17 it stays readable
    /// from the first event on, and a wait on it would spin, until `fi_cq_sread` has been called.
    pub fn woke_in_vain(&self) -> bool {
        self.idle > 0
    }

    /// Whether a few naps are better than to make the descriptor true again, which takes a millisecond: beside
    /// another transport, whose events would have to wait so long.
    pub fn is_fresh(&self) -> bool {
        self.idle < YIELDS + NAPS
    }

    /// One yield or one nap, the longer the more often there was nothing.
    pub fn nap(&mut self) -> Bed<'static> {
        self.idle = self.idle.saturating_add(1);
        if self.idle <= YIELDS {
            std::thread::yield_now();
            return Bed::Nowhere;
        }
        let growth = 1 << (self.idle - YIELDS - 1).min(8);
        Bed::Nap(FIRST_NAP.saturating_mul(growth).min(LONGEST_NAP))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn naps_come_after_yields_and_grow_to_a_limit() {
        let mut waiter = Waiter::naps();
        assert!((0..YIELDS).all(|_| matches!(waiter.nap(), Bed::Nowhere)));
        let naps: Vec<_> = (0..20).map(|_| waiter.nap()).collect();
        let nap = |bed: &Bed<'_>| if let Bed::Nap(nap) = bed { *nap } else { Duration::ZERO };
        assert!(naps.is_sorted_by_key(nap));
        assert_eq!((nap(&naps[0]), nap(&naps[19])), (FIRST_NAP, LONGEST_NAP));
        waiter.refresh();
        assert!(matches!(waiter.nap(), Bed::Nowhere));
    }

    #[test]
    fn a_descriptor_that_was_readable_without_an_event_is_known() {
        let mut waiter = Waiter::descriptor(0);
        assert!(!waiter.woke_in_vain());
        waiter.rung();
        assert!(waiter.woke_in_vain());
        waiter.refresh();
        assert!(!waiter.woke_in_vain());
    }

    #[test]
    fn a_stale_descriptor_is_slept_beside_for_2_ms() {
        let mut waiter = Waiter::descriptor(0);
        waiter.rung();
        let mut slept = Duration::ZERO;
        while waiter.is_fresh() {
            if let Bed::Nap(nap) = waiter.nap() {
                slept += nap;
            }
        }
        assert!((Duration::from_micros(1900)..Duration::from_micros(2500)).contains(&slept), "{slept:?}");
    }
}
