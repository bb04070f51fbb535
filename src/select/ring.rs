//! How parts lie around the ring of ranks, and what it costs to hand them on there in blocks.
#![forbid(unsafe_code)]

use super::Problem;
use super::blocks::SMALLEST;
use super::costs::{Costs, many};
use crate::engine::notice::MAX_BLOCKS;

/// How often the fewest blocks are doubled at most: into 32 times as many.
const CUTS: usize = 6;

/// Parts as they lie around the ring of ranks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Around {
    /// Bytes of the half that has most: of parts of half the ranks, one after another.
    pub half: u64,
    /// How many parts are not empty; 0 where none is to be cut.
    pub(super) filled: u32,
    /// The numbers of blocks to choose from, from the fewest on.
    cuts: [Cut; CUTS],
}

/// Each part in so many blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Cut {
    blocks: u32,
    /// Bytes that pass after all parts could have: see [`lags`].
    lag: u64,
}

impl Around {
    /// Parts of as many elements of `unit` bytes as `counts` says. O(p).
    pub fn parts(counts: &[usize], unit: u64) -> Around {
        let mean = counts.iter().sum::<usize>() as u64 * unit / (counts.len() as u64).max(1);
        let largest = counts.iter().max().map_or(0, |&most| most as u64);
        let filled = counts.iter().filter(|&&count| count > 0).count() as u32;
        let blocks = numbers_of_blocks(largest * unit, mean);
        let lags = lags(counts, blocks.map(|blocks| largest as f64 / f64::from(blocks)));
        let cut = |k: usize| Cut { blocks: blocks[k], lag: (lags[k] * unit as f64) as u64 };
        Around { half: half(counts) * unit, filled, cuts: std::array::from_fn(cut) }
    }

    /// Where parts are of one size, or there are none: nothing is gained by cutting them.
    pub fn uncut(half: u64) -> Around {
        Around { half, filled: 0, cuts: [Cut { blocks: 1, lag: 0 }; CUTS] }
    }
}

impl Problem {
    /// Into how many blocks each part is cut on a ring.
    pub(super) fn blocks_on_ring(&self, costs: &Costs) -> u32 {
        self.cut(costs).blocks
    }

    /// Whether a ring of blocks is faster for parts that differ: `p - 1` hops, and what passes after all parts could
    /// have, against what whole parts or blocks on the circulant graph cost beside their time on the link
    /// (see [`blocks_of_parts`](Self::blocks_of_parts)).
    pub(super) fn ring_of_blocks_pays(&self, costs: &Costs) -> bool {
        let rounds = f64::from(self.q().saturating_sub(1));
        let whole = rounds * self.excess() as f64 * costs.byte;
        let in_blocks = 2.0 * (rounds * self.bytes as f64 * costs.byte * costs.latency).sqrt();
        let hops = f64::from(self.others()) * costs.latency;
        let waits = self.cut(costs).lag as f64 * costs.byte;
        self.outlasts_a_hop(costs) && hops + waits < whole.min(in_blocks)
    }

    /// The cut whose lag and messages cost least. What a message costs is fitted: on the emulated cluster 12 µs with 8
    /// ranks on two cores, where a block is thought to cost 10, with 16 ranks 20 to 40 and with 36 some 120, where
    /// it is thought to cost 6.
    fn cut(&self, costs: &Costs) -> Cut {
        let message = costs.block * many(costs).powi(2);
        let takes = |cut: &Cut| {
            let messages = f64::from(self.around.filled) * f64::from(cut.blocks);
            cut.lag as f64 * costs.byte + messages * message
        };
        let cuts = self.around.cuts;
        // More blocks fill links that wait. Over 4 ranks on two cores the ring takes as long for 16 MiB in shared memory
        // with 3 as with 24, and longer than the circulant graph.
        let choice = if costs.copies_outlast_links() { 1 } else { CUTS };
        cuts.into_iter().take(choice).min_by(|a, b| takes(a).total_cmp(&takes(b))).unwrap_or(cuts[0])
    }
}

/// At first so many that no block is longer than a mean part, so that what goes around in one piece never
/// holds up the others by more than their time; then twice as many each time, while blocks are long enough.
fn numbers_of_blocks(largest: u64, mean: u64) -> [u32; CUTS] {
    let most = ((largest as f64 / SMALLEST as f64).round() as u64).clamp(1, MAX_BLOCKS.into());
    let fewest = largest.div_ceil(mean.max(1)).clamp(1, most);
    let doublings = (most / fewest).ilog2();
    std::array::from_fn(|k| (fewest << doublings.min(k as u32)) as u32)
}

