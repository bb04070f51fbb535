//! Which algorithm.
#![forbid(unsafe_code)]

use super::costs::{COPY, Costs, HANDSHAKE};
use super::{Nodes, Problem, SMALL};
use crate::algorithm::{Entry, Nesting, Span};
use crate::collective::Collective;
use crate::engine::call::HEAD;
use crate::plan::digits::Digits;

/// What a message of an all-to-all costs where ranks have cores of their own, in terms of a block's cost: assumed.
const MESSAGE: f64 = 0.7;
/// Bytes that each message has on the link besides its own: its head, and a network's, which is assumed.
const ENVELOPE: f64 = HEAD as f64 + 44.0;
/// A hop within a node, as a share of a put's latency between nodes: on the quickest networks; on others less.
const WITHIN: f64 = 0.25;
/// By how much it must be thought faster to be taken: what a copy, a hop within a node, and a message of ranks
/// with cores of their own cost is assumed, not measured.
const MARGIN: f64 = 1.2;
/// How often an all-to-all by leaders copies all of a rank's blocks: into its workspace, to who speaks of them, and
/// out again. What a rank has heard of it copies besides.
const COPIES: f64 = 3.0;
/// Ranks to a core up to which they keep in step. Measured likewise: on the ring, parts of one size take 1.01 to
/// 1.06 times the link's bound from 256 KiB on, on the circulant graph 1.01 with 8 ranks, 1.02 to 1.1 with 16 and
/// 1.05 to 1.4 with 36.
const FEW: f64 = 2.0;
/// Hops of which a part takes the time on the link, from which on it goes straight between the root and its rank where
/// ranks share cores. By a tree the root has fewer messages: over 8 and 16 ranks on two cores parts of up to 4 KiB take 0.87
/// to 1.02 of the time for a scatter, 0.95 to 1.07 for a gather; a scatter of longer ones up to 1.2. They are on the link for two to
/// four hops, by what a put was measured to cost. Of fewer ranks to a core nothing was measured.
const STRAIGHT: f64 = 3.0;
/// How many ranks' parts, however short, are collected straight where ranks share cores and no memory: over 8 ranks on two cores
/// parts of 128 B to 4 KiB take 0.93 to 1.0 of the time by a tree, over 16 0.94 to 1.05, one as often as the other.
const COLLECTED_STRAIGHT: u32 = 8;
/// What being out of step costs on the circulant graph, as a share of the time on the link, by the ranks to a core to the power of
/// 1.5: fitted. Over 8 ranks on two cores the ring takes 1.06 to 1.12 of the circulant graph's time for 16 KiB, 1.02
/// to 1.06 for 32, 0.91 to 0.96 for 64, and 0.97 to 1 from 128 on; over 16 ranks 1.08 to 1.46 for 32 KiB, and 0.75 to 1.02 for 64.
const ASTRAY: f64 = 0.0048;

/// What a round of small messages takes where ranks share cores, in terms of a [hop](Costs::hop): fitted, over
/// TCP. Over 8, 16 and 36 ranks on two cores an allreduce of whole vectors of 1 and 2 KiB takes 0.5 to 0.8 of the time
/// of one of parts, of 4 KiB 0.7 to 0.95, of 8 KiB 1.1 to 1.7.
const EXCHANGE: f64 = 0.6;

/// Ranks to a core beyond which words go by a tree in shared memory, where one costs little: fitted, on two cores. A
/// barrier of 16 ranks takes 1.0 to 1.4 of the time by it, of 20 and 24 0.7 to 1.1, of 33 half.
const CROWDED: f64 = 10.0;

