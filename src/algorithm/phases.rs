//! The rounds of a circulant broadcast as phases of `q` rounds, and what a schedule's entry means in each.

use std::ops::Range;

/// `n` blocks in phases of `q` rounds (Algorithm 1): round `i` is round `k` of a phase.
#[derive(Debug, Clone, Copy)]
pub(super) struct Phases {
    q: u32,
    blocks: u32,
    /// Rounds that the algorithm skips before the first, so that the last phase is a whole one.
    empty: u32,
}

impl Phases {
    /// Of `blocks` blocks, at least 1, on a graph of `q` rounds.
    pub fn new(q: u32, blocks: u32) -> Self {
        let blocks = blocks.max(1);
        Phases { q, blocks, empty: if q == 0 { 0 } else { (q - (blocks - 1) % q) % q } }
    }

    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// The number of rounds.
    pub fn rounds(&self) -> u32 {
        if self.q == 0 { 0 } else { self.blocks - 1 + self.q }
    }

    /// The rounds in which every entry of the schedules becomes a block number, if it ever does: entries
    /// are at least -q.
    pub fn first(&self) -> Range<u32> {
        0..self.rounds().min(3 * self.q)
    }

    /// The last `q` rounds: each round of a phase once more, with its highest block.
    pub fn last(&self) -> Range<u32> {
        self.rounds().saturating_sub(self.q)..self.rounds()
    }

    /// The round of the phase (which skip, which entry of the schedules) and the number of the phase.
    #[inline]
    pub fn of(&self, i: u32) -> (u32, u32) {
        let i = i + self.empty;
        (i % self.q, i / self.q)
    }

    /// The round that is round `k` of a phase; none where that is skipped, or beyond the last.
    #[inline]
    pub fn round(&self, k: u32, phase: u32) -> Option<u32> {
        (phase * self.q + k).checked_sub(self.empty).filter(|&i| i < self.rounds())
    }

    /// What an entry of a schedule means in a phase: no block below 0, the last one beyond the end.
    #[inline]
    pub fn block(&self, entry: i32, phase: u32) -> Option<u32> {
        let block = i64::from(entry) - i64::from(self.empty) + i64::from(self.q) * i64::from(phase);
        u32::try_from(block).ok().map(|block| block.min(self.blocks - 1))
    }

    /// Whether every entry is a block in this phase, and so in those after it.
    #[inline]
    pub fn is_full(&self, phase: u32) -> bool {
        self.block(-(self.q as i32), phase).is_some()
    }

    /// A block's number as if no round had been skipped: modulo q it is its schedule entry.
    #[inline]
    pub fn shifted(&self, block: u32) -> u32 {
        block + self.empty
    }
}
