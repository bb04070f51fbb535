//! How a rank waits: it polls for a while, then sleeps.
//!
//! Polling answers in a tenth of a microsecond and takes a core; sleeping takes none and answers in twenty or
//! more. A rank that has a core to itself polls for longer than a sleeper's waking takes: two that slept would
//! else wait for each other's waking for ever. After some microseconds it offers its core between two polls: the
//! system may have put the one that it waits for there, too. Where that has helped it does so sooner next time.
//! Beside a library that needs progress, too, it polls on in place of sleeping (see [`super::Engine::while_waiting`]).
//!
//! Where ranks outnumber cores, a rank that polls holds up the one that it waits for. It sleeps at once,
//! but for two cases, where it offers its core some times first, which costs less than to sleep and to be
//! woken, does not cut in on the one that wakes it, and keeps the core awake: where what it waits for is there soon
//! (less often in a crowd, once only in a turmoil), and where a poll is a look at memory.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

/// How long a rank with a core of its own polls: a few times what a sleeper's waking takes.
const LONGEST: Duration = Duration::from_micros(400);
/// How many polls it makes before it offers its core, at least and at most: some 5 to 80 µs, where a poll is a few looks
/// at memory, and 1 to 20, where it is a system call. Of two ranks that were put on one core, a barrier takes 9 µs so, and
/// 62 where polls are never fewer.
const LOOKS: (u32, u32) = (64, 1024);
const CALLS: (u32, u32) = (2, 32);
/// How often a rank among others offers its core before it sleeps, in these two cases: enough for each of some dozen
/// ranks of a core to have had its turn. On the emulated cluster with two cores, 8 ranks take 0.66 to 0.76 of the time for
/// a barrier, or what moves 1 KiB, that they take with 0; 32 to 128 are alike. What moves 256 KiB over 36 ranks takes 1.2
/// times as long with 64, and the same with 4, as with 0.
const OFFERS: u32 = 64;
/// The same for what is there soon, where a poll is a system call and more than [so many](CROWD) ranks share a core: two that
/// offer it to each other keep it busy, and the system leaves it to them, while others wait for the next core. Over 8 ranks on
/// two cores it takes, of the time with 64, where all start at one time on idle cores, 0.6 for a broadcast or an allreduce of
/// 1 KiB, 0.65 to 0.9 for most others; one call after a barrier 0.8 to 1.1, but for a scatter (52 us for 24). Over 4 and 6 ranks,
/// which keep to 64, 16 would take 0.9 to 1.5 where all start at one time, and else 0.77 to 1.05, but a scatter over 6 1.9.
const OFFERS_IN_A_CROWD: u32 = 16;
/// Ranks to a core, of which more are a crowd; of 8 on two cores it was measured.
const CROWD: f64 = 3.0;
/// The same of still more: one that sleeps leaves the core to the others, and is not in the way of one that is woken. Loops
/// of such calls take with 1, over 36, 16 and 8 ranks on two cores, of the time that they take with 64: an allreduce of
/// 1 KiB 0.87, 0.80 and 1.17, a broadcast 0.85, 0.84 and 1.0, a broadcast and an allreduce of 8 bytes in turn 0.60, 0.84 and
/// 0.82, a barrier 0.64, 0.83 and 1.03. Over 36 a single broadcast or scatter after a barrier takes 0.7 to 0.8 ms more, the
/// barrier 1.3 to 2 less.
const OFFERS_IN_TURMOIL: u32 = 1;
const TURMOIL: f64 = 4.0;
/// How long it does so at most: one that computes may take the core for longer each time.
const LONGEST_OFFERED: Duration = Duration::from_millis(1);

/// A rank's way of waiting.
pub enum Patience {
    /// More ranks than cores on this machine.
    Crowded {
        /// How often it offers its core before it sleeps, where what it waits for is there soon.
        soon: u32,
        /// And where it is not.
        later: u32,
        /// How often it has, since something happened.
        offered: u32,
        /// Since when.
        since: Option<Instant>,
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
        let soon = match ranks_per_core {
            few if cheap || few <= CROWD => OFFERS,
            many if many <= TURMOIL => OFFERS_IN_A_CROWD,
            _ => OFFERS_IN_TURMOIL,
        };
        Patience::Crowded { soon, later: if cheap { OFFERS } else { 0 }, offered: 0, since: None }
    }

