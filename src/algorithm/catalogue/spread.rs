//! The catalogue's algorithms that spread parts over ranks in groups, or collect them: to each group in one leg.
//!
//! In formulas g is the number of groups, k the largest one's ranks, `q_g` and `q_k` their binary logarithms rounded
//! up; volumes are those of groups of one size.

use super::nested::{LED, own_group};
use crate::algorithm::led::{ALONE, Among, Leaders, Scope};
use crate::algorithm::speakers::BySpeakers;
use crate::algorithm::tree::{Load, Tree};
use crate::algorithm::{Entry, Shape, Span};
use crate::plan::compose::{Landed, Reversed, Then};

const PARTS: Entry = Entry {
    rounds: "q_g + q_k",
    source: "leaders, and among them and their groups Chan et al., doi:10.1002/cpe.1206: minimum spanning trees",
    span: Span::Half,
    scattered: true,
    ..LED
};

/// To every leader its group's parts, and from it to its group. The root leads its own.
fn scatter(shape: &Shape) -> Then<Among<Tree>, Among<Tree>> {
    let (groups, group) = (&shape.groups, own_group(shape).rank);
    let leaders = Leaders::new(groups, Some(shape.root), ALONE);
    let root = groups.of(shape.root);
    let among = Among::leaders_of_parts(shape.place, &leaders, |place| Tree::new(place, root, Load::Parts));
    let leader = groups.place_within(leaders.of(group)).rank;
    let within = Tree::new(groups.place_within(shape.place.rank), leader, Load::Parts);
    let rounds = groups.rounds_within();
    Then::new(among, Among::members(shape.place, groups, Scope::whole_parts(), rounds, within))
}

pub(super) const SCATTER: &[Entry] =
    &[Entry { volume: "m (p - 1) / p", build: |shape| Box::new(scatter(shape)), ..PARTS }];

pub(super) const GATHER: &[Entry] =
    &[Entry { volume: "m / 2", build: |shape| Box::new(Landed::stored(Reversed(scatter(shape)))), ..PARTS }];

pub(super) const ALLTOALL: &[Entry] = &[Entry {
    rounds: "2 (k - 1) + g - 1",
    volume: "m ⌈(g - 1) / k⌉ k / g, and within the group m and at most as much again",
    source: "Bienz, Gropp and Olson, arXiv 1612.08060: node-aware; each rank leads towards its share of the groups",
    restriction: "ranks in groups; p < 65536",
    fits: super::countable_pairs,
    scattered: true,
    build: |shape| Box::new(BySpeakers::new(shape.place, &shape.groups)),
    ..LED
}];
