//! Which of two copies suits what goes into a peer's windows, or is read there, or goes from a rank to itself: now and then both
//! are made, and timed.
//!
//! What rests in a core's cache one instruction copies faster, other lines a loop that claims them first (see [`Gait::AtRest`]). What
//! a line takes does not tell which it is: of lines that rest it is 1.6 to 2.1 ns on one machine, as its host has time for it, and new
//! ones that are near take as much. What the other end pays for a copy nobody sees.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use super::copy::{Gait, TWO_WAYS, has_two_ways};

/// Copies from the end of a heat to the first of the next one. With [`APART`] 41, a prime: so heats begin at each of the copies that
/// calls come again with, however many these are.
const PAUSE: u32 = 17;
/// And from that to the second: of the same place, if calls come again with 1, 2, 3, 4, 6, 8 or 12 copies. So a heat between copies of
/// two places tells nothing for long.
const APART: u32 = 24;
/// So many heats in a row that another wins are believed: a copy may be interrupted.
const BELIEVED: u32 = 2;
/// Powers of two for whose sizes there are two ways.
const SIZES: usize = (TWO_WAYS.end.ilog2() - TWO_WAYS.start.ilog2()) as usize;

/// A copy that is to be made.
#[must_use]
pub struct Copying {
    /// How.
    pub gait: Gait,
    bytes: usize,
    /// Since when, if it is timed.
    since: Option<Instant>,
}

/// What the heats until now tell, by the power of two that a copy's bytes are.
#[derive(Debug)]
pub struct Heats([Size; SIZES]);

/// What they tell of copies of so many bytes, up to twice as many.
#[derive(Debug, Clone, Copy)]
struct Size {
    /// As where lines rest, or straight.
    faster: Gait,
    /// Copies since the latest that was timed.
    untimed: u32,
    /// The first copy of a heat, made as where lines rest: its bytes, and what it took.
    first: Option<(usize, Duration)>,
    /// Heats in a row that the other has won.
    otherwise: u32,
}

/// None until now. Data of a program are new more often than not.
impl Default for Heats {
    fn default() -> Self {
        Heats([Size { faster: Gait::Straight, untimed: 0, first: None, otherwise: 0 }; SIZES])
    }
}

impl Heats {
    /// How so many bytes are to be copied now, in one run. [`Self::over`] comes next.
    #[inline]
    pub fn begin(&mut self, bytes: usize) -> Copying {
        if !has_two_ways(bytes) {
            return Copying { gait: Gait::Straight, bytes, since: None };
        }
        let (gait, timed) = self.size(bytes).next();
        Copying { gait, bytes, since: timed.then(Instant::now) }
    }

    /// They have been.
    #[inline]
    pub fn over(&mut self, copying: Copying) {
        if let Some(since) = copying.since {
            self.size(copying.bytes).learn(copying.bytes, since.elapsed());
        }
    }

    fn size(&mut self, bytes: usize) -> &mut Size {
        let power = (bytes / TWO_WAYS.start).checked_ilog2().unwrap_or(0);
        &mut self.0[(power as usize).min(SIZES - 1)]
    }

    /// Whether it has been asked for copies that differ.
    #[cfg(test)]
    pub fn is_used(&self) -> bool {
        self.0.iter().any(|size| size.untimed > 0 || size.first.is_some())
    }
}

impl Size {
    /// The gait of a copy, and whether it is timed.
    fn next(&mut self) -> (Gait, bool) {
        self.untimed += 1;
        match self.first {
            None if self.untimed >= PAUSE => (Gait::AtRest, true),
            Some(_) if self.untimed >= APART => (Gait::Straight, true),
            _ => (self.faster, false),
        }
    }

