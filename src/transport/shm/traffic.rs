//! Whether the lines of windows go to and fro between two cores: what the one writes anew is read by the other, every time.
//!
//! A program fills a window, has it broadcast, reads what has come, and fills it again. Where blocks go straight from
//! window to window, each line is fetched from the core that wrote it last, and taken away from the one that has read it
//! before it is written again: by the put, or, where its source shows it, by the program, whose next values are the
//! slower. With two ranks on cores that share a cache (EPYC 9004) that is 7 ns a line in the put and 6 in the program. Through
//! chunks that go round in the shared cache all is copied twice, and yet a line takes 2 ns, and the program none: fill,
//! broadcast and read 256 KiB take 15 us by chunks and 35 straight. What a program leaves as it is from call to call goes
//! straight in 1.5 ns a line. Which of the two it is, the puts tell.
#![forbid(unsafe_code)]

use std::time::Duration;

use super::distance::{BELIEVED, took_a_line};

/// Straight puts, of which one is timed; and puts that go round before one is tried straight.
const TRIAL: [i32; 2] = [16, 64];
/// Puts that are not timed when they begin to go straight again: the first ones to each spot are to lines that are still their
/// target's.
const GRACE: i32 = 256;
/// Nanoseconds a line from which on lines go to and fro; as much as where pages are touched first, or come from memory, which is
/// not told apart.
const HEAVY: u64 = 3;

/// Where a put goes: its region's key, how far into it, and how many bytes.
pub type Spot = (u64, u64, usize);

/// How a put is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Straight into its place.
    Straight,
    /// The same, with a look at the clock.
    Timed,
    /// Through chunks.
    Round,
}

/// What is known of the traffic with a peer.
#[derive(Debug, Default)]
pub struct Traffic {
    heavy: bool,
    /// Puts since the last that was timed; less than 0 for some that shall not be.
    untimed: i32,
    /// Those in a row that told otherwise.
    otherwise: u32,
    /// Where a put was tried straight, of those that go round: the next one there tells, as its lines are this rank's then, if
    /// nobody reads them.
    tried: Option<Spot>,
}

impl Traffic {
    /// As after puts that took long.
    #[cfg(test)]
    pub fn heavy() -> Self {
        Traffic { heavy: true, ..Traffic::default() }
    }

    /// Whether it is heavy, so that what goes round is faster.
    pub fn is_heavy(&self) -> bool {
        self.heavy
    }

    /// How the next put is to be made.
    pub fn choose(&mut self, to: Spot) -> Manner {
        self.untimed = self.untimed.saturating_add(1);
        match (self.heavy, self.tried) {
            (false, _) if self.otherwise > 0 || self.untimed >= TRIAL[0] => Manner::Timed,
            (false, _) => Manner::Straight,
            (true, Some(place)) if place == to => Manner::Timed,
            // Nothing goes there any more.
            (true, Some(_)) if self.untimed >= 2 * TRIAL[1] => self.start_over(),
            (true, None) if self.untimed > TRIAL[1] => {
                self.tried = Some(to);
                Manner::Straight
            }
            (true, _) => Manner::Round,
        }
    }

    fn start_over(&mut self) -> Manner {
        *self = Traffic { heavy: self.heavy, ..Traffic::default() };
        Manner::Round
    }

    /// A put was not taken, whatever had been chosen.
    pub fn put_off(&mut self) {
        self.tried = self.tried.filter(|_| self.otherwise > 0);
    }

    /// A put of so many bytes that was timed took so long.
    pub fn learn(&mut self, bytes: usize, took: Duration) {
        let heavy = took_a_line(HEAVY, bytes, took);
        if heavy == self.heavy {
            self.start_over();
            return;
        }
        (self.otherwise, self.untimed) = (self.otherwise + 1, 0);
        if self.otherwise == BELIEVED {
            let untimed = if heavy { 0 } else { -GRACE };
            *self = Traffic { heavy, untimed, ..Traffic::default() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::shm::distance::LINE;

    const BYTES: usize = 64 << 10;
    const SHORT: Duration = Duration::from_nanos(2 * BYTES as u64 / LINE);
    const LONG: Duration = Duration::from_nanos(7 * BYTES as u64 / LINE);

    /// Puts to so many places in turn, each of which takes so long if it goes straight after another one there that did, else
    /// `first`; and how many go round.
    fn puts(traffic: &mut Traffic, count: i32, places: u64, [first, next]: [Duration; 2]) -> i32 {
        let mut is_own = vec![true; places as usize];
        (0..count as u64)
            .map(|i| i % places)
            .filter(|&place| {
                let manner = traffic.choose((7, place, BYTES));
                let took = if is_own[place as usize] { next } else { first };
                is_own[place as usize] = manner != Manner::Round;
                if manner == Manner::Timed {
                    traffic.learn(BYTES, took);
                }
                manner == Manner::Round
            })
            .count() as i32
    }

    #[test]
    fn what_takes_no_time_goes_straight() {
        assert_eq!(puts(&mut Traffic::default(), 1000, 3, [SHORT; 2]), 0);
    }

    #[test]
    fn where_lines_go_to_and_fro_nearly_all_goes_round_and_when_they_rest_nothing_any_more() {
        for places in [1, 3, 40] {
            let mut traffic = Traffic::default();
            assert_eq!(puts(&mut traffic, TRIAL[0] + BELIEVED as i32 - 1, places, [LONG; 2]), 0);
            assert!(traffic.is_heavy());
            let straight = 1000 - puts(&mut traffic, 1000, places, [LONG; 2]);
            assert!((10..=32).contains(&straight), "two of a trial, and not between: {straight}");
            // What goes round leaves lines with the target, so that the first one that does not takes long, whatever comes next.
            let enough = 2 * TRIAL[1] + (BELIEVED as i32 + 1) * places as i32;
            let rounds = puts(&mut traffic, 1000 + enough, places, [LONG, SHORT]);
            assert!(!traffic.is_heavy() && rounds <= enough, "{rounds} of puts to {places} places");
        }
    }

    #[test]
    fn where_a_put_was_tried_and_nothing_goes_any_more_another_is_tried() {
        let mut traffic = Traffic::heavy();
        let tried = |traffic: &mut Traffic, at| {
            (0..3 * TRIAL[1]).find(|_| traffic.choose((7, at, BYTES)) == Manner::Straight).unwrap()
        };
        assert_eq!(tried(&mut traffic, 1), TRIAL[1]);
        assert!(tried(&mut traffic, 2) > TRIAL[1], "the first one is waited for, but not for ever");
        traffic.put_off();
        assert_eq!(traffic.choose((7, 2, BYTES)), Manner::Straight, "it was not taken");
        assert_eq!(traffic.choose((7, 2, BYTES)), Manner::Timed);
    }

    #[test]
    fn puts_that_were_interrupted_change_nothing() {
        let mut traffic = Traffic::default();
        for _ in 0..100 {
            puts(&mut traffic, TRIAL[0] - 1, 1, [SHORT; 2]);
            (1..BELIEVED).for_each(|_| traffic.learn(BYTES, LONG));
            traffic.learn(BYTES, SHORT);
        }
        assert!(!traffic.is_heavy());
    }
}