/// Where ranks that share memory share cores, too, vectors of more than a slot and up to so many bytes go by the tree:
/// more ranks of it run at a time than of the circulant graph, where each waits for others in every round. Measured on two
/// cores: of 64 KiB over 3 to 16 ranks a broadcast takes 0.4 to 1.0 of the time, an allreduce 0.55 to 1.05.
const BY_TREE: u64 = 64 << 10;
/// The same [where cores have enough to do](Problem::keeps_cores_busy). Measured on two, builds in turns, over 3 to 32 ranks, slices
/// and windows: a broadcast of 128 and 256 KiB takes 0.3 to 0.97 of the time (a cell of 1.09), a reduce of 256 KiB to 1 MiB 0.45 to
/// 1.0, of 4 MiB 0.52 to 1.01; an allreduce of 128 KiB 0.44 to 0.93 over 10 ranks and more, of windows 1.3 and more over 4 and 8.
const BROADCAST_BY_TREE: u64 = 256 << 10;
const REDUCED_BY_TREE: u64 = 4 << 20;
const ALLREDUCED_BY_TREE: u64 = 128 << 10;
/// Ranks to a core beyond which an allreduce is taken to be as over those 10 ranks.
const SEVERAL: f64 = 4.0;
/// And where [very many](CROWDED) share a core. Over 24 and 32 ranks 1 MiB takes 0.35 to 0.93 of the time for a broadcast, for an
/// allreduce of slices 0.66 to 0.87, of windows, which the choice cannot tell from these, 1.07 to 1.29; parts of 128 and 256 KiB
/// in all take 0.6 to 0.94 for a reduce_scatter, for an allgather(v) 0.54 to 1.18, in the mean 0.85.
const WHOLE_IN_A_CROWD: u64 = 1 << 20;
const PARTS_IN_A_CROWD: u64 = 256 << 10;

/// How many ranks share memory, and cores, where a vector that goes through slots goes straight from a broadcast's root to all.
const FROM_ONE: std::ops::RangeInclusive<u32> = 4..=16;
/// The same of a reduce, straight to its root.
const TO_ONE: std::ops::RangeInclusive<u32> = 5..=32;

/// Bytes up to which calls that leave something with every rank go by the tree in a network: see [`Problem::by_tree`].
const LEFT_BY_TREE: u64 = 4 << 10;
/// And hops that they may take on the link.
const HOPS_BY_TREE: f64 = 1.5;

/// The tree's name in the catalogue.
const TREE: &str = "mst";

/// The name of what goes straight between the root and all.
const LINEAR: &str = "linear";

/// The name of recursive doubling and halving of parts.
const HYPERCUBE: &str = "hypercube";

/// The name of parts in blocks on the circulant graph.
const IN_BLOCKS: &str = "circulant-n";

/// Parts that differ are not cut where ranks share memory and at most so many cores, at least so many ranks each, from more
/// than a slot's worth up to so many bytes that are reduced, or gathered: as far as it was measured.
const WHOLE_ON_CORES: f64 = 2.0;
const WHOLE_BY_RANKS: f64 = 2.0;
const REDUCED_WHOLE: u64 = 4 << 20;
const GATHERED_WHOLE: u64 = 64 << 10;
/// Bytes up to which parts that differ do not go in aligned halves where ranks share memory, and cores.
const EXCHANGED_LATE: u64 = 64 << 10;

/// The algorithm in which leaders are on a ring.
const RING_OF_LEADERS: &str = "leader-ring";

