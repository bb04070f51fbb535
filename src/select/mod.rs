//! Which algorithm, which path and how many blocks: from the call's signature and from what a put costs, so that all
//! ranks choose alike.
#![forbid(unsafe_code)]

mod algorithm;
mod blocks;
mod costs;
mod pace;
mod ring;

use crate::algorithm::{self as catalogue, Entry, Nesting, Span, stopovers};
use crate::collective::Collective;
use crate::plan::layout::places_for_relay;

pub use algorithm::barrier;
pub use blocks::last_block;
pub use costs::{Costs, PutCosts};
pub use ring::Around;

/// The most bytes of a leg that travels in a slot whatever the network; on slow ones, and where all ranks
/// share memory, it is all that a slot takes ([`PAYLOAD`](crate::engine::slots::PAYLOAD)).
pub const SMALL: u64 = 8192;

/// The most bytes of the workspace in which the blocks of an all-to-all are handed on.
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
    /// How the parts lie around the ring.
    pub around: Around,
    /// Whether `a ∘ b = b ∘ a`.
    pub commutes: bool,
    /// Whether short messages reach every rank without a handshake, and not only the neighbours.
    pub all_wide: bool,
    /// Whether no two ranks share a node.
    pub apart: bool,
    /// Whether nodes are taken for ranks.
    pub of_nodes: bool,
    /// The nodes, where there are several and some have several ranks.
    pub nodes: Option<Nodes>,
    /// The domains of nodes, where there are such of several ranks.
    pub domains: Option<Divided>,
    /// How many leaders a node is to have, at least 1; it may have fewer ranks.
    pub leaders: u32,
}

/// A call as those see it who go by the domains of nodes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Divided {
    /// Each node taken for one rank; of one node, each domain.
    pub nodes: Nodes,
    /// Whether the user has said to go by them.
    pub wanted: bool,
}

/// A call as its nodes see it, each taken for one rank.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Nodes {
    /// How many.
    pub count: u32,
    /// The ranks of the largest.
    pub most: u32,
    /// Bytes of the largest node's parts together (of the vector, where there are no parts); of an all-to-all what
    /// all ranks of such a node have for all of another.
    pub largest: u64,
    /// How the nodes' parts lie around the ring.
    pub around: Around,
    /// Whether all have as many ranks.
    pub equal: bool,
}

/// Parts count as of one size where what they differ by costs less than this share of the time of all.
const EVEN: f64 = 0.02;

/// The most bytes that the staging slots of a call take, whatever its size.
pub const STAGING: u64 = 32 << 20;

impl Problem {
    pub(super) fn q(&self) -> u32 {
        self.p.max(1).next_power_of_two().trailing_zeros()
    }

    /// The algorithms that may serve it.
    pub fn candidates(&self) -> impl Iterator<Item = &'static Entry> {
        let Problem { collective, p, commutes, all_wide, nodes, domains, .. } = *self;
        let fits = all_wide && self.bytes_of_leg(Span::Whole) <= SMALL;
        catalogue::of(collective)
            .filter(move |entry| entry.fits(p) && (commutes || entry.ordered))
            .filter(move |entry| match entry.nesting {
                Nesting::None => true,
                Nesting::Any => nodes.is_some(),
                Nesting::Equal => nodes.is_some_and(|nodes| nodes.equal),
                Nesting::Domains => domains.is_some(),
            })
            .filter(move |entry| (fits || !entry.exchanges) && (!entry.relays() || self.has_room(entry)))
    }

    /// Whether blocks that others hand on have room there.
    fn has_room(&self, entry: &Entry) -> bool {
        self.places(entry).saturating_mul(self.largest) <= RELAY
    }

    /// For how many such blocks a rank has places.
    fn places(&self, entry: &Entry) -> u64 {
        match (entry.digits, self.nodes) {
            (Some(digits), _) => places_for_relay(self.p, &digits(self.p)),
            (None, Some(nodes)) => stopovers::places(self.p, nodes.count, nodes.most),
            (None, None) => 0,
        }
    }

    /// The same call with each node for a rank.
    pub(super) fn among_nodes(&self) -> Option<Problem> {
        self.nodes.map(|nodes| self.among(nodes))
    }

    fn among(&self, nodes: Nodes) -> Problem {
        let Nodes { count: p, largest, around, .. } = nodes;
        Problem { p, largest, around, apart: true, of_nodes: true, nodes: None, domains: None, ..*self }
    }

    /// What an algorithm's blocks and pace follow from: the nodes' problem where it goes node by node.
    pub(super) fn seen_by(&self, entry: &Entry) -> Problem {
        self.nodes_of(entry).map_or(*self, |nodes| self.among(nodes))
    }

    /// What an algorithm takes for nodes.
    pub(super) fn nodes_of(&self, entry: &Entry) -> Option<Nodes> {
        match entry.nesting {
            Nesting::None => None,
            Nesting::Any | Nesting::Equal => self.nodes,
            Nesting::Domains => self.domains.map(|domains| domains.nodes),
        }
    }

    /// Whether all of it is on the link for no longer than so many hops take.
    pub(super) fn is_on_the_link_for(&self, hops: f64, costs: &Costs) -> bool {
        self.bytes as f64 * costs.byte <= hops * costs.hop()
    }

    /// Whether a mean part is on the link for longer than a hop from rank to rank takes among so many.
    pub(super) fn outlasts_a_hop(&self, costs: &Costs) -> bool {
        self.outlasts_hops(1.0, costs)
    }

    /// The same of so many hops.
    pub(super) fn outlasts_hops(&self, hops: f64, costs: &Costs) -> bool {
        self.mean() as f64 * costs.byte > hops * costs.hop()
    }

    pub(super) fn mean(&self) -> u64 {
        self.bytes / u64::from(self.p.max(1))
    }

    /// By how much the largest part exceeds a mean one.
    pub(super) fn excess(&self) -> u64 {
        self.largest.saturating_sub(self.mean())
    }

    /// Whether whole parts cost hardly more than parts of one size would.
    pub(super) fn is_even(&self) -> bool {
        let rounds = f64::from(self.q().saturating_sub(1));
        self.excess() as f64 * rounds < EVEN * self.bytes as f64
    }

    /// What a rank's blocks for others take on the link.
    pub(super) fn on_the_link(&self, costs: &Costs) -> f64 {
        self.bytes as f64 * costs.byte * f64::from(self.others()) / f64::from(self.p.max(1))
    }

    pub(super) fn others(&self) -> u32 {
        self.p.saturating_sub(1)
    }
}

#[cfg(test)]
mod tests;
