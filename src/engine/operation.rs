//! One collective operation of this rank: a run, the memory that it moves, and who is ready for it.
//!
//! Two paths, chosen by the caller as a function of the call's signature, so that all ranks choose
//! alike: blocks travel in slots (small messages, no handshake), or they are put straight into their
//! place in the target's memory, once the target has said that it is ready and where.
#![forbid(unsafe_code)]

use std::ops::Range;

use super::call::{Call, Header, Kind};
use super::notice::Notice;
use super::run::{Order, Run, Unexpected};
use super::slots::{Landed, PAYLOAD, Slots};
use super::tokens::{Tokens, Use};
use super::vigil::Waiting;
use crate::error::Result;
use crate::plan::partition::Partition;
use crate::plan::{Blocks, Plan};
use crate::transport::memory::Memory;
use crate::transport::{Posted, Put, Region, RemoteKey, Report, Segment, Transport};

/// What operations send through.
pub struct Io {
    /// Carries the puts.
    pub transport: Box<dyn Transport>,
    /// Carries what is small.
    pub slots: Slots,
    /// Names the puts under way.
    pub tokens: Tokens,
}

/// How an operation's blocks travel.
pub enum Path {
    /// In slots, from and to this memory.
    Slots(Memory),
    /// By direct puts, from and to this region.
    Direct(Region),
}

/// How far a run may go ahead of what has landed.
///
/// A network's queues keep no order between peers: of puts that are handed over all at once the most
/// urgent may go last. So few are under way at a time, just enough to keep the link busy, and those of
/// the next rounds; the more, the longer a round trip is against a block's time on the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Direct puts that have not landed yet.
    pub in_flight: u32,
    /// Rounds from the first unfinished one that are looked at for a put; at most [`LOOKAHEAD`](super::run::LOOKAHEAD).
    pub lookahead: u32,
}

/// How far a pump got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pumped {
    /// All that could be put has been.
    All,
    /// The transport, a slot or a token was lacking: pump again after the next events.
    HeldUp,
}

/// An operation under way, or prepared and at rest.
pub struct Operation {
    call: Call,
    /// This rank's number of it, which peers name in their notices.
    number: u16,
    run: Run<Box<dyn Plan>>,
    partition: Partition,
    path: Path,
    pace: Pace,
    /// Which start this is, from 0; `None` before the first.
    started: Option<u32>,
    active: bool,
    turn: u64,
    /// Neighbours that put to this rank, and how many of them have been told that it is ready.
    sources: Vec<usize>,
    told: usize,
    targets: Vec<Target>,
}

/// A neighbour that this rank puts to.
struct Target {
    neighbour: usize,
    rank: u32,
    /// Its memory, and its number of the operation.
    at: Option<(RemoteKey, u16)>,
    /// The iteration that it has said to be ready for, plus one.
    ready: u32,
    /// The iteration in which a block has gone ahead to it, plus one.
    ahead: u32,
}

impl Operation {
    /// An operation at rest. [`start`](Self::start) comes next.
    pub fn new(
        call: Call,
        number: u16,
        plan: Box<dyn Plan>,
        partition: Partition,
        path: Path,
        pace: Pace,
        slots: &Slots,
    ) -> Self {
        let neighbours = |ranks: Vec<u32>| ranks.into_iter().filter_map(|rank| slots.index_of(rank));
        let (sources, targets) = match path {
            Path::Slots(_) => (Vec::new(), Vec::new()),
            Path::Direct(_) => (neighbours(plan.sources()).collect(), neighbours(plan.targets()).collect()),
        };
        let target =
            |neighbour| Target { neighbour, rank: slots.rank_of(neighbour), at: None, ready: 0, ahead: 0 };
        Operation {
            call,
            number,
            run: Run::new(plan, pace.lookahead),
            partition,
            path,
            pace,
            started: None,
            active: false,
            turn: 0,
            told: 0,
            sources,
            targets: targets.into_iter().map(target).collect(),
        }
    }

    /// What it is.
    pub fn call(&self) -> Call {
        self.call
    }

    /// What it waits for.
    pub fn waiting(&self) -> Waiting {
        Waiting { call: self.call, rounds: self.run.plan().rounds(), awaits: self.run.awaits() }
    }

    /// Starts it, for the first time or again; `turn` counts this rank's starts, whose order all ranks share.
    pub fn start(&mut self, turn: u64) {
        if self.started.is_some() {
            self.run.restart();
        }
        self.started = Some(self.started.map_or(0, |iteration| iteration + 1));
        self.active = true;
        self.turn = turn;
        self.told = 0;
    }

    /// The turn of the start that is under way.
    pub fn turn(&self) -> Option<u64> {
        self.active.then_some(self.turn)
    }

    /// How often it was started.
    pub fn starts(&self) -> u32 {
        self.started.map_or(0, |iteration| iteration + 1)
    }

    fn iteration(&self) -> u32 {
        self.started.unwrap_or(0)
    }

    /// Whether it is not under way.
    pub fn is_done(&self) -> bool {
        !self.active
    }

    fn settle(&mut self) {
        if self.run.is_done() && self.told == self.sources.len() {
            self.active = false;
        }
    }

    /// A neighbour says that it is ready for puts.
    pub fn ready(&mut self, neighbour: usize, header: &Header) {
        let Some(target) = self.targets.iter_mut().find(|target| target.neighbour == neighbour) else {
            return;
        };
        if let Kind::Ready { target: key, operation } = header.kind {
            target.at = Some((key, operation));
        }
        target.ready = target.ready.max(header.iteration.saturating_add(1));
    }

    /// Whether a message with data is for the iteration that is under way.
    pub fn wants(&self, header: &Header) -> bool {
        self.active && header.iteration == self.iteration()
    }