impl Problem {
    /// The algorithm, where none is asked for: the catalogue's first, unless the model speaks for another.
    ///
    /// Where ranks share nodes, the network is crossed once a node: what the model says of the nodes' leaders
    /// counts, if there is an algorithm by leaders at all. The borders of a node's domains are crossed once where the
    /// user says so, as nobody has measured from when on that pays; not by what is small, which is no bytes to speak
    /// of, and would come later by the rounds.
    pub fn algorithm(&self, costs: &Costs) -> Option<&'static Entry> {
        self.by_nodes(costs)
            .or_else(|| self.straight(costs))
            .or_else(|| self.by_tree(costs))
            .or_else(|| self.flat(costs))
    }

    /// The algorithm by domains or leaders, where one of them pays.
    fn by_nodes(&self, costs: &Costs) -> Option<&'static Entry> {
        let by_leaders = || self.by_leaders(self.among_nodes()?.flat(costs)?);
        self.by_domains().or_else(|| by_leaders().filter(|entry| self.leaders_pay(entry, costs)))
    }

    /// The algorithm of a call that is told its number of blocks, which a tree does not take.
    pub fn algorithm_in_blocks(&self, blocks: u32, costs: &Costs) -> Option<&'static Entry> {
        self.by_nodes(costs).or_else(|| self.flat_in_blocks(blocks, costs))
    }

    /// The same among ranks: where parts may differ, the choice of whole ones hangs on what was measured, and what a call
    /// may ask for does not.
    fn flat_in_blocks(&self, blocks: u32, costs: &Costs) -> Option<&'static Entry> {
        let flat = self.flat(costs)?;
        if blocks <= 1 || flat.pipelined || !self.collective.has_counts() {
            return Some(flat);
        }
        self.candidates().find(|entry| entry.name == IN_BLOCKS).or(Some(flat))
    }

    /// The tree up and down, of short calls that leave something with every rank, where processors are what all wait for:
    /// it has 2 (p - 1) messages, where others have p in each of q rounds. On the emulated cluster 64 B to 1 KiB take, over
    /// 8, 16 and 36 ranks on two cores, in an allreduce 0.6 of the time of recursive doubling, in an allgather 0.55 to
    /// 0.95, 0.45 to 0.8 and 0.5 to 0.6 of the circulant graph's, in a reduce_scatter 0.5 to 0.75; 4 KiB over 16 and 36
    /// ranks 0.4 to 0.8, over 8 up to 1.8. By the clock 1 to 4 KiB take 0.90 to 1.01 over 8, 0.66 to 0.96 over 16, and 8 KiB
    /// 1.4 to 3.1. A broadcast has as many messages either way, but follows the edges of a [barrier] before it: it takes 0.2
    /// to 0.6.
    ///
    /// In shared memory so where [very many](CROWDED) share a core: 24 and 33 ranks on two cores take, of 256 B to 64 KiB,
    /// for an allreduce 0.4 to 0.9 of the time, an allgather 0.6 to 1.0, a reduce_scatter 0.65 to 0.95, a broadcast 0.02 to
    /// 0.4; and of what is said at [`BY_TREE`].
    fn by_tree(&self, costs: &Costs) -> Option<&'static Entry> {
        use Collective::{
            Allgather, Allgatherv, Allreduce, Broadcast, Reduce, ReduceScatter, ReduceScatterBlock,
        };
        let for_all = match self.collective {
            Broadcast | Allreduce => true,
            Allgather | Allgatherv | ReduceScatter | ReduceScatterBlock => !self.few_have_parts(costs),
            _ => false,
        };
        let short = self.bytes <= LEFT_BY_TREE && self.is_on_the_link_for(HOPS_BY_TREE, costs);
        let apart = for_all && short && crowds_network(self.apart, costs);
        let most = self.most_by_tree(costs);
        let is_whole = matches!(self.collective, Broadcast | Allreduce | Reduce);
        let packed = costs.shared && self.bytes <= most && (for_all || is_whole) && costs.crowd > CROWDED;
        let shared =
            costs.shares_cores_and_memory() && is_whole && (costs.in_slot() + 1..=most).contains(&self.bytes);
        self.candidates().find(|entry| (apart || packed || shared) && entry.name == TREE)
    }

    /// The most bytes that go by the tree where ranks share memory, and cores.
    fn most_by_tree(&self, costs: &Costs) -> u64 {
        match (self.collective, costs.crowd > CROWDED) {
            _ if !self.keeps_cores_busy(costs) => BY_TREE,
            (Collective::Reduce, _) => REDUCED_BY_TREE,
            (Collective::Broadcast | Collective::Allreduce, true) => WHOLE_IN_A_CROWD,
            (_, true) => PARTS_IN_A_CROWD,
            (Collective::Broadcast, false) => BROADCAST_BY_TREE,
            (Collective::Allreduce, false) if costs.crowd > SEVERAL => ALLREDUCED_BY_TREE,
            _ => BY_TREE,
        }
    }

    /// Whether the tree's longest way, of `q` vectors one after the other, takes no longer than what each core has to do for
    /// its ranks, of a vector each: on more cores only with more ranks. Rounded, as on two cores it was measured to pay always, so
    /// for 3 ranks, too. A communicator is taken to have its ranks' part of the world's cores.
    fn keeps_cores_busy(&self, costs: &Costs) -> bool {
        f64::from(self.q()) <= costs.crowd.round()
    }

    /// Straight from a broadcast's root to all, or to a reduce's from all, where ranks share memory, and cores, and a vector
    /// goes through slots: whoever is on the way has to be woken first. Measured on two cores, 1 and 8 KiB, builds in turns: over 8
    /// and 16 ranks a broadcast takes 0.48 to 0.84 of the time, over 4, 6 and 12 0.57 to 1.39, in the mean 0.97; a reduce over 6 to
    /// 32 0.13 to 1.18, in the mean 0.7.
    fn straight(&self, costs: &Costs) -> Option<&'static Entry> {
        let few = match self.collective {
            Collective::Broadcast => FROM_ONE.contains(&self.p) && costs.crowd <= CROWDED,
            Collective::Reduce => TO_ONE.contains(&self.p),
            _ => false,
        };
        let pays = |entry: &Entry| few && costs.shares_cores_and_memory() && self.is_small(entry, 1, costs);
        self.candidates().find(|entry| entry.name == LINEAR && pays(entry))
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

    /// The algorithm that goes by domains, where the user has said so.
    fn by_domains(&self) -> Option<&'static Entry> {
        let wanted = self.domains.is_some_and(|domains| domains.wanted) && self.bytes > SMALL;
        self.candidates().find(|entry| wanted && entry.nesting == Nesting::Domains)
    }

    /// Whether leaders are faster where they save messages only, as no byte crosses twice without them, either: of
    /// parts that are handed out or collected, but where these then need a handshake, and else not, or are long; of an
    /// all-to-all where the model says so.
    fn leaders_pay(&self, leader: &Entry, costs: &Costs) -> bool {
        match self.collective {
            _ if self.is_rooted_in_parts() => {
                let small = |entry| self.is_small(entry, 1, costs);
                !self.outlasts_a_hop(costs) && (small(leader) || !self.flat(costs).is_some_and(small))
            }
            Collective::Alltoall => self.speakers_pay(leader, costs),
            _ => true,
        }
    }

    /// Whether an all-to-all with a message for each pair of nodes is faster than any in which ranks speak for
    /// themselves: for short blocks, as each is copied more often, and hops twice more, within its nodes.
    fn speakers_pay(&self, leader: &Entry, costs: &Costs) -> bool {
        let Some(nodes) = self.nodes else { return false };
        let within = 2 * (nodes.most - 1);
        let turns = (nodes.count - 1).div_ceil(nodes.most);
        let among = if nodes.equal { turns } else { nodes.count - 1 };
        let handshake = if self.is_small(leader, 1, costs) { 0.0 } else { HANDSHAKE };
        let hops = (1.0 + handshake + 2.0 * WITHIN) * costs.latency;
        // Of few nodes few ranks speak, each of more than its own blocks.
        let spoken_of = nodes.largest as f64 * f64::from(turns);
        let copies = (COPIES * self.bytes as f64 + spoken_of) * COPY * costs.crowd;
        let messages = f64::from(within + among) * message(costs);
        let takes = hops + messages + self.link_takes(self.others(), among, costs) + copies;
        let handed_on = self.handed_on().map(|(entry, digits)| self.handed_on_takes(entry, digits, costs));
        handed_on.chain([self.direct_takes(costs)]).all(|alone| takes * MARGIN < alone)
    }

    /// The algorithm among ranks of which none share a node, or where that makes no difference.
    pub(super) fn flat(&self, costs: &Costs) -> Option<&'static Entry> {
        let better = match self.collective {
            Collective::Allreduce if self.doubling_pays(costs) => Some("recursive-doubling"),
            Collective::Allreduce if self.ring_pays(costs) => Some("ring"),
            Collective::Allgather
            | Collective::Allgatherv
            | Collective::ReduceScatter
            | Collective::ReduceScatterBlock => self.parts_algorithm(costs),
            Collective::Alltoall => self.by_others(costs),
            _ if self.goes_straight(costs) || self.goes_straight_in_memory(costs) => Some(LINEAR),
            _ => None,
        };
        let candidates = || self.candidates().filter(|entry| !entry.is_nested());
        let named = candidates().find(|entry| Some(entry.name) == better);
        named.or_else(|| candidates().find(|entry| !entry.exchanges)).or(candidates().next())
    }

    /// The same for parts, where it is not whole parts on the circulant graph.
    pub(super) fn parts_algorithm(&self, costs: &Costs) -> Option<&'static str> {
        let few = self.few_have_parts(costs);
        if self.is_even() && !few {
            let exchanged = || self.exchanges_pay(costs).then_some(HYPERCUBE);
            return self.ring_pays(costs).then_some("ring").or_else(exchanged);
        }
        if self.parts_stay_whole(costs) {
            return self.halves_pay(costs).then_some(HYPERCUBE);
        }
        if self.ring_of_blocks_pays(costs) {
            return Some("ring-n");
        }
        if few || self.blocks_of_parts(costs) > 1 {
            return Some(IN_BLOCKS);
        }
        self.halves_pay(costs).then_some(HYPERCUBE)
    }

    /// Whether parts that differ are not cut, as processors are what all wait for, and each block wakes somebody: where
    /// ranks share memory and one core or two. Measured on two cores, whole parts for what was taken before: over 4 to 16
    /// ranks a reduce_scatter of which one rank gets all takes 0.52 to 0.98 of the time (64 KiB to 4 MiB; one cell of 16
    /// 1.12), with every third part empty 0.54 to 1.0 (four of 16 up to 1.16); in the mean over these ranks an allgatherv of
    /// 64 KiB 0.87 and 0.98, of 256 KiB and 1 MiB of one rank's data 1.1, which stay in blocks. More cores would share the work on blocks, which was
    /// not measured. A communicator is taken to have its ranks' part of the world's cores.
    fn parts_stay_whole(&self, costs: &Costs) -> bool {
        let cores = f64::from(self.p) / costs.crowd;
        let crowded = self.p > 3 && costs.crowd >= WHOLE_BY_RANKS && cores <= WHOLE_ON_CORES;
        let most = if self.collective.reduces() { REDUCED_WHOLE } else { GATHERED_WHOLE };
        costs.shared && crowded && (costs.in_slot() + 1..=most).contains(&self.bytes)
    }

    /// Whether whole parts that differ had better go in runs that begin at multiples of their length, as powers of two of
    /// ranks can: of all runs of parts around the ring, which the circulant graph has, some have more bytes. With every
    /// third part empty and every third a double one an allgatherv and a reduce_scatter take, on the emulated cluster, over
    /// 4 ranks 0.8 to 0.86 of the time, over 8, 16 and 32 0.8 to 0.99, of 4 KiB up to 1.03 (2 to 64 KiB). Where ranks share memory, and cores, so of
    /// 256 KiB and more; of 16 and 64 KiB it takes up to 1.45, as who exchanges waits for one and the same rank.
    fn halves_pay(&self, costs: &Costs) -> bool {
        let short_in_memory = costs.shares_cores_and_memory() && self.bytes <= EXCHANGED_LATE;
        self.p.is_power_of_two() && self.excess() > 0 && !short_in_memory
    }

    /// Whether parts of one size had better be exchanged than handed around: powers of two of ranks have as many rounds and
    /// bytes either way, but a partner's data bring the word, too, that one's own have come, which otherwise are a packet more.
    /// Over TCP, on two cores, 4 to 32 KiB take 0.97 to 1.01 of the circulant graph's time over 8 ranks, over 16 0.87 to 1.01; 64 KiB,
    /// for which [a ring](Self::ring_pays) is taken there, 0.95 to 1.01, and 1.04 to 1.05 of the ring's.
    fn exchanges_pay(&self, costs: &Costs) -> bool {
        self.p.is_power_of_two() && crowds_network(self.apart, costs)
    }

    /// Whether so few ranks have a part that leaving out the others' saves messages: whole parts of all travel in `q`
    /// messages a rank, with something in them or not. Of 1 KiB that one of 8 ranks on two cores has an allgatherv takes
    /// 0.69 to 0.79 of the time, a reduce_scatter 0.71 to 0.75. Where all of it fits a slot, as of more ranks than two nothing else
    /// was measured; of two, windows in shared memory, 32 KiB to 1 MiB take 0.90 to 1.0 and 0.88 to 1.0, and in a network it is an
    /// empty message less.
    fn few_have_parts(&self, costs: &Costs) -> bool {
        let as_measured = self.p == 2 || self.bytes <= costs.in_slot();
        (1..=self.q()).contains(&self.around.filled) && as_measured
    }

    /// Whether the ring is faster than the circulant graph though it has more rounds: where ranks share cores,
    /// they are never quite in step, and at a new neighbour in each round one that is ahead meets one that is
    /// late; on the ring each follows the other. Not where a part is on the link for less than a hop takes, nor where
    /// processors copy for longer than links carry: 16 ranks that share memory take 1.3 to 2 times as long on the ring up to 1 MiB.
    fn ring_pays(&self, costs: &Costs) -> bool {
        let further_rounds = f64::from(self.others().saturating_sub(self.q()));
        let astray = self.on_the_link(costs) * ASTRAY * costs.crowd * costs.crowd.sqrt();
        let pays = astray > further_rounds * costs.latency && !costs.copies_outlast_links();
        costs.crowd > FEW && self.bytes > SMALL && self.outlasts_a_hop(costs) && pays
    }

    /// Whether parts that are handed out or collected go straight between the root and their ranks: where they are long
    /// the root's link is what all wait for, and a part that goes by other ranks comes later for it. And so where few are
    /// collected by ranks that share cores and no memory, without a handshake for each: who is on the way has to have its core
    /// first.
    fn goes_straight(&self, costs: &Costs) -> bool {
        let hops = if costs.crowd > 1.0 { STRAIGHT } else { 1.0 };
        let few = self.gathers() && self.p <= COLLECTED_STRAIGHT && crowds_network(self.apart, costs);
        self.is_rooted_in_parts() && (few && self.all_wide || self.outlasts_hops(hops, costs))
    }

    /// The same where ranks share memory, and cores: nobody waits for a link, and who is on the way has to be woken first.
    /// Measured on two cores, of 256 B to 256 KiB: over 4 to 33 ranks a gather takes 0.06 to 0.95 of the time by a tree, a
    /// scatter 0.06 to 0.95, but for a cell of each (1.1 and 1.2); of short parts of very many, which the root writes one by one meanwhile, up to 4 times it.
    fn goes_straight_in_memory(&self, costs: &Costs) -> bool {
        let writes_many = self.scatters() && costs.crowd > CROWDED && self.bytes <= SMALL;
        self.is_rooted_in_parts() && costs.shares_cores_and_memory() && self.p > 3 && !writes_many
    }

    /// Whether one rank has the parts of all, before or after.
    pub(super) fn is_rooted_in_parts(&self) -> bool {
        self.scatters() || self.gathers()
    }

    fn scatters(&self) -> bool {
        matches!(self.collective, Collective::Scatter | Collective::Scatterv)
    }

    fn gathers(&self) -> bool {
        matches!(self.collective, Collective::Gather | Collective::Gatherv)
    }

    /// Whether whole vectors in half the rounds are faster than parts in the least volume: for short ones.
    fn doubling_pays(&self, costs: &Costs) -> bool {
        let (q, m) = (f64::from(self.q()), self.bytes as f64 * costs.byte);
        let rounds = if self.p.is_power_of_two() { q } else { q + 1.0 };
        let hop = costs.latency.max(EXCHANGE * costs.hop());
        rounds * (hop + m) < 2.0 * (q * hop + m)
    }

    /// The name of the algorithm by which blocks are handed on, where that is faster than each by itself: for short ones. Not
    /// where ranks share memory, and cores: of 256 B to 64 KiB it takes 1.2 to 2.8 times as long, over 3 to 33 ranks on two.
    fn by_others(&self, costs: &Costs) -> Option<&'static str> {
        // Two and three ranks have as many rounds either way.
        if self.q() >= self.others() || costs.shares_cores_and_memory() {
            return None;
        }
        let takes =
            self.handed_on().map(|(entry, digits)| (entry.name, self.handed_on_takes(entry, digits, costs)));
        let least = takes.min_by(|(_, one), (_, other)| one.total_cmp(other));
        least.filter(|&(_, takes)| takes < self.direct_takes(costs)).map(|(name, _)| name)
    }

    /// The algorithms by which an all-to-all's blocks are handed on among all ranks, and by which digits. Where ranks share nodes
    /// leaders save messages likewise; by two digits was not measured there.
    fn handed_on(&self) -> impl Iterator<Item = (&'static Entry, Digits)> {
        let measured = |entry: &&Entry| entry.near || self.apart;
        self.candidates().filter(measured).filter_map(|entry| Some((entry, (entry.digits?)(self.p))))
    }

    /// Seconds of an all-to-all in which each block goes digit by digit of its distance, and is copied in and out on each level.
    fn handed_on_takes(&self, entry: &Entry, digits: Digits, costs: &Costs) -> f64 {
        let copies = self.bytes as f64 * COPY * costs.crowd;
        let are_small = self.is_small(entry, 1, costs);
        let level_takes = |level| self.step_takes(digits.largest(level), are_small, costs) + copies;
        (0..digits.levels()).map(level_takes).sum()
    }

    /// Seconds of an all-to-all in which each block goes by itself.
    fn direct_takes(&self, costs: &Costs) -> f64 {
        let are_small = self.candidates().any(|entry| entry.name == "ring" && self.is_small(entry, 1, costs));
        self.step_takes(self.others(), are_small, costs)
    }

    /// Seconds in which a rank puts all but an equal share of its blocks, in so many messages, a share in each: while one is on the link
    /// processors see to others. Where they do not fit slots each waits for a word, and its target makes that.
    fn step_takes(&self, messages: u32, are_small: bool, costs: &Costs) -> f64 {
        let (words, handshake) = if are_small { (1.0, 0.0) } else { (2.0, HANDSHAKE) };
        let made = words * f64::from(messages) * message(costs);
        (1.0 + handshake) * costs.latency + self.link_takes(messages, messages, costs).max(made)
    }

    /// Seconds for which so many shares, of one more that are equal, are on a link, in so many messages. The ranks of a node have one
    /// link; what they put to each other straight does not go by it.
    fn link_takes(&self, shares: u32, messages: u32, costs: &Costs) -> f64 {
        let ranks = self.nodes.map_or(1.0, |Nodes { most, .. }| {
            f64::from(most) * f64::from(self.p.saturating_sub(most)) / f64::from(self.others().max(1))
        });
        let bytes = self.bytes as f64 * f64::from(shares) / f64::from(shares + 1);
        ranks * (bytes + f64::from(messages) * ENVELOPE) * costs.byte
    }
}

