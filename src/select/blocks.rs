//! How many blocks, how they travel, and what goes on together.
#![forbid(unsafe_code)]

use super::algorithm::is_on_ring;
use super::costs::{Costs, MANY, many};
use super::{Problem, SMALL};
use crate::algorithm::{Entry, Span};
use crate::collective::{Collective, Numbering};
use crate::engine::notice::MAX_BLOCKS;
use crate::engine::slots::SLOTS;
use crate::plan::digits::row;

/// The most bytes of a vector whose small blocks travel in slots: no more blocks than most channels have slots.
const EAGER: u64 = SMALL * SLOTS as u64;

/// How much longer than a put's latency such a vector is on the link at most: beyond, what counts is how it is cut.
/// Two ranks in shared memory: see [`Costs::saved_by_slots`].
const QUICK: f64 = 8.0;

/// The most bytes of a vector that is not cut where ranks share cores; where they do not, and of leaders, 8 KiB. Measured on two
/// cores over 8 ranks: of 4 KiB four blocks take 1.5 of the time of one, of 5000 bytes 1.08, of 6000 0.81 and 0.94, of 8 KiB 0.55.
const WHOLE_IN_CROWD: u64 = 5 << 10;

/// The last block is as large as the others.
const EQUAL: u16 = 256;

/// In about how many parcels a crowded node's leader hands on what it gets, at least and at most: the last one comes
/// so much later than from the network, and a reduction's first one goes there so much later.
pub(super) const PARCELS: (u32, u32) = (8, 48);
/// Bytes of a vector that are worth a parcel. With 8 nodes of 4 ranks on two cores a reduction of 1 MiB takes 0.95 of
/// the time in 43 parcels that it takes in 8, a broadcast 0.99; a reduction of 64 KiB 1 to 1.14 of it block by block.
const PARCEL: u64 = 24 << 10;

/// As long as a further block costs less than this share of its time on the link, blocks are made smaller
/// than the model asks for: it knows nothing of blocks that meet at a receiver and wait for each other.
const CHEAP: f64 = 0.01;

/// Bytes that a block does not fall below unless it is told to, or a whole vector or part is hardly longer: a packet,
/// and a system call, are worth about as much.
pub(super) const SMALLEST: u64 = 7168;

/// The last block's size, in 256ths of the others' (see
/// [`Partition::short_last`](crate::plan::partition::Partition::short_last)): in a broadcast next to nothing, as
/// the rounds beyond the n-th carry no other block from the root; on a ring as much as the others.
pub fn last_block(entry: &Entry) -> u16 {
    if is_on_ring(entry) { EQUAL } else { 8 }
}

impl Problem {
    /// How many leaders a node, or what is taken for one, has: no more than ranks, and not several for what is
    /// small, and would be cut.
    pub fn leaders(&self, entry: &Entry) -> u32 {
        let several = entry.several_leaders && self.bytes > SMALL;
        let most = self.nodes_of(entry).filter(|_| several).map_or(1, |nodes| nodes.most);
        self.leaders.clamp(1, most.max(1))
    }

    /// How many blocks a vector, or each part, is cut into, where it is not told.
    pub fn blocks(&self, entry: &Entry, costs: &Costs, max_put: u64) -> u32 {
        if !entry.pipelined {
            return 1;
        }
        if let Some(blocks) = self.eager_blocks(entry, costs) {
            return blocks;
        }
        let problem = self.seen_by(entry);
        let blocks = match self.collective.numbering() {
            Numbering::Whole => {
                // Each leader's share is cut as a vector of its own.
                let leaders = self.leaders(entry);
                let bytes = problem.bytes.div_ceil(leaders.into());
                let share = Problem { bytes, largest: bytes, ..problem };
                share.blocks_of_whole(costs, max_put).saturating_mul(leaders)
            }
            Numbering::Parts | Numbering::Pairs if is_on_ring(entry) => problem.blocks_on_ring(costs),
            Numbering::Parts | Numbering::Pairs => problem.blocks_of_parts(costs),
        };
        blocks.min(self.most_blocks())
    }

    /// The most blocks that a vector, or each part, can be cut into: those of all parts have numbers of 32 bits.
    pub fn most_blocks(&self) -> u32 {
        match self.collective.numbering() {
            Numbering::Whole => MAX_BLOCKS,
            Numbering::Parts | Numbering::Pairs => MAX_BLOCKS.min(u32::MAX / self.p.max(1)),
        }
    }

