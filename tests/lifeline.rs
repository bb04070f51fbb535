//! The lifeline among real processes, which die in earnest.
//!
//! The test starts itself again as each rank: the environment says which. A rank and the test talk in
//! lines, through the rank's standard input and its standard error (the harness writes to its output).

use std::io::{BufRead, BufReader, Lines, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::Arc;

use circulant::addresses::Scope;
use circulant::error::Error;
use circulant::lifeline::listening::Listening;
use circulant::rank::{Place, Rank};
use rustix::event::{PollFd, PollFlags, poll};

const SIZE: u32 = 16;
const RANK: &str = "LIFELINE_TEST_RANK";
const JOB: u64 = 77;

#[test]
fn all_processes_learn_that_one_was_killed() {
    if let Some(rank) = own_rank() {
        return live(rank);
    }
    let victim = 5;
    let mut ranks = start("all_processes_learn_that_one_was_killed");
    let killed = now();
    ranks[victim as usize].child.kill().unwrap();
    ranks.remove(victim as usize);
    let mut last = 0;
    for rank in &mut ranks {
        let heard = rank.hears();
        let (moment, news) = heard.split_once(' ').unwrap();
        assert!(news.starts_with("rank 5 is lost: its connection to rank "), "{news}");
        last = last.max(moment.parse::<u64>().unwrap() - killed);
    }
    println!("the last of {} ranks knew {last} us after kill -9", ranks.len());
    ranks.into_iter().for_each(Process::end);
}

#[test]
fn an_abort_arrives_though_the_process_exits_at_once() {
    if let Some(rank) = own_rank() {
        return live(rank);
    }
    let mut ranks = start("an_abort_arrives_though_the_process_exits_at_once");
    ranks[3].tell("abort");
    ranks.remove(3).end();
    for rank in &mut ranks {
        assert_eq!(rank.hears().split_once(' ').unwrap().1, "rank 3 gave up: no memory");
    }
    ranks.into_iter().for_each(Process::end);
}

/// A rank, seen from the test.
struct Process {
    child: Child,
    says: Lines<BufReader<ChildStderr>>,
}

impl Process {
    fn start(test: &str, rank: Rank) -> Process {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(RANK, rank.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let says = BufReader::new(child.stderr.take().unwrap()).lines();
        Process { child, says }
    }

    fn hears(&mut self) -> String {
        self.says.next().expect("the rank lives").unwrap()
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.child.stdin.as_ref().unwrap(), "{line}").unwrap();
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

/// All ranks, connected.
fn start(test: &str) -> Vec<Process> {
    let mut ranks: Vec<Process> = (0..SIZE).map(|rank| Process::start(test, rank)).collect();
    let cards: Vec<String> = ranks.iter_mut().map(Process::hears).collect();
    ranks.iter_mut().for_each(|rank| rank.tell(&cards.join(" ")));
    ranks.iter_mut().for_each(|rank| assert_eq!(rank.hears(), "connected"));
    ranks
}

/// What a rank does: it connects, then says what it hears, until its input ends.
fn live(rank: Rank) {
    let listening = Listening::bind(Scope::Loopback).unwrap();
    eprintln!("{}", hex(&listening.card()));
    let cards: Vec<Vec<u8>> = line().split(' ').map(unhex).collect();
    let place = Place { rank, size: SIZE };
    let neighbours: Vec<Rank> = [8, 4, 2, 1].map(|skip| place.after(skip)).to_vec();
    let lifeline = listening.connect(place, &neighbours, &cards, JOB, Arc::default()).unwrap();
    eprintln!("connected");

    let input = std::io::stdin();
    let mut fds = [lifeline.wake(), input.as_fd()].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    poll(&mut fds, None).unwrap();
    let moment = now();
    match lifeline.news() {
        Some(news) => {
            eprintln!("{moment} {}", Error::from(news));
            line();
        }
        None => {
            assert_eq!(line(), "abort");
            lifeline.abort("no memory");
            std::process::exit(0); // nothing is dropped
        }
    }
}

fn own_rank() -> Option<Rank> {
    std::env::var(RANK).ok().map(|rank| rank.parse().unwrap())
}

fn line() -> String {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

/// Microseconds on the clock that all processes share.
fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}