/// What a message of an all-to-all costs: where ranks share cores a put's latency for each other rank of its core. So what is least
/// takes 1.02 of the time of the fastest algorithm in the mean, and 1.2 at most: without leaders, 8, 16 and 36 ranks on two cores over
/// TCP, 1 to 96 KiB (manual, "All-to-all").
fn message(costs: &Costs) -> f64 {
    (MESSAGE * costs.block).max(costs.latency * (costs.crowd - 1.0))
}

/// The algorithm of a barrier: node by node where it is to be `nested`; by a tree where ranks share cores, and either no
/// memory (they are `apart`) or so many a core that a message costs much there, too: processors are what all wait for,
/// and a tree has fewer messages. On the emulated cluster it takes 0.75 of the time over 8 ranks on two cores, 0.55 over 16
/// and 0.3 over 36; and ranks leave it so much closer together that a scatter of 1 KiB after it took 0.15 to 0.3 of the
/// time over 8 and 16 when all of them offered their cores for long.
pub fn barrier(nested: bool, apart: bool, costs: &Costs) -> &'static str {
    let crowded = crowds_network(apart, costs) || costs.shared && costs.crowd > CROWDED;
    match (nested, crowded) {
        (true, _) => "leader",
        (false, true) => TREE,
        (false, false) => "circulant",
    }
}

/// Whether ranks share cores, several each, and are `apart` from each other but for these: then processors are what all wait
/// for, and who has fewer messages is done first.
fn crowds_network(apart: bool, costs: &Costs) -> bool {
    apart && costs.crowd > FEW
}

/// Whether blocks follow each other on a ring, of ranks or of leaders.
pub(super) fn is_on_ring(entry: &Entry) -> bool {
    entry.span == Span::Part || entry.name == RING_OF_LEADERS
}