    /// Nothing has happened: whether to sleep now (else poll again), where what is waited for is there `soon` or not.
    pub fn is_over(&mut self, soon: bool) -> bool {
        match self {
            Patience::Crowded { soon: if_soon, later, offered, since } => {
                let most = if soon { *if_soon } else { *later };
                let mut is_too_long = || since.get_or_insert_with(Instant::now).elapsed() >= LONGEST_OFFERED;
                if *offered >= most || is_too_long() && *offered > 0 {
                    return true;
                }
                *offered += 1;
                std::thread::yield_now();
                false
            }
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

    /// Whether it has a core to itself, and has begun to offer it.
    pub fn offers_its_own_core(&self) -> bool {
        matches!(self, Patience::Alone { since: Some(_), .. })
    }

    /// Whether to sleep even when something has just happened: a transport does not sleep on what has come
    /// already, and a poll less is a system call less.
    pub fn skips_a_poll(&self, soon: bool) -> bool {
        !soon && matches!(self, Patience::Crowded { later: 0, .. })
    }

    /// Something has happened: it begins anew.
    pub fn rewarded(&mut self) {
        match self {
            Patience::Crowded { offered, since, .. } => (*offered, *since) = (0, None),
            Patience::Alone { bounds, polls, polled, since } => {
                let next = match (since.take(), *polled) {
                    (Some(_), _) => *polls / 2,
                    // Nothing was waited for: of two ranks on one core every other wait is such, whatever helps.
                    (None, 0) => *polls,
                    (None, _) => *polls * 2,
                };
                (*polls, *polled) = (next.clamp(bounds.0, bounds.1), 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_a_crowd_the_core_is_offered_some_times() {
        for (mut patience, soon) in [
            (Patience::new(8.0, false), true),
            (Patience::new(2.0, false), true),
            (Patience::new(2.0, true), false),
        ] {
            for _ in 0..2 {
                assert!(!patience.is_over(soon));
                assert!(
                    (0..OFFERS).any(|_| patience.is_over(soon)),
                    "or sooner, where others took their time"
                );
                assert!(patience.is_over(soon), "until something happens");
                patience.rewarded();
            }
        }
    }

    #[test]
    fn the_core_is_offered_the_less_the_more_ranks_share_it_for_what_is_soon_and_a_system_call_away() {
        let offers = |ranks_per_core, cheap| match Patience::new(ranks_per_core, cheap) {
            Patience::Crowded { soon, later, .. } => (soon, later),
            Patience::Alone { .. } => panic!("there are more ranks than cores"),
        };
        let counts = [1.5, CROWD, 3.5, TURMOIL, 4.1, 18.0];
        assert_eq!(counts.map(|count| offers(count, false).0), [64, 64, 16, 16, 1, 1]);
        assert_eq!(counts.map(|count| offers(count, false).1), [0; 6]);
        assert_eq!(counts.map(|count| offers(count, true)), [(64, 64); 6]);
        let mut patience = Patience::new(18.0, false);
        assert!(!patience.is_over(true) && patience.is_over(true));
    }

    #[test]
    fn where_offers_help_they_come_sooner_and_what_was_there_at_once_changes_nothing() {
        let polls = |patience: &Patience| match patience {
            Patience::Alone { polls, .. } => *polls,
            Patience::Crowded { .. } => panic!("there is a core for each"),
        };
        let mut patience = Patience::new(1.0, true);
        for _ in 0..10 {
            // The last one offers the core, and that helps; the next two things are there at once.
            (0..polls(&patience)).for_each(|_| assert!(!patience.is_over(false)));
            patience.is_over(false);
            (0..3).for_each(|_| patience.rewarded());
        }
        assert_eq!(polls(&patience), LOOKS.0);
        for later in [2, 4] {
            assert!(!patience.is_over(false));
            patience.rewarded();
            assert_eq!(polls(&patience), later * LOOKS.0, "where it comes in time");
        }
    }

    #[test]
    fn in_a_crowd_one_sleeps_at_once_and_alone_one_polls_first() {
        let mut crowded = Patience::new(2.0, false);
        assert!(crowded.skips_a_poll(false) && crowded.is_over(false));
        assert!(!crowded.skips_a_poll(true));
        let mut patience = Patience::new(1.0, false);
        assert!((0..CALLS.0).all(|_| !patience.is_over(false)));
        while !patience.is_over(false) {}
    }
}
