//! The schedules of all ranks at once, for collectives in which every rank is a root.
//!
//! A row is a round. What the ranks receive in round `k` falls into runs, because it depends on a rank's digits
//! from `k` on only (see `receive`): ranks below `skip[k]` take from the upper end of the circle, ranks from
//! there to `skip[k + 1]` take their own baseblock, and after each larger skip the row begins anew, as in the
//! graph with that many ranks, and then goes on as it went below. So a row is made of copies of itself, plus
//! for each digit `j` the stretch of the upper end of the graph with `skip[j]` ranks, for which Algorithm 6 is
//! carried out on whole parts of the ranks instead of on single ones.
//!
//! Send schedules are the same rows, shifted by the skip, and are not kept.
//!
//! The decision: rows, not ranks, lie together, since a collective with all ranks as roots reads one round of
//! all of them; and so nearly every byte is written by a copy or a fill.

use std::ops::Range;

use super::Skips;
use super::part::Part;
use super::receive::receive;
use crate::rank::Rank;

/// What all ranks receive and send in each round of a phase: `p * q` bytes.
///
/// O(p log p) to make, a few nanoseconds a rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    skips: Skips,
    /// Round by round, the blocks that ranks `0..p` receive.
    receive: Vec<i8>,
}

impl Table {
    /// The schedules of all ranks.
    pub fn new(skips: &Skips) -> Self {
        let (p, q) = (skips.processes() as usize, skips.rounds());
        let mut receive = vec![0; p * q as usize];
        for k in 0..q {
            let (before, from_k) = receive.split_at_mut(p * k as usize);
            let mut row = Row { skips, k, blocks: &mut from_k[..p] };
            row.begin(before);
            (k + 1..q).for_each(|digit| row.extend(digit));
        }
        Table { skips: *skips, receive }
    }

    /// The skips of the same graph.
    #[inline]
    pub fn skips(&self) -> &Skips {
        &self.skips
    }

    /// The block that comes to `rank` in round `k < q`.
    #[inline]
    pub fn receive(&self, rank: Rank, k: u32) -> i32 {
        i32::from(self.round(k)[rank as usize])
    }

    /// The block that goes from `rank` in round `k < q`.
    #[inline]
    pub fn send(&self, rank: Rank, k: u32) -> i32 {
        self.receive(self.skips.to(rank, k), k)
    }

    /// The blocks that come to all ranks, in their order, in round `k < q`.
    #[inline]
    pub fn round(&self, k: u32) -> &[i8] {
        let p = self.skips.processes() as usize;
        &self.receive[p * k as usize..][..p]
    }
}

/// The row of one round, while it is made from the left.
struct Row<'t> {
    skips: &'t Skips,
    k: u32,
    blocks: &'t mut [i8],
}

