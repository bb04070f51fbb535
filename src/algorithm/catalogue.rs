//! Every algorithm there is, collective by collective: names, costs, restrictions, sources, and how each
//! is put together from the plans of this folder.
//!
//! The decision: collectives that differ only in whether parts may differ in size share their algorithms,
//! which are written down once. Names mean the same everywhere: `circulant` are whole parts, or the one
//! vector in n blocks, `circulant-n` parts (or an allreduce) in n blocks, `mst` the minimum spanning tree.

mod nested;
mod spread;

use super::all_broadcast::AllBroadcast;
use super::alltoall::{Direct, MOST, StoreAndForward};
use super::barrier::Dissemination;
use super::broadcast::Circulant;
use super::hypercube::{Hypercube, RecursiveDoubling};
use super::led::Signals;
use super::linear::Linear;
use super::one_block::OneBlock;
use super::ring::Ring;
use super::torus::Torus;
use super::tree::{HandOver, Load, Tree};
use super::{Entry, Nesting, Shape, Span};
use crate::collective::Collective::{self, *};
use crate::plan::Plan;
use crate::plan::compose::{Landed, Reversed, Then};
use crate::plan::digits::Digits;
use crate::rank::Ways;

/// Every algorithm there is. A collective's first is its default where nothing speaks against it.
pub static CATALOGUE: [Entry; count()] = flat();

/// Collectives that share algorithms, and these.
const FAMILIES: [(&[Collective], &[Entry]); 25] = [
    (&[Broadcast], BROADCAST),
    (&[Reduce], REDUCE),
    (&[Allreduce], ALLREDUCE),
    (&[Allgather, Allgatherv], ALLGATHER),
    (&[ReduceScatter, ReduceScatterBlock], REDUCE_SCATTER),
    (&[Scatter, Scatterv], SCATTER),
    (&[Gather, Gatherv], GATHER),
    (&[Alltoall, Alltoallv], ALLTOALL_DIRECT),
    (&[Alltoall], ALLTOALL_RELAYED),
    (&[Barrier], BARRIER),
    (&[Broadcast], nested::BROADCAST),
    (&[Reduce], nested::REDUCE),
    (&[Allreduce], nested::ALLREDUCE),
    (&[Allgather, Allgatherv], nested::ALLGATHER),
    (&[ReduceScatter, ReduceScatterBlock], nested::REDUCE_SCATTER),
    (&[Barrier], nested::BARRIER),
    (&[Broadcast], nested::domains::BROADCAST),
    (&[Reduce], nested::domains::REDUCE),
    (&[Allreduce], nested::domains::ALLREDUCE),
    (&[Allgather, Allgatherv], nested::domains::ALLGATHER),
    (&[ReduceScatter, ReduceScatterBlock], nested::domains::REDUCE_SCATTER),
    (&[Barrier], nested::domains::BARRIER),
    (&[Scatter, Scatterv], spread::SCATTER),
    (&[Gather, Gatherv], spread::GATHER),
    (&[Alltoall], spread::ALLTOALL),
];

const fn count() -> usize {
    let (mut count, mut family) = (0, 0);
    while family < FAMILIES.len() {
        count += FAMILIES[family].0.len() * FAMILIES[family].1.len();
        family += 1;
    }
    count
}

/// An entry for each collective of a family and each of its algorithms.
const fn flat<const N: usize>() -> [Entry; N] {
    let mut all = [BARRIER[0]; N];
    let (mut at, mut family) = (0, 0);
    while family < FAMILIES.len() {
        let (collectives, entries) = FAMILIES[family];
        let mut i = 0;
        while i < collectives.len() * entries.len() {
            let entry = entries[i % entries.len()];
            all[at] = Entry { collective: collectives[i / entries.len()], ..entry };
            (at, i) = (at + 1, i + 1);
        }
        family += 1;
    }
    all
}

/// Of collectives that share algorithms, and so plans, one; of the others every entry.
#[cfg(test)]
pub(crate) fn without_twins() -> impl Iterator<Item = &'static Entry> {
    let is_first =
        |entry: &&Entry| FAMILIES.iter().any(|(collectives, _)| collectives[0] == entry.collective);
    CATALOGUE.iter().filter(is_first)
}

fn any(_: u32) -> bool {
    true
}

fn power_of_two(p: u32) -> bool {
    p.is_power_of_two()
}

fn countable_pairs(p: u32) -> bool {
    p <= MOST
}

fn countable_power_of_two(p: u32) -> bool {
    countable_pairs(p) && power_of_two(p)
}

const COMMUTATIVE: &str = "commutative operators";
const POWER_OF_TWO: &str = "p is a power of two";
const POWER_OF_TWO_COMMUTATIVE: &str = "p is a power of two; commutative operators";
const PAIRS: &str = "p < 65536";

