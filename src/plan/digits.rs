//! How far a block has to go, as a sum of steps that it takes one after the other.
#![forbid(unsafe_code)]

use crate::rank::{Rank, Ways};
use crate::schedule::Skips;

/// The distances of `p` ranks as numbers of several digits: on each level a digit says how many of the level's weights the
/// distance has, the highest level first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digits {
    p: u32,
    ways: Ways,
    /// Level by level, from 1 on; none for a single rank.
    weights: Vec<u32>,
}

impl Digits {
    /// `⌈log₂ p⌉` digits that are 0 or 1: the circulant graph's skips, or for powers of two of ranks the hypercube's bits.
    pub fn binary(p: u32) -> Digits {
        let skips = Skips::new(p);
        Digits::new(p, (0..skips.rounds()).map(|k| skips.skip(k)))
    }

    /// Two digits of up to about `√p`: a step from row to row of ranks, and one within the [row].
    pub fn two(p: u32) -> Digits {
        Digits::new(p, [1, row(p)])
    }

    fn new(p: u32, weights: impl IntoIterator<Item = u32>) -> Digits {
        Digits {
            p,
            ways: Ways::among(p),
            weights: weights.into_iter().filter(|&weight| weight < p).collect(),
        }
    }

    /// How ranks are counted from each other.
    pub fn ways(&self) -> Ways {
        self.ways
    }

    /// The number of digits.
    pub fn levels(&self) -> u32 {
        self.weights.len() as u32
    }

    /// How far a step on this level reaches where its digit is 1.
    pub fn weight(&self, level: u32) -> u32 {
        self.weights[level as usize]
    }

    /// The largest digit of a level.
    pub fn largest(&self, level: u32) -> u32 {
        let next = self.weights.get(level as usize + 1).unwrap_or(&self.p);
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
        for &weight in self.weights.iter().rev() {
            steps += u32::from(rest >= weight);
            rest %= weight;
        }
        steps
    }

    /// How many distances, from `gone` on, are `gone` and digits of the levels below this one.
    pub fn distances_from(&self, gone: u32, level: u32) -> u32 {
        let (mut rest, mut len) = (gone, self.p);
        for &weight in self.weights[level as usize..].iter().rev() {
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
        let weights = |p| Digits::two(p).weights;
        assert_eq!(
            [1, 2, 3, 4, 8, 16, 36, 37].map(weights),
            [vec![], vec![1], vec![1, 2], vec![1, 2], vec![1, 4], vec![1, 4], vec![1, 6], vec![1, 7]]
        );
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
