//! Shared memory where the system allows less of it than usual: a filter of system calls, containers.

use crate::job::{Job, Program};

const CALLS: &str = "world allreduce:count=50000 broadcast:type=u8:count=300000 alltoall:count=9000 say done";

#[track_caller]
fn all_done(job: &Job) {
    for end in job.meet().end() {
        assert!(end.status.success() && end.out.contains("done"), "{end:?}");
    }
}

#[test]
fn slices_go_through_a_ring_where_a_filter_forbids_one_rank_to_write_them() {
    let forbidden = format!("forbid {CALLS}");
    let job = || Job::new(3, CALLS).but(1, &forbidden).set("CIRCULANT_PROVIDER", "shm");
    all_done(&job());
    all_done(&job().but(0, &forbidden).but(2, &forbidden));
    for end in job().set("CIRCULANT_SHM_COPY", "writev").meet().end() {
        end.assert_error(&[
            "process_vm_writev: rank 1 may not reach the memory of rank 2: ",
            "unset CIRCULANT_SHM_COPY",
        ]);
    }
}

#[test]
fn a_rank_in_a_container_of_its_own_is_a_node_of_its_own() {
    let container =
        ["unshare", "--pid", "--fork", "--kill-child", "--ipc", "--uts", "--mount", "--mount-proc"];
    if !Program::of_words(&[&container[..], &["true"]].concat()).end().status.success() {
        println!("skipped: namespaces need root");
        return;
    }
    let job = |provider| Job::new(3, CALLS).inside(1, &container).set("CIRCULANT_PROVIDER", provider);
    all_done(&job(""));
    for end in job("shm").meet().end() {
        end.assert_error(&["no transport: shm (the ranks are on 2 nodes"]);
    }
}
