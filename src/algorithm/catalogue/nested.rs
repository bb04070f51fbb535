//! The catalogue's algorithms for ranks in groups: what crosses from group to group does so once a group.
//!
//! Names: `leader` is the circulant graph among the groups' leaders, `leader-ring` the ring, `leader-doubling`
//! exchange of whole vectors; `lanes` the circulant
//! graph of each lane: the first ranks of all groups, the second ones, and so on. In formulas g is
//! the number of groups, k the largest one's ranks, `q_g` and `q_k` their binary logarithms rounded up; they
//! hold where each block is handed on by itself, and not in chunks, and where a group has one leader.
//!
//! Several leaders share a vector: each has a part of its blocks, and a plan of its own beside the others'.

pub(super) mod domains;

use std::sync::Arc;

use super::PLAIN;
use crate::algorithm::all_broadcast::AllBroadcast;
use crate::algorithm::barrier::Dissemination;
use crate::algorithm::groups::Groups;
use crate::algorithm::hypercube::RecursiveDoubling;
use crate::algorithm::led::{ALONE, Among, Held, Leaders, Led, Scope, Signals};
use crate::algorithm::one_block::OneBlock;
use crate::algorithm::ring::Ring;
use crate::algorithm::within::Within;
use crate::algorithm::{Entry, Nesting, Shape};
use crate::plan::Plan;
use crate::plan::compose::{Landed, Reversed, SideBySide, Then};
use crate::rank::{Place, Rank};

const NESTED: &str = "ranks in groups";
const NESTED_COMMUTATIVE: &str = "ranks in groups; commutative operators";
const EQUAL_COMMUTATIVE: &str = "groups of one size; commutative operators";
const LEADERS: &str = "leaders as in Kielmann et al., doi:10.1145/301104.301116, block by block";

const SEVERAL_LEADERS: &str = "leaders as in Kielmann et al., doi:10.1145/301104.301116, block by block; several as in Bayatpour et al., doi:10.1145/3126908.3126954";

pub(super) const LED: Entry = Entry {
    name: "leader",
    source: LEADERS,
    restriction: NESTED,
    near: false,
    nesting: Nesting::Any,
    ..PLAIN
};

const FOLDED: Entry = Entry { restriction: NESTED_COMMUTATIVE, ordered: false, ..LED };

/// All of a group's ranks carry their share to the other groups, for networks that want several writers.
const LANES: Entry = Entry {
    name: "lanes",
    source: "Träff, arXiv 1910.13373: full lanes",
    restriction: "groups of one size",
    scattered: true,
    nesting: Nesting::Equal,
    ..LED
};

/// The numbers of those whose parts are not empty; `None`: all.
type Present = Option<Arc<[Rank]>>;

/// A plan among the leaders, of any kind.
type Outer = Box<dyn Plan>;

/// One that brings each group's parts to all leaders.
type OfParts = fn(&Shape, Place, Present) -> Outer;

/// All of the root's blocks.
fn broadcast(shape: &Shape) -> Box<dyn Plan> {
    let blocks = shape.blocks.max(1);
    let leaders = leaders_of_each(shape).min(blocks);
    by_leaders(shape, leaders, |which| {
        let blocks = (blocks + leaders - 1 - which) / leaders;
        let leaders = Leaders::new(&shape.groups, Some(shape.root), (which, leaders));
        Box::new(Led::broadcast(shape.place, &leaders, shape.root, blocks, shape.chunk))
    })
}

/// More than its ranks no group has.
fn leaders_of_each(shape: &Shape) -> u32 {
    shape.leaders.clamp(1, shape.groups.largest())
}

/// What each of so many leaders of a group does, side by side.
fn by_leaders(shape: &Shape, leaders: u32, plan: impl Fn(u32) -> Box<dyn Plan>) -> Box<dyn Plan> {
    match leaders {
        1 => plan(0),
        _ => Box::new(SideBySide::new(shape.place, (0..leaders).map(plan).collect())),
    }
}

/// A rank's group among the groups.
pub(super) fn own_group(shape: &Shape) -> Place {
    Place { rank: shape.groups.of(shape.place.rank), size: shape.groups.count() }
}

/// Of a vector in a part for each group, every leader's own part to all.
fn parts_of_groups(shape: &Shape, which: (u32, u32), outer: fn(Place) -> Outer) -> Led<Outer> {
    let (leaders, group) = (Leaders::new(&shape.groups, None, which), own_group(shape));
    let held = Held { blocks: group.rank..group.rank + 1, most: 1 };
    Led::new(shape.place, &leaders, (group.size, Scope::Same), outer(group), held, shape.chunk)
}

fn allreduce(shape: &Shape, outer: fn(Place) -> Outer) -> Box<dyn Plan> {
    let leaders = leaders_of_each(shape);
    by_leaders(shape, leaders, |which| {
        let parts = || parts_of_groups(shape, (which, leaders), outer);
        Box::new(Then::new(Reversed(parts()), parts()))
    })
}

