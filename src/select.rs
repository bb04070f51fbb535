//! Which algorithm, which path and how many blocks: from the call's signature and from what was measured, so that all
//! ranks choose alike.
#![forbid(unsafe_code)]

use crate::algorithm::{self, Entry, Nesting, Span};
use crate::collective::{Collective, Numbering};
use crate::engine::notice::MAX_BLOCKS;
use crate::engine::operation::Pace;
use crate::engine::run::LOOKAHEAD;
use crate::engine::slots::PAYLOAD;
use crate::engine::staging::STAGES;

/// What a put costs between two ranks of this job; the same numbers on every rank.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// Seconds from a put's start to its notice, whatever it carries, handshake included.
    pub latency: f64,
    /// Seconds a byte.
    pub byte: f64,
    /// Seconds that a further block costs: less than a put's latency, as most of that passes while other
    /// blocks are on the link.
    pub block: f64,
    /// Ranks that share a core, at least 1: what a message costs the processor, each of them pays in turn.
    pub crowd: f64,
}

impl Default for Costs {
    /// A fast network's: 2 µs a put, 10 GB/s.
    fn default() -> Self {
        Costs { latency: 2e-6, byte: 1e-10, block: 3e-7, crowd: 1.0 }
    }
}

/// The most bytes of a leg that travels in a slot.
pub const SMALL: u64 = PAYLOAD as u64;

/// The last block's size, in 256ths of the others' (see
/// [`Partition::short_last`](crate::plan::partition::Partition::short_last)): in a broadcast next to nothing, as
/// the rounds beyond the n-th carry no other block from the root; on a ring as much as the others.
pub fn last_block(entry: &Entry) -> u16 {
    if is_on_ring(entry) { 256 } else { 8 }
}

/// A further block's cost as a share of a put's latency: small, as most of the latency passes while
/// other blocks are on the link. Measured on the emulated cluster with 8, 16 and 36 ranks, where larger
/// blocks than this gives wait for each other (manual, "Number of blocks").
pub const BLOCK_SHARE: f64 = 0.2;

/// What each further message of an all-to-all costs, in terms of a block's cost and of the crowd that it makes
/// work. Measured on the emulated cluster with 8, 16 and 36 ranks on two cores.
const MESSAGE: f64 = 0.7;
/// Ranks to a core up to which they keep in step. Measured likewise: on the ring, parts of one size take 1.01 to
/// 1.06 times the link's bound from 256 KiB on, on the circulant graph 1.01 with 8 ranks, 1.02 to 1.1 with 16 and
/// 1.05 to 1.4 with 36.
const FEW: f64 = 2.0;
/// Ranks to a core beyond which processors, not links, are what a call waits for.
const MANY: f64 = 4.0;

/// In how many parcels a crowded node's leader hands on what it gets: the last one comes so much later than from
/// the network.
const PARCELS: u32 = 8;
/// Rounds that a leader looks ahead beyond, so that its node's ranks do not hold up the network.
const BESIDE: u32 = 8;

/// The algorithm in which leaders are on a ring.
const RING_OF_LEADERS: &str = "leader-ring";

/// As long as a further block costs less than this share of its time on the link, blocks are made smaller
/// than the model asks for: it knows nothing of blocks that meet at a receiver and wait for each other.
const CHEAP: f64 = 0.01;

/// Bytes that a block does not fall below unless it is told to: a packet, and a system call, are worth
/// about as much.
const SMALLEST: u64 = 7168;

/// A staged piece is so large that a further one costs this share of its time on the link.
const PIECE_SHARE: f64 = 0.025;
/// Bytes of a staged piece, and of a put by turns, at least and at most. A leg that waits for all before it
/// gains nothing by small ones; in a leg of several blocks the last one tells when the next source may begin.
const PIECES: (u64, u64) = (8 << 10, 256 << 10);
const LEAST_OF_ONE: u64 = 64 << 10;
/// Parts count as of one size where what they differ by costs less than this share of the time of all.
const EVEN: f64 = 0.02;
/// The most bytes that the staging slots of a call take, whatever its size.
pub const STAGING: u64 = 16 << 20;