    /// `m` bytes in `n` blocks take `(n - 1 + q) (c + b m / n)`, which is least for
    /// `n = √((q - 1) m b / c)` (Träff, Section 4 finds the same form by experiment).
    pub(super) fn blocks_of_whole(&self, costs: &Costs, max_put: u64) -> u32 {
        let fewest = if self.bytes <= max_put { 1 } else { self.bytes / max_put + 2 };
        let best = self.best_of_one(self.bytes, costs);
        whole_phases((best.round() as u64).max(fewest), self.q())
    }

    /// The same for the largest part, of which so many bytes are more than others have.
    fn best_of_one(&self, bytes: u64, costs: &Costs) -> f64 {
        let in_crowd = costs.block_in_crowd().filter(|_| !self.of_nodes);
        if self.bytes <= in_crowd.map_or(SMALL, |_| WHOLE_IN_CROWD) || self.q() < 2 {
            return 1.0;
        }
        let on_the_link = bytes as f64 * costs.byte;
        let where_one_costs = |block: f64| (f64::from(self.q() - 1) * on_the_link / block).sqrt();
        let by_the_model = where_one_costs(costs.block).max(on_the_link * CHEAP / costs.block);
        // Smaller than worth a packet only where that pays though all ranks of a core have to pay for each; leaders are fewer.
        let small_ones = match in_crowd {
            Some(block) => nearest_phases(where_one_costs(block), self.q()),
            None => phases_within(where_one_costs(costs.block * costs.crowd), self.q()),
        };
        let most = (self.largest / smallest_of_whole(costs)).max(small_ones);
        by_the_model.min(most.min(self.largest / self.unit.max(1)) as f64)
    }

    /// The same for parts. Parts of one size want one block; where one rank has most, it is that rank's
    /// broadcast. In between a round costs a whole put's latency, as next to nothing of it passes while other
    /// blocks are on the link: nearly every round waits for the one before.
    pub(super) fn blocks_of_parts(&self, costs: &Costs) -> u32 {
        let q = self.q();
        if self.is_one_ranks() {
            return whole_phases(self.best_of_one(self.excess(), costs).round() as u64, q);
        }
        if self.bytes <= SMALL || q < 2 || self.is_even() {
            return 1;
        }
        // A leg has about as many bytes as all parts' blocks of one number.
        let most = (self.bytes as f64 / (SMALLEST as f64 * many(costs))) as u64;
        let beside = self.bytes as f64 * f64::from(q - 1) * costs.byte;
        let blocks = ((beside / costs.latency).sqrt().round() as u64).min(most);
        if blocks > 2 * u64::from(q) {
            return whole_phases(blocks, q);
        }
        if self.phase_pays(costs) { 1 + q } else { 1 }
    }

    /// Whether parts in the blocks of one phase are faster than whole ones: what parts that differ cost beside the time
    /// of all on the link is inverse to the number of blocks, and each of `q` more rounds costs a put's latency. Not
    /// where processors are what a round waits for: over 16 ranks on two cores 64 KiB take 1.15 of the time by it.
    fn phase_pays(&self, costs: &Costs) -> bool {
        let q = f64::from(self.q());
        let saved = (q - 1.0) * self.excess() as f64 * costs.byte * q / (q + 1.0);
        costs.crowd <= MANY && q * costs.latency < saved
    }

    /// The most bytes of a leg of any rank.
    pub(super) fn bytes_of_leg(&self, span: Span) -> u64 {
        let parts = u64::from(self.p);
        let part = match self.collective.numbering() {
            // Of the vector, in parts of whole elements.
            Numbering::Whole => (self.bytes / self.unit.max(1)).div_ceil(parts) * self.unit,
            Numbering::Parts | Numbering::Pairs => self.largest,
        };
        match span {
            Span::Part => part,
            // Runs around the ring: of parts that differ, never the longest ones alone.
            Span::Half if self.collective.numbering() == Numbering::Parts => self.around.half,
            Span::Half => part.saturating_mul(parts / 2),
            Span::Row => part.saturating_mul(u64::from(row(self.p))),
            Span::Whole => part.saturating_mul(parts).min(self.bytes.max(part)),
        }
    }

    /// The most bytes of a vector that is not cut for slots: where two ranks share memory, a broadcast's that fits in one. Whole, 12
    /// and 16 KiB take 0.97 and 0.96 of what they take in two blocks, with new data 0.94 and 0.87, and 0.79 and 0.75 where they are
    /// [shown](crate::transport::Transport::rests), for which blocks are too short there (EPYC, lines near; where they are far, 0.77
    /// to 1.0; no other processor was measured). Reduced whole they would take 1.24 and 1.2.
    fn whole_in_slot(&self, costs: &Costs) -> u64 {
        let is_copied = costs.shared && self.p == 2 && self.collective == Collective::Broadcast;
        if is_copied { costs.in_slot() } else { SMALL }
    }

