//! How far a block has to go, as a sum of steps that it takes one after the other.
#![forbid(unsafe_code)]

use crate::rank::{Rank, Ways};

/// The distances of `p` ranks as numbers of several digits: on each level a digit says how many of the level's weights the
/// distance has, the highest level first. No heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digits {
    p: u32,
    ways: Ways,
    /// None for a single rank.
    levels: u32,
    weights: Weights,
}

/// How far a step on each level reaches, from 1 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weights {
    /// The [skips](crate::schedule::Skips).
    Halves,
    /// 1, and a [row] of so many.
    Rows(u32),
}

impl Digits {
    /// `⌈log₂ p⌉` digits that are 0 or 1: the circulant graph's skips, or for powers of two of ranks the hypercube's bits.
    pub fn binary(p: u32) -> Digits {
        let levels = u32::BITS - p.saturating_sub(1).leading_zeros();
        Digits { p, ways: Ways::among(p), levels, weights: Weights::Halves }
    }

    /// Two digits of up to about `√p`: a step from row to row of ranks, and one within the [row].
    pub fn two(p: u32) -> Digits {
        let row = row(p);
        let levels = u32::from(p > 1) + u32::from(row < p);
        Digits { p, ways: Ways::among(p), levels, weights: Weights::Rows(row) }
    }

    /// How ranks are counted from each other.
    pub fn ways(&self) -> Ways {
        self.ways
    }

    /// The number of digits.
    pub fn levels(&self) -> u32 {
        self.levels
    }

    /// How far a step on this level reaches where its digit is 1.
    pub fn weight(&self, level: u32) -> u32 {
        match self.weights {
            Weights::Halves => self.p.div_ceil(1 << (self.levels - level)),
            Weights::Rows(_) if level == 0 => 1,
            Weights::Rows(row) => row,
        }
    }

    /// The largest digit of a level.
    pub fn largest(&self, level: u32) -> u32 {
        let next = if level + 1 < self.levels { self.weight(level + 1) } else { self.p };
        next.div_ceil(self.weight(level)) - 1
    }

    /// From one rank to another.
    pub fn distance(&self, from: Rank, to: Rank) -> u32 {
        self.ways.distance(from, to)
    }

    /// How many steps a distance takes: its digits that are not 0.
    pub fn steps(&self, distance: u32) -> u32 {
        let mut rest = distance;
        let mut steps = 0;
        for weight in self.weights_down_to(0) {
            steps += u32::from(rest >= weight);
            rest %= weight;
        }
        steps
    }

    fn weights_down_to(&self, level: u32) -> impl Iterator<Item = u32> {
        (level..self.levels).rev().map(|level| self.weight(level))
    }

    /// How many distances, from `gone` on, are `gone` and digits of the levels below this one.
    pub fn distances_from(&self, gone: u32, level: u32) -> u32 {
        let (mut rest, mut len) = (gone, self.p);
        for weight in self.weights_down_to(level) {
            len = weight.min(len - rest / weight * weight);
            rest %= weight;
        }
        len
    }
}

/// How many ranks are in a row of `p` of them: no fewer than there are rows, and a power of two where `p` is one.
pub fn row(p: u32) -> u32 {
    if p.is_power_of_two() { 1 << p.ilog2().div_ceil(2) } else { p.saturating_sub(1).isqrt() + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(p: u32) -> [Digits; 2] {
        [Digits::binary(p), Digits::two(p)]
    }

    #[test]
    fn rows_are_as_long_as_there_are_rows() {
        let weights = |p| {
            let digits = Digits::two(p);
            (0..digits.levels()).map(|level| digits.weight(level)).collect::<Vec<_>>()
        };
        assert_eq!(
            [1, 2, 3, 4, 8, 16, 36, 37].map(weights),
            [vec![], vec![1], vec![1, 2], vec![1, 2], vec![1, 4], vec![1, 4], vec![1, 6], vec![1, 7]]
        );
    }

    #[test]
    fn binary_digits_count_the_skips() {
        for p in (1..300).chain([65_535]) {
            let (digits, skips) = (Digits::binary(p), crate::schedule::Skips::new(p));
            assert_eq!(digits.levels(), skips.rounds());
            assert!((0..digits.levels()).all(|level| digits.weight(level) == skips.skip(level)), "{p}");
        }
    }

    #[test]
    fn every_distance_is_the_sum_of_digits_none_of_which_is_too_large() {
        for digits in (1..300).flat_map(both) {
            for distance in 0..digits.p {
                let (mut rest, mut sum, mut steps) = (distance, 0, 0);
                for level in (0..digits.levels()).rev() {
                    let digit = rest / digits.weight(level);
                    assert!(digit <= digits.largest(level), "{digits:?}");
                    (rest, sum) = (rest % digits.weight(level), sum + digit * digits.weight(level));
                    steps += u32::from(digit > 0);
                }
                assert_eq!((rest, sum, steps), (0, distance, digits.steps(distance)));
            }
        }
    }

    #[test]
    fn distances_that_begin_alike_are_counted() {
        for digits in (1..100).flat_map(both) {
            for level in 0..digits.levels() {
                let begin = |distance| {
                    let upper = (level..digits.levels()).rev();
                    upper.fold((distance, 0), |(rest, sum), k| {
                        (rest % digits.weight(k), sum + rest - rest % digits.weight(k))
                    })
                };
                let mut gone = 0;
                while gone < digits.p {
                    let len = digits.distances_from(gone, level);
                    let alike = (0..digits.p).filter(|&distance| begin(distance).1 == gone);
                    assert_eq!(alike.collect::<Vec<_>>(), (gone..gone + len).collect::<Vec<_>>());
                    gone += len;
                }
            }
        }
    }
}