const TRAEFF: &str = "Träff, doi:10.1145/3735139, Algorithm 1";
const TRAEFF_BACKWARDS: &str = "Träff, doi:10.1145/3735139, Section 1: the broadcast read backwards";
const TRAEFF_ALL: &str = "Träff, doi:10.1145/3735139, Algorithm 7";
const TRAEFF_ALL_BACKWARDS: &str = "Träff, doi:10.1145/3735139: Algorithm 7 read backwards";
const TRAEFF_ONE_BLOCK: &str = "Träff, arXiv 2410.14234";
const CHAN_TREE: &str = "Chan et al., doi:10.1002/cpe.1206: minimum spanning tree, split at the skips";
const CHAN_RING: &str = "Chan et al., doi:10.1002/cpe.1206: bucket";
const NAIVE: &str = "the naive algorithm";
const THAKUR: &str = "Thakur, Rabenseifner and Gropp, doi:10.1177/1094342005051521";
const KUMAR: &str = "Kumar et al., Basic Communication Operations: all-to-all broadcast on a 2-D torus";
const JOHNSSON: &str = "Johnsson and Ho, doi:10.1109/12.29465";

/// What most entries have.
const PLAIN: Entry = Entry {
    collective: Barrier,
    name: "",
    rounds: "",
    volume: "",
    source: "",
    restriction: "",
    pipelined: false,
    ordered: true,
    near: true,
    span: Span::Whole,
    scattered: false,
    digits: None,
    exchanges: false,
    nesting: Nesting::None,
    several_leaders: false,
    fits: any,
    build: |shape| Box::new(Dissemination::new(shape.place)),
};

fn broadcast(shape: &Shape) -> Circulant {
    Circulant::new(shape.place, shape.root, shape.blocks)
}

fn tree(shape: &Shape, blocks: u32) -> Tree {
    Tree::new(shape.place, 0, Load::All(blocks))
}

fn all_broadcast(shape: &Shape) -> AllBroadcast {
    AllBroadcast::new(shape.place, shape.blocks, shape.graph.clone(), shape.present.clone())
}

fn ring(shape: &Shape) -> Ring {
    Ring::in_blocks(shape.place, shape.blocks, shape.present.clone())
}

fn forwarded(shape: &Shape, digits: fn(u32) -> Digits) -> Box<dyn Plan> {
    Box::new(StoreAndForward::new(shape.place, digits(shape.place.size)))
}

fn linear(shape: &Shape, load: Load) -> Linear {
    Linear { place: shape.place, root: shape.root, load }
}

const BROADCAST: &[Entry] = &[
    Entry {
        name: "circulant",
        rounds: "n - 1 + q",
        volume: "m (n - 1 + q) / n",
        source: TRAEFF,
        pipelined: true,
        build: |shape| Box::new(broadcast(shape)),
        ..PLAIN
    },
    Entry {
        name: "mst",
        rounds: "q",
        volume: "m q",
        source: CHAN_TREE,
        build: |shape| Box::new(Tree::new(shape.place, shape.root, Load::All(1))),
        ..PLAIN
    },
    Entry {
        name: "linear",
        rounds: "p - 1",
        volume: "m (p - 1)",
        source: NAIVE,
        near: false,
        build: |shape| Box::new(linear(shape, Load::All(1))),
        ..PLAIN
    },
];

const REDUCE: &[Entry] = &[
    Entry {
        name: "circulant",
        rounds: "n - 1 + q",
        volume: "m",
        source: TRAEFF_BACKWARDS,
        restriction: COMMUTATIVE,
        pipelined: true,
        ordered: false,
        build: |shape| Box::new(Reversed(broadcast(shape))),
        ..PLAIN
    },
    Entry {
        name: "mst",
        rounds: "q, to another root than 0: q + 1",
        volume: "m",
        source: CHAN_TREE,
        near: false,
        // Only below rank 0 are subtrees runs of ranks that do not close the circle.
        build: |shape| {
            let hand_over = HandOver { place: shape.place, to: shape.root, blocks: 1 };
            Box::new(Then::new(Reversed(tree(shape, 1)), hand_over))
        },
        ..PLAIN
    },
    Entry {
        name: "linear",
        rounds: "p - 1",
        volume: "m",
        source: NAIVE,
        near: false,
        build: |shape| Box::new(Landed::folded_in_rank_order(Reversed(linear(shape, Load::All(1))))),
        ..PLAIN
    },
];