fn allreduce_on_the_graph(shape: &Shape) -> Box<dyn Plan> {
    allreduce(shape, |group| Box::new(OneBlock::new(group)))
}

/// Every rank's part to all of its group, of these or of other groups, so many blocks at once.
fn parts_within(shape: &Shape, groups: &Groups, parcel: u32) -> Among<AllBroadcast> {
    all_broadcast_within(shape, groups, parcel, |member| is_present(shape, member))
}

/// What the ranks of a lane have got, to all of the group.
fn lanes_within(shape: &Shape) -> Among<AllBroadcast> {
    let lanes = shape.groups.lanes();
    let has_data = |member| lanes.members(lanes.of(member)).iter().any(|&rank| is_present(shape, rank));
    all_broadcast_within(shape, &shape.groups, 1, has_data).standing_for(lanes)
}

fn all_broadcast_within(
    shape: &Shape,
    groups: &Groups,
    parcel: u32,
    has_data: impl Fn(Rank) -> bool,
) -> Among<AllBroadcast> {
    let (group, n) = (groups.of(shape.place.rank), shape.blocks.max(1));
    let parcel = parcel.clamp(1, n);
    let parcels = n.div_ceil(parcel);
    let members = (0..).zip(groups.members(group).iter());
    let present = members.filter(|&(_, &member)| has_data(member)).map(|(index, _)| index);
    let present: Present = shape.present.as_ref().map(|_| present.collect());
    let within = groups.place_within(shape.place.rank);
    let plan = AllBroadcast::new(within, parcels, Arc::clone(groups.graph_within(group)), present);
    let rounds = if groups.rounds_within() == 0 { 0 } else { parcels - 1 + groups.rounds_within() };
    Among::members(shape.place, groups, parts(shape, parcel), rounds, plan)
}

/// Every rank's part to all of its lane, and what it has then to all of its group.
fn by_lanes(shape: &Shape) -> Then<Among<AllBroadcast>, Among<AllBroadcast>> {
    Then::new(parts_within(shape, shape.groups.lanes(), 1), lanes_within(shape))
}

fn by_lanes_backwards(shape: &Shape) -> Then<Reversed<Among<AllBroadcast>>, Reversed<Among<AllBroadcast>>> {
    Then::new(Reversed(lanes_within(shape)), Reversed(parts_within(shape, shape.groups.lanes(), 1)))
}

/// Every group's parts to all others: to leaders, and on to their groups.
fn parts_among(shape: &Shape, outer: OfParts) -> Led<Outer> {
    let (groups, n) = (&shape.groups, shape.blocks.max(1));
    let has_data = |group: &u32| groups.members(*group).iter().any(|&member| is_present(shape, member));
    let present: Present = shape.present.as_ref().map(|_| (0..groups.count()).filter(has_data).collect());
    let (leaders, outer) = (Leaders::new(groups, None, ALONE), outer(shape, own_group(shape), present));
    let (blocks, held) = (shape.place.size * n, Held { blocks: 0..0, most: 0 });
    Led::new(shape.place, &leaders, (blocks, parts(shape, 1)), outer, held, shape.chunk)
}

fn allgather(shape: &Shape, outer: OfParts) -> Box<dyn Plan> {
    Box::new(Then::new(parts_within(shape, &shape.groups, shape.chunk), parts_among(shape, outer)))
}

fn reduce_scatter(shape: &Shape, outer: OfParts) -> Box<dyn Plan> {
    let within = parts_within(shape, &shape.groups, shape.chunk);
    Box::new(Then::new(Reversed(parts_among(shape, outer)), Reversed(within)))
}

fn parts(shape: &Shape, parcel: u32) -> Scope {
    Scope::Parts { n: shape.blocks.max(1), parcel, present: shape.present.clone() }
}

fn is_present(shape: &Shape, rank: Rank) -> bool {
    shape.present.as_ref().is_none_or(|some| some.binary_search(&rank).is_ok())
}

fn circulant(shape: &Shape, group: Place, present: Present) -> Outer {
    Box::new(AllBroadcast::new(group, shape.blocks, Arc::clone(shape.groups.graph_among()), present))
}

fn ring(shape: &Shape, group: Place, present: Present) -> Outer {
    Box::new(Ring::in_blocks(group, shape.blocks, present))
}

/// A leader's one block to its group.
fn one_block_within(shape: &Shape) -> Within {
    Within::new(&shape.groups, shape.place.rank, 0, 1)
}

/// A plan of as many rounds as one block takes, in every group.
fn within<P: Plan>(shape: &Shape, plan: P) -> Among<P> {
    let rounds = Within::rounds_of_all(&shape.groups, 1);
    Among::members(shape.place, &shape.groups, Scope::Same, rounds, plan)
}

