//! Every broadcast arrives, byte for byte: whatever the number of ranks, the root, the size, the number of
//! blocks, the tense and the provider.

use std::fmt::Write;

use crate::job::Job;

const TENSES: [&str; 4] = ["slice", "window", "started", "prepared"];

/// A script that takes each tense in turn for each of these roots, sizes and numbers of blocks.
fn all_of(roots: impl IntoIterator<Item = u32>, sizes: &[usize], blocks: &[u32]) -> String {
    let mut script = "world".to_owned();
    let mut tenses = TENSES.iter().cycle();
    for root in roots {
        for size in sizes {
            for blocks in blocks {
                let tense = tenses.next().unwrap();
                write!(script, " {tense} {root} {size} {blocks}").unwrap();
            }
            // Else every size would meet each number of blocks in one and the same tense.
            tenses.next();
        }
    }
    script + " say verified"
}

#[track_caller]
fn verified(ranks: u32, provider: &str, script: &str) {
    let outcome = Job::new(ranks, script).set("CIRCULANT_PROVIDER", provider).launch().end();
    assert_eq!(outcome.code, Some(0), "{ranks} ranks over {provider}: {outcome:#?}");
    for said in &outcome.ranks {
        assert!(said.contains("verified"), "{ranks} ranks over {provider}: {outcome:#?}");
    }
}

#[test]
fn every_root_reaches_every_rank() {
    for ranks in [1, 2, 3, 4, 5, 8] {
        verified(ranks, "tcp", &all_of(0..ranks, &[0, 1, 13, 8144, 8145, 70_001], &[0, 1, 2, 7, 200]));
    }
}

#[test]
fn many_ranks_are_reached() {
    for (ranks, roots) in [(13, [0, 12]), (17, [1, 9]), (33, [32, 20]), (65, [64, 3])] {
        verified(ranks, "tcp", &all_of(roots, &[1, 70_001], &[0, 9]));
    }
}

#[test]
fn large_messages_arrive() {
    verified(2, "tcp", &all_of([1], &[64 << 20], &[0]));
    verified(5, "tcp", &all_of([3], &[(4 << 20) + 3], &[0, 1, 5, 300]));
}

#[test]
fn rxm_carries_broadcasts() {
    verified(2, "rxm", &all_of([0, 1], &[0, 1, 8144, 8145, 4 << 20], &[0, 1, 7]));
    verified(5, "rxm", &all_of([4, 2], &[1, 70_001, 1 << 20], &[0, 7, 200]));
    verified(13, "rxm", &all_of([7], &[1, 70_001], &[0, 9]));
}

#[test]
fn shm_carries_broadcasts() {
    verified(2, "shm", &all_of([0, 1], &[0, 1, 8144, 8145, 4 << 20], &[0, 1, 7]));
    verified(5, "shm", &all_of([4, 2], &[1, 70_001, 1 << 20], &[0, 7, 200]));
    verified(13, "shm", &all_of([7], &[1, 70_001], &[0, 9]));
}

#[test]
fn ranks_that_meet_by_themselves_broadcast_too() {
    for end in Job::new(3, &all_of([0, 2], &[1, 70_001], &[0, 7])).meet().end() {
        assert!(end.status.success() && end.out.contains("verified"), "{end:?}");
    }
}