const ALLREDUCE: &[Entry] = &[
    Entry {
        name: "circulant",
        rounds: "2 q",
        volume: "2 m (p - 1) / p",
        source: TRAEFF_ONE_BLOCK,
        restriction: COMMUTATIVE,
        ordered: false,
        span: Span::Half,
        build: |shape| {
            let allgather = || OneBlock::new(shape.place);
            Box::new(Then::new(Reversed(allgather()), allgather()))
        },
        ..PLAIN
    },
    Entry {
        name: "circulant-n",
        rounds: "2 (n - 1 + q)",
        volume: "m + m (n - 1 + q) / n",
        source: "Träff, doi:10.1145/3735139: reduce to rank 0, then broadcast",
        restriction: COMMUTATIVE,
        pipelined: true,
        ordered: false,
        build: |shape| {
            let broadcast = || Circulant::new(shape.place, 0, shape.blocks);
            Box::new(Then::new(Reversed(broadcast()), broadcast()))
        },
        ..PLAIN
    },
    Entry {
        name: "mst",
        rounds: "2 q",
        volume: "m q",
        source: CHAN_TREE,
        build: |shape| Box::new(Then::new(Reversed(tree(shape, 1)), tree(shape, 1))),
        ..PLAIN
    },
    Entry {
        name: "recursive-doubling",
        rounds: "⌊log₂ p⌋, of other p than powers of two: 2 more",
        volume: "m (⌊log₂ p⌋ + 1)",
        source: THAKUR,
        near: false,
        exchanges: true,
        build: |shape| Box::new(RecursiveDoubling::new(shape.place)),
        ..PLAIN
    },
    Entry {
        name: "hypercube",
        rounds: "2 q",
        volume: "2 m (p - 1) / p",
        source: THAKUR,
        restriction: POWER_OF_TWO_COMMUTATIVE,
        ordered: false,
        fits: power_of_two,
        span: Span::Half,
        build: |shape| Box::new(Then::new(Reversed(Hypercube(shape.place)), Hypercube(shape.place))),
        ..PLAIN
    },
    Entry {
        name: "ring",
        rounds: "2 (p - 1)",
        volume: "2 m (p - 1) / p",
        source: CHAN_RING,
        restriction: COMMUTATIVE,
        ordered: false,
        span: Span::Part,
        build: |shape| Box::new(Then::new(Reversed(Ring::whole(shape.place)), Ring::whole(shape.place))),
        ..PLAIN
    },
    Entry {
        name: "torus",
        rounds: "2 (a + b - 2)",
        volume: "2 m (p - 1) / p",
        source: KUMAR,
        restriction: COMMUTATIVE,
        ordered: false,
        near: false,
        build: |shape| Box::new(Then::new(Reversed(Torus::new(shape.place)), Torus::new(shape.place))),
        ..PLAIN
    },
];

const ALLGATHER: &[Entry] = &[
    Entry {
        name: "circulant",
        rounds: "q",
        volume: "m (p - 1) / p",
        source: TRAEFF_ONE_BLOCK,
        span: Span::Half,
        build: |shape| Box::new(OneBlock::new(shape.place)),
        ..PLAIN
    },
    Entry {
        name: "circulant-n",
        rounds: "n - 1 + q",
        volume: "m (p - 1) / p; one rank has all: m (n - 1 + q) / n",
        source: TRAEFF_ALL,
        pipelined: true,
        scattered: true,
        build: |shape| Box::new(all_broadcast(shape)),
        ..PLAIN
    },
    Entry {
        name: "mst",
        rounds: "2 q",
        volume: "m (q - 1 + 1 / p)",
        source: CHAN_TREE,
        build: |shape| {
            let gather = Reversed(Tree::new(shape.place, 0, Load::Parts));
            Box::new(Then::new(Landed::stored(gather), Tree::of_others(shape.place)))
        },
        ..PLAIN
    },
    Entry {
        name: "hypercube",
        rounds: "q",
        volume: "m (p - 1) / p",
        source: THAKUR,
        restriction: POWER_OF_TWO,
        fits: power_of_two,
        span: Span::Half,
        build: |shape| Box::new(Hypercube(shape.place)),
        ..PLAIN
    },
    Entry {
        name: "ring",
        rounds: "p - 1",
        volume: "m (p - 1) / p",
        source: CHAN_RING,
        span: Span::Part,
        build: |shape| Box::new(Ring::whole(shape.place)),
        ..PLAIN
    },
    Entry {
        name: "ring-n",
        rounds: "n (p - 1)",
        volume: "m (p - 1) / p; one rank has all: m",
        source: CHAN_RING,
        pipelined: true,
        span: Span::Part,
        build: |shape| Box::new(ring(shape)),
        ..PLAIN
    },
    Entry {
        name: "torus",
        rounds: "a + b - 2",
        volume: "m (p - 1) / p",
        source: KUMAR,
        near: false,
        build: |shape| Box::new(Torus::new(shape.place)),
        ..PLAIN
    },
];