    /// What one took that was timed.
    fn learn(&mut self, bytes: usize, took: Duration) {
        self.untimed = 0;
        let Some((as_many, at_rest)) = self.first.take() else {
            self.first = Some((bytes, took));
            return;
        };
        let [straight, at_rest] =
            [(took, as_many), (at_rest, bytes)].map(|(took, other)| took.as_nanos() * other as u128);
        let faster = if straight < at_rest { Gait::Straight } else { Gait::AtRest };
        self.otherwise = if faster == self.faster { 0 } else { self.otherwise + 1 };
        if self.otherwise == BELIEVED {
            (self.faster, self.otherwise) = (faster, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = TWO_WAYS.start;
    const HEAT: usize = (PAUSE + APART) as usize;

    fn size(faster: Gait) -> Size {
        Size { faster, ..Heats::default().0[0] }
    }

    fn other(gait: Gait) -> Gait {
        if gait == Gait::AtRest { Gait::Straight } else { Gait::AtRest }
    }

    /// Makes copies, each of which has so many bytes and takes so long in its gait, by its number: how many went at rest, and how many
    /// were timed.
    fn copies(size: &mut Size, count: usize, copy: impl Fn(usize, Gait) -> (usize, u64)) -> [usize; 2] {
        let mut told = [0; 2];
        for number in 0..count {
            let (gait, timed) = size.next();
            told[0] += usize::from(gait == Gait::AtRest);
            told[1] += usize::from(timed);
            if timed {
                let (bytes, took) = copy(number, gait);
                size.learn(bytes, Duration::from_nanos(took));
            }
        }
        told
    }

    fn of(at_rest: u64, straight: u64) -> impl Fn(usize, Gait) -> (usize, u64) {
        move |_, gait| (BYTES, if gait == Gait::AtRest { at_rest } else { straight })
    }

    #[test]
    fn the_faster_is_found_and_found_anew() {
        let mut size = size(Gait::AtRest);
        assert_eq!(copies(&mut size, 10 * HEAT, of(2, 3)), [10 * HEAT - 10, 20]);
        copies(&mut size, BELIEVED as usize * HEAT, of(3, 2));
        assert_eq!(copies(&mut size, 10 * HEAT, of(3, 2)), [10, 20]);
        copies(&mut size, BELIEVED as usize * HEAT, of(2, 3));
        assert_eq!(copies(&mut size, HEAT, of(2, 3)), [HEAT - 1, 2]);
    }

    #[test]
    fn one_heat_that_was_interrupted_changes_nothing() {
        let mut size = size(Gait::AtRest);
        for _ in 0..10 {
            copies(&mut size, HEAT, of(30, 3));
            assert_eq!(copies(&mut size, HEAT, of(2, 3)), [HEAT - 1, 2]);
        }
    }

    #[test]
    fn what_takes_longer_as_it_is_longer_wins_by_the_byte() {
        for faster in [Gait::AtRest, Gait::Straight] {
            let mut size = size(other(faster));
            let by_the_byte = |number: usize, gait| {
                let bytes = BYTES + number * 7 % BYTES;
                (bytes, bytes as u64 * if gait == faster { 10 } else { 11 })
            };
            copies(&mut size, 100 * HEAT, by_the_byte);
            assert_eq!(size.faster, faster);
        }
    }

    #[test]
    fn of_calls_with_several_copies_the_same_is_made_in_both_ways() {
        for count in [1, 2, 3, 4, 6, 8, 12] {
            for faster in [Gait::AtRest, Gait::Straight] {
                let mut size = size(other(faster));
                let by_place = |number: usize, gait| {
                    (BYTES, 100 * (number % count) as u64 + if gait == faster { 10 } else { 11 })
                };
                copies(&mut size, 100 * HEAT, by_place);
                assert_eq!((size.faster, size.otherwise), (faster, 0), "{count} copies");
            }
        }
    }

    #[test]
    fn each_power_of_two_is_a_size_of_its_own() {
        let mut heats = Heats::default();
        for (number, bytes) in [BYTES, 2 * BYTES - 1, 2 * BYTES, TWO_WAYS.end - 1].into_iter().enumerate() {
            heats.size(bytes).untimed += 10_u32.pow(number as u32);
        }
        let untimed = heats.0.map(|size| size.untimed);
        assert_eq!((untimed[0], untimed[1], untimed[SIZES - 1]), (11, 100, 1000));
    }

    #[test]
    fn what_has_one_way_goes_straight_and_tells_nothing() {
        let mut heats = Heats::default();
        for bytes in [0, BYTES - 1, TWO_WAYS.end] {
            let copying = heats.begin(bytes);
            assert_eq!(copying.gait, Gait::Straight);
            heats.over(copying);
        }
        assert!(!heats.is_used());
    }
}
