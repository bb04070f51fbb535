//! What carries puts: by itself as good as it gets, or what is named; and if less than that, all ranks say why.

use crate::job::Job;

/// What all ranks of a job on so many nodes say of their carrier, where `provider` is named, or nothing.
#[track_caller]
fn said(ranks: u32, nodes: u32, provider: &str, but_last: &str) -> String {
    let calls = "carrier broadcast:count=3 allreduce:count=30000";
    let job = Job::new(ranks, &format!("world {calls}")).on_nodes(nodes).set("CIRCULANT_PROVIDER", provider);
    let ends = job.but(ranks - 1, &format!("{but_last} world {calls}")).meet().end();
    assert!(ends.iter().all(|end| end.status.success()), "{ends:?}");
    let said = |out: &str| -> Vec<String> {
        let lines = out.lines().filter(|line| line.starts_with("carried") || line.starts_with("no shared"));
        lines.map(str::to_owned).collect()
    };
    let first = said(&ends[0].out);
    assert!(ends.iter().all(|end| said(&end.out) == first), "{ends:?}");
    first.join("; ")
}

#[test]
fn by_itself_as_the_nodes_are() {
    assert!(said(3, 1, "", "").starts_with("carried by shm ("));
    let both = said(3, 2, "", "");
    assert!(both.starts_with("carried by shm (") && both.contains(" + "), "{both}");
    let far = said(3, 3, "", "");
    assert!(!far.contains("shm") && !far.contains("no shared"), "nobody could: {far}");
}

#[test]
fn what_is_named() {
    assert!(!said(3, 2, "tcp", "").contains("sh"), "a provider alone is for all pairs");
    let both = said(3, 2, "shm+rxm", "");
    assert!(both.starts_with("carried by shm (") && both.contains(" + tcp;ofi_rxm"), "{both}");
    let near = said(2, 1, "shm+tcp", "");
    assert!(near.starts_with("carried by shm (") && near.contains(" + "), "{near}");
}

#[test]
fn where_one_rank_cannot_share_memory_all_do_without_and_say_why() {
    for nodes in [1, 2] {
        let without = said(4, nodes, "", "cramp");
        assert!(!without.starts_with("carried by shm"), "{without}");
        assert!(without.contains("no shared memory: shm (rank 3: fallocate: "), "{without}");
    }
}

#[test]
fn what_is_named_and_cannot_be_had_is_an_error_with_its_cure() {
    let named = |provider: &str, last: &str| {
        let job = Job::new(3, "world").on_nodes(2).set("CIRCULANT_PROVIDER", provider);
        job.but(2, last).meet().end()
    };
    for end in named("shm", "world") {
        end.assert_error(&["no transport: shm (the ranks are on 2 nodes; ", "shm+tcp"]);
    }
    for end in named("shm+tcp", "cramp world") {
        end.assert_error(&["no transport: shm (rank 2: fallocate: ", "raise `ulimit -f`"]);
    }
    for end in named("shm+tpc", "world") {
        end.assert_error(&["provider: `tpc` is not known"]);
    }
}
