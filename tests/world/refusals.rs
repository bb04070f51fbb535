//! Arguments that do not fit are refused before anything is sent, and break nothing; an operator that
//! fails on one rank fails on all.

use crate::job::Job;

/// All three ranks refuse each of these calls with these words, and go on.
#[track_caller]
fn refused(calls: &[(&str, &str)]) {
    let script: String = calls.iter().map(|(call, _)| format!(" try {call}")).collect();
    let script = format!("world {script} allreduce:count=3000 barrier say unbroken");
    for end in Job::new(3, &script).meet().end() {
        assert!(end.status.success() && end.out.contains("unbroken"), "{end:?}");
        let told: Vec<&str> = end.out.lines().filter_map(|line| line.strip_prefix("refused: ")).collect();
        assert_eq!(told.len(), calls.len(), "{end:?}");
        for ((call, words), told) in calls.iter().zip(told) {
            assert!(told.contains(words), "{call}: no `{words}` in {told}");
        }
    }
}

#[test]
fn a_root_that_is_no_rank() {
    let words = "root 3 of a communicator of 3 ranks; take a root from 0 to 2";
    refused(&[
        ("broadcast:root=3:room=9", words),
        ("reduce:root=3:room=9", words),
        ("gather:root=3:room=9", words),
    ]);
}

#[test]
fn counts_that_overflow() {
    let most = usize::MAX;
    refused(&[
        (
            &format!("allgatherv:counts={most}+1+1:room=9"),
            "counts whose bytes exceed all memory; give smaller counts",
        ),
        (&format!("reduce_scatter:counts={most}+1+1:room=9"), "counts whose bytes exceed all memory"),
    ]);
}

#[test]
fn lengths_that_do_not_fit() {
    refused(&[
        ("allgatherv:counts=5+6+7:room=9", "18 elements of a buffer of 9; make it larger"),
        ("scatterv:counts=5+6:room=20", "2 counts for 3 ranks; give one for each rank"),
        ("allgather:room=10", "10 elements in 3 equal parts"),
        ("alltoall:room=9", "9 elements in 6 equal parts"),
        ("reduce_scatter_block:room=4", "4 elements in 3 equal parts"),
    ]);
}

#[test]
fn algorithms_and_blocks_that_do_not_fit() {
    refused(&[
        ("allreduce:algorithm=rign:room=9", "no algorithm `rign`; take one of: circulant, circulant-n, mst,"),
        ("allreduce:algorithm=hypercube:room=9", "`hypercube` does not serve this call: p is a power of two"),
        ("allreduce:algorithm=ring:room=9:type=matrix:op=product", "commutative operators"),
        ("allreduce:algorithm=ring:blocks=4:room=9", "4 blocks, where ring takes one"),
        ("broadcast:blocks=0:room=9", "0 blocks; take 1 to "),
    ]);
}

/// All ranks end with the words of the operator that fails on rank 1 alone.
#[track_caller]
fn all_hear(op: &str, words: &[&str]) {
    for call in [
        "allreduce:count=1",
        "allreduce:count=30000",
        "reduce:root=1:count=9000",
        "reduce_scatter_block:count=5000",
    ] {
        let script = |op: &str| format!("world {call}:type=extent:op={op} barrier barrier");
        for end in Job::new(4, &script("join")).but(1, &script(op)).meet().end() {
            end.assert_error(words);
        }
    }
}

#[test]
fn an_operator_that_fails_on_one_rank_fails_on_all() {
    all_hear("fails", &["the operator failed: ", "no sum of apples and pears"]);
}

#[test]
fn an_operator_that_panics_on_one_rank_fails_on_all() {
    all_hear("panics", &["the operator failed: ", "a pear is no apple"]);
}
