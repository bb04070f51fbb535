//! Waiting for a completion queue without holding a core.
//!
//! Where the provider has a file descriptor that works, the wait is one `poll`. Others must be polled,
//! with naps between: they grow while nothing happens, so that an idle rank costs nothing, and are gone
//! after the first event, so that a busy one loses nothing. A nap may overlook the queue's own events,
//! for half a millisecond, no longer.

use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

use crate::transport::wait::Bed;

/// How many times the core is only offered to others before there are naps.
const YIELDS: u32 = 16;
const FIRST_NAP: Duration = Duration::from_micros(20);
const LONGEST_NAP: Duration = Duration::from_micros(500);

/// How to wait for one completion queue.
pub(super) enum Waiter {
    /// Its descriptor, which the queue owns, and which may be slept on when the provider says so.
    Descriptor(RawFd),
    /// The descriptor of the queue beside it, which is readable while there is something to make progress with.
    Bell {
        descriptor: RawFd,
        /// Whether there may be entries that were made since the queue was read: the bell does not tell of these.
        unread: bool,
    },
    /// There is no descriptor.
    Naps {
        /// How many waits in a row there was nothing.
        idle: u32,
    },
}

impl Waiter {
    pub fn bell(descriptor: RawFd) -> Waiter {
        Waiter::Bell { descriptor, unread: true }
    }

    pub fn naps() -> Waiter {
        Waiter::Naps { idle: 0 }
    }

    /// A put was taken, which may have made entries. So may one that is not, but whoever makes that comes back to it soon,
    /// and must be able to sleep until then: its peer may be late by any time.
    #[inline]
    pub fn stirred(&mut self) {
        if let Waiter::Bell { unread, .. } = self {
            *unread = true;
        }
    }

    /// The queue was read until nothing was left.
    #[inline]
    pub fn emptied(&mut self) {
        if let Waiter::Bell { unread, .. } = self {
            *unread = false;
        }
    }

    /// Where to wait once: on its descriptor, if one may sleep on that, which `may_sleep` asks the provider.
    pub fn rest<'q>(
        &mut self,
        may_sleep: impl FnOnce() -> bool,
        borrow: impl FnOnce(RawFd) -> BorrowedFd<'q>,
    ) -> Bed<'q> {
        match self {
            Waiter::Bell { unread: false, descriptor } => Bed::Until(borrow(*descriptor)),
            Waiter::Descriptor(descriptor) if may_sleep() => Bed::Until(borrow(*descriptor)),
            Waiter::Bell { .. } | Waiter::Descriptor(_) => Bed::Nowhere,
            Waiter::Naps { idle } => nap(idle),
        }
    }

    /// Something has happened: naps begin anew.
    #[inline]
    pub fn refresh(&mut self) {
        if let Waiter::Naps { idle } = self {
            *idle = 0;
        }
    }
}

/// One yield or one nap, the longer the more often there was nothing.
fn nap<'q>(idle: &mut u32) -> Bed<'q> {
    *idle = idle.saturating_add(1);
    if *idle <= YIELDS {
        std::thread::yield_now();
        return Bed::Nowhere;
    }
    let growth = 1 << (*idle - YIELDS - 1).min(8);
    Bed::Nap(FIRST_NAP.saturating_mul(growth).min(LONGEST_NAP))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    fn nothing_to_borrow<'q>(_: RawFd) -> BorrowedFd<'q> {
        unreachable!("it naps")
    }

    #[test]
    fn naps_come_after_yields_and_grow_to_a_limit() {
        let mut waiter = Waiter::naps();
        let mut next = || waiter.rest(|| true, nothing_to_borrow);
        assert!((0..YIELDS).all(|_| matches!(next(), Bed::Nowhere)));
        let naps: Vec<_> = (0..20).map(|_| next()).collect();
        let length = |bed: &Bed<'_>| if let Bed::Nap(nap) = bed { *nap } else { Duration::ZERO };
        assert!(naps.is_sorted_by_key(length));
        assert_eq!((length(&naps[0]), length(&naps[19])), (FIRST_NAP, LONGEST_NAP));
        waiter.refresh();
        assert!(matches!(waiter, Waiter::Naps { idle: 0 }));
    }

    /// Whether it sleeps on its descriptor, 7.
    fn sleeps(waiter: &mut Waiter, may_sleep: bool) -> bool {
        let here = std::io::stdin();
        let borrow = |descriptor| {
            assert_eq!(descriptor, 7);
            here.as_fd()
        };
        matches!(waiter.rest(|| may_sleep, borrow), Bed::Until(_))
    }

    #[test]
    fn beside_a_bell_one_sleeps_only_when_the_queue_has_been_read() {
        let mut waiter = Waiter::bell(7);
        assert!(!sleeps(&mut waiter, false));
        waiter.emptied();
        assert!(sleeps(&mut waiter, false));
        waiter.stirred();
        assert!(!sleeps(&mut waiter, false));
    }

    #[test]
    fn on_a_queues_own_descriptor_one_sleeps_where_the_provider_lets_one() {
        let mut waiter = Waiter::Descriptor(7);
        assert!(sleeps(&mut waiter, true));
        assert!(!sleeps(&mut waiter, false));
    }
}