/// How much longer than all parts together the last of a ring's links is busy, by the largest part's blocks: of several
/// lengths at one time, all in elements.
///
/// What a rank gets from beyond the k ranks before it crosses k links, one block behind the other, while those links
/// have the k ranks' own parts to fill the time. So it comes late by k blocks less these parts and the
/// rank's own, which it need not get. Short and empty parts one after another make most of that: a run of k + 1 with
/// the greatest excess of k blocks over its parts. Exact where all parts are cut into as many blocks: over 7 and 13
/// ranks of which two neighbours have nothing, it tells what the ring takes with 3 to 9 blocks to 1.5 % of the whole.
fn lags(counts: &[usize], blocks: [f64; CUTS]) -> [f64; CUTS] {
    let mut runs = blocks.map(|_| Runs::default());
    for &count in counts {
        runs.iter_mut().zip(blocks).for_each(|(runs, block)| runs.add(block - count as f64));
    }
    std::array::from_fn(|k| (runs[k].most_around() - blocks[k]).max(0.0))
}

/// Sums of numbers one after another, while these come one by one.
#[derive(Clone, Copy, Default)]
struct Runs {
    all: f64,
    most: f64,
    least: f64,
    most_to_here: f64,
    least_to_here: f64,
}

impl Runs {
    fn add(&mut self, number: f64) {
        self.all += number;
        self.most_to_here = number.max(self.most_to_here + number);
        self.least_to_here = number.min(self.least_to_here + number);
        self.most = self.most.max(self.most_to_here);
        self.least = self.least.min(self.least_to_here);
    }

    /// The greatest sum of any run around the ring: one that passes the end leaves out a run within.
    fn most_around(&self) -> f64 {
        self.most.max(self.all - self.least)
    }
}

/// Of the lengths of parts around a ring, the most that half of them, one after another, have together. O(p).
fn half(counts: &[usize]) -> u64 {
    let (p, length) = (counts.len(), counts.len() / 2);
    let first: u64 = counts[..length].iter().map(|&count| count as u64).sum();
    let next = |sum: &mut u64, i: usize| {
        *sum = *sum + counts[(i + length) % p] as u64 - counts[i] as u64;
        Some(*sum)
    };
    (0..p).scan(first, next).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// When the last link is free again, where each rank hands on part by part, one block after the other.
    fn simulated(counts: &[usize], blocks: u32) -> f64 {
        let p = counts.len();
        let mut free = vec![0.0_f64; p];
        let mut arrived = vec![vec![0.0_f64; blocks as usize]; p];
        for hop in 0..p - 1 {
            // Who has an origin's part this time gives it to the next.
            for (origin, arrived) in arrived.iter_mut().enumerate() {
                let free = &mut free[(origin + hop) % p];
                for arrived in arrived.iter_mut().filter(|_| counts[origin] > 0) {
                    *free = free.max(*arrived) + counts[origin] as f64 / f64::from(blocks);
                    *arrived = *free;
                }
            }
        }
        free.into_iter().fold(0.0, f64::max)
    }

    proptest! {
        #[test]
        fn the_last_block_passes_when_the_lag_says(
            counts in prop::collection::vec(prop_oneof![Just(0), 0..9_usize, Just(40)], 2..24),
            blocks in 1..20_u32,
        ) {
            let all = counts.iter().sum::<usize>() as f64;
            let largest = *counts.iter().max().unwrap() as f64;
            let lag = lags(&counts, [largest / f64::from(blocks); CUTS])[0];
            let late = (simulated(&counts, blocks) - all).max(0.0);
            prop_assert!((lag - late).abs() < 1e-6, "{} simulated, {} told", late, lag);
        }
    }

    #[test]
    fn blocks_are_a_packet_s_worth_and_of_a_mean_part_s_length_at_most() {
        assert_eq!(numbers_of_blocks(0, 0), [1; CUTS]);
        assert_eq!(numbers_of_blocks(3 * SMALLEST, 10), [3; CUTS]);
        assert_eq!(numbers_of_blocks(30 * SMALLEST, 10 * SMALLEST), [3, 6, 12, 24, 24, 24]);
        assert_eq!(numbers_of_blocks(1 << 40, 1 << 39), [2, 4, 8, 16, 32, 64]);
        assert_eq!(numbers_of_blocks(u64::MAX, 1), [MAX_BLOCKS; CUTS]);
    }

    #[test]
    fn parts_in_elements_are_as_parts_in_bytes() {
        let counts = [0, 3000, 6000, 0, 3000, 6000, 0];
        assert_eq!(Around::parts(&counts, 8), Around::parts(&counts.map(|count| 8 * count), 1));
        assert_eq!(Around::parts(&counts, 8).half, 8 * 9000);
        assert_eq!(Around::parts(&[], 8), Around::uncut(0));
    }

    #[test]
    fn the_heaviest_half_is_found_wherever_it_begins() {
        assert_eq!((half(&[]), half(&[5]), half(&[1, 9]), half(&[4, 0, 0, 3])), (0, 0, 9, 7));
    }
}
