//! Ranks as threads of one process over 127.0.0.1. Deadlines only end a hang.

use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

use super::Lifeline;
use super::listening::Listening;
use super::news::{Answer, News};
use super::status::{Awaited, Awaiting, Status};
use super::watch::timespec;
use super::wire::{Hello, VERSION};
use crate::addresses::Scope;
use crate::error::{Error, Result};
use crate::rank::{Place, Rank};

const SIZES: [u32; 6] = [1, 2, 3, 8, 33, 65];
const JOB: u64 = 0x1234_5678_9abc_def0;
const HANG: Duration = Duration::from_secs(120);

struct Job {
    ranks: Vec<Lifeline>,
    statuses: Vec<Arc<Status>>,
}

/// The ranks that `place` connects to.
fn neighbours(place: Place) -> Vec<Rank> {
    let mut skip = place.size;
    let mut neighbours = Vec::new();
    while skip > 1 {
        skip = skip.div_ceil(2);
        neighbours.push(place.after(skip));
    }
    neighbours
}

/// Ranks that have exchanged cards.
struct Bound {
    listening: Vec<(Rank, Listening)>,
    cards: Vec<Vec<u8>>,
    statuses: Vec<Arc<Status>>,
}

fn bind(size: u32) -> Bound {
    let listening: Vec<_> = (0..size).map(|rank| (rank, Listening::bind(Scope::Loopback).unwrap())).collect();
    let cards = listening.iter().map(|(_, listening)| listening.card()).collect();
    Bound { listening, cards, statuses: (0..size).map(|_| Arc::default()).collect() }
}