    /// Where the data of a message belong: the memory and the range; `None` where the round has none that small.
    pub fn place_of(&self, round: u32) -> Option<(&Memory, Range<usize>)> {
        if round >= self.run.plan().rounds() {
            return None;
        }
        let range = self.range(self.run.plan().round(round).arrival?.blocks);
        (range.len() <= PAYLOAD).then_some((self.memory(), range))
    }

    /// A block has landed at its place.
    pub fn arrived(&mut self, round: u32) -> std::result::Result<(), Unexpected> {
        if !self.active {
            return Err(Unexpected { round });
        }
        self.run.arrived(round)?;
        self.settle();
        Ok(())
    }

    /// The source of one of its puts may be reused.
    pub fn sent(&mut self) {
        self.run.sent();
        self.settle();
    }

    /// Tells the sources and puts all that can be put.
    pub fn pump(&mut self, io: &mut Io) -> Result<Pumped> {
        if !self.active {
            return Ok(Pumped::All);
        }
        while self.told < self.sources.len() {
            let header = Header { kind: self.readiness(), call: self.call, iteration: self.iteration() };
            let to = self.sources[self.told];
            if !io.slots.send(&mut *io.transport, &mut io.tokens, to, &header, None, 0)? {
                return Ok(Pumped::HeldUp);
            }
            self.told += 1;
        }
        while let Some(order) = self.next_put(&io.slots) {
            if !self.put(order, io)? {
                return Ok(Pumped::HeldUp);
            }
        }
        self.settle();
        Ok(Pumped::All)
    }

    fn readiness(&self) -> Kind {
        match &self.path {
            Path::Direct(region) if self.iteration() == 0 => {
                Kind::Ready { target: region.remote, operation: self.number }
            }
            _ => Kind::Again,
        }
    }

    fn next_put(&self, slots: &Slots) -> Option<Order> {
        match self.path {
            Path::Slots(_) => self
                .run
                .next_put(|peer| slots.index_of(peer).is_some_and(|neighbour| slots.may_send(neighbour))),
            Path::Direct(_) if self.run.in_flight() >= self.pace.in_flight => None,
            Path::Direct(_) => self.run.next_put(|peer| {
                self.target(peer)
                    .is_some_and(|target| self.is_ready(target) || self.may_go_ahead(target, slots))
            }),
        }
    }

    fn is_ready(&self, target: &Target) -> bool {
        target.ready > self.iteration()
    }

    /// Whether a block may go through a slot before its target is ready: one for each target, where it
    /// fits, so that the first blocks do not wait for a handshake.
    fn may_go_ahead(&self, target: &Target, slots: &Slots) -> bool {
        let fits = self.partition.range(0).end <= PAYLOAD as u64;
        fits && target.ahead <= self.iteration() && slots.may_send(target.neighbour)
    }

    fn memory(&self) -> &Memory {
        match &self.path {
            Path::Slots(memory) => memory,
            Path::Direct(region) => &region.memory,
        }
    }

    fn target(&self, rank: u32) -> Option<&Target> {
        self.targets.iter().find(|target| target.rank == rank)
    }

    fn range(&self, blocks: Blocks) -> Range<usize> {
        match blocks {
            Blocks::Nothing | Blocks::Run { .. } | Blocks::Many => 0..0,
            Blocks::One(block) => {
                let range = self.partition.range(block);
                range.start as usize..range.end as usize
            }
        }
    }

    /// False where the put was not taken.
    fn put(&mut self, order: Order, io: &mut Io) -> Result<bool> {
        match &self.path {
            Path::Direct(region)
                if self.target(order.put.peer).is_some_and(|target| self.is_ready(target)) =>
            {
                self.put_in_place(order, region.clone(), io)
            }
            _ => self.put_in_slot(order, io),
        }
    }

    fn put_in_slot(&mut self, order: Order, io: &mut Io) -> Result<bool> {
        let Some(to) = io.slots.index_of(order.put.peer) else { return Ok(false) };
        let header = Header { kind: Kind::Data, call: self.call, iteration: self.iteration() };
        let payload = Some((self.memory(), self.range(order.put.blocks)));
        let taken = io.slots.send(&mut *io.transport, &mut io.tokens, to, &header, payload, order.round)?;
        if taken {
            let ahead = self.iteration() + 1;
            self.targets
                .iter_mut()
                .filter(|target| target.neighbour == to)
                .for_each(|target| target.ahead = ahead);
            self.run.ordered(order);
            self.run.sent();
        }
        Ok(taken)
    }

    fn put_in_place(&mut self, order: Order, region: Region, io: &mut Io) -> Result<bool> {
        let Some((key, operation)) = self.target(order.put.peer).and_then(|target| target.at) else {
            return Ok(false);
        };
        let range = self.range(order.put.blocks);
        let put = Put {
            peer: order.put.peer,
            from: &region,
            segments: &[Segment { offset: range.start, len: range.len() }],
            to: key,
            to_offset: range.start as u64,
            notice: Notice::Block { operation, round: order.round }.encode(),
            report: if order.unpaced { Report::Landed } else { Report::Sent },
            token: 0,
        };
        let posted = io.tokens.put(&mut *io.transport, Use::Block(self.number.into()), put)?;
        if posted != Posted::Busy {
            self.run.ordered(order);
        }
        if posted == Posted::Done {
            self.run.sent();
        }
        Ok(posted != Posted::Busy)
    }
}

/// A message whose call has not begun here: it stays in its slot, or is copied out of it.
pub enum Kept {
    /// In its slot.
    InSlot(Landed),
    /// Its data, copied.
    Copied(Vec<u8>),
}