/// Leaders hear of their groups, of each other, and tell their groups.
fn barrier(shape: &Shape) -> Box<dyn Plan> {
    let down = || within(shape, Signals(one_block_within(shape)));
    let leaders = Leaders::new(&shape.groups, None, ALONE);
    let among = Among::leaders(shape.place, &leaders, Dissemination::new);
    Box::new(Then::new(Then::new(Landed::stored(Reversed(down())), among), down()))
}

pub(super) const BROADCAST: &[Entry] = &[Entry {
    rounds: "2 (n - 2 + q_g + q_k)",
    volume: "m (n - 1 + q_g) / n, and as much within the group",
    pipelined: true,
    source: SEVERAL_LEADERS,
    several_leaders: true,
    build: broadcast,
    ..LED
}];

pub(super) const REDUCE: &[Entry] = &[Entry {
    rounds: "2 (n - 2 + q_g + q_k)",
    volume: "m",
    pipelined: true,
    source: SEVERAL_LEADERS,
    several_leaders: true,
    build: |shape| Box::new(Reversed(broadcast(shape))),
    ..FOLDED
}];

pub(super) const ALLREDUCE: &[Entry] = &[
    Entry {
        rounds: "4 (q_g + q_k)",
        volume: "2 m (g - 1) / g, and m q_k within the group",
        source: SEVERAL_LEADERS,
        several_leaders: true,
        build: allreduce_on_the_graph,
        ..FOLDED
    },
    Entry {
        name: "leader-ring",
        rounds: "4 (g - 1 + q_k)",
        volume: "2 m (g - 1) / g, and m q_k within the group",
        source: SEVERAL_LEADERS,
        several_leaders: true,
        build: |shape| allreduce(shape, |group| Box::new(Ring::whole(group))),
        ..FOLDED
    },
    Entry {
        name: "leader-doubling",
        rounds: "2 q_k + ⌊log₂ g⌋, of other g than powers of two: 2 more",
        volume: "m (⌊log₂ g⌋ + 1), and 2 m q_k within the group",
        source: "leaders, and among them Thakur, Rabenseifner and Gropp, doi:10.1177/1094342005051521",
        exchanges: true,
        build: |shape| {
            let down = || within(shape, one_block_within(shape));
            let leaders = Leaders::new(&shape.groups, None, ALONE);
            let among = Among::leaders(shape.place, &leaders, RecursiveDoubling::new);
            Box::new(Then::new(Then::new(Reversed(down()), among), down()))
        },
        ..FOLDED
    },
    Entry {
        rounds: "2 (q_g + q_k)",
        volume: "2 m (g - 1) / p, and 2 m (k - 1) / k within the group",
        restriction: EQUAL_COMMUTATIVE,
        ordered: false,
        build: |shape| Box::new(Then::new(by_lanes_backwards(shape), by_lanes(shape))),
        ..LANES
    },
];

pub(super) const ALLGATHER: &[Entry] = &[
    Entry {
        rounds: "n - 1 + q_k + 2 (n - 2 + q_g + q_k)",
        volume: "m (g - 1) / g, and m within the group",
        pipelined: true,
        scattered: true,
        build: |shape| allgather(shape, circulant),
        ..LED
    },
    Entry {
        name: "leader-ring",
        rounds: "n - 1 + q_k + 2 (n (g - 1) - 1 + q_k)",
        volume: "m (g - 1) / g, and m within the group",
        pipelined: true,
        scattered: true,
        build: |shape| allgather(shape, ring),
        ..LED
    },
    Entry {
        rounds: "2 (n - 1) + q_g + q_k",
        volume: "m (g - 1) / p, and m (k - 1) / k within the group",
        pipelined: true,
        build: |shape| Box::new(by_lanes(shape)),
        ..LANES
    },
];

pub(super) const REDUCE_SCATTER: &[Entry] = &[
    Entry {
        rounds: "n - 1 + q_k + 2 (n - 2 + q_g + q_k)",
        volume: "m (g - 1) / g, and m within the group",
        pipelined: true,
        scattered: true,
        build: |shape| reduce_scatter(shape, circulant),
        ..FOLDED
    },
    Entry {
        name: "leader-ring",
        rounds: "n - 1 + q_k + 2 (n (g - 1) - 1 + q_k)",
        volume: "m (g - 1) / g, and m within the group",
        pipelined: true,
        scattered: true,
        build: |shape| reduce_scatter(shape, ring),
        ..FOLDED
    },
    Entry {
        rounds: "2 (n - 1) + q_g + q_k",
        volume: "m (g - 1) / p, and m (k - 1) / k within the group",
        restriction: EQUAL_COMMUTATIVE,
        pipelined: true,
        ordered: false,
        build: |shape| Box::new(by_lanes_backwards(shape)),
        ..LANES
    },
];

pub(super) const BARRIER: &[Entry] =
    &[Entry { rounds: "q_g + 2 q_k", volume: "0", build: |shape| barrier(shape), ..LED }];