impl Bound {
    /// Each rank that listens still connects in a thread of its own.
    fn connect(self) -> Vec<Result<Lifeline>> {
        let Bound { listening, cards, statuses } = self;
        let (cards, statuses) = (&cards, &statuses);
        let size = cards.len() as u32;
        std::thread::scope(|scope| {
            let connect = |(rank, listening): (Rank, Listening)| {
                let status = Arc::clone(&statuses[rank as usize]);
                let place = Place { rank, size };
                scope.spawn(move || listening.connect(place, &neighbours(place), cards, JOB, status))
            };
            let threads: Vec<_> = listening.into_iter().map(connect).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    /// The only rank left to connect, 0, finds `listener` where it looks for rank 1.
    fn connect_to(mut self, listener: &TcpListener) -> Result<Lifeline> {
        let address = listener.local_addr().unwrap();
        self.cards[1] = crate::addresses::encode(address.port(), [address.ip()].into_iter());
        self.listening.truncate(1);
        self.connect().remove(0)
    }
}

fn job(size: u32) -> Job {
    let bound = bind(size);
    let statuses = bound.statuses.clone();
    Job { ranks: bound.connect().into_iter().map(Result::unwrap).collect(), statuses }
}

fn rings(lifeline: &Lifeline, patience: Duration) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(lifeline.wake(), PollFlags::IN)];
    poll(&mut fds, Some(&timespec(patience))).unwrap() == 1
}

/// Sleeps until there is news.
fn hear(lifeline: &Lifeline) -> News {
    assert!(rings(lifeline, HANG), "rank {} heard nothing", lifeline.me);
    lifeline.news().expect("the bell rang for news")
}

/// Sleeps until the whole answer is there.
fn answer(lifeline: &Lifeline, question: u32) -> Answer {
    assert!(rings(lifeline, HANG), "rank {} got no answer", lifeline.me);
    lifeline.answer(question).expect("the bell rang for an answer")
}

fn ask(job: &Job, asker: usize, peer: Rank) -> String {
    let question = job.ranks[asker].ask(peer, 0).unwrap();
    let answer = answer(&job.ranks[asker], question);
    assert_eq!((answer.rank, answer.complete), (peer, true));
    answer.text
}

/// What the kernel does to the sockets of a process that dies: all at once, without a word.
fn die(lifeline: &Lifeline) {
    let hub = lifeline.shared.lock();
    for watched in hub.watched() {
        let _ = rustix::net::shutdown(watched.socket.as_fd(), rustix::net::Shutdown::Both);
    }
}

fn waits_for_block(status: &Status, block: u32, peer: Rank) {
    let awaited = Awaited { peer, what: Awaiting::Block(block), round: 4, rounds: 9 };
    status.waits(6, || "broadcast".to_owned(), Some(awaited));
}

fn address(listening: &Listening) -> SocketAddr {
    crate::addresses::decode(&listening.card()).unwrap()[0]
}

#[test]
fn a_goodbye_is_no_loss() {
    for size in SIZES {
        let mut ranks = job(size).ranks;
        while let Some(leaving) = ranks.pop() {
            leaving.leave();
            assert!(ranks.iter().all(|rank| rank.news().is_none()), "of {size} ranks");
        }
    }
}

#[test]
fn neighbours_know_when_all_have_left() {
    // Of 8 ranks, rank 0 has the neighbours 1, 2, 4, 6 and 7: the other two are not waited for.
    let mut ranks = job(8).ranks;
    for leaving in [7, 6, 4, 2, 1] {
        assert!(!ranks[0].all_left(), "{leaving} has not left yet");
        let rank = ranks.iter().position(|rank| rank.me == leaving).unwrap();
        ranks.remove(rank).leave();
    }
    while !ranks[0].all_left() {
        std::thread::yield_now();
    }
    ranks.into_iter().for_each(Lifeline::leave);
}

#[test]
fn every_rank_hears_of_a_loss() {
    for size in SIZES {
        let job = job(size);
        let victim = size / 2;
        die(&job.ranks[victim as usize]);
        for rank in job.ranks.iter().filter(|rank| rank.me != victim) {
            let News::Lost { rank: lost, how } = hear(rank) else { panic!("a loss is no abort") };
            assert_eq!(lost, victim);
            assert!(how.starts_with("its connection to rank ") && how.ends_with(" closed"), "{how}");
        }
    }
}

#[test]
fn two_deaths_at_once_are_heard_by_all() {
    for size in [3, 8, 33, 65] {
        let job = job(size);
        let victims = [1, size - 1];
        victims.iter().for_each(|victim| die(&job.ranks[*victim as usize]));
        for rank in job.ranks.iter().filter(|rank| !victims.contains(&rank.me)) {
            assert!(matches!(hear(rank), News::Lost { rank, .. } if victims.contains(&rank)));
        }
    }
}

#[test]
fn an_abort_is_heard_by_all_exactly_once() {
    for size in SIZES {
        let mut ranks = job(size).ranks;
        let aborting = ranks.swap_remove(0);
        aborting.abort("fi_mr_reg: Cannot allocate memory");
        let expected = News::Aborted { by: 0, why: "fi_mr_reg: Cannot allocate memory".into() };
        assert_eq!(aborting.news(), Some(expected.clone()));
        assert!(!rings(&aborting, Duration::ZERO), "one's own abort is no news");
        aborting.leave();
        assert!(ranks.iter().all(|rank| hear(rank) == expected));
        assert!(
            ranks.iter().all(|rank| !rings(rank, Duration::ZERO) && rank.news() == Some(expected.clone()))
        );
    }
}

#[test]
fn an_abort_followed_by_the_end_arrives() {
    for size in SIZES {
        let mut ranks = job(size).ranks;
        let aborting = ranks.pop().unwrap();
        aborting.abort("ranks disagree");
        drop(aborting);
        let expected = News::Aborted { by: size - 1, why: "ranks disagree".into() };
        assert!(ranks.iter().all(|rank| hear(rank) == expected));
    }
}

#[test]
fn news_become_errors() {
    let lost: Error = News::Lost { rank: 3, how: "its connection to rank 1 closed".into() }.into();
    assert_eq!(lost.to_string(), "rank 3 is lost: its connection to rank 1 closed");
    let aborted: Error = News::Aborted { by: 3, why: "no memory".into() }.into();
    assert_eq!(aborted.to_string(), "rank 3 gave up: no memory");
}

#[test]
fn a_rank_that_ends_without_goodbye_is_lost() {
    let mut ranks = job(8).ranks;
    drop(ranks.remove(2));
    let expected = News::Lost { rank: 2, how: "it ended without finalize".into() };
    assert!(ranks.iter().all(|rank| hear(rank) == expected));
}

#[test]
fn a_question_follows_who_waits_for_whom() {
    let job = job(3);
    (0..5).for_each(|_| job.statuses[0].makes_one());
    waits_for_block(&job.statuses[1], 3, 0);
    assert_eq!(
        ask(&job, 2, 1),
        "rank 1 is alive, in broadcast #6, waits for block 3 from rank 0 (round 4 of 9); \
         rank 0 is alive, in no call (5 made)"
    );
}

#[test]
fn a_circle_of_waiting_ranks_is_named() {
    let job = job(8);
    (0..8).for_each(|rank| waits_for_block(&job.statuses[rank as usize], 1, (rank + 3) % 8));
    let text = ask(&job, 0, 3);
    assert!(text.ends_with("rank 5 is alive, in broadcast #6, waits for block 1 from rank 0 (round 4 of 9), which closes the circle"), "{text}");
}

#[test]
fn every_rank_can_be_asked_by_every_rank() {
    for size in [1, 2, 3, 8, 33] {
        let job = job(size);
        for asker in 0..size {
            for peer in 0..size {
                assert_eq!(
                    ask(&job, asker as usize, peer),
                    format!("rank {peer} is alive, in no call (0 made)")
                );
            }
        }
    }
}

#[test]
fn the_culprit_is_found_at_the_end_of_a_long_chain() {
    for size in [33, 65] {
        let job = job(size);
        (1..size).for_each(|rank| waits_for_block(&job.statuses[rank as usize], 0, rank - 1));
        let text = ask(&job, 0, size - 1);
        assert!(
            text.ends_with("waits for block 0 from rank 0 (round 4 of 9), which closes the circle"),
            "{text}"
        );
        let text = ask(&job, 1, size - 1);
        assert!(
            text.ends_with("waits for block 0 from rank 1 (round 4 of 9), which closes the circle"),
            "{text}"
        );
        job.statuses[1].leave(6);
        let text = ask(&job, 0, size - 1);
        assert!(text.ends_with("; rank 1 is alive, in no call (0 made)"), "{text}");
    }
}

#[test]
fn a_rank_that_left_is_reported_by_its_neighbours() {
    let mut job = job(8);
    waits_for_block(&job.statuses[4], 2, 3);
    job.ranks.remove(3).leave();
    let text = ask(&job, 0, 4);
    assert!(text.ends_with("; rank 3 has left in good order"), "{text}");
}

#[test]
fn a_rank_that_does_not_exist_is_not_asked() {
    let job = job(2);
    assert_eq!(job.ranks[0].ask(2, 0), None);
    assert_eq!(ask(&job, 0, 1), "rank 1 is alive, in no call (0 made)");
}

#[test]
fn a_stopped_rank_is_named_by_the_unfinished_answer() {
    let job = job(3);
    waits_for_block(&job.statuses[1], 3, 0);
    let stopped = job.ranks[0].shared.lock();
    let question = job.ranks[2].ask(1, 0).unwrap();
    let begun = Instant::now();
    let unfinished = loop {
        let answer = job.ranks[2].answer(question).expect("something was asked");
        if answer.text.starts_with("rank 1 is alive") || begun.elapsed() > HANG {
            break answer;
        }
        std::thread::yield_now();
    };
    assert!(unfinished.text.ends_with("(round 4 of 9); rank 0 has not answered"), "{}", unfinished.text);
    assert!(!unfinished.complete);
    drop(stopped);
    assert!(answer(&job.ranks[2], question).text.ends_with("; rank 0 is alive, in no call (0 made)"));
}

#[test]
fn a_stopped_rank_on_the_way_is_named_with_the_one_that_is_asked() {
    let job = job(16);
    let stopped = job.ranks[12].shared.lock();
    let question = job.ranks[0].ask(13, 0).unwrap();
    let text = job.ranks[0].answer(question).unwrap().text;
    assert_eq!(text, "rank 13 has not answered, or one of ranks 12, 15 does not pass it on");
    drop(stopped);
    assert_eq!(answer(&job.ranks[0], question).text, "rank 13 is alive, in no call (0 made)");
}

#[test]
fn several_questions_are_under_way_at_once_and_each_is_answered_for_its_communicator() {
    let job = job(3);
    for (communicator, name) in [(1, "reduce"), (2, "barrier")] {
        job.statuses[1].waits(communicator << 32 | 4, || name.to_owned(), None);
    }
    let questions = [1, 2, 9].map(|communicator| job.ranks[0].ask(1, communicator).unwrap());
    let begun = Instant::now();
    for (question, name) in questions.into_iter().zip(["reduce", "barrier", "barrier"]) {
        let text = loop {
            let answer = job.ranks[0].answer(question).unwrap();
            if answer.complete || begun.elapsed() > HANG {
                break answer.text;
            }
            std::thread::yield_now();
        };
        assert_eq!(text, format!("rank 1 is alive, in {name} #4, waits for nobody"));
    }
}

#[test]
fn strangers_at_the_gate_do_no_harm() {
    let bound = bind(3);
    let hello = Hello { version: VERSION, job: JOB, from: 1, to: 0 };
    let sayings = [
        vec![0xff; 4096],
        hello.encode()[..7].to_vec(),
        Hello { job: JOB + 1, ..hello }.encode(),
        Hello { to: 2, ..hello }.encode(),
        Hello { from: 0, ..hello }.encode(),
        Hello { from: 7, ..hello }.encode(),
        Vec::new(),
    ];
    let strangers: Vec<TcpStream> = sayings
        .iter()
        .map(|saying| {
            let mut stranger = TcpStream::connect(address(&bound.listening[0].1)).unwrap();
            stranger.write_all(saying).unwrap();
            stranger
        })
        .collect();
    let ranks: Vec<_> = bound.connect().into_iter().map(Result::unwrap).collect();
    drop(strangers);
    for rank in ranks {
        rank.leave();
    }
}

#[test]
fn a_gate_holds_more_silent_strangers_than_it_has_room_for() {
    let bound = bind(2);
    let gate = address(&bound.listening[0].1);
    let connected: Vec<_> = bound.connect().into_iter().map(Result::unwrap).collect();
    // The gate closes when all are in, on a thread of its own.
    while TcpStream::connect(gate).is_ok() {
        std::thread::yield_now();
    }
    connected.into_iter().for_each(Lifeline::leave);

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let mut gate = super::gate::Gate::new(listener, 0, JOB, [1].into());
    for _ in 0..300 {
        let _silent = TcpStream::connect(address).unwrap();
        gate.tend();
        assert!(gate.sockets().len() <= 129);
    }
}

#[test]
fn a_neighbour_that_sends_garbage_is_cut_off() {
    let garbage: [&[u8]; 4] = [&[0xff; 64], &[1, 0, 99], &[0, 0], &[5, 0, 1, 0xff, 0xff, 0xff, 0xff]];
    for bytes in garbage {
        let job = job(3);
        let hub = job.ranks[1].shared.lock(); // until all have got it
        for watched in hub.watched() {
            assert_eq!(rustix::io::write(watched.socket.as_fd(), bytes), Ok(bytes.len()));
        }
        drop(hub);
        for rank in [&job.ranks[0], &job.ranks[2]] {
            let News::Lost { rank: lost, how } = hear(rank) else { panic!("a loss is no abort") };
            assert_eq!(lost, 1);
            assert!(how.ends_with("carried what is no frame of the lifeline"), "{how}");
        }
    }
}

#[test]
fn a_rank_that_dies_before_it_connects_is_named_by_all() {
    for size in [2, 3, 8, 33] {
        let mut bound = bind(size);
        drop(bound.listening.remove(1));
        for result in bound.connect() {
            let error = result.map_or_else(|error| error, |far_away| hear(&far_away).into());
            assert!(matches!(error, Error::Lost { rank: 1, .. }), "of {size} ranks: {error}");
        }
    }
}

#[test]
fn a_rank_that_dies_while_it_is_awaited_is_named() {
    let dying = TcpListener::bind("127.0.0.1:0").unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| dying.accept().unwrap().0.shutdown(Shutdown::Both).unwrap());
        assert!(matches!(bind(2).connect_to(&dying), Err(Error::Lost { rank: 1, .. })));
    });
}

