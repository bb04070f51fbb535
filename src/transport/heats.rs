//! Which of two copies suits what goes into windows, or is read there, or goes from a rank to itself: now and then both are made,
//! and timed.
//!
//! What rests in a core's cache one instruction copies faster, other lines a loop that claims them first (see
//! [`Gait::AtRest`]). What a line takes does not tell which it is: of lines that rest it is 1.6
//! to 2.1 ns on one machine, as its host has time for it, and new ones that are near take as much.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use super::copy::{Gait, LONG_AT_REST};

/// Copies between two heats. An odd number, as calls come again with two or four of them.
const PAUSE: u32 = 17;
/// From the first copy of a heat to the second: of the same place, if calls come again with so many, or half or a quarter as many.
const APART: u32 = 16;
/// The second one has as many bytes as the first. After so many copies without such a one the heat begins anew.
const LOST: u32 = 4 * APART;
/// So many heats in a row that another wins are believed: a copy may be interrupted.
const BELIEVED: u32 = 2;

/// A copy that is to be made.
pub struct Copying {
    /// How.
    pub gait: Gait,
    /// Since when, if it is timed.
    since: Option<Instant>,
}

/// What the heats until now tell.
#[derive(Debug)]
pub struct Heats {
    /// As where lines rest, or straight.
    faster: Gait,
    /// Copies since the latest that was timed.
    untimed: u32,
    /// The first copy of a heat, made as where lines rest: its bytes, and what it took.
    first: Option<(usize, Duration)>,
    /// Heats in a row that the other has won.
    otherwise: u32,
}

impl Default for Heats {
    fn default() -> Self {
        Heats { faster: Gait::AtRest, untimed: 0, first: None, otherwise: 0 }
    }
}

impl Heats {
    /// How so many bytes are to be copied now. [`Self::over`] comes next.
    #[inline]
    pub fn begin(&mut self, bytes: usize) -> Copying {
        let (gait, timed) = if bytes < LONG_AT_REST { (Gait::Straight, false) } else { self.next(bytes) };
        Copying { gait, since: timed.then(Instant::now) }
    }

    /// They have been.
    #[inline]
    pub fn over(&mut self, bytes: usize, copying: Copying) {
        if let Some(since) = copying.since {
            self.learn(bytes, since.elapsed());
        }
    }

    /// The same of more than a few: how, and whether it is timed.
    fn next(&mut self, bytes: usize) -> (Gait, bool) {
        self.untimed += 1;
        match self.first {
            Some((as_many, _)) if as_many == bytes && self.untimed >= APART => (Gait::Straight, true),
            Some(_) if self.untimed < LOST => (self.faster, false),
            None if self.untimed < PAUSE => (self.faster, false),
            _ => {
                self.first = None;
                (Gait::AtRest, true)
            }
        }
    }

    /// What the copy took that was timed.
    fn learn(&mut self, bytes: usize, took: Duration) {
        self.untimed = 0;
        let Some((_, at_rest)) = self.first.take() else {
            self.first = Some((bytes, took));
            return;
        };
        let faster = if took < at_rest { Gait::Straight } else { Gait::AtRest };
        self.otherwise = if faster == self.faster { 0 } else { self.otherwise + 1 };
        if self.otherwise == BELIEVED {
            (self.faster, self.otherwise) = (faster, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 1 << 20;

    /// Makes copies of so many bytes, in turn, each of which takes so long in its gait: how many went at rest, and how many were timed.
    fn copies(
        heats: &mut Heats,
        count: usize,
        sizes: &[usize],
        took: impl Fn(usize, Gait) -> u64,
    ) -> [usize; 2] {
        let mut told = [0; 2];
        for &bytes in sizes.iter().cycle().take(count) {
            let (gait, timed) = heats.next(bytes);
            told[0] += usize::from(gait == Gait::AtRest);
            told[1] += usize::from(timed);
            if timed {
                heats.learn(bytes, Duration::from_nanos(took(bytes, gait)));
            }
        }
        told
    }

    fn of(at_rest: u64, plain: u64) -> impl Fn(usize, Gait) -> u64 {
        move |_, gait| if gait == Gait::AtRest { at_rest } else { plain }
    }

    #[test]
    fn the_faster_is_found_and_found_anew() {
        let mut heats = Heats::default();
        let heat = (PAUSE + APART) as usize;
        assert_eq!(copies(&mut heats, 10 * heat, &[BYTES], of(2, 3)), [10 * heat - 10, 20]);
        copies(&mut heats, BELIEVED as usize * heat, &[BYTES], of(3, 2));
        assert_eq!(copies(&mut heats, 10 * heat, &[BYTES], of(3, 2)), [10, 20]);
        copies(&mut heats, BELIEVED as usize * heat, &[BYTES], of(2, 3));
        assert_eq!(copies(&mut heats, heat, &[BYTES], of(2, 3)), [heat - 1, 2]);
    }

    #[test]
    fn one_heat_that_was_interrupted_changes_nothing() {
        let mut heats = Heats::default();
        let heat = (PAUSE + APART) as usize;
        for _ in 0..10 {
            copies(&mut heats, heat, &[BYTES], of(30, 3));
            assert_eq!(copies(&mut heats, heat, &[BYTES], of(2, 3)), [heat - 1, 2]);
        }
    }

    #[test]
    fn both_copies_of_a_heat_have_as_many_bytes() {
        for count in 1..=5 {
            let sizes: Vec<_> = (1..=count).map(|number| number * BYTES).collect();
            let mut heats = Heats::default();
            // By bytes alone the second, which is as long or longer, would never win.
            copies(&mut heats, 1000, &sizes, |bytes, gait| bytes as u64 + u64::from(gait == Gait::AtRest));
            assert_eq!(heats.faster, Gait::Straight, "{count} sizes");
        }
    }

    #[test]
    fn a_size_that_does_not_come_again_ends_no_heat() {
        let mut heats = Heats::default();
        for bytes in (LONG_AT_REST..).take(10 * LOST as usize) {
            let (_, timed) = heats.next(bytes);
            if timed {
                heats.learn(bytes, Duration::from_nanos(1));
            }
        }
        assert_eq!((heats.faster, heats.otherwise), (Gait::AtRest, 0));
        copies(&mut heats, 10 * LOST as usize, &[BYTES], of(3, 2));
        assert_eq!(heats.faster, Gait::Straight, "once sizes come again");
    }
}
