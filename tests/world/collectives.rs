//! Every collective does what it says, element by element: whatever the number of ranks, the root, the
//! counts, the number of blocks, the algorithm, the tense and the provider.

use std::fmt::Write;

use circulant::algorithm;
use circulant::algorithm::groups::Groups;
use circulant::collective::Collective::{self, *};
use circulant::comm::{Call, Communicator};
use circulant::fold::Sum;

use crate::job::{Job, usual};

const TENSES: [&str; 5] = ["slice", "named", "window", "started", "prepared"];
/// Those in which an algorithm may be named.
const IN_PLACE: [&str; 4] = ["slice", "window", "started", "prepared"];
const KINDS: [&str; 4] = ["regular", "irregular", "degenerate", "ragged"];

/// What users call and that has data.
fn collectives() -> impl Iterator<Item = Collective> {
    Collective::ALL.into_iter().filter(|&one| one != Barrier)
}

fn kinds(collective: Collective) -> &'static [&'static str] {
    if collective.has_counts() { &KINDS } else { &KINDS[..1] }
}

/// A script of many calls.
#[derive(Default)]
struct Script {
    text: String,
    calls: usize,
    turn: usize,
}

impl Script {
    fn call(&mut self, collective: Collective, rest: &str) {
        self.calls += 1;
        write!(self.text, " {}:{rest}", collective.name()).unwrap();
    }

    /// Each collective with each kind of counts, from and to each of these roots; in the tense and on the
    /// type whose turn it is, so that five of these take each collective through all.
    fn each(&mut self, roots: &[u32], count: usize) {
        self.turn += 1;
        let mut turn = self.turn;
        for collective in collectives() {
            let roots = if collective.has_root() { roots } else { &roots[..1] };
            for kind in kinds(collective) {
                for root in roots {
                    let (tense, ty) = (TENSES[turn % 5], ["i32", "u8", "f64"][turn % 3]);
                    let of = format!("tense={tense}:type={ty}:kind={kind}:count={count}:root={root}");
                    self.call(collective, &of);
                    turn += 1;
                }
            }
        }
    }

    /// All ranks of a job verify all of it.
    #[track_caller]
    fn is_verified(&self, ranks: u32, provider: &str) {
        verified(ranks, provider, &self.text);
    }
}

#[track_caller]
pub fn verified(ranks: u32, provider: &str, script: &str) {
    all_verify(ranks, script, |job| job.set("CIRCULANT_PROVIDER", provider), provider);
}

/// The same over shared memory and TCP, on so many pretended nodes.
#[track_caller]
pub fn verified_on_nodes(nodes: u32, ranks: u32, script: &str) {
    let mixed = |job: Job| job.on_nodes(nodes).set("CIRCULANT_PROVIDER", "shm+tcp");
    all_verify(ranks, script, mixed, &format!("shm+tcp on {nodes} nodes"));
}

#[track_caller]
fn all_verify(ranks: u32, script: &str, carried: impl FnOnce(Job) -> Job, how: &str) {
    let job = carried(Job::new(ranks, &format!("world {script} say verified")));
    let (what, outcome) = (format!("{ranks} ranks over {how}"), job.launch().end());
    assert_eq!(outcome.code, Some(0), "{what}: {outcome:#?}");
    for said in &outcome.ranks {
        assert!(said.contains("verified"), "{what}: {outcome:#?}");
    }
}

#[test]
fn every_collective_in_every_tense_with_few_ranks() {
    for ranks in [1, 2, 3, 5] {
        let mut script = Script::default();
        let roots: Vec<u32> = (0..ranks).collect();
        for count in [0, 1, 3, 500, 1023, 1024, 1025, 2049, 8193] {
            script.each(&roots, count);
        }
        script.is_verified(ranks, &usual());
    }
}

#[test]
fn every_collective_with_more_ranks() {
    let sizes: [(u32, &[usize]); 3] =
        [(7, &[0, 1, 300, 2049, 5000]), (16, &[0, 1, 130, 700, 2049]), (33, &[0, 1, 65, 130, 1025])];
    for (ranks, counts) in sizes {
        let mut script = Script::default();
        for &count in counts {
            script.each(&[ranks / 2, ranks - 1], count);
        }
        script.is_verified(ranks, &usual());
    }
}

#[test]
fn every_collective_of_large_messages() {
    for ranks in [2, 3, 7] {
        let mut script = Script::default();
        script.each(&[1], 70_001);
        script.is_verified(ranks, &usual());
    }
    let mut script = Script::default();
    script.each(&[2], 300_001);
    script.is_verified(3, &usual());
}

#[test]
fn one_very_large_vector_of_each_tense() {
    let mut script = Script::default();
    for collective in [Broadcast, Reduce, Allreduce] {
        for tense in TENSES {
            script.call(collective, &format!("tense={tense}:count=3000001:root=1"));
        }
    }
    script.is_verified(3, &usual());
}

/// The words for each algorithm that fits so many ranks of a `world`, with each of these counts as far as it
/// takes them.
pub fn algorithms(ranks: u32, world: u32, nodes: &Groups, counts: &[usize]) -> String {
    let mut script = Script::default();
    for collective in collectives() {
        for entry in algorithm::of(collective).filter(|entry| entry.fits(ranks) && entry.suits(nodes)) {
            // Those take no more than a slot, of 2048 elements, where all ranks have slots for all.
            let takes = |count| !entry.exchanges || (count < 2048 && world <= 48);
            for count in counts.iter().filter(|&&count| takes(count)) {
                let tense = IN_PLACE[script.calls % IN_PLACE.len()];
                let kind = kinds(collective)[script.calls % kinds(collective).len()];
                let root = script.calls % ranks as usize;
                let of = format!("tense={tense}:kind={kind}:count={count}:root={root}");
                script.call(collective, &format!("{of}:algorithm={}", entry.name));
            }
        }
    }
    script.text
}