const REDUCE_SCATTER: &[Entry] = &[
    Entry {
        name: "circulant",
        rounds: "q",
        volume: "m (p - 1) / p",
        source: TRAEFF_ONE_BLOCK,
        restriction: COMMUTATIVE,
        ordered: false,
        span: Span::Half,
        build: |shape| Box::new(Reversed(OneBlock::new(shape.place))),
        ..PLAIN
    },
    Entry {
        name: "circulant-n",
        rounds: "n - 1 + q",
        volume: "m (p - 1) / p; one rank gets all: m",
        source: TRAEFF_ALL_BACKWARDS,
        restriction: COMMUTATIVE,
        pipelined: true,
        ordered: false,
        scattered: true,
        build: |shape| Box::new(Reversed(all_broadcast(shape))),
        ..PLAIN
    },
    Entry {
        name: "mst",
        rounds: "2 q",
        volume: "3 m / 2",
        source: CHAN_TREE,
        build: |shape| {
            let scatter = Tree::new(shape.place, 0, Load::Parts);
            Box::new(Then::new(Reversed(tree(shape, shape.place.size)), scatter))
        },
        ..PLAIN
    },
    Entry {
        name: "hypercube",
        rounds: "q",
        volume: "m (p - 1) / p",
        source: THAKUR,
        restriction: POWER_OF_TWO_COMMUTATIVE,
        ordered: false,
        fits: power_of_two,
        span: Span::Half,
        build: |shape| Box::new(Reversed(Hypercube(shape.place))),
        ..PLAIN
    },
    Entry {
        name: "ring",
        rounds: "p - 1",
        volume: "m (p - 1) / p",
        source: CHAN_RING,
        restriction: COMMUTATIVE,
        ordered: false,
        span: Span::Part,
        build: |shape| Box::new(Reversed(Ring::whole(shape.place))),
        ..PLAIN
    },
    Entry {
        name: "ring-n",
        rounds: "n (p - 1)",
        volume: "m (p - 1) / p; one rank gets all: m",
        source: CHAN_RING,
        restriction: COMMUTATIVE,
        pipelined: true,
        ordered: false,
        span: Span::Part,
        build: |shape| Box::new(Reversed(ring(shape))),
        ..PLAIN
    },
    Entry {
        name: "torus",
        rounds: "a + b - 2",
        volume: "m (p - 1) / p",
        source: KUMAR,
        restriction: COMMUTATIVE,
        ordered: false,
        near: false,
        build: |shape| Box::new(Reversed(Torus::new(shape.place))),
        ..PLAIN
    },
];

const SCATTER: &[Entry] = &[
    Entry {
        name: "mst",
        rounds: "q",
        volume: "m (p - 1) / p",
        source: CHAN_TREE,
        span: Span::Half,
        build: |shape| Box::new(Tree::new(shape.place, shape.root, Load::Parts)),
        ..PLAIN
    },
    Entry {
        name: "linear",
        rounds: "p - 1",
        volume: "m (p - 1) / p",
        source: NAIVE,
        near: false,
        span: Span::Part,
        build: |shape| Box::new(linear(shape, Load::Parts)),
        ..PLAIN
    },
];

const GATHER: &[Entry] = &[
    Entry {
        name: "mst",
        rounds: "q",
        volume: "m / 2",
        source: CHAN_TREE,
        span: Span::Half,
        build: |shape| Box::new(Landed::stored(Reversed(Tree::new(shape.place, shape.root, Load::Parts)))),
        ..PLAIN
    },
    Entry {
        name: "linear",
        rounds: "p - 1",
        volume: "m / p",
        source: NAIVE,
        near: false,
        span: Span::Part,
        build: |shape| Box::new(Landed::stored(Reversed(linear(shape, Load::Parts)))),
        ..PLAIN
    },
];

const ALLTOALL_DIRECT: &[Entry] = &[
    Entry {
        name: "ring",
        rounds: "p - 1",
        volume: "m (p - 1) / p",
        source: "Kumar et al., Basic Communication Operations: direct, by distance",
        restriction: PAIRS,
        near: false,
        fits: countable_pairs,
        span: Span::Part,
        build: |shape| Box::new(Direct { place: shape.place, ways: Ways::Ring(shape.place.size) }),
        ..PLAIN
    },
    Entry {
        name: "pairwise",
        rounds: "p - 1",
        volume: "m (p - 1) / p",
        source: JOHNSSON,
        restriction: "p is a power of two, and p < 65536",
        near: false,
        fits: countable_power_of_two,
        span: Span::Part,
        build: |shape| Box::new(Direct { place: shape.place, ways: Ways::Hypercube }),
        ..PLAIN
    },
];

const ALLTOALL_RELAYED: &[Entry] = &[
    Entry {
        name: "store-and-forward",
        rounds: "q",
        volume: "m q / 2",
        source: "Johnsson and Ho, doi:10.1109/12.29465; any p: Bruck et al., doi:10.1109/71.642949",
        restriction: PAIRS,
        fits: countable_pairs,
        span: Span::Half,
        scattered: true,
        digits: Some(Digits::binary),
        build: |shape| forwarded(shape, Digits::binary),
        ..PLAIN
    },
    Entry {
        name: "two-phase",
        rounds: "r + ⌈p / r⌉ - 2",
        volume: "m (2 - (r + ⌈p / r⌉) / p)",
        source: "Bruck et al., doi:10.1109/71.642949, radix √p; Kumar et al., Basic Communication Operations: on a mesh",
        restriction: PAIRS,
        near: false,
        fits: countable_pairs,
        span: Span::Row,
        scattered: true,
        digits: Some(Digits::two),
        build: |shape| forwarded(shape, Digits::two),
        ..PLAIN
    },
];

