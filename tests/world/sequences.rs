//! Any calls in any order, by seed: on the world and on what is split off it, one after the other and overlapping, of
//! all types and sizes, over everything that is local and as the variables have it. Each result is verified.

use std::ops::Range;

use circulant::algorithm;
use circulant::algorithm::groups::Groups;
use circulant::collective::Collective::{self, Alltoall, Barrier};
use circulant::collective::Numbering;
use fastrand::Rng;

use crate::job::Job;

const WORDS: usize = 60;
const TENSES: [&str; 7] = ["slice", "slice", "named", "window", "started", "prepared", "pending"];
const KINDS: [&str; 4] = ["regular", "irregular", "degenerate", "ragged"];
/// Types, and operators for them.
const TYPES: [(&str, &[&str]); 9] = [
    ("i32", &["sum", "min", "product", "bitwise_xor"]),
    ("u8", &["max", "sum", "logical_or"]),
    ("f64", &["sum", "max"]),
    ("f16", &["min"]),
    ("complex_f64", &["product"]),
    ("bool", &["logical_and"]),
    ("f64_with_i64_place", &["minloc"]),
    ("matrix", &["product"]),
    ("extent", &["join"]),
];

#[test]
fn twelve_sequences_of_calls() {
    sequences(0..12);
}

/// `WORLD_TEST_SEEDS=1000..2000` takes those.
#[test]
#[ignore = "takes minutes"]
fn more_sequences_of_calls() {
    let seeds = std::env::var("WORLD_TEST_SEEDS").unwrap_or("12..500".to_owned());
    let ends = seeds.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    sequences(ends.expect("WORLD_TEST_SEEDS is a range as 0..12"));
}

fn sequences(seeds: Range<u64>) {
    seeds.for_each(|seed| Sequence::new(seed).verify());
}

/// A job, and what its ranks do.
struct Sequence {
    chance: Rng,
    seed: u64,
    ranks: u32,
    nodes: u32,
    variables: Vec<(&'static str, &'static str)>,
    /// Of each communicator, the number of ranks in its smallest part.
    sizes: Vec<u32>,
    on: usize,
    script: String,
}

impl Sequence {
    fn new(seed: u64) -> Sequence {
        let mut chance = Rng::with_seed(seed);
        let ranks = if chance.u32(0..10) == 0 { chance.u32(13..=52) } else { chance.u32(1..=12) };
        let nodes = if chance.bool() { 1 } else { chance.u32(1..=ranks.min(5)) };
        let providers: &[&str] = if nodes == 1 {
            &["shm", "shm", "tcp", "rxm", "ofi-shm"]
        } else {
            &["shm+tcp", "shm+tcp", "tcp"]
        };
        let mut variables = vec![("CIRCULANT_PROVIDER", *one_of(&mut chance, providers))];
        let mut perhaps = |name, values: &[&'static str]| {
            if chance.u32(0..3) == 0 {
                variables.push((name, *one_of(&mut chance, values)));
            }
        };
        perhaps("CIRCULANT_SHM_COPY", &["joint", "writev", "ring"]);
        perhaps("CIRCULANT_DOMAINS", &["2", "3"]);
        perhaps("CIRCULANT_LEADERS", &["2", "3"]);
        perhaps("CIRCULANT_PROGRESS", &["thread"]);
        perhaps("CIRCULANT_COSTS", &["0.1,0.001", "2,0.1", "30,80", "5000,0.01", "1,10000"]);
        Sequence { chance, seed, ranks, nodes, variables, sizes: vec![ranks], on: 0, script: String::new() }
    }

    #[track_caller]
    fn verify(mut self) {
        (0..WORDS).for_each(|_| self.step());
        let job = Job::new(self.ranks, &format!("world {} finish say verified", self.script));
        let job = self.variables.iter().fold(job, |job, (name, value)| job.set(name, value));
        let outcome = job.on_nodes(self.nodes).launch().end();
        let all = outcome.ranks.iter().all(|said| said.contains("verified"));
        let (seed, ranks, nodes, variables) = (self.seed, self.ranks, self.nodes, &self.variables);
        let what = || format!("seed {seed}, {ranks} ranks on {nodes} nodes, {variables:?}: {}", self.script);
        assert!(outcome.code == Some(0) && all, "{}: {outcome:#?}", what());
    }

