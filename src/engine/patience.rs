//! How a rank waits: it polls for a little while, then sleeps.
//!
//! Polling answers in a microsecond and takes a core; sleeping takes none and answers in twenty or
//! more. Where ranks outnumber cores, a rank that polls holds up the one that it waits for, so it sleeps
//! at once; but where many share a core, so that there is nearly always one that has work, it offers
//! the core to others between a few polls first, which costs less than to sleep and to be woken, and
//! does not cut in on the one that wakes it. Elsewhere it polls as long as polling has paid lately.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

/// The longest time to poll before sleeping: a few times what a sleeper's waking takes.
const LONGEST: Duration = Duration::from_micros(200);
const SHORTEST: Duration = Duration::from_micros(2);
/// How often a rank among many offers its core before it sleeps, and how many to a core are many.
/// Measured on the emulated cluster with two cores: of 16 and of 36 ranks a broadcast of 1 KiB takes half
/// the time that it takes with 0, and 2 to 8 are alike; of 8 ranks it takes a fifth longer.
const OFFERS: u32 = 4;
const MANY: f64 = 4.0;

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
        /// How long to poll.
        polls_for: Duration,
        /// When the polling began.
        since: Option<Instant>,
    },
}

impl Patience {
    /// For so many ranks to a core of this machine.
    pub fn new(ranks_per_core: f64) -> Self {
        if ranks_per_core <= 1.0 {
            return Patience::Alone { polls_for: LONGEST, since: None };
        }
        Patience::Crowded { offers: if ranks_per_core > MANY { OFFERS } else { 0 }, offered: 0 }
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
            Patience::Alone { polls_for, since } => {
                let over = since.get_or_insert_with(Instant::now).elapsed() >= *polls_for;
                if !over {
                    std::hint::spin_loop();
                }
                over
            }
        }
    }

    /// Whether to sleep even when something has just happened: a transport does not sleep on what has come
    /// already, and a poll less is a system call less.
    pub fn skips_a_poll(&self) -> bool {
        matches!(self, Patience::Crowded { offers: 0, .. })
    }

    /// Something has happened: if soon enough for polling to have seen it, poll longer next time.
    pub fn rewarded(&mut self) {
        match self {
            Patience::Crowded { offered, .. } => *offered = 0,
            Patience::Alone { polls_for, since } => {
                if let Some(since) = since.take() {
                    let next = if since.elapsed() < LONGEST { *polls_for * 2 } else { *polls_for / 2 };
                    *polls_for = next.clamp(SHORTEST, LONGEST);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_a_crowd_the_core_is_offered_a_few_times() {
        let mut patience = Patience::new(8.0);
        for _ in 0..2 {
            assert_eq!((0..OFFERS + 2).filter(|_| patience.is_over()).count(), 2);
            patience.rewarded();
        }
    }

    #[test]
    fn where_few_share_a_core_one_sleeps_at_once_and_alone_one_polls_first() {
        assert!(Patience::new(2.0).is_over());
        let mut patience = Patience::new(1.0);
        assert!(!patience.is_over());
        while !patience.is_over() {}
    }
}
