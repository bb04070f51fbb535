//! All links of a rank, and what is done about what they carry: the protocol.
//!
//! It never blocks: the engine's thread calls it too, so that news are with the kernel before `abort`
//! returns. Fatal news go to every neighbour once. Questions and replies travel along the overlay,
//! each hop to the neighbour that stands least before the target on the circle: the distance shrinks
//! with each hop, so nothing can run in circles, no rank opens further sockets, and on a circulant
//! graph ⌈log₂ p⌉ hops suffice.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::gate::{Entered, Gate};
use super::inquiry::Inquiry;
use super::link::{Link, Received};
use super::news::{Board, News, QUESTIONS};
use super::status::{Report, Status};
use super::wire::Message;
use crate::rank::{Place, Rank};

/// How long a rank that ends waits until its neighbours have taken its last words. They answer from
/// their lifeline's thread at once, so that it is used up only by a peer that is stopped or cut off.
pub const FAREWELL: Duration = Duration::from_secs(2);

pub struct Hub {
    place: Place,
    status: Arc<Status>,
    board: Arc<Board>,
    gate: Option<Gate>,
    links: BTreeMap<u64, Link>,
    /// How many links there have been: the next one's number.
    joined: u64,
    /// Neighbours that said goodbye.
    left: BTreeSet<Rank>,
    /// The newest questions of this rank, each of them for a wait of its own; how many there have been.
    inquiries: VecDeque<Inquiry>,
    asked: u32,
    /// How far on the circle neighbours stand, at any rank.
    strides: BTreeSet<u32>,
    ending: Option<Instant>,
}

/// What the thread waits for.
pub struct Watched {
    pub who: Who,
    pub socket: Arc<dyn AsFd + Send + Sync>,
    pub flags: PollFlags,
}

/// Whose socket is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    Gate,
    Link(u64),
}

impl Hub {
    pub fn new(place: Place, status: Arc<Status>, board: Arc<Board>, gate: Gate) -> Self {
        let gate = Some(gate).filter(|gate| !gate.missing().is_empty());
        Hub {
            place,
            status,
            board,
            gate,
            links: BTreeMap::new(),
            joined: 0,
            left: BTreeSet::new(),
            inquiries: VecDeque::new(),
            asked: 0,
            strides: BTreeSet::new(),
            ending: None,
        }
    }

    /// Ranks that were expected and have not connected yet.
    pub fn missing(&self) -> impl Iterator<Item = Rank> {
        self.gate.iter().flat_map(|gate| gate.missing().iter().copied())
    }

    /// Whether every neighbour said goodbye; one that is still to connect has not.
    pub fn all_left(&self) -> bool {
        self.gate.is_none() && self.links.values().all(|link| self.has_left(link.rank))
    }

    /// Whether this neighbour said goodbye.
    fn has_left(&self, rank: Rank) -> bool {
        self.left.contains(&rank)
    }

    /// Everything that poll is to watch.
    pub fn watched(&self) -> Vec<Watched> {
        let gate = self.gate.iter().flat_map(Gate::sockets);
        let gate = gate.map(|socket| Watched { who: Who::Gate, socket, flags: PollFlags::IN });
        gate.chain(self.links.iter().map(watched_link)).collect()
    }

    /// When the thread must end, if it must; the past if there is nothing left to wait for.
    pub fn deadline(&self) -> Option<Instant> {
        self.ending.map(|end| if self.links.is_empty() { Instant::now() } else { end })
    }

    /// Looks after whoever is ready.
    pub fn tend(&mut self, who: Who) {
        match who {
            Who::Gate => self.tend_gate(),
            Who::Link(number) => self.tend_link(number),
        }
    }

    /// A connection stands; it gets the news if there is some already.
    pub fn join(&mut self, rank: Rank, stream: Arc<TcpStream>) {
        self.strides.insert(self.distance(self.place.rank, rank));
        match Link::new(rank, stream) {
            Ok(mut link) => {
                if let Some(news) = self.board.fatal() {
                    link.post(&Message::Fatal(news).encode());
                }
                self.links.insert(self.joined, link);
                self.joined += 1;
            }
            Err(e) => self.lose(rank, &format!("failed: {e}")),
        }
    }

    /// Takes fatal news, this rank's own or another's, and floods them if they are the first.
    pub fn settle(&mut self, news: News, wakes: bool) {
        if !self.board.settle(&news, wakes) {
            return;
        }
        self.post_to_all(&Message::Fatal(news.clone()));
        if let News::Lost { rank: lost, .. } = news {
            // A vanished host would keep this rank waiting when it ends.
            self.links.retain(|_, link| link.rank != lost);
        }
    }

    /// Begins a chain of questions for a call on a communicator, by the number that its answer has; of too many the oldest
    /// is forgotten. None where there is no such peer.
    pub fn ask(&mut self, peer: Rank, communicator: u32) -> Option<u32> {
        if peer >= self.place.size {
            return None;
        }
        let id = self.asked;
        self.asked = id.wrapping_add(1);
        if self.inquiries.len() == QUESTIONS {
            self.inquiries.pop_front();
        }
        self.inquiries.push_back(Inquiry::new(id, self.place.rank, peer, communicator));
        self.ask_next(id);
        Some(id)
    }

    /// Says goodbye; the links stay.
    pub fn farewell(&mut self) {
        self.post_to_all(&Message::Goodbye);
    }

