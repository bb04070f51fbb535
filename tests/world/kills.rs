//! Any rank killed at any moment, by seed: nothing stays behind, and who lives on says which rank was lost.
//!
//! A job is told from all other processes by a variable that is its own, so that whatever it has started
//! is found, and nothing else looked at.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use rustix::process::{Pid, Signal, kill_process};

use crate::deaths::shared_memory_of;
use crate::job::{Job, Launched, Outcome};

/// Has a job's own word, on all its processes.
const MARK: &str = "WORLD_TEST_MARK";
/// Jobs at a time: more would only wait for each other.
const AT_ONCE: usize = 2;
/// Ends a hang.
const PATIENCE: Duration = Duration::from_secs(60);

/// Calls that a rank may die in.
pub const CALLS: [&str; 10] = [
    "broadcast:type=u8:count=30000",
    "broadcast:type=u8:count=3000000",
    "broadcast:root=1:count=300000:tense=window",
    "allreduce:count=100",
    "allreduce:count=50000",
    "alltoallv:kind=irregular:count=9000",
    "allgatherv:kind=degenerate:count=30000:tense=prepared",
    "reduce_scatter:kind=ragged:count=9000:tense=window",
    "gather:count=20000:tense=started",
    "reduce:root=1:count=300000:tense=window",
];

#[test]
fn ten_kills() {
    kills(1000..1010);
}

#[test]
#[ignore = "takes a minute: ci/test kills"]
fn two_hundred_kills() {
    kills(0..200);
}

fn kills(seeds: std::ops::Range<u64>) {
    let next = AtomicU64::new(seeds.start);
    let in_turn = || std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                in_turn().take_while(|seed| seeds.contains(seed)).for_each(|seed| Kill::new(seed).run())
            });
        }
    });
}

/// When a rank is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// While ranks start and meet.
    Start,
    /// Amid calls without end.
    Calls,
    /// When the last calls are made, and ranks leave.
    End,
}

/// A job, and the death of one of its ranks.
#[derive(Debug)]
struct Kill {
    seed: u64,
    ranks: u32,
    /// What carries puts, on so many pretended nodes; unnamed, what the library takes.
    provider: &'static str,
    nodes: u32,
    /// How long slices go where memory is shared; unnamed, as the library has it.
    way: &'static str,
    call: &'static str,
    victim: u32,
    moment: Moment,
    /// How long after the job's start, or after the victim has joined.
    after: Duration,
}

impl Kill {
    fn new(seed: u64) -> Kill {
        let mut chance = Rng::with_seed(seed);
        let ranks = chance.u32(2..=6);
        let (provider, nodes) = [("shm", 1), ("shm", 1), ("shm", 1), ("tcp", 1), ("", 2)][chance.usize(0..5)];
        let moment = [Moment::Start, Moment::Calls, Moment::Calls, Moment::End][chance.usize(0..4)];
        let longest = if moment == Moment::Start { 200_000 } else { 20_000 };
        Kill {
            seed,
            ranks,
            provider,
            nodes,
            way: ["", "joint", "writev", "ring"][chance.usize(0..4)],
            call: CALLS[chance.usize(0..CALLS.len())],
            victim: chance.u32(0..ranks),
            moment,
            after: Duration::from_micros(chance.u64(0..longest)),
        }
    }

    fn run(&self) {
        let mark = format!("{MARK}={}.{}", std::process::id(), self.seed);
        let launched = self.launch(&mark);
        if self.moment != Moment::Start {
            launched.wait_for("victim-joined");
        }
        thread::sleep(self.after);
        let all = self.strike(&mark);
        let outcome = launched.end();
        self.all_named_it(&outcome);
        assert!(processes(&mark).is_empty(), "{self:?} leaves {:?} behind: {outcome:#?}", processes(&mark));
        assert_eq!(shared_memory_of(&all), [""; 0], "{self:?}");
    }

    fn launch(&self, mark: &str) -> Launched {
        let then = match self.moment {
            Moment::End => format!("{} {} leave say left", self.call, self.call),
            Moment::Start | Moment::Calls => format!("for-ever {}", self.call),
        };
        let script = |joined| format!("world say {joined} {then}");
        let (name, value) = mark.split_once('=').unwrap();
        let job = Job::new(self.ranks, &script("joined")).but(self.victim, &script("victim-joined"));
        let job = job.set("CIRCULANT_PROVIDER", self.provider).set("CIRCULANT_SHM_COPY", self.way);
        job.set(name, value).on_nodes(self.nodes).launch()
    }

    /// Kills the victim, as soon as there is one; gives all processes that there were. Where the job has ended
    /// before, nothing happens.
    fn strike(&self, mark: &str) -> Vec<String> {
        let start = Instant::now();
        loop {
            let all = processes(mark);
            let its = format!("PMI_RANK={}", self.victim);
            if let Some(pid) =
                all.iter().find_map(|(&pid, variables)| variables.contains(&its).then_some(pid))
            {
                // It may have ended just now; its number is not given to others before its launcher has ended.
                let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
                return all.keys().map(i32::to_string).collect();
            }
            if self.moment == Moment::End || start.elapsed() > PATIENCE {
                return Vec::new();
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// The launcher has; and so has every rank that had joined, and had not yet left.
    fn all_named_it(&self, outcome: &Outcome) {
        let said = |rank: usize, word| outcome.ranks[rank].contains(word);
        if outcome.code == Some(0) {
            let left = (0..self.ranks as usize).all(|rank| said(rank, "left"));
            assert!(self.moment == Moment::End && left, "{self:?} has hit nobody: {outcome:#?}");
            return;
        }
        let by_launcher = format!("rank {} (pid ", self.victim);
        let named =
            outcome.launcher.starts_with(&by_launcher) && outcome.launcher.contains("was killed by signal 9");
        assert!(outcome.code == Some(137) && named, "{self:?}: {outcome:#?}");
        for (rank, words) in (0..).zip(&outcome.ranks).filter(|(rank, _)| *rank != self.victim) {
            let loses = words.lines().filter(|line| line.contains(" is lost: "));
            let lost = format!("rank {} is lost: ", self.victim);
            assert!(loses.clone().all(|line| line.contains(&lost)), "rank {rank}, {self:?}: {outcome:#?}");
            let must_speak = words.contains("joined") && !words.contains("left");
            assert!(!must_speak || loses.count() > 0, "rank {rank} is silent, {self:?}: {outcome:#?}");
        }
    }
}

/// Processes with this variable, and what else is in their environment.
fn processes(mark: &str) -> BTreeMap<i32, Vec<String>> {
    let numbers = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_string_lossy().parse::<i32>().ok());
    numbers
        .filter_map(|pid| Some((pid, environment(pid)?)))
        .filter(|(_, its)| its.iter().any(|one| one == mark))
        .collect()
}

/// None of a process that has ended, also where nobody has waited for it.
fn environment(pid: i32) -> Option<Vec<String>> {
    let bytes = std::fs::read(Path::new("/proc").join(pid.to_string()).join("environ")).ok()?;
    Some(bytes.split(|&byte| byte == 0).map(|one| String::from_utf8_lossy(one).into_owned()).collect())
}