    /// In how many equal blocks a vector goes that is not small, and yet goes in slots: where these blocks
    /// cost less than what they save.
    fn eager_blocks(&self, entry: &Entry, costs: &Costs) -> Option<u32> {
        let whole = self.collective.numbering() == Numbering::Whole && entry.pipelined && !entry.is_nested();
        let quick = self.bytes as f64 * costs.byte < QUICK * costs.latency;
        if !(whole
            && quick
            && (self.whole_in_slot(costs) + 1..=EAGER).contains(&self.bytes)
            && (entry.near || self.all_wide))
        {
            return None;
        }
        let blocks = whole_phases(self.bytes.div_ceil(SMALL), self.q());
        let block = (self.bytes / self.unit.max(1)).div_ceil(blocks.into()) * self.unit;
        let pays = f64::from(blocks - 1) * costs.block < costs.saved_by_slots(self.p) * costs.latency;
        (pays && block <= SMALL).then_some(blocks)
    }

    /// The last block's size, in 256ths of the others', where there are so many. What was measured does not decide it where
    /// their number was `given`: by their bounds sums differ in rounding.
    pub fn last_block(&self, entry: &Entry, blocks: u32, given: bool, costs: &Costs) -> u16 {
        let equal = !entry.pipelined || !given && self.eager_blocks(entry, costs) == Some(blocks);
        if equal { EQUAL } else { last_block(entry) }
    }

    /// Whether all legs of an algorithm with so many blocks travel in slots: of a vector in blocks where it fits as
    /// a whole, or is cut into blocks that do.
    pub fn is_small(&self, entry: &Entry, blocks: u32, costs: &Costs) -> bool {
        if self.eager_blocks(entry, costs) == Some(blocks) {
            return true;
        }
        let span = if entry.pipelined { Span::Whole } else { entry.span };
        let reached = entry.near || self.all_wide;
        let fits = self.seen_by(entry).bytes_of_leg(span) <= costs.in_slot();
        reached && self.collective != Collective::Alltoallv && fits
    }

    /// What comes to a node's leader in so many rounds is handed on together: where ranks share cores, to wake
    /// one costs more than its block, and the network is never as fast as what they share.
    pub fn chunk(&self, entry: &Entry, blocks: u32, costs: &Costs) -> u32 {
        if !entry.is_nested() || costs.crowd <= 1.0 {
            return 1;
        }
        let of_each = blocks.div_ceil(self.leaders(entry));
        let rounds = if is_on_ring(entry) { of_each * self.seen_by(entry).p } else { of_each };
        rounds.div_ceil(self.parcels(entry))
    }

    /// In how many parcels, of whole rounds, a leader hands on what it gets.
    fn parcels(&self, entry: &Entry) -> u32 {
        match self.collective.numbering() {
            Numbering::Whole if !is_on_ring(entry) => {
                let share = self.bytes / u64::from(self.leaders(entry));
                (share / PARCEL).clamp(PARCELS.0.into(), PARCELS.1.into()) as u32
            }
            _ => PARCELS.0,
        }
    }
}

/// Bytes that a block of a vector, or of the one part that has most, does not fall below: less than [`SMALLEST`], as a
/// pipeline is filled and emptied by such blocks, where these are on the link for longer than a put takes and not too
/// many ranks share a core. On the emulated cluster 256 KiB over 16 ranks take 0.98 of the time in 49 blocks that they
/// take in 37, to reduce them likewise; over 36 ranks, 18 to a core, 1.01 to 1.03.
fn smallest_of_whole(costs: &Costs) -> u64 {
    let long = SMALLEST as f64 * costs.byte > costs.latency;
    if long && costs.crowd <= 2.0 * MANY { SMALLEST * 3 / 4 } else { SMALLEST }
}

/// The number of blocks of which the rounds are [whole phases](whole_phases) that is off by the least factor: by it twice as many
/// cost as much as half of them.
fn nearest_phases(blocks: f64, q: u32) -> u64 {
    let below = phases_within(blocks, q);
    let above = below + u64::from(q);
    if blocks * blocks < below as f64 * above as f64 { below } else { above }
}

/// The last such number that is no greater, or 1.
fn phases_within(blocks: f64, q: u32) -> u64 {
    let before = (blocks as u64).saturating_sub(1);
    1 + before - before % u64::from(q)
}

/// The next number of blocks of which the rounds are whole phases of q: `n - 1` is a multiple of q, and
/// no round is skipped before the first (Träff's x is 0).
fn whole_phases(blocks: u64, q: u32) -> u32 {
    let blocks = blocks.clamp(1, MAX_BLOCKS.into()) as u32;
    1 + (blocks - 1).next_multiple_of(q.max(1)).min(MAX_BLOCKS - 1)
}