impl Row<'_> {
    /// Ranks `0..skip[k + 1]`, given the rows before.
    fn begin(&mut self, rows_before: &[i8]) {
        let (near, far) = (self.skip(self.k), self.skip(self.k + 1));
        self.upper_end(self.skips.rounds(), 0);
        self.blocks[near] = self.k as i8;
        // The baseblock of `skip[k] + x` is that of `x`, and round `j` brings theirs to `skip[j]..skip[j + 1]`.
        for (j, row) in (0..self.k).zip(rows_before.chunks_exact(self.blocks.len())) {
            let (start, stop) = (self.skip(j), self.skip(j + 1).min(far - near));
            if start < stop {
                self.blocks[near + start..near + stop].copy_from_slice(&row[start..stop]);
            }
        }
    }

    /// Ranks `skip[digit]..skip[digit + 1]`, given those before.
    fn extend(&mut self, digit: u32) {
        let (start, stop) = (self.skip(digit), self.skip(digit + 1));
        let (near, far) = (start + self.skip(self.k), start + self.skip(self.k + 1));
        self.upper_end(digit, start);
        let block = self.block(digit);
        self.blocks[near..far.min(stop)].fill(block);
        if far < stop {
            self.blocks.copy_within(self.skip(self.k + 1)..stop - start, far);
        }
    }

    /// The first `skip[k]` ranks of the graph with `skip[digit]` ranks, which take from its upper end, into the
    /// row from `at` on.
    fn upper_end(&mut self, digit: u32, at: usize) {
        let end = self.skip(digit);
        if self.k == 0 {
            self.blocks[at] = self.block(self.skips.baseblock(end as Rank - 1));
            return;
        }
        let stretch = Stretch { graph: self.skips.prefix(digit), first: end - self.skip(self.k), at };
        self.fill(&stretch, 0..end, digit, digit);
    }

    /// What the ranks in `part`, which begins with the block of `hop`, send in round `k`, with all rounds from
    /// `level` on already gone through.
    fn fill(&mut self, stretch: &Stretch, part: Range<usize>, hop: u32, level: u32) {
        if part.end <= stretch.first {
            return;
        }
        if level == self.k + 1 {
            return self.fill_halves(stretch, part, hop);
        }
        let middle = part.start + self.skip(level - 1);
        self.fill(stretch, part.start..middle.min(part.end), hop, level - 1);
        if middle < part.end {
            self.fill(stretch, middle..part.end, level - 1, level - 1);
        }
    }

    /// The same with round `k` next: a run on either side of the middle, and the middle itself rank by rank.
    fn fill_halves(&mut self, stretch: &Stretch, part: Range<usize>, hop: u32) {
        let skip = self.skip(self.k);
        let middle = part.start + skip;
        let below = part.end.saturating_sub(skip).clamp(part.start, part.end);
        let above = (middle + 1).clamp(below, part.end);
        self.fill_run(stretch, part.start..below, hop);
        for sender in below.max(stretch.first)..above {
            let place = (sender - part.start) as i64;
            let half = Part { place, end: part.len() as i64, block: self.block(hop) };
            self.blocks[stretch.receiver(sender)] = self.near_middle(stretch, sender, half);
        }
        self.fill_run(stretch, above..part.end, self.k);
    }

    fn fill_run(&mut self, stretch: &Stretch, senders: Range<usize>, hop: u32) {
        let start = senders.start.max(stretch.first);
        if start < senders.end {
            let receivers = stretch.receiver(start)..stretch.receiver(senders.end);
            let block = self.block(hop);
            self.blocks[receivers].fill(block);
        }
    }

    /// What one rank near the middle of its part sends.
    fn near_middle(&self, stretch: &Stretch, sender: usize, part: Part) -> i8 {
        if part.is_unsure(self.skips, self.k) {
            let receiver = (sender - stretch.first) as Rank;
            let block = receive(&stretch.graph, receiver).blocks[self.k as usize];
            block + stretch.graph.rounds() as i8 - self.skips.rounds() as i8
        } else {
            part.half(self.skip(self.k) as i64, self.block(self.k)).block
        }
    }

    /// The block of the phase before that has the number of a skip.
    fn block(&self, hop: u32) -> i8 {
        hop as i8 - self.skips.rounds() as i8
    }

    fn skip(&self, k: u32) -> usize {
        self.skips.skip(k) as usize
    }
}

/// The upper end of a graph, whose ranks from `first` on put beyond the root.
struct Stretch {
    graph: Skips,
    first: usize,
    /// Where the row has the root, to which `first` puts.
    at: usize,
}

impl Stretch {
    fn receiver(&self, sender: usize) -> usize {
        self.at + sender - self.first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Schedule;
    use proptest::prelude::*;

    fn agrees_with_single_ranks(p: u32, step: usize) {
        let skips = Skips::new(p);
        let table = Table::new(&skips);
        for rank in (0..p).step_by(step).chain([p - 1]) {
            let schedule = Schedule::new(&skips, rank);
            for k in 0..skips.rounds() {
                let both = (table.receive(rank, k), table.send(rank, k));
                assert_eq!(both, (schedule.receive(k), schedule.send(k)), "p {p}, rank {rank}, round {k}");
            }
        }
    }

    #[test]
    fn the_table_has_every_rank_s_own_schedule() {
        (1..=1200).for_each(|p| agrees_with_single_ranks(p, 1));
    }

    #[test]
    fn large_tables_have_them_too() {
        for p in [4097, 65_535, 65_536, 262_145, 700_001] {
            agrees_with_single_ranks(p, 7);
        }
    }

    #[test]
    fn a_round_is_a_row_of_the_table() {
        let table = Table::new(&Skips::new(9));
        assert_eq!(table.round(1), [-3, -2, 1, -4, -3, -2, -2, -1, -4]);
        assert_eq!(table.round(3), [-4, -1, -1, -1, -1, 3, 0, 1, 2]);
    }

    proptest! {
        #[test]
        fn a_random_table_has_its_ranks_schedules(p in 1..60_000u32) {
            agrees_with_single_ranks(p, 13);
        }
    }
}
