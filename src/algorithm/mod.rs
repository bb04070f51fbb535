//! The algorithms, each a [`Plan`], and the catalogue of all of them.
//!
//! A file here is a family of algorithms on one graph. None of them knows a network, a buffer or a byte.
//! What a collective promises stands in [`promise`], once, so that all its algorithms are held to the same.
#![forbid(unsafe_code)]

pub mod all_broadcast;
pub mod alltoall;
pub mod barrier;
pub mod broadcast;
mod catalogue;
pub mod groups;
pub mod hypercube;
pub mod led;
pub mod linear;
pub mod one_block;
mod phases;
pub mod probe;
pub mod promise;
pub mod ring;
pub mod speakers;
pub mod stopovers;
pub mod torus;
pub mod tree;
pub mod within;

use std::sync::Arc;

pub use catalogue::CATALOGUE;
#[cfg(test)]
pub(crate) use catalogue::without_twins;
use groups::Groups;
use promise::Promise;

use crate::collective::{Collective, Numbering};
use crate::plan::Plan;
use crate::plan::digits::Digits;
use crate::plan::lockstep::{self, Breach, Claims};
use crate::rank::{Place, Rank};
use crate::schedule::Graph;

/// One algorithm for one collective: what it is called, what it costs, where it comes from.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The collective that it serves.
    pub collective: Collective,
    /// Its own name.
    pub name: &'static str,
    /// How many rounds, in terms of p ranks, n blocks, q = ⌈log₂ p⌉, the torus' sides a and b, and r ranks in a row,
    /// about √p.
    pub rounds: &'static str,
    /// What the busiest rank puts, in terms of the message m: a vector, all parts together, or in an
    /// all-to-all all that one rank has for others.
    pub volume: &'static str,
    /// Paper and section.
    pub source: &'static str,
    /// For what it is fit, in words; empty where for everything.
    pub restriction: &'static str,
    /// Whether it takes a number of blocks; if not, that is 1.
    pub pipelined: bool,
    /// Whether it keeps the ranks' order, and so is fit for operators that do not commute; true as well of
    /// collectives that combine nothing.
    pub ordered: bool,
    /// Whether it puts along edges of the circulant graph only.
    pub near: bool,
    /// The most that one of its legs carries.
    pub span: Span,
    /// Whether blocks that travel together lie apart in memory.
    pub scattered: bool,
    /// By which digits of its distance each block of an all-to-all is handed on, where it is.
    pub digits: Option<fn(u32) -> Digits>,
    /// Whether two ranks put each other the same block in one round and fold it: only where what is put is
    /// copied first.
    pub exchanges: bool,
    /// What it wants of groups.
    pub nesting: Nesting,
    /// Whether a group may have several leaders.
    pub several_leaders: bool,
    fits: fn(u32) -> bool,
    build: fn(&Shape) -> Box<dyn Plan>,
}

/// How much of a message a leg carries, at most; of what goes group by group with groups for ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// One rank's part.
    Part,
    /// The parts of half the ranks.
    Half,
    /// The parts of a row, or column, of the ranks: about `√p`.
    Row,
    /// Everything; of an all-to-all by groups what one has for another, if that is more.
    Whole,
}

/// Which [`Groups`] an algorithm wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nesting {
    /// It knows of none.
    None,
    /// Several, some of them of several ranks.
    Any,
    /// The same, all of one size.
    Equal,
    /// Some that are divided into domains.
    Domains,
}

/// What a plan is made for.
#[derive(Debug, Clone)]
pub struct Shape {
    /// Whose plan it is.
    pub place: Place,
    /// The rank with a part of its own, where the collective has one; others do not look at it.
    pub root: Rank,
    /// Into how many blocks the vector, or each part, is cut, where the algorithm is pipelined; with parts,
    /// `p` times that is less than 2³².
    pub blocks: u32,
    /// The graph of `place.size` ranks; all plans of a communicator share one.
    pub graph: Arc<Graph>,
    /// The ranks whose parts are not empty, in their order; `None`: all. What goes in n blocks from all
    /// ranks leaves the others out.
    pub present: Option<Arc<[Rank]>>,
    /// Which ranks belong together; only algorithms that go group by group look at it.
    pub groups: Arc<Groups>,
    /// What comes to a group's leader in so many rounds goes on within the group together.
    pub chunk: u32,
    /// How many leaders a group has, at least 1, where an algorithm lets it have several.
    pub leaders: u32,
}

impl Shape {
    /// Rank 0's.
    pub fn new(groups: Groups, root: Rank, blocks: u32, present: Option<Arc<[Rank]>>) -> Self {
        let p = groups.ranks();
        let (graph, groups) = (Arc::new(Graph::new(p)), Arc::new(groups));
        Shape {
            place: Place { rank: 0, size: p },
            root,
            blocks,
            graph,
            present,
            groups,
            chunk: 1,
            leaders: 1,
        }
    }

    /// For what goes by the groups' domains.
    fn by_domains(&self) -> Shape {
        let groups = self.groups.by_domains().unwrap_or(&self.groups);
        Shape { groups: Arc::clone(groups), ..self.clone() }
    }
}

/// What a collective's algorithm is called that has this [number](Entry::number), if it has one by it.
pub fn name_of(collective: Collective, number: u8) -> Option<&'static str> {
    let entry = CATALOGUE.get(usize::from(number))?;
    (entry.collective == collective).then_some(entry.name)
}

impl Entry {
    /// Whether there is a plan for `p` ranks.
    pub fn fits(&self, p: u32) -> bool {
        (self.fits)(p)
    }