#[test]
fn two_builds_that_differ_name_both_versions() {
    let newer = TcpListener::bind("127.0.0.1:0").unwrap();
    let hello = Hello { version: VERSION + 1, job: JOB, from: 1, to: 0 };
    std::thread::scope(|scope| {
        scope.spawn(|| newer.accept().unwrap().0.write_all(&hello.encode()).unwrap());
        let Err(Error::Aborted { by: 0, why }) = bind(2).connect_to(&newer) else {
            panic!("connected to another version")
        };
        let both =
            format!("rank 1 speaks version {} of the lifeline, rank 0 version {VERSION};", VERSION + 1);
        assert!(why.starts_with(&both), "{why}");
    });
}

#[test]
fn a_malformed_card_is_an_error_on_all_ranks() {
    let mut bound = bind(2);
    bound.cards[1] = vec![1, 2, 3];
    for result in bound.connect() {
        let text = result.err().expect("connected by a malformed card").to_string();
        assert!(text.starts_with("rank 0 gave up: rank 1's lifeline card is malformed"), "{text}");
    }
}

#[test]
fn a_network_card_names_an_interface_or_the_lack_of_one_is_an_error() {
    match Listening::bind(Scope::Network) {
        Ok(listening) => assert!(!address(&listening).ip().is_loopback()),
        Err(error) => assert!(error.to_string().contains("no network interface is up"), "{error}"),
    }
}
