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

const SMALL: &str = "broadcast:type=u8:count=100:blocks=1";
const SMALL_WORDS: &str = "broadcast(root 0, 100 bytes in 1 block, by ";
const LARGE: &str = "broadcast:type=u8:count=100000:blocks=4";
const LARGE_WORDS: &str = "broadcast(root 0, 100000 bytes in 4 blocks, by ";

#[test]
fn two_roots() {
    let other = |call: &str| format!("{call}:root=1");
    let words = ["call #1:", SMALL_WORDS, "broadcast(root 1, 100 bytes in 1 block, by "];
    all_end_with(&words, SMALL, 1, &other(SMALL));
    all_end_with(&[LARGE_WORDS, "broadcast(root 1, 100000 bytes in 4 blocks, by "], LARGE, 1, &other(LARGE));
}

#[test]
fn two_lengths() {
    let one_more = |call: &str| call.replace("00:", "01:");
    all_end_with(&[SMALL_WORDS, "broadcast(root 0, 101 bytes in 1 block, by "], SMALL, 2, &one_more(SMALL));
    let words = [LARGE_WORDS, "broadcast(root 0, 100001 bytes in 4 blocks, by "];
    let in_a_window = |call: &str| format!("{call}:tense=window");
    all_end_with(&words, &in_a_window(LARGE), 2, &in_a_window(&one_more(LARGE)));
}

#[test]
fn a_small_message_here_and_a_large_one_there() {
    all_end_with(&[SMALL_WORDS, LARGE_WORDS], SMALL, 1, LARGE);
}

#[test]
fn two_numbers_of_blocks() {
    let five = SMALL.replace("blocks=1", "blocks=5");
    all_end_with(&[SMALL_WORDS, "broadcast(root 0, 100 bytes in 5 blocks, by "], SMALL, 1, &five);
}

#[test]
fn another_collective() {
    all_end_with(&[SMALL_WORDS, "makes barrier"], SMALL, 1, "barrier");
    all_end_with(&[LARGE_WORDS, "makes barrier"], LARGE, 1, "barrier");
    for count in [10, 30_000] {
        let (gather, reduce) = (format!("allgather:count={count}"), format!("allreduce:count={count}"));
        all_end_with(&["makes allgather(", "makes allreduce(sum of i32, "], &gather, 1, &reduce);
    }
}

#[test]
fn another_tense() {
    let (started, prepared) = (format!("{SMALL}:tense=started"), format!("{SMALL}:tense=prepared"));
    all_end_with(&[SMALL_WORDS, "prepared broadcast(root 0, 100 bytes"], &started, 1, &prepared);
}

#[test]
fn two_operators() {
    for count in [10, 30_000] {
        for call in ["allreduce", "reduce:root=2", "reduce_scatter:kind=irregular", "reduce_scatter_block"] {
            let of = |op| format!("{call}:count={count}:op={op}");
            all_end_with(&["sum of i32, ", "max of i32, "], &of("sum"), 1, &of("max"));
        }
    }
}

#[test]
fn two_types() {
    for count in [10, 30_000] {
        let of = |ty| format!("allreduce:count={count}:type={ty}");
        all_end_with(&["allreduce(sum of i32, ", "allreduce(sum of u32, "], &of("i32"), 2, &of("u32"));
    }
}

#[test]
fn two_algorithms() {
    for count in [10, 30_000] {
        let by = |name| format!("allreduce:count={count}:algorithm={name}");
        all_end_with(
            &["allreduce(sum of i32, ", ", by ring)", ", by circulant)"],
            &by("ring"),
            2,
            &by("circulant"),
        );
    }
}

#[test]
fn counts_that_differ() {
    for (one, other) in [("5+0+7", "5+1+6"), ("5000+0+7000", "7000+0+5000"), ("5000+0+7000", "5000+0+7001")] {
        for call in ["allgatherv", "reduce_scatter", "scatterv:root=1", "gatherv:root=2"] {
            let of = |counts| format!("{call}:counts={counts}");
            let name = call.split(':').next().unwrap();
            // In how many blocks depends on what a put was measured to cost.
            all_end_with(&[&format!("makes {name}("), " bytes in ", ", counts "], &of(one), 1, &of(other));
        }
    }
}

#[test]
fn a_part_of_one_length_here_and_of_another_there() {
    for count in [5, 3000] {
        let of = |count| format!("alltoallv:count={count}");
        for other in 0..3 {
            all_end_with(
                &["makes alltoallv(", " bytes for rank ", " bytes from rank "],
                &of(count),
                other,
                &of(count + 1),
            );
        }
    }
}

#[test]
fn ranks_that_both_wait_for_the_other_ask_and_find_out() {
    // Neither is the root of its own call, so no rank sends a word.
    let job = Job::new(2, &format!("world {SMALL}:root=1")).but(1, &format!("world {SMALL}"));
    for end in job.meet().end() {
        end.assert_error(&[SMALL_WORDS, "broadcast(root 1, 100 bytes in 1 block, by "]);
    }
}

#[test]
fn a_rank_that_finalizes_early_is_named() {
    let ends = Job::new(3, &format!("world {LARGE}")).but(1, "world leave").meet().end();
    for end in [&ends[0], &ends[2]] {
        end.assert_error(&["rank 1 makes finalize", LARGE_WORDS]);
    }
    // To finalize returns nothing, so it tells.
    assert!(ends[1].err.starts_with("circulant: finalize: "), "{:?}", ends[1]);
}
