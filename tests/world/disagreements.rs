//! Ranks that do not make the same call all end with an error, and both calls are named.

use crate::job::Job;

/// What three ranks come to that make this call, but for one that makes the other.
#[track_caller]
fn all_end_with(words: &[&str], call: &str, other_rank: u32, other_call: &str) {
    let job =
        Job::new(3, &format!("world {call} barrier")).but(other_rank, &format!("world {other_call} barrier"));
    for end in job.meet().end() {
        end.assert_error(words);
    }
}

const SMALL: &str = "broadcast(root 0, 100 bytes in 1 block)";

#[test]
fn two_roots_of_a_small_broadcast() {
    all_end_with(&[SMALL, "broadcast(root 1, 100 bytes in 1 block)"], "slice 0 100 1", 1, "slice 1 100 1");
}

#[test]
fn two_roots_of_a_large_broadcast() {
    let words =
        ["broadcast(root 0, 100000 bytes in 4 blocks)", "broadcast(root 1, 100000 bytes in 4 blocks)"];
    all_end_with(&words, "slice 0 100000 4", 1, "slice 1 100000 4");
}

#[test]
fn two_lengths() {
    all_end_with(&[SMALL, "broadcast(root 0, 101 bytes in 1 block)"], "slice 0 100 1", 2, "slice 0 101 1");
    let large =
        ["broadcast(root 0, 100000 bytes in 4 blocks)", "broadcast(root 0, 100001 bytes in 4 blocks)"];
    all_end_with(&large, "window 0 100000 4", 2, "window 0 100001 4");
}

#[test]
fn a_small_message_here_and_a_large_one_there() {
    all_end_with(
        &[SMALL, "broadcast(root 0, 100000 bytes in 4 blocks)"],
        "slice 0 100 1",
        1,
        "slice 0 100000 4",
    );
}

#[test]
fn two_numbers_of_blocks() {
    all_end_with(&[SMALL, "broadcast(root 0, 100 bytes in 5 blocks)"], "slice 0 100 1", 1, "slice 0 100 5");
}

#[test]
fn another_call() {
    all_end_with(&[SMALL, "makes barrier"], "slice 0 100 1", 1, "barrier");
    all_end_with(
        &["broadcast(root 0, 100000 bytes in 4 blocks)", "makes barrier"],
        "slice 0 100000 4",
        1,
        "barrier",
    );
}

#[test]
fn another_tense() {
    all_end_with(&[SMALL, "prepared broadcast(root 0, 100 bytes"], "started 0 100 1", 1, "prepared 0 100 1");
}

#[test]
fn ranks_that_both_wait_for_the_other_ask_and_find_out() {
    // Neither is the root of its own call, so no rank sends a word.
    let job = Job::new(2, "world slice 1 100 1").but(1, "world slice 0 100 1");
    for end in job.meet().end() {
        end.assert_error(&[SMALL, "broadcast(root 1, 100 bytes in 1 block)"]);
    }
}

#[test]
fn a_rank_that_finalizes_early_is_named() {
    let ends = Job::new(3, "world slice 0 100000 4").but(1, "world leave").meet().end();
    for end in [&ends[0], &ends[2]] {
        end.assert_error(&["rank 1 makes finalize", "broadcast(root 0, 100000 bytes in 4 blocks)"]);
    }
    // To finalize returns nothing, so it tells.
    assert!(ends[1].err.starts_with("circulant: finalize: "), "{:?}", ends[1]);
}

#[test]
fn an_argument_that_does_not_fit_is_refused_and_breaks_nothing() {
    let root = "error: broadcast: root 3 of a communicator of 3 ranks; take a root from 0 to 2";
    let window = "error: broadcast: 11 elements of a window of 10; make the window larger";
    for (call, words) in [("slice 3 100 1", root), ("short", window)] {
        for end in Job::new(3, &format!("world {call}")).meet().end() {
            end.assert_error(&[words]);
            // And nothing else: all finalize.
            assert_eq!(end.err.lines().count(), 1, "{}", end.err);
        }
    }
}
