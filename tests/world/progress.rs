//! Calls that are carried on by a thread, while their ranks are elsewhere.

use crate::job::Job;

/// A job whose calls a thread carries on, on so many nodes.
fn attended(ranks: u32, nodes: u32, provider: &str, script: &str) -> Job {
    let job = Job::new(ranks, script).on_nodes(nodes);
    job.set("CIRCULANT_PROVIDER", provider).set("CIRCULANT_PROGRESS", "thread")
}

/// What rank 0 waits for comes through ranks that make no call until rank 0 has it.
#[test]
fn ranks_that_make_no_call_hand_on_what_comes() {
    for (ranks, nodes, provider) in [(5, 1, ""), (4, 1, "tcp"), (5, 2, ""), (3, 3, "rxm")] {
        let folder = tempfile::tempdir().unwrap();
        let done = folder.path().join("done");
        let calls = "world allreduce:count=200000:tense=pending broadcast:count=70001:root=1:tense=pending \
                     alltoall:count=9000:tense=pending allreduce:count=3:tense=pending";
        let script = format!("{calls} until {} finish barrier", done.display());
        let first = format!("{calls} finish mark {} barrier", done.display());
        for end in attended(ranks, nodes, provider, &script).but(0, &first).meet().end() {
            assert!(end.status.success(), "{end:?}");
        }
    }
}

#[test]
fn calls_at_once_are_made_beside_those_that_a_thread_carries_on() {
    for (nodes, provider) in [(1, ""), (2, ""), (1, "tcp")] {
        let script = "world duplicate allreduce:count=300000:tense=pending on 1 broadcast:count=100:root=2 \
                      allgather:count=5000 barrier on 0 reduce:count=70001:tense=started finish free fork barrier";
        for end in attended(3, nodes, provider, script).meet().end() {
            assert!(end.status.success(), "{end:?}");
        }
    }
}

#[test]
fn a_rank_that_is_lost_meanwhile_is_told_at_the_next_call() {
    for provider in ["", "tcp"] {
        let script = "world allreduce:count=300000:tense=pending sleep 1 finish";
        let job = attended(4, 1, provider, script).but(2, "world kill");
        for (rank, end) in job.meet().end().iter().enumerate() {
            if rank != 2 {
                end.assert_error(&["rank 2"]);
            }
        }
    }
}

/// Under way or over when their ranks leave.
#[test]
fn calls_that_are_forgotten_are_in_nobodys_way_at_the_end() {
    let calls = "allreduce:count=300000:tense=pending reduce:count=90000:tense=pending ".repeat(6);
    for (nodes, provider) in [(1, ""), (2, ""), (1, "tcp")] {
        let script = format!("world {calls} forget leave-world");
        for job in [Job::new(4, &script), attended(4, nodes, provider, &script)] {
            let job = job.on_nodes(nodes).set("CIRCULANT_PROVIDER", provider);
            for end in job.meet().end() {
                assert!(end.status.success(), "{end:?}");
            }
        }
    }
}