#[test]
fn every_algorithm_that_fits() {
    for ranks in [4, 6, 8] {
        verified(
            ranks,
            &usual(),
            &algorithms(ranks, ranks, &Groups::runs(ranks, 1), &[0, 1, 1000, 2500, 30_001]),
        );
    }
}

#[test]
fn every_algorithm_that_fits_where_ranks_share_nodes() {
    for (ranks, nodes) in [(6, 3), (7, 3)] {
        let script = algorithms(ranks, ranks, &Groups::runs(ranks, nodes), &[0, 1, 1000, 30_001]);
        verified_on_nodes(nodes, ranks, &script);
    }
}

#[test]
fn every_algorithm_that_fits_where_nodes_have_domains_and_several_leaders() {
    for (ranks, nodes) in [(9, 2), (6, 1)] {
        let groups = Groups::runs(ranks, nodes).with_runs_of_domains(2);
        let script = algorithms(ranks, ranks, &groups, &[0, 1, 1000, 30_001]);
        let default = "broadcast:tense=named:count=30001:root=2 allreduce:tense=window:count=30001";
        let carried = |job: Job| {
            let provider = if nodes > 1 { "shm+tcp" } else { "shm" };
            let job = job.on_nodes(nodes).set("CIRCULANT_PROVIDER", provider);
            job.set("CIRCULANT_DOMAINS", "2").set("CIRCULANT_LEADERS", "2")
        };
        let how = format!("{nodes} nodes of two domains and two leaders");
        all_verify(ranks, &format!("{script} {default}"), carried, &how);
    }
}

#[test]
fn every_number_of_blocks() {
    for ranks in [2, 5, 8] {
        let mut script = Script::default();
        for collective in collectives() {
            for entry in algorithm::of(collective).filter(|entry| entry.pipelined && !entry.is_nested()) {
                for blocks in [1, 2, 7, 200] {
                    for count in [0, 1, 1000, 20_001] {
                        let kind = kinds(collective)[script.calls % kinds(collective).len()];
                        let tense = IN_PLACE[script.calls % 4];
                        let algorithm = entry.name;
                        script.call(collective, &format!("tense={tense}:kind={kind}:count={count}:blocks={blocks}:algorithm={algorithm}"));
                    }
                    script.calls += 1;
                }
            }
        }
        script.is_verified(ranks, &usual());
    }
}

#[test]
fn calls_that_overlap() {
    let mut script = Script::default();
    for round in 0..3 {
        for collective in collectives() {
            for kind in kinds(collective) {
                let count = [1, 700, 9000][(round + script.calls) % 3];
                script
                    .call(collective, &format!("tense=pending:kind={kind}:count={count}:root={}", round % 2));
            }
        }
        script.text += " allreduce:count=5 finish";
    }
    script.is_verified(4, &usual());
}

#[test]
fn every_local_provider_carries_every_collective() {
    for provider in ["rxm", "shm", "ofi-shm"] {
        for (ranks, counts) in [(2, [0, 1025, 70_001]), (5, [1, 2049, 20_001]), (13, [1, 300, 2049])] {
            let mut script = Script::default();
            for count in counts {
                script.each(&[ranks - 1], count);
            }
            script.is_verified(ranks, provider);
        }
    }
}

#[test]
fn every_collective_where_some_ranks_share_a_node() {
    for (ranks, nodes) in [(6, 2), (6, 3), (5, 2), (7, 5)] {
        let mut script = Script::default();
        for count in [3, 20_001] {
            script.each(&[ranks - 1], count);
        }
        verified_on_nodes(nodes, ranks, &script.text);
    }
}

#[test]
fn slices_go_each_way_where_some_ranks_share_a_node() {
    let mut script = Script::default();
    script.each(&[1], 20_001);
    let script = format!("world {} say verified", script.text);
    for way in ["joint", "writev", "ring"] {
        let job = Job::new(5, &script).on_nodes(2).set("CIRCULANT_SHM_COPY", way);
        for end in job.set("CIRCULANT_PROVIDER", "shm+tcp").meet().end() {
            assert!(end.status.success() && end.out.contains("verified"), "{way}: {end:?}");
        }
    }
}

#[test]
fn ranks_that_meet_by_themselves_call_too() {
    let mut script = Script::default();
    script.each(&[2], 3000);
    for end in Job::new(3, &format!("world {} say verified", script.text)).meet().end() {
        assert!(end.status.success() && end.out.contains("verified"), "{end:?}");
    }
}

#[test]
fn programs_may_name_any_algorithm() -> circulant::error::Result<()> {
    let comm = &Communicator::loopback(4, 0)?[0];
    for entry in comm.algorithms(Collective::Allreduce) {
        let call = Call::allreduce(Sum).algorithm(entry.name);
        assert_eq!(comm.choice::<u32>(&call, 8)?.algorithm, entry.name);
    }
    for entry in comm.algorithms(Collective::Alltoall) {
        let call = Call::alltoall().algorithm(entry.name);
        assert_eq!(comm.choice::<u32>(&call, 8)?.algorithm, entry.name);
    }
    Ok(())
}
