//! A rank that dies is named by all that live on, and nothing stays behind; a rank that stands still is told of.

use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::job::{Job, Outcome};

const ON: &str = "world for-ever broadcast:type=u8:count=30000";
const ONCE: &str = "broadcast:type=u8:count=30000";
const ENDS: [&str; 3] = ["kill", "exit", "panic"];

/// All ranks but rank 2, which dies so, end with an error in these words.
#[track_caller]
fn others_say(words: &[&str], job: &Job) {
    for (rank, end) in (0..).zip(job.meet().end()) {
        if rank != 2 {
            end.assert_error(words);
        }
    }
}

/// Under a launcher, which says how rank 2 ended, and ends with this code; the others name it, or are ended before.
#[track_caller]
fn launcher_says(words: &str, code: i32, job: &Job) -> Outcome {
    let outcome = job.launch().end();
    assert_eq!(outcome.code, Some(code), "{outcome:#?}");
    assert!(outcome.launcher.starts_with("rank 2 (pid ") && outcome.launcher.contains(words), "{outcome:#?}");
    outcome
}

#[test]
fn before_boot() {
    let missing = "rank 2 did not come to the rendezvous";
    others_say(&[missing], &Job::new(4, ON).but(2, "kill").set("CIRCULANT_BOOT_TIMEOUT", "2"));
    launcher_says("was killed by signal 9 (SIGKILL)", 137, &Job::new(4, ON).but(2, "kill"));
    launcher_says("has exited, and other ranks wait for it", 1, &Job::new(4, ON).but(2, "exit"));
}

#[test]
fn during_boot() {
    for end in ENDS {
        let job = Job::new(4, ON).but(2, &format!("meet {end}"));
        others_say(&["rank 2 has disconnected"], &job);
    }
    launcher_says("exited with code 101", 101, &Job::new(4, ON).but(2, "meet panic"));
}

#[test]
fn rank_zero_at_whose_door_all_meet() {
    for end in &Job::new(3, ON).but(0, "meet kill").meet().end()[1..] {
        end.assert_error(&["rank 0 has disconnected"]);
    }
}

#[test]
fn while_the_others_leave() {
    for end in ENDS {
        let job = Job::new(4, &format!("world {ONCE} leave-world")).but(2, &format!("world {ONCE} {end}"));
        others_say(&["error: rank 2 is lost: "], &job);
    }
}

#[test]
fn between_calls() {
    let job = |end| Job::new(4, ON).but(2, &format!("world {ONCE} {end}"));
    for end in ENDS {
        others_say(&["error: rank 2 is lost: "], &job(end));
    }
    // Libraries that libfabric brings along would end an aborted process with 1
    let words = [
        ("kill", 137, "was killed by signal 9"),
        ("abort", 134, "was killed by signal 6"),
        ("exit", 1, "joined PMI and did not finalize"),
    ];
    for (end, code, words) in words {
        all_name_rank_2(&launcher_says(words, code, &job(end)));
    }
    // Whoever hears of a panic may have ended before the one who panics has.
    all_name_rank_2(&job("panic").launch().end());
}

#[track_caller]
fn all_name_rank_2(outcome: &Outcome) {
    for rank in [0, 1, 3] {
        assert!(outcome.ranks[rank].contains("error: rank 2 is lost: "), "{outcome:#?}");
    }
}

#[test]
fn after_finalize_it_harms_nobody() {
    let job = Job::new(4, &format!("world {ONCE} leave")).but(2, &format!("world {ONCE} leave kill"));
    let ends = job.meet().end();
    ends[2].assert_killed_by(Signal::KILL);
    for end in [&ends[0], &ends[1], &ends[3]] {
        assert!(end.status.success() && end.err.is_empty(), "{end:?}");
    }
}

#[test]
fn during_broadcasts_over_every_provider_and_no_file_stays() {
    for (provider, nodes) in
        [("tcp", 1), ("rxm", 1), ("shm", 1), ("ofi-shm", 1), ("shm+tcp", 2), ("shm+tcp", 3)]
    {
        let job = Job::new(4, ON).on_nodes(nodes).set("CIRCULANT_PROVIDER", provider);
        let met = job.but(2, &ON.replace("world", "world say joined")).meet();
        met.wait_for(2, "joined");
        let pids: Vec<String> = (0..4).map(|rank| met.id(rank).to_string()).collect();
        met.signal(2, Signal::KILL);
        let ends = met.end();
        ends[2].assert_killed_by(Signal::KILL);
        for end in [&ends[0], &ends[1], &ends[3]] {
            end.assert_error(&["error: rank 2 is lost: "]);
        }
        assert_eq!(shared_memory_of(&pids), [""; 0], "{provider}");
    }
}

