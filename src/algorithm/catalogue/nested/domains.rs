//! The same by one level more: a group's leader hands on to the leaders of the group's domains, and these within
//! them, so that a domain's border is crossed once. Where all ranks are in one group, domains are the groups.
//!
//! Names: `leader-domains` is `leader`. In formulas the group that has most domains has d of them, and the largest
//! domain has j ranks; `q_d` and `q_j` are their binary logarithms rounded up. The parts of one group's ranks, first
//! in an allgather and last in a reduce-scatter, go within the group as they do without domains.

use super::{
    FOLDED, LED, SEVERAL_LEADERS, allgather, allreduce_on_the_graph, barrier, broadcast, circulant,
    reduce_scatter,
};
use crate::algorithm::{Entry, Nesting};
use crate::plan::compose::Reversed;

const DIVIDED: &str = "ranks in domains";
const DIVIDED_COMMUTATIVE: &str = "ranks in domains; commutative operators";

const BY_DOMAINS: Entry =
    Entry { name: "leader-domains", restriction: DIVIDED, nesting: Nesting::Domains, ..LED };

const FOLDED_BY_DOMAINS: Entry =
    Entry { name: BY_DOMAINS.name, restriction: DIVIDED_COMMUTATIVE, nesting: Nesting::Domains, ..FOLDED };

pub(in crate::algorithm::catalogue) const BROADCAST: &[Entry] = &[Entry {
    rounds: "3 (n - 3 + q_g + q_d + q_j); on one node 2 (n - 2 + q_d + q_j)",
    volume: "m (n - 1 + q_g) / n, as much to domains, and as much within its own",
    pipelined: true,
    source: SEVERAL_LEADERS,
    several_leaders: true,
    build: |shape| broadcast(&shape.by_domains()),
    ..BY_DOMAINS
}];

pub(in crate::algorithm::catalogue) const REDUCE: &[Entry] = &[Entry {
    rounds: "3 (n - 3 + q_g + q_d + q_j); on one node 2 (n - 2 + q_d + q_j)",
    volume: "m",
    pipelined: true,
    source: SEVERAL_LEADERS,
    several_leaders: true,
    build: |shape| Box::new(Reversed(broadcast(&shape.by_domains()))),
    ..FOLDED_BY_DOMAINS
}];

pub(in crate::algorithm::catalogue) const ALLREDUCE: &[Entry] = &[Entry {
    rounds: "6 (q_g + q_d + q_j - 1); on one node 4 (q_d + q_j)",
    volume: "2 m (g - 1) / g, m q_d to domains, and m q_j within its own",
    source: SEVERAL_LEADERS,
    several_leaders: true,
    build: |shape| allreduce_on_the_graph(&shape.by_domains()),
    ..FOLDED_BY_DOMAINS
}];

pub(in crate::algorithm::catalogue) const ALLGATHER: &[Entry] = &[Entry {
    rounds: "n - 1 + q_k + 3 (n - 3 + q_g + q_d + q_j); on one node n - 1 + q_j + 2 (n - 2 + q_d + q_j)",
    volume: "m (g - 1) / g, as much to domains, and m within",
    pipelined: true,
    scattered: true,
    build: |shape| allgather(&shape.by_domains(), circulant),
    ..BY_DOMAINS
}];

pub(in crate::algorithm::catalogue) const REDUCE_SCATTER: &[Entry] = &[Entry {
    rounds: "n - 1 + q_k + 3 (n - 3 + q_g + q_d + q_j); on one node n - 1 + q_j + 2 (n - 2 + q_d + q_j)",
    volume: "m (g - 1) / g, as much to domains, and m within",
    pipelined: true,
    scattered: true,
    build: |shape| reduce_scatter(&shape.by_domains(), circulant),
    ..FOLDED_BY_DOMAINS
}];

pub(in crate::algorithm::catalogue) const BARRIER: &[Entry] = &[Entry {
    rounds: "q_g + 4 (q_d + q_j - 1); on one node q_d + 2 q_j",
    volume: "0",
    build: |shape| barrier(&shape.by_domains()),
    ..BY_DOMAINS
}];