    /// Says the last word and closes this side of every link; the thread waits for the others' sides.
    pub fn end(&mut self, last: Message) {
        self.gate = None;
        match last {
            Message::Fatal(news) => self.settle(news, false),
            last => self.post_to_all(&last),
        }
        self.links.values_mut().for_each(Link::finish);
        self.ending = Some(Instant::now() + FAREWELL);
    }

    fn tend_gate(&mut self) {
        let Some(gate) = &mut self.gate else { return };
        let Entered { ranks, fatal } = gate.tend();
        if gate.missing().is_empty() {
            self.gate = None;
        }
        ranks.into_iter().for_each(|(rank, stream)| self.join(rank, stream));
        if let Some(why) = fatal {
            self.settle(News::Aborted { by: self.place.rank, why }, true);
        }
    }

    fn tend_link(&mut self, number: u64) {
        let Some(link) = self.links.get_mut(&number) else { return };
        let rank = link.rank;
        link.flush();
        let Received { messages, end } = link.receive(self.place.size);
        messages.into_iter().for_each(|message| self.hear(rank, message));
        if let Some(end) = end {
            self.links.remove(&number);
            self.lose(rank, &end);
        }
    }

    /// A connection is gone: no loss after a goodbye, and no news while this rank ends itself.
    fn lose(&mut self, rank: Rank, end: &str) {
        if self.ending.is_none() && !self.has_left(rank) {
            let how = format!("its connection to rank {} {end}", self.place.rank);
            self.settle(News::Lost { rank, how }, true);
        }
    }

    fn hear(&mut self, neighbour: Rank, message: Message) {
        match message {
            Message::Fatal(news) => self.settle(news, true),
            Message::Goodbye => drop(self.left.insert(neighbour)),
            Message::Question { to, .. } | Message::Reply { to, .. } => self.carry(to, message),
        }
    }

    /// Brings a question or a reply one step nearer to `to`, or takes it.
    fn carry(&mut self, to: Rank, message: Message) {
        if to == self.place.rank {
            self.take(message);
        } else if self.has_left(to) {
            self.answer_for(message, Report::Left);
        } else if let Some(link) = self.towards(to) {
            link.offer(&message.encode());
        } else {
            self.answer_for(message, Report::Unreachable);
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Question { communicator, .. } => {
                let report = self.status.report(communicator);
                self.answer_for(message, report);
            }
            Message::Reply { from, id, report, .. } => {
                if self.inquiries.iter_mut().any(|inquiry| inquiry.hears(id, from, report.clone())) {
                    self.ask_next(id);
                }
            }
            Message::Fatal(_) | Message::Goodbye => {}
        }
    }

    /// Answers a question with what is known of the rank that it is for. A reply has no answer.
    fn answer_for(&mut self, message: Message, report: Report) {
        if let Message::Question { from, to, id, .. } = message {
            self.carry(from, Message::Reply { from: to, to: from, id, report });
        }
    }

    /// Leaves what is known for the engine, then asks whom the chain has come to.
    fn ask_next(&mut self, id: u32) {
        let Some(inquiry) = self.inquiries.iter().find(|inquiry| inquiry.id() == id) else { return };
        self.board.answered(inquiry.answer(|peer| self.between(peer)));
        if let Some(to) = inquiry.asks() {
            let communicator = inquiry.communicator();
            self.carry(to, Message::Question { from: self.place.rank, to, id, communicator });
        }
    }

    /// The ranks over which a question goes to a peer, and its reply comes back, where nobody has left.
    fn between(&self, peer: Rank) -> Vec<Rank> {
        let me = self.place.rank;
        let mut over: Vec<Rank> = self.way(me, peer).into_iter().chain(self.way(peer, me)).collect();
        over.sort_unstable();
        over.dedup();
        over
    }

    /// The ranks between two on the overlay, which looks the same from each.
    fn way(&self, from: Rank, to: Rank) -> Vec<Rank> {
        let size = self.place.size;
        let next = |at: &Rank| {
            let there = self.strides.iter().map(|&stride| Place { rank: *at, size }.after(stride));
            let next = there.min_by_key(|&rank| self.distance(rank, to))?;
            (next != to && self.distance(next, to) < self.distance(*at, to)).then_some(next)
        };
        std::iter::successors(Some(from), next).skip(1).collect()
    }

    /// How far a rank stands before another one on the circle.
    fn distance(&self, from: Rank, to: Rank) -> u32 {
        Place { rank: to, size: self.place.size }.before(from)
    }

    /// The link to the neighbour that stands least before `to`, if it stands nearer than this rank.
    fn towards(&mut self, to: Rank) -> Option<&mut Link> {
        let Place { rank: me, size } = self.place;
        let before = |rank: Rank| Place { rank: to, size }.before(rank);
        let left = &self.left;
        let there = self.links.values_mut().filter(|link| !left.contains(&link.rank));
        there.min_by_key(|link| before(link.rank)).filter(|link| before(link.rank) < before(me))
    }

    fn post_to_all(&mut self, message: &Message) {
        let frame = message.encode();
        self.links.values_mut().for_each(|link| link.post(&frame));
    }
}

fn watched_link((number, link): (&u64, &Link)) -> Watched {
    let flags = if link.is_full() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
    Watched { who: Who::Link(*number), socket: link.stream(), flags }
}
