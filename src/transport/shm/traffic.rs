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

use std::time::{Duration, Instant};

use super::distance::{BELIEVED, LINE};

/// Straight puts, of which one is timed; and puts that go round before one is made straight.
const TRIAL: [u32; 2] = [16, 64];
/// Nanoseconds a line from which on lines go to and fro.
const HEAVY: u64 = 3;

/// What is known of the traffic with a peer.
#[derive(Debug, Default)]
pub struct Traffic {
    heavy: bool,
    /// Puts since the last that was timed.
    untimed: u32,
    /// Those in a row that told otherwise.
    otherwise: u32,
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

    /// Whether the next put is to go round. Of two in a row that are not the second one tells: before the first the target has
    /// written its lines itself.
    pub fn goes_round(&mut self) -> bool {
        let tries = self.otherwise > 0 || self.untimed >= TRIAL[1];
        self.untimed += u32::from(self.heavy && self.otherwise == 0);
        self.heavy && !tries
    }

    /// Makes a put of so many bytes straight.
    pub fn time(&mut self, bytes: usize, make: impl FnOnce()) {
        if !self.is_due() {
            return make();
        }
        let start = Instant::now();
        make();
        self.learn(bytes, start.elapsed());
    }

    /// Whether the straight put that is about to be made is to tell what it takes.
    fn is_due(&mut self) -> bool {
        self.untimed += u32::from(!self.heavy);
        let most = if self.heavy { TRIAL[1] + 1 } else { TRIAL[0] - 1 };
        self.otherwise > 0 || self.untimed > most
    }

    fn learn(&mut self, bytes: usize, took: Duration) {
        let heavy = took.as_nanos() as u64 >= HEAVY * (bytes as u64).div_ceil(LINE);
        self.otherwise = if heavy == self.heavy { 0 } else { self.otherwise + 1 };
        self.untimed *= u32::from(self.otherwise > 0);
        if self.otherwise == BELIEVED {
            *self = Traffic { heavy, ..Traffic::default() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 64 << 10;
    const SHORT: Duration = Duration::from_nanos(2 * BYTES as u64 / LINE);
    const LONG: Duration = Duration::from_nanos(7 * BYTES as u64 / LINE);

    /// Puts that take so long, each if it goes straight after another that did, else `first`; and how many go round.
    fn puts(traffic: &mut Traffic, count: u32, first: Duration, took: Duration) -> u32 {
        let (mut rounds, mut straight) = (0, true);
        for _ in 0..count {
            if traffic.goes_round() {
                (rounds, straight) = (rounds + 1, false);
                continue;
            }
            if traffic.is_due() {
                traffic.learn(BYTES, if straight { took } else { first });
            }
            straight = true;
        }
        rounds
    }

    #[test]
    fn what_takes_no_time_goes_straight() {
        assert_eq!(puts(&mut Traffic::default(), 1000, SHORT, SHORT), 0);
    }

    #[test]
    fn where_lines_go_to_and_fro_nearly_all_goes_round_and_when_they_rest_nothing_any_more() {
        let mut traffic = Traffic::default();
        assert_eq!(puts(&mut traffic, TRIAL[0] + BELIEVED - 1, LONG, LONG), 0);
        assert!(traffic.is_heavy());
        assert_eq!(puts(&mut traffic, 10 * (TRIAL[1] + 2), LONG, LONG), 10 * TRIAL[1]);
        // What goes round leaves lines with the target, so that the first one that does not takes long, whatever comes next.
        puts(&mut traffic, TRIAL[1] + 1 + BELIEVED, LONG, SHORT);
        assert!(!traffic.is_heavy());
    }

    #[test]
    fn puts_that_were_interrupted_change_nothing() {
        let mut traffic = Traffic::default();
        for _ in 0..100 {
            puts(&mut traffic, TRIAL[0] - 1, SHORT, SHORT);
            (1..BELIEVED).for_each(|_| traffic.learn(BYTES, LONG));
            traffic.learn(BYTES, SHORT);
        }
        assert!(!traffic.is_heavy());
    }
}