    /// Whether it goes group by group.
    pub fn is_nested(&self) -> bool {
        self.nesting != Nesting::None
    }

    /// Whether it has a use for these groups, or none for any.
    pub fn suits(&self, groups: &Groups) -> bool {
        match self.nesting {
            Nesting::None => true,
            Nesting::Any => groups.is_nested(),
            Nesting::Equal => groups.are_equal(),
            Nesting::Domains => groups.by_domains().is_some(),
        }
    }

    /// Whether blocks of pairs of ranks are handed on by others, which need room for them.
    pub fn relays(&self) -> bool {
        self.scattered && self.collective.numbering() == Numbering::Pairs
    }

    /// One rank's plan, for a number of ranks that [fits](Self::fits).
    pub fn plan(&self, shape: &Shape) -> Box<dyn Plan> {
        (self.build)(shape)
    }

    /// All ranks' plans, in their order, whoever's the shape is.
    pub fn plans(&self, shape: &Shape) -> Vec<Box<dyn Plan>> {
        let place = |rank| Place { rank, ..shape.place };
        (0..shape.place.size).map(|rank| self.plan(&Shape { place: place(rank), ..shape.clone() })).collect()
    }

    /// Its place in the catalogue, which is what ranks tell each other.
    pub fn number(&self) -> u8 {
        let is_this = |one: &Entry| (one.collective, one.name) == (self.collective, self.name);
        CATALOGUE.iter().position(is_this).unwrap_or(CATALOGUE.len()) as u8
    }

    /// Carries out the plans of all ranks on paper; see [`lockstep::check`].
    pub fn check(&self, shape: &Shape) -> Result<(), Breach> {
        let plans = self.plans(shape);
        let blocks = plans.first().map_or(0, |plan| plan.blocks());
        let (p, root, present) = (shape.place.size, shape.root, shape.present.clone());
        let promise = Promise { collective: self.collective, p, root, blocks, present };
        let claims = Claims { ordered: self.ordered, near: self.near, exchanges: self.exchanges };
        lockstep::check(&plans, claims, |rank| promise.start(rank), |rank| promise.end(rank))
    }

    /// What stands for all that it can be asked for on `p` ranks: every sample of roots and
    /// blocks in all ways to group the ranks that make a difference, with one leader and with several.
    pub fn shapes(&self, p: u32) -> Vec<Shape> {
        let (samples, groups) = (self.samples(p), self.groups(p));
        let chunk = |n| if self.is_nested() && n > 1 { 1 + n % 3 } else { 1 };
        let shape = |(groups, &(root, n))| Shape {
            groups,
            chunk: chunk(n),
            ..Shape::new(Groups::alone(p), root, n, None)
        };
        let led_by_one: Vec<_> = groups
            .iter()
            .flat_map(|groups| samples.iter().map(move |sample| (Arc::clone(groups), sample)))
            .map(shape)
            .collect();
        let several = led_by_one.iter().filter(|_| self.several_leaders);
        let several: Vec<_> =
            several.map(|shape| Shape { leaders: 2 + shape.blocks % 2, ..shape.clone() }).collect();
        led_by_one.into_iter().chain(several).collect()
    }

    /// The first is the one of most consequence.
    fn groups(&self, p: u32) -> Vec<Arc<Groups>> {
        let divisor = (2..=p).find(|&k| p.is_multiple_of(k)).unwrap_or(1);
        let groups = match (self.nesting, p) {
            (Nesting::None, _) => vec![Groups::alone(p)],
            (Nesting::Equal, _) => {
                vec![Groups::runs(p, p / divisor), Groups::new((0..p).map(|r| r % divisor))]
            }
            (Nesting::Any, 0..=12) => {
                let (threes, one) = (Groups::runs(p, p.div_ceil(3)), Groups::runs(p, 1));
                vec![Groups::scattered_in_domains(p), threes, one, Groups::alone(p)]
            }
            (Nesting::Any, _) if self.several_leaders => {
                vec![Groups::scattered_in_domains(p), Groups::scattered(p)]
            }
            (Nesting::Any, _) => vec![Groups::scattered(p)],
            (Nesting::Domains, _) => {
                let one = Groups::runs(p, 1).with_domains(|rank| Some(rank.isqrt()));
                vec![Groups::scattered_in_domains(p), one]
            }
        };
        groups.into_iter().map(Arc::new).collect()
    }

    /// Roots and numbers of blocks that stand for all of them in a proof for `p` ranks.
    fn samples(&self, p: u32) -> Vec<(Rank, u32)> {
        // A third is no skip, as a half and the last are.
        let mut roots = if self.collective.has_root() { vec![0, p / 3, p / 2, p - 1] } else { vec![0] };
        roots.dedup();
        // Around a whole phase of q rounds, and of more than one; large graphs get few blocks.
        let q = p.next_power_of_two().trailing_zeros();
        let blocks = match (self.pipelined, p) {
            (false, _) => vec![1],
            (true, 0..=32) => vec![1, 2, q + 1, 2 * q + 3],
            (true, _) => vec![1 + p % 3],
        };
        roots.iter().flat_map(|&root| blocks.iter().map(move |&blocks| (root, blocks))).collect()
    }
}

/// The algorithms of a collective; the first is the default where nothing speaks against it.
pub fn of(collective: Collective) -> impl Iterator<Item = &'static Entry> {
    CATALOGUE.iter().filter(move |entry| entry.collective == collective)
}

/// The algorithm of a collective that has this name.
pub fn named(collective: Collective, name: &str) -> Option<&'static Entry> {
    of(collective).find(|entry| entry.name == name)
}