/// The most bytes of the workspace in which the blocks of an all-to-all are handed on: `p (q + 1)` of them.
pub const RELAY: u64 = 8 << 20;

/// What a call is about, as far as the choice depends on it; the same on all ranks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Problem {
    /// What is done.
    pub collective: Collective,
    /// The number of ranks.
    pub p: u32,
    /// Bytes of an element.
    pub unit: u64,
    /// All bytes: of the vector, or of all parts together; of an all-to-all what one rank sends.
    pub bytes: u64,
    /// Bytes of the largest part (of the vector, where there are no parts).
    pub largest: u64,
    /// Bytes of the half that has most: of parts of half the ranks, one after another on the ring.
    pub half: u64,
    /// Whether `a ∘ b = b ∘ a`.
    pub commutes: bool,
    /// Whether short messages reach every rank without a handshake, and not only the neighbours.
    pub all_wide: bool,
    /// The nodes, where there are several and some have several ranks.
    pub nodes: Option<Nodes>,
}

/// A call as its nodes see it, each taken for one rank.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Nodes {
    /// How many.
    pub count: u32,
    /// Bytes of the largest node's parts together (of the vector, where there are no parts).
    pub largest: u64,
    /// Bytes of the half that has most; see [`Problem::half`].
    pub half: u64,
    /// Whether all have as many ranks.
    pub equal: bool,
}

impl Problem {
    fn q(&self) -> u32 {
        self.p.max(1).next_power_of_two().trailing_zeros()
    }