const BARRIER: &[Entry] = &[
    Entry {
        name: "circulant",
        rounds: "q",
        volume: "0",
        source: "Hensgen, Finkel and Manber, doi:10.1007/BF01379320, on the circulant graph's skips",
        ..PLAIN
    },
    Entry {
        name: "mst",
        rounds: "2 q",
        volume: "0",
        source: CHAN_TREE,
        build: |shape| {
            let words = || Signals(tree(shape, 1));
            Box::new(Then::new(Landed::stored(Reversed(words())), words()))
        },
        ..PLAIN
    },
];

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::algorithm::groups::Groups;
    use crate::algorithm::{named, of, torus};
    use crate::collective::Numbering;
    use crate::engine::notice::{MAX_BLOCKS, MAX_ROUNDS};
    use crate::plan::digits::row;
    use crate::plan::lockstep::Breach;
    use crate::plan::{Side, each_block};
    use crate::rank::{Place, Rank};
    use crate::schedule::Skips;
    use crate::select;
    use proptest::prelude::*;
    use rayon::iter::{IntoParallelIterator, ParallelIterator};

    fn sizes() -> impl ParallelIterator<Item = u32> {
        let sizes: Vec<_> = (1..=100).chain([129, 257]).rev().collect();
        sizes.into_par_iter()
    }

    /// The entries to be proved for `p` ranks: in large graphs one collective of those that share plans, and
    /// none by groups, of which the program proves more (`circulant check --plans`).
    fn to_prove(p: u32) -> impl Iterator<Item = &'static Entry> {
        let twins = CATALOGUE.iter().filter(move |_| p <= 24);
        let others = without_twins().filter(move |entry| p > 24 && (p <= 40 || !entry.is_nested()));
        twins.chain(others).filter(move |entry| entry.fits(p))
    }

    #[test]
    fn every_plan_of_the_catalogue_passes_the_lockstep_check() {
        sizes().for_each(|p| {
            for entry in to_prove(p) {
                for shape in entry.shapes(p) {
                    if let Err(breach) = entry.check(&shape) {
                        let (collective, name) = (entry.collective.name(), entry.name);
                        let Shape { blocks, root, groups, .. } = shape;
                        panic!("{collective} {name}, p = {p}, n = {blocks}, root {root}, {groups}: {breach}");
                    }
                }
            }
        });
    }

    fn shape(entry: &Entry, p: u32, root: Rank, blocks: u32) -> Shape {
        Shape { root, blocks, ..entry.shapes(p).swap_remove(0) }
    }

    fn ranks_of(bits: &[bool]) -> Option<Arc<[Rank]>> {
        let present = (0..).zip(bits).filter_map(|(rank, &is)| is.then_some(rank));
        Some(present.collect())
    }

    fn are_left_out(
        names: &[&str],
        groups: impl Fn() -> Groups,
        n: u32,
        present: &[bool],
    ) -> Result<(), Breach> {
        let entries =
            names.iter().flat_map(|name| [Allgatherv, ReduceScatter].map(|one| named(one, name).unwrap()));
        entries.into_iter().try_for_each(|entry| entry.check(&Shape::new(groups(), 0, n, ranks_of(present))))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]
        #[test]
        fn parts_that_are_empty_are_left_out(
            present in proptest::collection::vec(proptest::bool::ANY, 1..50),
            few in proptest::collection::vec(proptest::bool::weighted(0.1), 1..50),
            n in 1u32..20,
        ) {
            for present in [present, few] {
                let alone = || Groups::alone(present.len() as u32);
                prop_assert_eq!(are_left_out(&["circulant-n", "ring-n"], alone, n, &present), Ok(()));
            }
        }

        #[test]
        fn parts_that_are_empty_are_left_out_by_leaders_and_lanes(
            present in proptest::collection::vec(proptest::bool::weighted(0.3), 1..24), n in 1u32..9, size in 2u32..6,
        ) {
            let p = present.len() as u32;
            let scattered = || Groups::scattered(p);
            prop_assert_eq!(are_left_out(&["leader", "leader-ring"], scattered, n, &present), Ok(()));
            let domains = || Groups::scattered_in_domains(p);
            prop_assert_eq!(are_left_out(&["leader-domains"], domains, n, &present), Ok(()));
            let one = || Groups::runs(p, 1).with_domains(|rank| Some(rank / size));
            prop_assert_eq!(are_left_out(&["leader-domains"], one, n, &present), Ok(()));
            let present = &present[..(p - p % size) as usize];
            let equal = || Groups::runs(present.len() as u32, present.len() as u32 / size);
            if !present.is_empty() {
                prop_assert_eq!(are_left_out(&["lanes"], equal, n, present), Ok(()));
            }
        }
    }

    /// A formula of the catalogue, with numbers.
    fn evaluate(formula: &str, shape: &Shape) -> u32 {
        let Shape { place: Place { size: p, .. }, blocks: n, root, .. } = *shape;
        let (q, (a, b)) = (Skips::new(p).rounds(), torus::sides(p));
        let (g, q_k) = (shape.groups.count(), shape.groups.rounds_within());
        let q_g = Skips::new(g).rounds();
        if let Some((several, one)) = formula.split_once("; on one node ") {
            return match (g, shape.groups.by_domains()) {
                (1, Some(domains)) => {
                    let two_levels = one.replace("q_d", "q_g").replace("q_j", "q_k");
                    evaluate(&two_levels, &Shape { groups: Arc::clone(domains), ..shape.clone() })
                }
                _ => evaluate(several, shape),
            };
        }
        let rounds_of_domains = shape.groups.by_domains().and_then(|groups| groups.rounds_of_domains());
        let (q_d, q_j) = rounds_of_domains.unwrap_or_default();
        match formula {
            "q" => q,
            "2 q" => 2 * q,
            "q, to another root than 0: q + 1" => q + u32::from(root != 0),
            "n - 1 + q" => {
                if p == 1 {
                    0
                } else {
                    n - 1 + q
                }
            }
            "2 (n - 1 + q)" => {
                if p == 1 {
                    0
                } else {
                    2 * (n - 1 + q)
                }
            }
            "p - 1" => p - 1,
            "n (p - 1)" => n * (p - 1),
            "2 (p - 1)" => 2 * (p - 1),
            "a + b - 2" => a + b - 2,
            "r + ⌈p / r⌉ - 2" => row(p) + p.div_ceil(row(p)) - 2,
            "2 (a + b - 2)" => 2 * (a + b - 2),
            "⌊log₂ p⌋, of other p than powers of two: 2 more" => {
                p.ilog2() + if p.is_power_of_two() { 0 } else { 2 }
            }
            "2 (n - 2 + q_g + q_k)" => 2 * (n + q_g + q_k - 2),
            "2 q_k + ⌊log₂ g⌋, of other g than powers of two: 2 more" => {
                2 * q_k + g.ilog2() + if g.is_power_of_two() { 0 } else { 2 }
            }
            "4 (q_g + q_k)" => 4 * (q_g + q_k),
            "4 (g - 1 + q_k)" => 4 * (g - 1 + q_k),
            "n - 1 + q_k + 2 (n - 2 + q_g + q_k)" => n - 1 + q_k + 2 * (n + q_g + q_k - 2),
            "n - 1 + q_k + 2 (n (g - 1) - 1 + q_k)" => n - 1 + q_k + 2 * (n * (g - 1) + q_k - 1),
            "q_g + q_k" => q_g + q_k,
            "2 (k - 1) + g - 1" => 2 * (shape.groups.largest() - 1) + g - 1,
            "q_g + 2 q_k" => q_g + 2 * q_k,
            "3 (n - 3 + q_g + q_d + q_j)" => 3 * (n + q_g + q_d + q_j - 3),
            "6 (q_g + q_d + q_j - 1)" => 6 * (q_g + q_d + q_j - 1),
            "n - 1 + q_k + 3 (n - 3 + q_g + q_d + q_j)" => n - 1 + q_k + 3 * (n + q_g + q_d + q_j - 3),
            "q_g + 4 (q_d + q_j - 1)" => q_g + 4 * (q_d + q_j - 1),
            "2 (q_g + q_k)" => 2 * (q_g + q_k),
            "2 (n - 1) + q_g + q_k" => 2 * (n - 1) + q_g + q_k,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn plans_have_as_many_rounds_as_the_catalogue_says() {
        for p in (1..=40).chain([100, 257]) {
            for entry in CATALOGUE.iter().filter(|entry| entry.fits(p)) {
                let counts = |shape: &Shape| entry.suits(&shape.groups);
                for shape in entry.shapes(p).into_iter().filter(counts) {
                    let (shape, name) =
                        (Shape { chunk: 1, leaders: 1, ..shape }, (entry.collective.name(), entry.name));
                    let rounds = evaluate(entry.rounds, &shape);
                    assert_eq!(
                        entry.plan(&shape).rounds(),
                        rounds,
                        "{name:?}, p = {p}, n = {}",
                        shape.blocks
                    );
                }
            }
        }
    }

    #[test]
    fn a_vector_in_the_most_blocks_has_rounds_that_a_notice_can_name() {
        let whole = |entry: &&Entry| entry.pipelined && entry.collective.numbering() == Numbering::Whole;
        for p in [2, 3, 12, 48] {
            for entry in CATALOGUE.iter().filter(|entry| entry.fits(p)).filter(whole) {
                let suits = |shape: &Shape| entry.suits(&shape.groups);
                for shape in entry.shapes(p).into_iter().filter(suits) {
                    let rounds = entry.plan(&Shape { blocks: MAX_BLOCKS, chunk: 1, ..shape }).rounds();
                    let (collective, name) = (entry.collective.name(), entry.name);
                    assert!(rounds <= MAX_ROUNDS, "{collective} {name}, p = {p}: {rounds} rounds");
                }
            }
        }
    }

    /// How many blocks a rank puts.
    fn volume(plan: &dyn Plan) -> u32 {
        let mut blocks = 0;
        (0..plan.rounds()).for_each(|i| each_block(plan, i, Side::Put, &mut |_| blocks += 1));
        blocks
    }

    #[test]
    fn the_least_volume_is_put_where_the_catalogue_says_so() {
        for p in 1..70 {
            let least = CATALOGUE.iter().filter(|entry| entry.volume.starts_with("m (p - 1) / p"));
            for entry in least.filter(|entry| entry.fits(p)) {
                let n = if entry.pipelined { 5 } else { 1 };
                let busiest =
                    entry.plans(&shape(entry, p, 0, n)).iter().map(|plan| volume(&**plan)).max().unwrap();
                assert_eq!(busiest, n * (p - 1), "{} {}, p = {p}", entry.collective.name(), entry.name);
            }
            let least = CATALOGUE.iter().filter(|entry| entry.volume == "2 m (p - 1) / p");
            for entry in least.filter(|entry| entry.fits(p)) {
                let plans = entry.plans(&shape(entry, p, 0, 1));
                assert!(plans.iter().all(|plan| volume(&**plan) == 2 * (p - 1)), "{}, p = {p}", entry.name);
            }
        }
    }

    #[test]
    fn the_readme_says_how_many_there_are() {
        let said = format!("{} of them for\n{} collectives", CATALOGUE.len(), Collective::ALL.len());
        assert!(include_str!("../../README.md").contains(&said), "{said}");
    }

    #[test]
    fn in_two_phases_a_block_is_put_once_or_twice() {
        let entry = named(Collective::Alltoall, "two-phase").unwrap();
        for p in 1..100 {
            let twice = 2 * p - row(p) - p.div_ceil(row(p));
            assert!(
                entry.plans(&shape(entry, p, 0, 1)).iter().all(|plan| volume(&**plan) == twice),
                "p = {p}"
            );
        }
    }

    #[test]
    fn no_leg_carries_more_than_the_catalogue_says() {
        for p in (1..=70).chain([97, 128]) {
            for entry in CATALOGUE.iter().filter(|entry| entry.fits(p) && !entry.pipelined) {
                let shape = shape(entry, p, p / 3, 1);
                let (ranks, parts) = match entry.is_nested() {
                    true => (shape.groups.count(), shape.groups.largest()),
                    false => (p, 1),
                };
                let most = match (entry.span, entry.relays()) {
                    (Span::Part, _) => parts,
                    (Span::Half, _) => (ranks / 2).max(1) * parts,
                    (Span::Row, _) => row(p),
                    (Span::Whole, true) => p.max(parts * parts),
                    (Span::Whole, false) => continue,
                };
                for plan in entry.plans(&shape) {
                    for (i, side) in (0..plan.rounds()).flat_map(|i| [(i, Side::Put), (i, Side::Arrival)]) {
                        let mut blocks = 0;
                        each_block(&*plan, i, side, &mut |_| blocks += 1);
                        let name = (entry.collective, entry.name);
                        assert!(blocks <= most, "{name:?}, p = {p}: {blocks} blocks in round {i}");
                    }
                }
            }
        }
    }

    #[test]
    fn of_parts_that_differ_no_leg_carries_more_than_the_heaviest_half() {
        let lengths: [fn(Rank) -> usize; 4] = [
            |rank| rank as usize % 3,
            |rank| rank as usize * 7919 % 101,
            |rank| usize::from(rank == 2),
            |_| 1,
        ];
        let spans_half =
            |entry: &&Entry| entry.span == Span::Half && entry.collective.numbering() == Numbering::Parts;
        for p in (2..=40).chain([97, 128]) {
            for entry in CATALOGUE.iter().filter(spans_half).filter(|entry| entry.fits(p)) {
                let shapes = entry
                    .shapes(p)
                    .into_iter()
                    .filter(|shape| !entry.is_nested() || shape.groups.count() > 1);
                for (shape, length) in shapes.flat_map(|shape| lengths.map(|length| (shape.clone(), length)))
                {
                    let most = match entry.is_nested() {
                        true => select::Around::parts(&shape.groups.sums(length), 1).half,
                        false => select::Around::parts(&(0..p).map(length).collect::<Vec<_>>(), 1).half,
                    };
                    for plan in entry.plans(&shape) {
                        for (i, side) in (0..plan.rounds()).flat_map(|i| [(i, Side::Put), (i, Side::Arrival)])
                        {
                            let mut carried = 0;
                            each_block(&*plan, i, side, &mut |part| carried += length(part));
                            let name = (entry.collective, entry.name);
                            assert!(carried as u64 <= most, "{name:?}, p = {p}, round {i}: {carried}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn several_leaders_share_what_crosses() {
        let groups = Arc::new(Groups::runs(12, 3));
        for (collective, name) in [(Broadcast, "leader"), (Reduce, "leader"), (Allreduce, "leader-ring")] {
            let entry = named(collective, name).unwrap();
            let shape = Shape { leaders: 4, groups: groups.clone(), ..shape(entry, 12, 5, 8) };
            for (rank, plan) in (0..).zip(entry.plans(&shape)) {
                let crosses = |peer: Rank| groups.of(peer) != groups.of(rank);
                let mut crossing = 0;
                for i in 0..plan.rounds() {
                    if plan.round(i).put.is_some_and(|leg| crosses(leg.peer)) {
                        each_block(&*plan, i, Side::Put, &mut |_| crossing += 1);
                    }
                }
                // A leader's 2 blocks of 8 go in 3 rounds; of its vector's 3 parts 2 are reduced, and 2 come back.
                let most = if collective == Allreduce { 4 } else { 3 };
                assert!(
                    crossing <= most,
                    "{collective:?}: rank {rank} puts {crossing} blocks to other groups"
                );
            }
        }
    }

    #[test]
    fn a_domain_s_border_is_crossed_once() {
        let nodes = Groups::runs(24, 2).with_domains(|rank| Some(rank / 4));
        let entry = named(Broadcast, "leader-domains").unwrap();
        let shape = Shape { groups: Arc::new(nodes), ..shape(entry, 24, 7, 5) };
        for (rank, plan) in (0..24).zip(entry.plans(&shape)) {
            let far = |i: &u32| plan.round(*i).arrival.is_some_and(|leg| leg.peer / 4 != rank / 4);
            let crossed = (0..plan.rounds()).filter(far).count();
            let leads = rank != 7 && rank % 4 == 0 && rank / 4 != 1;
            assert_eq!(crossed, if leads { 5 } else { 0 }, "rank {rank}");
        }
    }

    #[test]
    fn a_restriction_is_in_words_where_there_is_one() {
        for entry in &CATALOGUE {
            let says = |words: &str| entry.restriction.contains(words);
            assert_eq!(says("commutative"), !entry.ordered);
            assert_eq!(says("power of two"), !entry.fits(12));
            assert_eq!(says("65536"), !entry.fits(65536));
            assert!(entry.fits(1) && entry.fits(2));
        }
    }

    #[test]
    fn no_entry_is_more_modest_than_it_need_be() {
        let holds = |entry: Entry| {
            let proved = |p| entry.shapes(p).iter().all(|shape| entry.check(shape).is_ok());
            (1..=17).filter(|&p| entry.fits(p)).all(proved)
        };
        for entry in &CATALOGUE {
            let name = (entry.collective.name(), entry.name);
            assert!(entry.near || !holds(Entry { near: true, ..*entry }), "{name:?} is near");
            assert!(entry.ordered || !holds(Entry { ordered: true, ..*entry }), "{name:?} is ordered");
            assert!(!entry.exchanges || !holds(Entry { exchanges: false, ..*entry }), "{name:?}");
        }
    }

    #[test]
    fn every_collective_has_a_default_for_any_ranks_and_one_that_keeps_their_order() {
        for collective in Collective::ALL {
            let default = of(collective).next().unwrap();
            assert!((1..300).all(|p| default.fits(p)));
            assert!(of(collective).any(|entry| entry.ordered && (1..300).all(|p| entry.fits(p))));
        }
    }

    #[test]
    fn numbers_and_names_find_their_entries() {
        for (number, entry) in (0..).zip(CATALOGUE) {
            assert_eq!(entry.number(), number);
            let found = named(entry.collective, entry.name).unwrap();
            assert_eq!(found.number(), number);
        }
    }

    #[test]
    fn reduce_is_broadcast_read_backwards() {
        for (reduce, broadcast) in
            named(Reduce, "circulant").unwrap().plans(&Shape::new(Groups::alone(17), 3, 6, None)).iter().zip(
                &named(Broadcast, "circulant").unwrap().plans(&Shape::new(Groups::alone(17), 3, 6, None)),
            )
        {
            for i in 0..reduce.rounds() {
                let (one, other) = (reduce.round(i), broadcast.round(reduce.rounds() - 1 - i));
                assert_eq!((one.put, one.arrival), (other.arrival, other.put));
            }
        }
    }
}
