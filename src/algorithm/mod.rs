//! The algorithms, each a [`Plan`], and the catalogue of all of them.
//!
//! A file here is a collective. None of them knows a network, a buffer or a byte.
#![forbid(unsafe_code)]

pub mod barrier;
pub mod broadcast;
pub mod probe;

use crate::plan::Plan;
use crate::plan::compose::{Reversed, Then};
use crate::plan::lockstep::{self, Breach, Contributions};
use crate::rank::{Place, Rank};

/// One algorithm: what it is called, what it costs, where it comes from.
pub struct Entry {
    /// The collective that it serves, by the name that the program and the C ABI use.
    pub collective: &'static str,
    /// Its own name.
    pub name: &'static str,
    /// How many rounds, in terms of n blocks and q = ⌈log₂ p⌉.
    pub rounds: &'static str,
    /// What the busiest rank sends, in terms of the message m.
    pub volume: &'static str,
    /// Paper and section.
    pub source: &'static str,
    build: fn(Place, Rank, u32) -> Box<dyn Plan>,
    start: fn(Rank, Rank) -> bool,
    end: fn(u32, Rank, Rank) -> Option<Contributions>,
}

impl Entry {
    /// One rank's plan for a root and a number of blocks (which a barrier ignores).
    pub fn plan(&self, place: Place, root: Rank, blocks: u32) -> Box<dyn Plan> {
        (self.build)(place, root, blocks)
    }

    /// Carries out the plans of all of `p` ranks on paper; see [`lockstep::check`].
    pub fn check(&self, p: u32, root: Rank, blocks: u32) -> Result<(), Breach> {
        let plans: Vec<_> = (0..p).map(|rank| self.plan(Place { rank, size: p }, root, blocks)).collect();
        let start =
            |rank, _| if (self.start)(root, rank) { Contributions::of(rank) } else { Contributions::none() };
        lockstep::check(&plans, start, |rank, _| (self.end)(p, root, rank))
    }
}

/// Every algorithm there is.
pub const CATALOGUE: &[Entry] = &[
    Entry {
        collective: "broadcast",
        name: "circulant",
        rounds: "n - 1 + q",
        volume: "m (n - 1 + q) / n",
        source: "Träff, doi:10.1145/3735139, Algorithm 1",
        build: |place, root, blocks| Box::new(broadcast::Circulant::new(place, root, blocks)),
        start: |root, rank| rank == root,
        end: |_, root, _| Some(Contributions::of(root)),
    },
    Entry {
        collective: "reduce",
        name: "circulant",
        rounds: "n - 1 + q",
        volume: "m",
        source: "Träff, doi:10.1145/3735139, Section 1: the broadcast read backwards",
        build: |place, root, blocks| Box::new(Reversed(broadcast::Circulant::new(place, root, blocks))),
        start: |_, _| true,
        end: |p, root, rank| (rank == root).then(|| Contributions::all(p)),
    },
    Entry {
        collective: "allreduce",
        name: "circulant-reduce-broadcast",
        rounds: "2 (n - 1 + q)",
        volume: "m + m (n - 1 + q) / n",
        source: "the two above, one after the other",
        build: |place, root, blocks| {
            let broadcast = || broadcast::Circulant::new(place, root, blocks);
            Box::new(Then(Reversed(broadcast()), broadcast()))
        },
        start: |_, _| true,
        end: |p, _, _| Some(Contributions::all(p)),
    },
    Entry {
        collective: "barrier",
        name: "circulant",
        rounds: "q",
        volume: "0",
        source: "Hensgen, Finkel and Manber, doi:10.1007/BF01379320, on the circulant graph's skips",
        build: |place, _, _| Box::new(barrier::Dissemination::new(place)),
        start: |_, _| true,
        end: |_, _, _| None,
    },
];

/// The algorithms of a collective; the first is the default.
pub fn of(collective: &str) -> impl Iterator<Item = &'static Entry> {
    CATALOGUE.iter().filter(move |entry| entry.collective == collective)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_passes_the_lockstep_check() {
        for entry in CATALOGUE {
            for p in (1..=40).chain([64, 65, 100]) {
                for blocks in [1, 2, 3, 7, 20] {
                    for root in [0, p / 2, p - 1] {
                        if let Err(breach) = entry.check(p, root, blocks) {
                            panic!(
                                "{} {}, p = {p}, n = {blocks}, root {root}: {breach}",
                                entry.collective, entry.name
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn reduce_is_broadcast_read_backwards() {
        let entry = of("reduce").next().unwrap();
        for rank in 0..17 {
            let place = Place { rank, size: 17 };
            let (reduce, broadcast) = (entry.plan(place, 3, 6), broadcast::Circulant::new(place, 3, 6));
            for i in 0..reduce.rounds() {
                let (one, other) = (reduce.round(i), broadcast.round(reduce.rounds() - 1 - i));
                assert_eq!((one.put, one.arrival), (other.arrival, other.put));
            }
        }
    }
}