    /// The algorithms that may serve it.
    pub fn candidates(&self) -> impl Iterator<Item = &'static Entry> {
        let Problem { collective, p, commutes, all_wide, nodes, .. } = *self;
        let fits = all_wide && self.bytes_of_leg(Span::Whole) <= SMALL;
        let places = u64::from(p) * u64::from(self.q() + 1);
        let has_room = places.saturating_mul(self.largest) <= RELAY;
        algorithm::of(collective)
            .filter(move |entry| entry.fits(p) && (commutes || entry.ordered))
            .filter(move |entry| match entry.nesting {
                Nesting::None => true,
                Nesting::Any => nodes.is_some(),
                Nesting::Equal => nodes.is_some_and(|nodes| nodes.equal),
            })
            .filter(move |entry| (fits || !entry.exchanges) && (has_room || !entry.relays()))
    }

    /// The algorithm, where none is asked for: the catalogue's first, unless the model speaks for another.
    ///
    /// Where ranks share nodes, the network is crossed once a node: what the model says of the nodes' leaders
    /// counts, if there is an algorithm by leaders at all.
    pub fn algorithm(&self, costs: &Costs) -> Option<&'static Entry> {
        if let Some(among) = self.among_nodes()
            && let Some(entry) = self.by_leaders(among.flat(costs)?)
        {
            return Some(entry);
        }
        self.flat(costs)
    }

    /// The algorithm in which leaders do what this one does.
    fn by_leaders(&self, flat: &Entry) -> Option<&'static Entry> {
        let name = match flat {
            _ if flat.exchanges => "leader-doubling",
            _ if is_on_ring(flat) => RING_OF_LEADERS,
            _ => "leader",
        };
        let candidates = || self.candidates().filter(|entry| entry.nesting == Nesting::Any);
        candidates().find(|entry| entry.name == name).or_else(|| candidates().next())
    }

    /// The same call with each node for a rank.
    fn among_nodes(&self) -> Option<Problem> {
        self.nodes.map(|nodes| {
            let Nodes { count: p, largest, half, .. } = nodes;
            Problem { p, largest, half, nodes: None, ..*self }
        })
    }

    /// What an algorithm's blocks and pace follow from: the nodes' problem where it goes node by node.
    fn seen_by(&self, entry: &Entry) -> Problem {
        self.among_nodes().filter(|_| entry.is_nested()).unwrap_or(*self)
    }

    /// The algorithm among ranks of which none share a node, or where that makes no difference.
    fn flat(&self, costs: &Costs) -> Option<&'static Entry> {
        let better = match self.collective {
            Collective::Allreduce if self.doubling_pays(costs) => Some("recursive-doubling"),
            Collective::Allreduce if self.ring_pays(costs) => Some("ring"),
            Collective::Allgather
            | Collective::Allgatherv
            | Collective::ReduceScatter
            | Collective::ReduceScatterBlock => self.parts_algorithm(costs),
            Collective::Alltoall if self.relay_pays(costs) => Some("store-and-forward"),
            _ => None,
        };
        let candidates = || self.candidates().filter(|entry| !entry.is_nested());
        let named = candidates().find(|entry| Some(entry.name) == better);
        named.or_else(|| candidates().find(|entry| !entry.exchanges)).or(candidates().next())
    }

    /// The same for parts, where it is not whole parts on the circulant graph.
    fn parts_algorithm(&self, costs: &Costs) -> Option<&'static str> {
        if self.is_even() {
            return self.ring_pays(costs).then_some("ring");
        }
        if self.ring_of_blocks_pays(costs) {
            return Some("ring-n");
        }
        (self.blocks_of_parts(costs) > 1).then_some("circulant-n")
    }

    /// Whether the ring is faster than the circulant graph though it has more rounds: where ranks share cores,
    /// they are never quite in step, and at a new neighbour in each round one that is ahead meets one that is
    /// late; on the ring each follows the other. Not where a part is on the link for less than a hop takes.
    fn ring_pays(&self, costs: &Costs) -> bool {
        costs.crowd > FEW && self.bytes > SMALL && self.outlasts_a_hop(costs)
    }

    /// Whether a mean part is on the link for longer than a hop from rank to rank takes among so many.
    fn outlasts_a_hop(&self, costs: &Costs) -> bool {
        self.mean() as f64 * costs.byte > costs.latency * costs.crowd
    }

    /// The same for parts that differ, in blocks of a mean part's size: `p - 1` hops, and waits where the
    /// parts of neighbours are much longer than those of others, against what whole parts or blocks on the
    /// circulant graph cost beside their time on the link (see [`blocks_of_parts`](Self::blocks_of_parts)).
    fn ring_of_blocks_pays(&self, costs: &Costs) -> bool {
        let rounds = f64::from(self.q().saturating_sub(1));
        let whole = rounds * self.excess() as f64 * costs.byte;
        let in_blocks = 2.0 * (rounds * self.bytes as f64 * costs.byte * costs.latency).sqrt();
        let hops = f64::from(self.p - 1) * costs.latency;
        // The heaviest half of the ring passes, and then one block goes around the rest of it.
        let block = self.largest / u64::from(self.blocks_on_ring());
        let heaviest = self.half.saturating_add(u64::from(self.p / 2).saturating_mul(block));
        let waits = heaviest.saturating_sub(self.bytes) as f64 * costs.byte;
        self.outlasts_a_hop(costs) && hops + waits < whole.min(in_blocks)
    }

    /// Into how many blocks the largest part is cut on a ring: none is then much larger than a mean part, so
    /// that it never holds up the others by more than their time.
    fn blocks_on_ring(&self) -> u32 {
        let wanted = self.largest.div_ceil(self.mean().max(1));
        let most = (self.largest as f64 / SMALLEST as f64).round() as u64;
        wanted.min(most).clamp(1, MAX_BLOCKS.into()) as u32
    }

    fn mean(&self) -> u64 {
        self.bytes / u64::from(self.p.max(1))
    }

    /// By how much the largest part exceeds a mean one.
    fn excess(&self) -> u64 {
        self.largest.saturating_sub(self.mean())
    }

    /// Whether whole parts cost hardly more than parts of one size would.
    fn is_even(&self) -> bool {
        let rounds = f64::from(self.q().saturating_sub(1));
        self.excess() as f64 * rounds < EVEN * self.bytes as f64
    }

    /// Whether whole vectors in half the rounds are faster than parts in the least volume: for short ones.
    fn doubling_pays(&self, costs: &Costs) -> bool {
        let (q, m) = (f64::from(self.q()), self.bytes as f64 * costs.byte);
        let rounds = if self.p.is_power_of_two() { q } else { q + 1.0 };
        rounds * (costs.latency + m) < 2.0 * (q * costs.latency + m)
    }

    /// Whether blocks that are handed on in `q` rounds are faster than each by itself: for very short ones.
    fn relay_pays(&self, costs: &Costs) -> bool {
        let (q, m) = (f64::from(self.q()), self.bytes as f64 * costs.byte);
        let handed_on = q * (costs.latency + m / 2.0);
        let message = costs.block * costs.crowd * MESSAGE * many(costs);
        let others = f64::from(self.p.saturating_sub(1));
        let direct = costs.latency + others * message + m * others / f64::from(self.p.max(1));
        // Two and three ranks have as many rounds either way.
        q < others && handed_on < direct
    }

    /// How many blocks a vector, or each part, is cut into, where it is not told.
    pub fn blocks(&self, entry: &Entry, costs: &Costs, max_put: u64) -> u32 {
        if !entry.pipelined {
            return 1;
        }
        let problem = self.seen_by(entry);
        let blocks = match self.collective.numbering() {
            Numbering::Whole => problem.blocks_of_whole(costs, max_put),
            Numbering::Parts | Numbering::Pairs if is_on_ring(entry) => problem.blocks_on_ring(),
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
    fn blocks_of_whole(&self, costs: &Costs, max_put: u64) -> u32 {
        let q = self.q();
        let fewest = if self.bytes <= max_put { 1 } else { self.bytes / max_put + 2 };
        let best = if self.bytes <= SMALL || q < 2 { 1.0 } else { best(self.bytes, self.bytes, q, costs) };
        whole_phases((best.round() as u64).max(fewest), q)
    }

    /// The same for parts. Parts of one size want one block; where one rank has most, it is that rank's
    /// broadcast. In between a round costs a whole put's latency, as next to nothing of it passes while other
    /// blocks are on the link: nearly every round waits for the one before.
    fn blocks_of_parts(&self, costs: &Costs) -> u32 {
        let q = self.q();
        if self.bytes <= SMALL || q < 2 || self.is_even() {
            return 1;
        }
        if self.is_one_ranks() {
            return whole_phases(best(self.excess(), self.largest, q, costs).round() as u64, q);
        }
        // A leg has about as many bytes as all parts' blocks of one number.
        let most = (self.bytes as f64 / (SMALLEST as f64 * many(costs))) as u64;
        let beside = self.bytes as f64 * f64::from(q - 1) * costs.byte;
        let blocks = ((beside / costs.latency).sqrt().round() as u64).min(most);
        if blocks <= 2 * u64::from(q) { 1 } else { whole_phases(blocks, q) }
    }

    /// The most bytes of a leg of any rank.
    fn bytes_of_leg(&self, span: Span) -> u64 {
        let parts = u64::from(self.p);
        let part = match self.collective.numbering() {
            // Of the vector, in parts of whole elements.
            Numbering::Whole => (self.bytes / self.unit.max(1)).div_ceil(parts) * self.unit,
            Numbering::Parts | Numbering::Pairs => self.largest,
        };
        match span {
            Span::Part => part,
            Span::Half => part.saturating_mul(parts / 2),
            Span::Whole => part.saturating_mul(parts).min(self.bytes.max(part)),
        }
    }

    /// Whether all legs of an algorithm travel in slots; a vector in blocks does where it fits as a whole.
    pub fn is_small(&self, entry: &Entry) -> bool {
        let span = if entry.pipelined { Span::Whole } else { entry.span };
        let reached = entry.near || self.all_wide;
        reached && self.collective != Collective::Alltoallv && self.bytes_of_leg(span) <= SMALL
    }

    /// What comes to a node's leader in so many rounds is handed on together: where ranks share cores, to wake
    /// one costs more than its block, and the network is never as fast as what they share.
    pub fn chunk(&self, entry: &Entry, blocks: u32, costs: &Costs) -> u32 {
        if !entry.is_nested() || costs.crowd <= 1.0 {
            return 1;
        }
        let rounds = if is_on_ring(entry) { blocks * self.seen_by(entry).p } else { blocks };
        rounds.div_ceil(PARCELS)
    }

    /// How far a run of it goes ahead; see [`pace`].
    pub fn pace(&self, entry: &Entry, blocks: u32, piece: usize, costs: &Costs) -> Pace {
        if entry.is_nested() {
            let bytes = self.seen_by(entry).largest / u64::from(blocks);
            let Pace { in_flight, lookahead, turns } =
                pace(if piece == 0 { bytes } else { piece as u64 }, costs);
            // Rounds among leaders and within nodes take turns; those within wait for the others'.
            let lookahead = (2 * lookahead + BESIDE).min(LOOKAHEAD);
            return Pace { in_flight, lookahead, turns };
        }
        match (self.collective.numbering(), piece) {
            (Numbering::Whole, _) if entry.pipelined => pace(self.bytes / u64::from(blocks), costs),
            // Nothing waits for anything: steps, or else turns, keep ranks from meeting at one target.
            (Numbering::Pairs, 0) => {
                let piece = self.longest(entry, costs).unwrap_or(usize::MAX) as u64;
                let turns = (!self.is_in_step(entry, costs)).then_some(1);
                Pace { turns, ..pace(piece.min(self.largest.max(1)), costs) }
            }
            (_, 0) => pace(self.largest / u64::from(blocks), costs),
            (_, piece) => {
                let by_turns = entry.scattered && blocks > 1 && !self.is_one_ranks();
                Pace { turns: by_turns.then_some(1), ..pace(piece as u64, costs) }
            }
        }
    }

    /// Whether ranks keep in step by putting a round's block after the arrival of the round before, so that no
    /// words about turns are needed: in an all-to-all of parts of one size, unless many ranks share a core and
    /// parts are large. There one that is late would hold up more and more others, as whoever goes ahead of it
    /// takes half of its target's link. Blocks that are on the link for less than half of what a hop takes wait
    /// for nothing.
    pub fn is_in_step(&self, entry: &Entry, costs: &Costs) -> bool {
        let one_put = self.longest(entry, costs).is_some_and(|longest| self.largest <= longest as u64);
        let direct = self.collective == Collective::Alltoall && !entry.scattered;
        let longer = 2.0 * self.mean() as f64 * costs.byte > costs.latency * costs.crowd;
        direct && longer && (one_put || costs.crowd <= 2.0 * MANY)
    }

    /// Whether one rank has most of it: then it is that rank's broadcast, or reduction.
    fn is_one_ranks(&self) -> bool {
        self.largest > self.bytes / 2
    }

    /// The most bytes of a put into its place, where a larger one would keep words about turns and
    /// acknowledgements waiting behind it; `None`: as the transport likes.
    pub fn longest(&self, entry: &Entry, costs: &Costs) -> Option<usize> {
        let direct = self.collective.numbering() == Numbering::Pairs && !entry.scattered;
        direct
            .then(|| (costs.block / PIECE_SHARE / costs.byte) as usize)
            .map(|bytes| bytes.clamp(PIECES.0 as usize, PIECES.1 as usize))
    }

    /// Bytes of a staged piece, a whole number of elements; 0 where nothing is staged.
    pub fn piece(&self, entry: &Entry, costs: &Costs) -> usize {
        if !entry.scattered && !self.collective.reduces() {
            return 0;
        }
        let sources = if entry.near { 2 * self.q() } else { self.p };
        let most = STAGING / (u64::from(sources.max(1)) * STAGES as u64);
        let wanted = (costs.block / PIECE_SHARE / costs.byte) as u64;
        let unit = self.unit.max(1);
        let least = if entry.scattered { PIECES.0 } else { LEAST_OF_ONE };
        let elements = wanted.clamp(least, PIECES.1).min(most) / unit;
        (elements.max(1) * unit) as usize
    }
}

/// Of the lengths of parts around a ring, the most that half of them, one after another, have together. O(p).
pub fn half(counts: &[usize]) -> u64 {
    let (p, length) = (counts.len(), counts.len() / 2);
    let first: u64 = counts[..length].iter().map(|&count| count as u64).sum();
    let next = |sum: &mut u64, i: usize| {
        *sum = *sum + counts[(i + length) % p] as u64 - counts[i] as u64;
        Some(*sum)
    };
    (0..p).scan(first, next).max().unwrap_or(0)
}

/// Whether blocks follow each other on a ring, of ranks or of leaders.
fn is_on_ring(entry: &Entry) -> bool {
    entry.span == Span::Part || entry.name == RING_OF_LEADERS
}

/// How many times as much a message costs where many ranks share a core.
fn many(costs: &Costs) -> f64 {
    (costs.crowd / MANY).max(1.0)
}

fn best(bytes: u64, largest: u64, q: u32, costs: &Costs) -> f64 {
    let on_the_link = bytes as f64 * costs.byte;
    let by_the_model = (f64::from(q - 1) * on_the_link / costs.block).sqrt();
    by_the_model.max(on_the_link * CHEAP / costs.block).min((largest / SMALLEST) as f64)
}

/// How far a run goes ahead: one put on the link and one behind it, and as many more as fit into the
/// time of a put's latency; `bytes` are those of a put.
///
/// Measured on the emulated cluster (manual, "Number of blocks"): where a block takes the link longer than
/// a round trip, every put beyond the second and every round beyond the next only disturbs the order of the others'.
pub fn pace(bytes: u64, costs: &Costs) -> Pace {
    let block = bytes as f64 * costs.byte;
    let more = (costs.latency / block.max(1e-12)).min(f64::from(LOOKAHEAD - 1)) as u32;
    Pace { in_flight: 2 + more, lookahead: 1 + more, turns: None }
}

/// The next number of blocks of which the rounds are whole phases of q: `n - 1` is a multiple of q, and
/// no round is skipped before the first (Träff's x is 0).
fn whole_phases(blocks: u64, q: u32) -> u32 {
    let blocks = blocks.clamp(1, MAX_BLOCKS.into()) as u32;
    1 + (blocks - 1).next_multiple_of(q.max(1)).min(MAX_BLOCKS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: u64 = u64::MAX;

    fn whole(bytes: u64, p: u32) -> Problem {
        Problem {
            collective: Collective::Broadcast,
            p,
            unit: 1,
            bytes,
            largest: bytes,
            half: bytes,
            commutes: true,
            all_wide: true,
            nodes: None,
        }
    }

    fn parts(p: u32, counts: &[usize]) -> Problem {
        let bytes = counts.iter().sum::<usize>() as u64;
        let largest = *counts.iter().max().unwrap() as u64;
        Problem { collective: Collective::Allgatherv, bytes, largest, half: half(counts), ..whole(0, p) }
    }

    #[test]
    fn no_block_is_larger_than_a_put_may_be() {
        for p in [2, 3, 16, 1000] {
            let blocks = whole(10 << 30, p).blocks_of_whole(&Costs::default(), 1 << 20);
            assert!((10u64 << 30).div_ceil(blocks.into()) <= 1 << 20, "{p}: {blocks}");
        }
    }

    #[test]
    fn blocks_grow_with_the_root_of_the_size() {
        let costs = Costs { latency: 1e-5, byte: 1e-9, block: 1e-5, crowd: 1.0 };
        let blocks = |bytes| whole(bytes, 16).blocks_of_whole(&costs, FREE);
        assert_eq!(blocks(4096), 1);
        let (one, four) = (blocks(1 << 24), blocks(1 << 26));
        assert!(one > 10 && four > 2 * one - 4, "{one} {four}");
    }

    #[test]
    fn two_ranks_need_one_block() {
        assert_eq!(whole(1 << 30, 2).blocks_of_whole(&Costs::default(), FREE), 1);
        assert_eq!(whole(1 << 30, 1).blocks_of_whole(&Costs::default(), FREE), 1);
    }

    #[test]
    fn equal_parts_are_not_cut_and_one_rank_with_all_is_a_broadcast() {
        let costs = Costs { latency: 1e-5, byte: 1e-8, block: 1e-6, crowd: 1.0 };
        assert_eq!(parts(16, &[1 << 20; 16]).blocks_of_parts(&costs), 1);
        let mut one = [0; 16];
        one[3] = 16 << 20;
        let (part, vector) = (parts(16, &one).blocks_of_parts(&costs), whole(16 << 20, 16));
        let broadcast = vector.blocks_of_whole(&costs, FREE);
        assert!(part > broadcast * 9 / 10 && part <= broadcast, "{part} {broadcast}");
    }

    #[test]
    fn the_ring_is_for_crowds_and_for_parts_that_differ() {
        let alone = Costs { latency: 2e-5, byte: 1e-7, block: 5e-6, crowd: 1.0 };
        let crowd = Costs { crowd: 18.0, ..alone };
        let name = |counts: &[usize], costs| parts(36, counts).algorithm(costs).unwrap().name;
        let even = [30_000; 36];
        assert_eq!((name(&even, &alone), name(&even, &crowd)), ("circulant", "ring"));
        assert_eq!((name(&[1000; 36], &crowd), name(&[10; 36], &crowd)), ("circulant", "circulant"));
        let irregular: Vec<usize> = (0..36).map(|rank| rank % 3 * 30_000).collect();
        assert_eq!((name(&irregular, &alone), name(&irregular, &crowd)), ("ring-n", "ring-n"));
        let mut one = [0; 36];
        one[7] = 1 << 20;
        assert_eq!((name(&one, &alone), name(&one, &crowd)), ("circulant-n", "circulant-n"));
        let neighbours: Vec<usize> = (0..36).map(|rank| if rank < 6 { 180_000 } else { 0 }).collect();
        assert_eq!(name(&neighbours, &alone), "circulant-n");
        let problem = parts(36, &irregular);
        let (entry, blocks) = (problem.algorithm(&alone).unwrap(), problem.blocks_on_ring());
        assert_eq!((problem.blocks(entry, &alone, FREE), blocks, last_block(entry)), (2, 2, 256));
    }

    #[test]
    fn where_ranks_share_nodes_leaders_do_what_the_nodes_would() {
        let alone = Costs { latency: 2e-5, byte: 1e-7, block: 5e-6, crowd: 1.0 };
        let crowd = Costs { crowd: 16.0, ..alone };
        let on_nodes = |problem: Problem| {
            let nodes = Nodes { count: 8, largest: problem.bytes / 8, half: problem.bytes / 2, equal: true };
            Problem { nodes: Some(nodes), ..problem }
        };
        let allreduce = |bytes| on_nodes(Problem { collective: Collective::Allreduce, ..whole(bytes, 32) });
        let name = |problem: Problem, costs| problem.algorithm(costs).unwrap().name;
        assert_eq!(name(allreduce(8), &alone), "leader-doubling");
        assert_eq!(name(allreduce(4 << 20), &alone), "leader");
        assert_eq!(name(allreduce(4 << 20), &crowd), "leader-ring");
        assert_eq!(name(on_nodes(parts(32, &[100_000; 32])), &crowd), "leader-ring");
        let ordered = Problem { commutes: false, ..allreduce(4 << 20) };
        assert_eq!(name(ordered, &alone), "mst", "its order is the ranks'");

        let broadcast = on_nodes(whole(4 << 20, 32));
        let entry = broadcast.algorithm(&crowd).unwrap();
        let blocks = broadcast.blocks(entry, &crowd, FREE);
        assert_eq!((entry.name, blocks), ("leader", whole(4 << 20, 8).blocks_of_whole(&crowd, FREE)));
        assert_eq!(broadcast.chunk(entry, blocks, &alone), 1);
        assert_eq!(broadcast.chunk(entry, blocks, &crowd), blocks.div_ceil(PARCELS));
    }

    #[test]
    fn the_heaviest_half_is_found_wherever_it_begins() {
        assert_eq!((half(&[]), half(&[5]), half(&[1, 9]), half(&[4, 0, 0, 3])), (0, 0, 9, 7));
    }

    #[test]
    fn an_all_to_all_keeps_in_step_unless_large_parts_meet_in_a_crowd() {
        let costs = |crowd| Costs { latency: 2e-5, byte: 1e-7, block: 5e-6, crowd };
        let in_step = |collective, largest, crowd| {
            let problem = Problem { collective, largest, ..whole(36 * largest, 36) };
            problem.is_in_step(algorithm::named(collective, "ring").unwrap(), &costs(crowd))
        };
        assert!(in_step(Collective::Alltoall, 1 << 20, 1.0) && in_step(Collective::Alltoall, 7000, 18.0));
        assert!(!in_step(Collective::Alltoall, 30_000, 18.0) && !in_step(Collective::Alltoallv, 30_000, 1.0));
        assert!(!in_step(Collective::Alltoall, 100, 1.0), "short blocks wait for nothing");
    }

    #[test]
    fn blocks_are_handed_on_where_that_saves_messages_and_they_are_short() {
        let costs = Costs { latency: 2e-6, byte: 1e-10, block: 4e-7, crowd: 1.0 };
        let name = |p, largest| {
            let problem =
                Problem { collective: Collective::Alltoall, largest, ..whole(largest * u64::from(p), p) };
            problem.algorithm(&costs).unwrap().name
        };
        assert_eq!([1, 2, 3].map(|p| name(p, 8)), ["ring"; 3]);
        assert_eq!((name(64, 8), name(64, 1 << 20)), ("store-and-forward", "ring"));
    }

    #[test]
    fn blocks_of_all_parts_have_numbers_of_32_bits() {
        for p in [2, 1 << 14, 1 << 15, 100_000, 1 << 31] {
            let most = Problem { collective: Collective::Allgatherv, ..whole(1 << 60, p) }.most_blocks();
            assert!(most.checked_mul(p).is_some() && most > 0, "{p}: {most}");
        }
        assert_eq!(whole(1 << 60, 1 << 20).most_blocks(), MAX_BLOCKS);
    }

    #[test]
    fn short_vectors_are_exchanged_whole_and_long_ones_in_parts() {
        let costs = Costs { latency: 1e-4, byte: 1e-7, block: 1e-5, crowd: 1.0 };
        let by = |bytes, commutes| {
            let problem = Problem { collective: Collective::Allreduce, commutes, ..whole(bytes, 8) };
            problem.algorithm(&costs).unwrap()
        };
        assert_eq!(by(64, true).name, "recursive-doubling");
        assert!(!by(1 << 20, true).exchanges && by(1 << 20, false).ordered);
    }

    #[test]
    fn staging_is_bounded_and_pieces_are_whole_elements() {
        for (collective, unit) in
            [(Collective::Reduce, 12), (Collective::Allreduce, 7), (Collective::ReduceScatter, 100_000)]
        {
            let problem = Problem { collective, unit, ..whole(unit << 20, 1000) };
            for entry in problem.candidates() {
                let piece = problem.piece(entry, &Costs::default()) as u64;
                assert!(piece > 0 && piece.is_multiple_of(unit));
                assert!(piece == unit || piece * STAGES as u64 * 20 <= STAGING);
            }
        }
    }
}
