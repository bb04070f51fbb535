//! Communicators split, duplicated and freed: their calls do not mix with each other's.

use circulant::algorithm::groups::Groups;

use crate::collectives::{algorithms, verified, verified_on_nodes};
use crate::job::{Job, usual};

/// Calls of each kind that a communicator makes; pending ones last.
const CALLS: &str = "broadcast:count=9 allreduce:count=3000 allgatherv:kind=irregular:count=700 \
    reduce_scatter:kind=ragged:count=500 alltoall:count=20 barrier reduce:type=matrix:op=product:count=600 \
    allreduce:tense=prepared:count=40 gather:count=2100:tense=window";
const PENDING: &str =
    "allreduce:tense=pending:count=6000 allgather:tense=pending:count=3 broadcast:tense=pending:count=50000";

#[test]
fn split_by_colour_and_key() {
    for ranks in [1, 2, 7] {
        let script = format!("split 2 1 on 1 {CALLS} on 0 split 3 -1 on 2 {CALLS} on 0 {CALLS}");
        verified(ranks, &usual(), &script);
    }
}

#[test]
fn a_split_of_a_split() {
    verified(
        7,
        &usual(),
        &format!("split 2 -1 on 1 split 2 1 on 2 {CALLS} duplicate on 3 {CALLS} on 0 {CALLS}"),
    );
}

#[test]
fn calls_on_several_communicators_at_once() {
    let each = "on 0 @ on 1 @ on 2 @ on 3 @".replace('@', PENDING);
    let script = format!(
        "split 2 1 split 3 -1 duplicate {each} {each} finish {each} on 2 {CALLS} on 0 {CALLS} finish"
    );
    verified(7, &usual(), &script);
}

#[test]
fn communicators_are_freed_and_made_again() {
    let round = format!("on 0 duplicate on 1 {CALLS} on 0 split 2 1 on 2 {PENDING} finish free on 1 free ");
    verified(4, &usual(), &round.repeat(5));
}

#[test]
fn more_ranks_than_all_have_channels_to() {
    // The roots are ranks of the part that is split off, too.
    let calls = algorithms(25, 50, &Groups::runs(25, 1), &[1, 60]);
    verified(50, &usual(), &format!("{calls} split 2 -1 on 1 {calls} on 0 allreduce:count=30000"));
}

#[test]
fn new_channels_among_ranks_of_one_node_and_of_others() {
    let script = format!("split 2 -1 on 1 {CALLS} on 0 split 3 1 on 2 {CALLS}");
    verified_on_nodes(4, 50, &script);
}

#[test]
fn a_communicator_of_one_node_goes_by_the_memory_that_its_ranks_share() {
    let script = format!(
        "world memory split-by-node on 1 memory {CALLS} duplicate on 2 memory on 0 duplicate on 3 memory"
    );
    for (costs, nodes) in [("", 2), ("20,0.5", 2), ("", 1)] {
        let job = Job::new(4, &script).on_nodes(nodes).set("CIRCULANT_PROVIDER", "shm+tcp");
        let among_all = nodes == 1;
        for end in job.set("CIRCULANT_COSTS", costs).meet().end() {
            assert!(end.status.success(), "{end:?}");
            let said: Vec<_> =
                end.out.lines().filter_map(|line| line.split_once("memory shared: ")).collect();
            let shared: Vec<_> = said.iter().map(|(_, shared)| *shared == "true").collect();
            assert_eq!(shared, [among_all, true, true, among_all], "{costs} {nodes}");
        }
    }
}

#[test]
fn ranks_of_a_part_that_disagree_end_the_job() {
    let script = |op| format!("world split 2 -1 on 1 allreduce:count=9:op={op} on 0 barrier");
    for end in Job::new(5, &script("sum")).but(3, &script("max")).meet().end() {
        end.assert_error(&["allreduce(sum of i32, 36 bytes", "rank 3 makes allreduce(max of i32, 36 bytes"]);
    }
}