#[test]
fn during_any_collective() {
    for call in crate::kills::CALLS {
        let script = format!("world {call} say joined for-ever {call}");
        let met = Job::new(4, &script).meet();
        met.wait_for(2, "joined");
        met.signal(2, Signal::KILL);
        for (rank, end) in met.end().iter().enumerate().filter(|(rank, _)| *rank != 2) {
            assert!(end.err.contains("error: rank 2 is lost: "), "rank {rank}, {call}: {end:?}");
        }
    }
}

/// What is in /dev/shm whose name begins with one of these process numbers.
pub fn shared_memory_of(pids: &[String]) -> Vec<String> {
    let names = std::fs::read_dir("/dev/shm").unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| pids.iter().any(|pid| name.split(':').next() == Some(pid))).collect()
}

#[test]
fn at_any_moment() {
    let mut chance = fastrand::Rng::with_seed(7);
    for round in 0..8 {
        let (ranks, victim) = (2 + round % 4, chance.u32(0..2));
        let met = Job::new(ranks, ON).set("CIRCULANT_BOOT_TIMEOUT", "5").meet();
        thread::sleep(Duration::from_millis(chance.u64(0..700)));
        met.signal(victim, Signal::KILL);
        for (rank, end) in (0..).zip(met.end()) {
            if rank != victim {
                end.assert_error(&["error: ", &format!("rank {victim} ")]);
            }
        }
    }
}

const IN_BLOCKS: &str = "broadcast:root=1:type=u8:count=30000:blocks=4";

#[test]
fn a_rank_that_is_stopped_is_told_of_and_awaited() {
    let job = Job::new(3, &format!("world {IN_BLOCKS}")).but(1, &format!("world stop {IN_BLOCKS}"));
    let met = job.set("CIRCULANT_STALL", "1").meet();
    let report = met.wait_for_error(2, "waits for");
    for words in [
        "broadcast(root 1, 30000 bytes in 4 blocks, by circulant) #",
        "waits for block ",
        " of 5) for ",
        "rank 1 has not answered",
    ] {
        assert!(report.contains(words), "no `{words}` in {report}");
    }
    met.signal(1, Signal::CONT);
    for end in met.end() {
        assert!(end.status.success(), "{end:?}");
    }
}

#[test]
fn a_wait_is_told_with_what_its_culprit_does_by_then() {
    // Rank 0 comes late, and then waits for rank 2 itself, who does not come before it is told of.
    let call = "broadcast:root=2:type=u8:count=8:algorithm=mst";
    let script = |before: &str| format!("world {before} {call}");
    let job = Job::new(4, &script("")).but(0, &script("sleep 3")).but(2, &script("say joined sleep 1000"));
    let met = job.set("CIRCULANT_STALL", "0").set("CIRCULANT_TIMEOUT", "6").meet();
    let said = met.wait_for_error(1, "error: ");
    assert!(said.contains("rank 2 is alive, in no call"), "{said}");
    met.signal(2, Signal::KILL);
    met.end();
}

#[test]
fn a_forked_child_is_no_rank_and_does_nothing_to_its_parents_world() {
    for provider in ["shm", "tcp"] {
        let job = Job::new(3, &format!("world barrier fork {IN_BLOCKS} barrier"));
        for end in job.set("CIRCULANT_PROVIDER", provider).meet().end() {
            assert!(end.status.success(), "{end:?}");
        }
    }
}

#[test]
fn beside_a_rank_that_is_stopped_nobody_waits_in_silence_for_one_that_was_killed() {
    for provider in ["shm", "shm", "tcp"] {
        let job = Job::new(3, &ON.replace("30000", "3000000")).set("CIRCULANT_PROVIDER", provider);
        let met = job.but(1, &ON.replace("world", "world say joined").replace("30000", "3000000")).meet();
        met.wait_for(1, "joined");
        met.signal(1, Signal::STOP);
        met.signal(2, Signal::KILL);
        // It has ended, or says for whom it waits: rank 1 may have been stopped amid a put.
        met.wait_for_error(0, "rank ");
        met.signal(1, Signal::CONT);
        let ends = met.end();
        ends[0].assert_error(&["error: rank 2 is lost: "]);
        ends[1].assert_error(&["error: rank 2 is lost: "]);
    }
}

#[test]
fn a_wait_beyond_the_users_deadline_is_an_error() {
    let job = Job::new(3, "world barrier").but(1, "world say waiting hang");
    let met = job.set("CIRCULANT_TIMEOUT", "2").meet();
    met.wait_for(1, "waiting");
    met.wait_for_error(0, "error: ");
    met.signal(1, Signal::KILL);
    met.end()[0].assert_error(&["barrier #", "waits for word from rank ", "rank 1 is alive, in no call"]);
}
