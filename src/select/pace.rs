//! How far a run goes ahead, and in what pieces.
#![forbid(unsafe_code)]

use super::algorithm::is_on_ring;
use super::costs::{Costs, MANY};
use super::{Problem, STAGING};
use crate::algorithm::{Entry, Nesting};
use crate::collective::{Collective, Numbering};
use crate::engine::operation::Pace;
use crate::engine::run::LOOKAHEAD;
use crate::engine::staging::STAGES;

/// Rounds that a leader looks ahead beyond, so that its node's ranks do not hold up the network.
const BESIDE: u32 = 8;
/// The same where ranks share cores, and several of the network's rounds follow each other before one within the node:
/// these go ahead of their turn. With 8 nodes of 4 ranks on two cores a reduction of 1 MiB in eight parcels takes 1.05 of
/// the time with 8, 1.1 with 24.
const BESIDE_IN_CROWD: u32 = 2;
/// A staged piece is so large that a further one costs this share of its time on the link.
const PIECE_SHARE: f64 = 0.025;
/// Bytes of a staged piece, and of a put by turns, at least and at most. A leg that waits for all before it
/// gains nothing by small ones; in a leg of several blocks the last one tells when the next source may begin.
const PIECES: (u64, u64) = (8 << 10, 256 << 10);
const LEAST_OF_ONE: u64 = 64 << 10;
/// Puts by turns that make one in step: 16 ranks on two cores take 0.97 to 0.99 of the time by it.
const LONGER_IN_STEP: u64 = 4;
/// A block that is on the link for so many times a put's latency may wait for a word from its target.
const WORTH_A_WORD: f64 = 16.0;

impl Problem {
    /// How far a run of it goes ahead.
    pub fn pace(&self, entry: &Entry, blocks: u32, piece: usize, costs: &Costs) -> Pace {
        Pace { soon: self.is_done_soon(costs), ..self.pace_of_puts(entry, blocks, piece, costs) }
    }

    /// Whether it is short. Of an alltoallv nobody knows all bytes. Where ranks share nodes they had better sleep: 8 nodes
    /// of 4 ranks on two cores take 1.5 to 1.9 times as long for a barrier, or to reduce 4 KiB, if they offer their cores
    /// 64 times before; once was not measured.
    fn is_done_soon(&self, costs: &Costs) -> bool {
        let known = self.collective != Collective::Alltoallv;
        known && self.nodes.is_none() && self.is_on_the_link_for(1.0, costs)
    }

    /// The same, but for whether it is done soon.
    fn pace_of_puts(&self, entry: &Entry, blocks: u32, piece: usize, costs: &Costs) -> Pace {
        if entry.is_nested() {
            let bytes = self.seen_by(entry).largest / u64::from(blocks);
            let pace = pace(if piece == 0 { bytes } else { piece as u64 }, costs);
            // Rounds among leaders and within nodes take turns; those within wait for the others'.
            let levels = if entry.nesting == Nesting::Domains && self.nodes.is_some() { 3 } else { 2 };
            let beside = levels * self.leaders(entry);
            let further = if costs.crowd > 1.0 { BESIDE_IN_CROWD } else { BESIDE };
            let lookahead = beside.saturating_mul(pace.lookahead).saturating_add(further).min(LOOKAHEAD);
            return Pace { lookahead, ..pace };
        }
        match (self.collective.numbering(), piece) {
            (Numbering::Whole, _) if entry.pipelined => pace(self.bytes / u64::from(blocks), costs),
            // Nothing waits for anything: steps, or else turns, keep ranks from meeting at one target.
            (Numbering::Pairs, 0) => {
                let piece = self.longest(entry, costs).unwrap_or(usize::MAX) as u64;
                let pace = pace(piece.min(self.largest.max(1)), costs);
                match self.exchanges_in_step(entry, costs) {
                    true => Pace { welcome: self.may_wait_for_a_word(costs).then_some(1), ..pace },
                    false => Pace { turns: Some(1), ..pace },
                }
            }
            (_, 0) => pace(self.largest / u64::from(blocks), costs),
            (_, piece) if entry.scattered && self.is_one_ranks() => {
                pace((self.largest / u64::from(blocks)).min(piece as u64), costs)
            }
            (_, piece) => {
                let by_turns = entry.scattered && blocks > 1;
                Pace { turns: by_turns.then_some(1), ..pace(piece as u64, costs) }
            }
        }
    }

    /// Whether ranks keep in step: each puts a round's block after the arrival of the round before.
    pub fn is_in_step(&self, entry: &Entry, blocks: u32, costs: &Costs) -> bool {
        self.exchanges_in_step(entry, costs) || self.reduces_in_step(entry, blocks, costs)
    }

