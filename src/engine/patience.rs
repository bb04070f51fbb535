//! How a rank waits: it polls for a while, then sleeps.
//!
//! Polling answers in a tenth of a microsecond and takes a core; sleeping takes none and answers in twenty or
//! more. A rank that has a core to itself polls for longer than a sleeper's waking takes: two that slept would
//! else wait for each other's waking for ever. After some microseconds it offers its core between two polls: the
//! system may have put the one that it waits for there, too. Where that has helped it does so sooner next time.
//!
//! Where ranks outnumber cores, a rank that polls holds up the one that it waits for. It sleeps at once,
//! but for two cases, where it offers its core a few times first, which costs less than to sleep and to be
//! woken, and does not cut in on the one that wakes it: where many share a core, so that there is nearly
//! always one that has work, and where a poll is a look at memory.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

/// How long a rank with a core of its own polls: a few times what a sleeper's waking takes.
const LONGEST: Duration = Duration::from_micros(400);
/// How many polls it makes before it offers its core, at least and at most: some 1 to 20 µs, where a poll is a look
/// at memory and where it is a system call.
const LOOKS: (u32, u32) = (64, 1024);
const CALLS: (u32, u32) = (2, 32);
/// How often a rank among many offers its core before it sleeps, and how many to a core are many.
/// Measured on the emulated cluster with two cores: of 16 and of 36 ranks a broadcast of 1 KiB takes half
/// the time that it takes with 0, and 2 to 8 are alike; of 8 ranks it takes a fifth longer.
const OFFERS: u32 = 4;
const MANY: f64 = 4.0;
/// The same where a poll is a look at memory: enough for each of some dozen ranks of a core to have had its turn.
const CHEAP_OFFERS: u32 = 64;

/// A rank's way of waiting.
pub enum Patience {
    /// More ranks than cores on this machine.
    Crowded {
        /// How often to offer the core before sleeping.
        offers: u32,
        /// How often it was offered since something happened.
        offered: u32,
    },
    /// A core for each rank.
    Alone {
        /// The least and the most of them.
        bounds: (u32, u32),
        /// How many polls it makes before it offers its core.
        polls: u32,
        /// How many it has made since something happened.
        polled: u32,
        /// When it began to offer its core.
        since: Option<Instant>,
    },
}

impl Patience {
    /// For so many ranks to a core of this machine; `cheap` where a poll is a look at memory.
    pub fn new(ranks_per_core: f64, cheap: bool) -> Self {
        if ranks_per_core <= 1.0 {
            let bounds = if cheap { LOOKS } else { CALLS };
            return Patience::Alone { bounds, polls: bounds.1, polled: 0, since: None };
        }
        let offers = match cheap {
            true => CHEAP_OFFERS,
            false if ranks_per_core > MANY => OFFERS,
            false => 0,
        };
        Patience::Crowded { offers, offered: 0 }
    }

    /// Nothing has happened: whether to sleep now (else poll again).
    pub fn is_over(&mut self) -> bool {
        match self {
            Patience::Crowded { offers, offered } if *offered < *offers => {
                *offered += 1;
                std::thread::yield_now();
                false
            }
            Patience::Crowded { .. } => true,
            Patience::Alone { polls, polled, .. } if *polled < *polls => {
                *polled += 1;
                std::hint::spin_loop();
                false
            }
            Patience::Alone { since, .. } => {
                std::thread::yield_now();
                since.get_or_insert_with(Instant::now).elapsed() >= LONGEST
            }
        }
    }

    /// Whether to sleep even when something has just happened: a transport does not sleep on what has come
    /// already, and a poll less is a system call less.
    pub fn skips_a_poll(&self) -> bool {
        matches!(self, Patience::Crowded { offers: 0, .. })
    }

    /// Something has happened: it begins anew.
    pub fn rewarded(&mut self) {
        match self {
            Patience::Crowded { offered, .. } => *offered = 0,
            Patience::Alone { bounds, polls, polled, since } => {
                let next = if since.take().is_some() { *polls / 2 } else { *polls * 2 };
                (*polls, *polled) = (next.clamp(bounds.0, bounds.1), 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_a_crowd_the_core_is_offered_a_few_times() {
        for (mut patience, offers) in
            [(Patience::new(8.0, false), OFFERS), (Patience::new(2.0, true), CHEAP_OFFERS)]
        {
            for _ in 0..2 {
                assert_eq!((0..offers + 2).filter(|_| patience.is_over()).count(), 2);
                patience.rewarded();
            }
        }
    }

    #[test]
    fn where_few_share_a_core_one_sleeps_at_once_and_alone_one_polls_first() {
        assert!(Patience::new(2.0, false).is_over());
        let mut patience = Patience::new(1.0, false);
        assert!((0..CALLS.0).all(|_| !patience.is_over()));
        while !patience.is_over() {}
    }
}