    fn step(&mut self) {
        match self.chance.u32(0..40) {
            0..30 => self.calls(),
            30..32 => self.say("barrier"),
            32..34 => self.say("finish"),
            34 => self.say("forget"),
            35 if self.sizes.len() < 5 => self.make(),
            36 if self.sizes.len() > 1 => self.free(),
            _ => self.turn_to(),
        }
    }

    fn say(&mut self, word: &str) {
        self.script += " ";
        self.script += word;
    }

    fn turn_to(&mut self) {
        self.on = self.chance.usize(0..self.sizes.len());
        self.say(&format!("on {}", self.on));
    }

    fn make(&mut self) {
        let size = self.sizes[self.on];
        let colours = self.chance.u32(1..=3);
        if self.chance.bool() {
            self.say("duplicate");
            self.sizes.push(size);
        } else {
            let sign = *one_of(&mut self.chance, &[1, -1]);
            self.say(&format!("split {colours} {sign}"));
            self.sizes.push(size / colours);
        }
    }

    /// What is pending on it is waited for before.
    fn free(&mut self) {
        self.sizes.pop();
        self.on = 0;
        self.say("finish free on 0");
    }

    /// A call, now and then several times, as it is then kept.
    fn calls(&mut self) {
        let word = self.call();
        let times = if self.chance.u32(0..4) == 0 { self.chance.usize(2..6) } else { 1 };
        (0..times).for_each(|_| self.say(&word));
    }

    fn call(&mut self) -> String {
        let collectives: Vec<Collective> =
            Collective::ALL.into_iter().filter(|&one| one != Barrier).collect();
        let collective = *one_of(&mut self.chance, &collectives);
        let parts = if collective.numbering() == Numbering::Whole { 1 } else { self.ranks as usize };
        let most = (1 << self.chance.u32(0..=17)) / parts;
        let count = self.chance.usize(0..=most);
        let (ty, operators) = *one_of(&mut self.chance, &TYPES);
        let (tense, kind) = (*one_of(&mut self.chance, &TENSES), *one_of(&mut self.chance, &KINDS));
        let mut word = format!("{}:count={count}:type={ty}:tense={tense}", collective.name());
        if collective.has_counts() {
            word += &format!(":kind={kind}");
        }
        if collective.reduces() {
            word += &format!(":op={}", one_of(&mut self.chance, operators));
        }
        if collective.has_root() {
            word += &format!(":root={}", self.chance.u32(0..self.sizes[self.on].max(1)));
        }
        if tense != "named" && self.chance.u32(0..4) == 0 {
            word += &self.by_hand(collective, count, ty);
        }
        word
    }

    /// An algorithm that fits, and a number of blocks where it takes one.
    fn by_hand(&mut self, collective: Collective, count: usize, ty: &str) -> String {
        let has_domains = self.variables.iter().any(|(name, _)| *name == "CIRCULANT_DOMAINS");
        if self.on > 0 || has_domains {
            return String::new();
        }
        let groups = Groups::runs(self.ranks, self.nodes);
        let fits = |entry: &&algorithm::Entry| {
            let keeps_order = ty != "matrix" || entry.ordered;
            let in_slots = !entry.exchanges || (count < 400 && self.ranks <= 48);
            // On their way blocks take several times as much, and no more than 8 MiB.
            let short = collective != Alltoall || count * self.ranks as usize <= 16_384;
            entry.fits(self.ranks) && entry.suits(&groups) && keeps_order && in_slots && short
        };
        let entries: Vec<&algorithm::Entry> = algorithm::of(collective).filter(fits).collect();
        let Some(entry) = self.chance.choice(&entries) else { return String::new() };
        let blocks =
            if entry.pipelined { format!(":blocks={}", self.chance.u32(1..30)) } else { String::new() };
        format!(":algorithm={}{blocks}", entry.name)
    }
}

fn one_of<'a, T>(chance: &mut Rng, all: &'a [T]) -> &'a T {
    &all[chance.usize(0..all.len())]
}