    /// In an all-to-all of parts of one size, so that no words about turns are needed; but for short blocks: these go in slots all
    /// at once, or by turns.
    ///
    /// A rank that is late by itself holds up nobody for longer than it is late. But whoever goes ahead of it takes half
    /// of its target's link, and makes it later still: where many ranks share a core, of which one is late now and
    /// then, the next source is not welcome before the one before it is through ([`Pace::welcome`]).
    fn exchanges_in_step(&self, entry: &Entry, costs: &Costs) -> bool {
        let direct = self.direct_piece(entry, costs).is_some();
        direct && self.collective == Collective::Alltoall && may_keep_step(self.mean(), costs)
    }

    /// In a reduction to one rank along the circulant graph, of blocks that travel in no slots, where many ranks share a core: a block
    /// to which a rank folds nothing would go ahead, and take half of its target's link from the one whose turn it is. Over 36 ranks
    /// on two cores 256 KiB and 1 MiB take 0.95 to 0.97 of the time in step, over 16 0.97 to 1.00. Not where ranks share nodes: what
    /// waits for nothing is shown in shared memory.
    fn reduces_in_step(&self, entry: &Entry, blocks: u32, costs: &Costs) -> bool {
        let to_one =
            matches!(self.collective, Collective::Reduce | Collective::ReduceScatter) && self.is_one_ranks();
        let along_the_graph = entry.pipelined && !is_on_ring(entry);
        costs.crowd > MANY
            && self.apart
            && to_one
            && along_the_graph
            && may_keep_step(self.largest / u64::from(blocks), costs)
            && !self.is_small(entry, blocks, costs)
    }

    fn may_wait_for_a_word(&self, costs: &Costs) -> bool {
        costs.crowd > MANY && self.mean() as f64 * costs.byte > WORTH_A_WORD * costs.latency
    }

    /// Whether one rank has most of it: then it is that rank's broadcast, or reduction.
    pub(super) fn is_one_ranks(&self) -> bool {
        self.largest > self.bytes / 2
    }

    /// The most bytes of a put into its place, where a larger one would keep words behind it waiting: acknowledgements,
    /// and by turns those about turns, which are many more. `None`: as the transport likes.
    pub fn longest(&self, entry: &Entry, costs: &Costs) -> Option<usize> {
        let piece = self.direct_piece(entry, costs)?;
        let puts = if self.exchanges_in_step(entry, costs) { LONGER_IN_STEP } else { 1 };
        Some((puts * piece).min(PIECES.1) as usize)
    }

    /// Bytes of a put by turns, where nothing waits for anything.
    fn direct_piece(&self, entry: &Entry, costs: &Costs) -> Option<u64> {
        let direct = self.collective.numbering() == Numbering::Pairs && !entry.scattered;
        direct.then(|| share_of_link(costs).clamp(PIECES.0, PIECES.1))
    }

    /// Bytes of a staged piece, a whole number of elements; 0 where nothing is staged.
    pub fn piece(&self, entry: &Entry, costs: &Costs) -> usize {
        if !entry.scattered && !self.collective.reduces() {
            return 0;
        }
        let room = STAGING / (u64::from(self.most_sources(entry).max(1)) * STAGES as u64);
        let most = if entry.digits.is_some() { room.min(self.bytes_of_leg(entry.span)) } else { room };
        let unit = self.unit.max(1);
        let least = if entry.scattered && !self.is_one_ranks() { PIECES.0 } else { LEAST_OF_ONE };
        let elements = share_of_link(costs).clamp(least, PIECES.1).min(most) / unit;
        (elements.max(1) * unit) as usize
    }

    /// Of how many ranks something may be staged.
    fn most_sources(&self, entry: &Entry) -> u32 {
        match entry.digits.map(|digits| digits(self.p)) {
            Some(digits) => (0..digits.levels()).map(|level| digits.largest(level)).sum(),
            None if entry.near => 2 * self.q(),
            None => self.p,
        }
    }
}

/// Whether a block is on the link for more than half of a hop, or two puts' latency.
fn may_keep_step(block: u64, costs: &Costs) -> bool {
    block as f64 * costs.byte > (costs.hop() / 2.0).min(2.0 * costs.latency)
}

/// Bytes of which a further put costs no more than a small share of their time on the link.
fn share_of_link(costs: &Costs) -> u64 {
    (costs.block / PIECE_SHARE / costs.byte) as u64
}

/// How far a run goes ahead: one put on the link and one behind it, and as many more as fit into the
/// time of a put's latency; `bytes` are those of a put.
///
/// Measured on the emulated cluster (manual, "Number of blocks"): where a block takes the link longer than
/// a round trip, every put beyond the second and every round beyond the next only disturbs the order of the others'.
pub fn pace(bytes: u64, costs: &Costs) -> Pace {
    let block = bytes as f64 * costs.byte;
    let more = (costs.latency / block.max(1e-12)).min(f64::from(LOOKAHEAD - 1)) as u32;
    Pace {
        in_flight: 2 + more,
        lookahead: 1 + more,
        turns: None,
        welcome: None,
        ahead: costs.in_slot() as usize,
        soon: false,
    }
}
