//! One collective operation of this rank: a run, the memory that it moves, and who is ready for it.
//!
//! Two paths, chosen by the caller as a function of the call's signature, so that all ranks choose
//! alike: legs travel in slots (small messages, no handshake), or they are put straight into their
//! place in the target's memory, once the target has said that it is ready and where. What is folded, and
//! small blocks that travel together, go through staging slots ([`super::intake`] takes them out).
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::sync::Arc;

use super::call::{Call, Header, Kind};
use super::intake::{Intake, Stock};
use super::leg::{Leg, Pieces, Rule, Stretch, stretches, total};
use super::notice::{MAX_ROUNDS, MAX_SOURCES, Notice};
use super::run::{Awaits, Order, Run, Unexpected};
use super::slots::{Landed, PAYLOAD, Slots};
use super::staging::{Pool, STAGES, Staging, offset_there};
use super::tokens::{Tokens, Use};
use super::vigil::Waiting;
use crate::error::{Error, Result};
use crate::fold::Fold;
use crate::plan::layout::Layout;
use crate::plan::{Landing, Plan, Side};
use crate::rank::Rank;
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
    /// Memory for pieces.
    pub pool: Pool,
}

/// How an operation's blocks travel.
pub enum Path {
    /// In slots.
    Slots {
        /// What is put.
        from: Memory,
        /// Where it lands.
        to: Memory,
    },
    /// By direct puts.
    Direct {
        /// What is put.
        from: Region,
        /// Where it lands.
        to: Region,
    },
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
    /// How many legs may be on their way to one target at a time, in the order of its rounds; `None`: any.
    /// Where legs differ in size, or wait for nothing, a source that is ahead would else take half of its
    /// target's link from the one whose turn it is.
    pub turns: Option<u32>,
}

/// How far a pump got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pumped {
    /// All that could be put has been.
    All,
    /// The transport, a slot or a token was lacking: pump again after the next events.
    HeldUp,
}

/// What an operation is made of.
pub struct Parts {
    /// What it is.
    pub call: Call,
    /// This rank's number of it, which peers name in their notices.
    pub number: u16,
    /// World rank of each rank of the plan; `None`: the same.
    pub group: Option<Arc<[Rank]>>,
    /// This rank's part.
    pub plan: Box<dyn Plan>,
    /// Where blocks lie.
    pub layout: Box<dyn Layout>,
    /// In which memory, and how they travel.
    pub path: Path,
    /// How far it may go ahead.
    pub pace: Pace,
    /// How legs are cut.
    pub rule: Rule,
    /// How arrivals are combined, where the plan folds.
    pub fold: Option<Arc<dyn Fold>>,
}

/// An operation under way, or prepared and at rest.
pub struct Operation {
    call: Call,
    number: u16,
    group: Option<Arc<[Rank]>>,
    run: Run<Box<dyn Plan>>,
    layout: Box<dyn Layout>,
    path: Path,
    pace: Pace,
    rule: Rule,
    fold: Option<Arc<dyn Fold>>,
    /// Which start this is, from 0; `None` before the first.
    started: Option<u32>,
    active: bool,
    turn: u64,
    /// Peers that put to this rank, how many of them have been told that it is ready, and what they staged.
    sources: Vec<Source>,
    told: usize,
    staging: Option<Staging>,
    intake: Intake,
    /// The rounds whose sources have been told that it is their turn, and the first that has not been looked at.
    turns: VecDeque<u32>,
    next_turn: u32,
    /// Direct puts of a round that are still to land, for rounds of which some have.
    partial: Vec<Partial>,
    targets: Vec<Target>,
    packing: Option<Staging>,
    /// Legs that are being put, at most one to a target.
    legs: Vec<Outgoing>,
    /// Puts whose source is still needed.
    flying: u32,
}

/// A peer that puts to this rank.
struct Source {
    /// In the plan.
    rank: Rank,
    channel: usize,
    stock: Stock,
}

/// A peer that this rank puts to.
struct Target {
    /// In the plan.
    rank: Rank,
    /// In the world.
    world: Rank,
    channel: usize,
    /// Whether the channel carries data.
    wide: bool,
    offer: Option<Offer>,
    /// The iteration that it has said to be ready for, plus one.
    ready: u32,
    /// The iteration in which a leg has gone ahead to it, plus one.
    ahead: u32,
    /// Pieces that have been put to its staging slots, and how many it has allowed.
    pieces: u32,
    allowed: u32,
    /// The last round of which it has said that it is its turn.
    admitted: Option<u32>,
}

/// What a target has told.
#[derive(Clone, Copy)]
struct Offer {
    target: RemoteKey,
    staging: RemoteKey,
    operation: u16,
    source: u32,
}

struct Partial {
    round: u32,
    left: usize,
}

/// The data of a message.
pub enum Payload<'m> {
    /// In a slot: from where on, and how many bytes at most.
    InSlot(&'m Memory, usize, usize),
    /// Copied out of one.
    Copied(&'m [u8]),
}

/// How many bytes two ranks mean, where they do not mean the same.
pub struct Unequal {
    /// Whether this rank puts them or awaits them.
    pub side: Side,
    /// What this rank means.
    pub mine: u64,
    /// What the other one means.
    pub theirs: u64,
}

impl Unequal {
    fn check(side: Side, mine: u64, theirs: u64) -> std::result::Result<(), Unequal> {
        if mine == theirs { Ok(()) } else { Err(Unequal { side, mine, theirs }) }
    }
}

impl Payload<'_> {
    /// The most bytes that there can be.
    fn room(&self) -> usize {
        match self {
            Payload::InSlot(_, _, room) => *room,
            Payload::Copied(copy) => copy.len(),
        }
    }

    fn copied(&self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        match self {
            Payload::InSlot(memory, start, _) => memory.read(*start, &mut bytes),
            Payload::Copied(copy) => bytes.copy_from_slice(&copy[..len]),
        }
        bytes
    }

    fn copy_to(&self, from: usize, to: &Memory, at: usize, len: usize) {
        match self {
            Payload::InSlot(memory, start, _) => to.copy(at, memory, start + from, len),
            Payload::Copied(copy) => to.write(at, &copy[from..from + len]),
        }
    }
}

/// A leg that is being put.
struct Outgoing {
    round: u32,
    target: usize,
    report: Report,
    direct: VecDeque<Stretch>,
    staged: Pieces,
}

impl Operation {
    /// An operation at rest. [`start`](Self::start) comes next.
    pub fn new(parts: Parts, io: &mut Io) -> Result<Self> {
        let Parts { call, number, group, plan, layout, path, pace, rule, fold } = parts;
        let world = |rank: Rank| group.as_ref().map_or(rank, |group| group[rank as usize]);
        let channel = |rank: Rank| {
            io.slots.channel(world(rank)).ok_or_else(|| {
                let what = format!("rank {} is not reached from here", world(rank));
                Error::argument(call.signature.collective.name(), what, "take another algorithm")
            })
        };
        let (sources, targets) = match path {
            Path::Slots { .. } => (Vec::new(), plan.targets()),
            Path::Direct { .. } => (plan.sources(), plan.targets()),
        };
        let numbers = plan.rounds() <= MAX_ROUNDS && (rule.piece == 0 || sources.len() <= MAX_SOURCES);
        if matches!(path, Path::Direct { .. }) && !numbers {
            let what = format!("{} rounds with {} sources", plan.rounds(), sources.len());
            let cure = format!("take an algorithm of at most {MAX_ROUNDS} rounds and {MAX_SOURCES} sources");
            return Err(Error::argument(call.signature.collective.name(), what, cure));
        }
        let source = |rank| Ok(Source { rank, channel: channel(rank)?, stock: Stock::default() });
        let target = |rank| {
            Ok(Target {
                rank,
                world: world(rank),
                channel: channel(rank)?,
                wide: io.slots.wide(world(rank)).is_some(),
                offer: None,
                ready: 0,
                ahead: 0,
                pieces: 0,
                allowed: 0,
                admitted: None,
            })
        };
        let sources = sources.into_iter().map(source).collect::<Result<Vec<_>>>()?;
        let targets = targets.into_iter().map(target).collect::<Result<Vec<_>>>()?;
        let stages = rule.piece > 0 && !sources.is_empty();
        let staging = stages.then(|| io.pool.take(&mut *io.transport, sources.len(), rule.piece));
        let run = Run::new(plan, pace.lookahead);
        Ok(Operation {
            call,
            number,
            group,
            run: if rule.piece > 0 { run.in_order() } else { run },
            layout,
            path,
            pace,
            rule,
            fold,
            started: None,
            active: false,
            turn: 0,
            sources,
            told: 0,
            staging: staging.transpose()?,
            intake: Intake::default(),
            turns: VecDeque::new(),
            next_turn: 0,
            partial: Vec::new(),
            targets,
            packing: None,
            legs: Vec::new(),
            flying: 0,
        })
    }

    /// What it is.
    pub fn call(&self) -> Call {
        self.call
    }

    /// What it waits for, in ranks of the world.
    pub fn waiting(&self) -> Waiting {
        let awaits = self.run.awaits().map(|awaits| match awaits {
            Awaits::Arrival { round, mut from } => {
                from.peer = self.world(from.peer);
                Awaits::Arrival { round, from }
            }
            Awaits::Target { round, mut to } => {
                to.peer = self.world(to.peer);
                Awaits::Target { round, to }
            }
            Awaits::Sent { puts } => Awaits::Sent { puts },
        });
        let flying = (self.flying > 0).then_some(Awaits::Sent { puts: self.flying });
        Waiting { call: self.call, rounds: self.run.plan().rounds(), awaits: awaits.or(flying) }
    }

    fn world(&self, rank: Rank) -> Rank {
        self.group.as_ref().map_or(rank, |group| group[rank as usize])
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
        self.sources.iter_mut().for_each(|source| source.stock = Stock::default());
        for target in &mut self.targets {
            (target.pieces, target.allowed, target.admitted) = (0, STAGES as u32, None);
        }
        self.turns.clear();
        self.next_turn = 0;
        self.partial.clear();
        self.intake = match self.takes_in() {
            true => Intake::new(&**self.run.plan(), &*self.layout, self.rule),
            false => Intake::default(),
        };
    }

    /// Whether there are arrivals that do not land where they belong.
    fn takes_in(&self) -> bool {
        self.rule.piece > 0 || self.fold.is_some()
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

    /// What it took from the pool, when it is over.
    pub fn into_pool(self, pool: &mut Pool) {
        self.staging.into_iter().chain(self.packing).for_each(|staging| pool.give_back(staging));
    }

    fn is_direct(&self) -> bool {
        matches!(self.path, Path::Direct { .. })
    }

    fn settle(&mut self) {
        if self.run.is_done() && self.told == self.sources.len() && self.flying == 0 {
            self.active = false;
        }
    }

    /// A peer says that it is ready for puts.
    pub fn ready(&mut self, peer: Rank, header: &Header) -> std::result::Result<(), Unequal> {
        let Some(target) = self.targets.iter_mut().find(|target| target.world == peer) else { return Ok(()) };
        if let Kind::Ready { target: key, staging, operation, source, bytes } = header.kind {
            Unequal::check(Side::Put, self.layout.between(target.rank, Side::Put), bytes)?;
            target.offer = Some(Offer { target: key, staging, operation, source });
        }
        target.ready = target.ready.max(header.iteration.saturating_add(1));
        Ok(())
    }

    /// A peer has emptied some of its staging slots.
    pub fn taken(&mut self, peer: Rank, header: &Header, pieces: u32) {
        let current = self.is_of_this_start(header);
        if let Some(target) = self.targets.iter_mut().find(|target| current && target.world == peer) {
            target.allowed = target.allowed.saturating_add(pieces);
        }
    }

    /// A peer says that it is the turn of the leg of this round.
    pub fn admitted(&mut self, peer: Rank, header: &Header, round: u32) {
        let current = self.is_of_this_start(header);
        if let Some(target) = self.targets.iter_mut().find(|target| current && target.world == peer) {
            target.admitted = target.admitted.max(Some(round));
        }
    }

    /// Whether a message is for the start that is under way.
    pub fn is_of_this_start(&self, header: &Header) -> bool {
        self.active && header.iteration == self.iteration()
    }

    /// Whether a message is for a start that is still to come.
    pub fn is_to_start(&self, header: &Header) -> bool {
        header.iteration >= self.starts()
    }

    /// Whether so many bytes are what this rank awaits in a round.
    pub fn is_as_long(&self, round: u32, bytes: u64) -> std::result::Result<(), Unequal> {
        let known = round < self.run.plan().rounds();
        let all = known.then(|| stretches(&**self.run.plan(), &*self.layout, round, Side::Arrival));
        Unequal::check(Side::Arrival, all.map_or(0, |all| total(&all) as u64), bytes)
    }

    /// The blocks of a round have come in a message: they are stored, or kept until it is their turn.
    pub fn message(&mut self, round: u32, from: &Payload<'_>) -> std::result::Result<(), Unexpected> {
        if round >= self.run.plan().rounds() || self.run.has_arrived(round) {
            return Err(Unexpected { round });
        }
        let all = stretches(&**self.run.plan(), &*self.layout, round, Side::Arrival);
        if total(&all) > from.room() {
            return Err(Unexpected { round });
        }
        if self.takes_in() && self.leg(round, Side::Arrival).staged.left() > 0 {
            let fresh = self.intake.keep(round, from.copied(total(&all)));
            return if fresh { Ok(()) } else { Err(Unexpected { round }) };
        }
        let mut at = 0;
        for stretch in all {
            from.copy_to(at, self.to(), stretch.at, stretch.len);
            at += stretch.len;
        }
        self.run.arrived(round)?;
        self.settle();
        Ok(())
    }

    fn leg(&self, round: u32, side: Side) -> Leg {
        Leg::new(&**self.run.plan(), &*self.layout, round, side, self.rule)
    }

    fn from(&self) -> &Memory {
        match &self.path {
            Path::Slots { from, .. } => from,
            Path::Direct { from, .. } => &from.memory,
        }
    }

    fn to(&self) -> &Memory {
        match &self.path {
            Path::Slots { to, .. } => to,
            Path::Direct { to, .. } => &to.memory,
        }
    }

    /// Bytes have landed at their place.
    pub fn landed(&mut self, round: u32) -> std::result::Result<(), Unexpected> {
        if !self.active || round >= self.run.plan().rounds() || self.run.has_arrived(round) {
            return Err(Unexpected { round });
        }
        self.part_of(round)
    }

    /// A part of a round's arrival is there; with the last one the round has arrived.
    fn part_of(&mut self, round: u32) -> std::result::Result<(), Unexpected> {
        let left = match self.partial.iter().position(|partial| partial.round == round) {
            Some(known) => self.partial.swap_remove(known).left,
            None => {
                let leg = self.leg(round, Side::Arrival);
                leg.direct.len() + usize::from(leg.staged.left() > 0)
            }
        };
        if left > 1 {
            self.partial.push(Partial { round, left: left - 1 });
            return Ok(());
        }
        self.run.arrived(round)?;
        self.settle();
        Ok(())
    }

    /// A piece has landed in a staging slot.
    pub fn staged(&mut self, source: usize, slot: u8) -> std::result::Result<(), Unexpected> {
        let expected = self.active && self.staging.is_some();
        let landed = self.sources.get_mut(source).is_some_and(|source| expected && source.stock.land(slot));
        if landed { Ok(()) } else { Err(Unexpected { round: 0 }) }
    }

    /// The source of one of its puts may be reused.
    pub fn sent(&mut self) {
        self.flying -= 1;
        self.settle();
    }

    /// Tells the sources, takes in what has landed, and puts all that can be put.
    pub fn pump(&mut self, io: &mut Io) -> Result<Pumped> {
        if !self.active {
            return Ok(Pumped::All);
        }
        // First of all, so that no source waits for a word that is behind this rank's own blocks.
        if !self.tell(io)? {
            return Ok(Pumped::HeldUp);
        }
        let done = self.put_all(io)? & self.give_back_stages(io)? & self.give_turns(io)?;
        self.settle();
        Ok(if done { Pumped::All } else { Pumped::HeldUp })
    }

    /// Tells the sources that this rank is ready; false where one could not be told.
    fn tell(&mut self, io: &mut Io) -> Result<bool> {
        while self.told < self.sources.len() {
            let kind = self.readiness(self.told);
            let header = Header { kind, call: self.call, iteration: self.iteration() };
            let to = self.sources[self.told].channel;
            if !io.slots.send(&mut *io.transport, &mut io.tokens, to, &header, None)? {
                return Ok(false);
            }
            self.told += 1;
        }
        Ok(true)
    }

    fn readiness(&self, source: usize) -> Kind {
        let Path::Direct { to, .. } = &self.path else { return Kind::Again };
        if self.iteration() > 0 {
            return Kind::Again;
        }
        let ahead = |key: RemoteKey, bytes: u64| RemoteKey { base: key.base.wrapping_add(bytes), ..key };
        let staging = self.staging.as_ref();
        let slots = |staging: &Staging| ahead(staging.region.remote, staging.offset(source, 0) as u64);
        Kind::Ready {
            target: ahead(to.remote, self.layout.told(self.sources[source].rank)),
            staging: staging.map(slots).unwrap_or_default(),
            operation: self.number,
            source: source as u32,
            bytes: self.layout.between(self.sources[source].rank, Side::Arrival),
        }
    }

    /// False where the transport did not take something.
    fn put_all(&mut self, io: &mut Io) -> Result<bool> {
        loop {
            self.take_in()?;
            if !self.put_legs(io)? {
                return Ok(false);
            }
            let Some(order) = self.next_put(&io.slots) else { return Ok(true) };
            if !self.begin(order, io)? {
                return Ok(false);
            }
        }
    }

    /// Folds, or copies to its place, whatever it is the turn of.
    fn take_in(&mut self) -> Result<()> {
        while let Some(current) = self.intake.current() {
            let round = current.round;
            let taken = if self.intake.has_early() { self.take_early(round)? } else { self.take_piece()? };
            if !taken {
                return Ok(());
            }
            if self.intake.current().is_some_and(|current| current.pieces.left() == 0) {
                self.intake.advance(&**self.run.plan(), &*self.layout, self.rule);
            }
        }
        Ok(())
    }

    /// Takes in a round that came in a message, unless its blocks are still to be put from here.
    fn take_early(&mut self, round: u32) -> Result<bool> {
        if !self.is_direct() && !self.run.has_ordered(round) {
            return Ok(false);
        }
        let (Some(bytes), Some(current)) = (self.intake.early(), self.intake.current()) else {
            return Ok(false);
        };
        let (source, landing) = (current.source, current.landing);
        let pieces = current.pieces.count(self.rule.piece);
        current.pieces.take(usize::MAX);
        let mut at = 0;
        for stretch in stretches(&**self.run.plan(), &*self.layout, round, Side::Arrival) {
            let theirs = &bytes[at..at + stretch.len];
            at += stretch.len;
            match landing {
                Landing::Store => self.to().write(stretch.at, theirs),
                _ => self.to().change(stretch.at, stretch.len, |mine| self.fold(mine, theirs, landing))?,
            }
        }
        if let Some(source) = self.sources.iter_mut().find(|other| other.rank == source) {
            source.stock.skip(pieces);
        }
        // The whole of the leg has come, whatever of it would have been put directly.
        self.run.arrived(round).map_err(|_| self.twice(round))?;
        Ok(true)
    }

    /// Takes in the next piece of the current round, if it has landed.
    fn take_piece(&mut self) -> Result<bool> {
        let (Some(current), Some(staging)) = (self.intake.current(), &self.staging) else { return Ok(false) };
        let Some(number) = self.sources.iter().position(|source| source.rank == current.source) else {
            return Ok(false);
        };
        let Some(slot) = self.sources[number].stock.next() else { return Ok(false) };
        let (round, landing) = (current.round, current.landing);
        let mut piece = Vec::new();
        current.pieces.peek(self.rule.piece, &mut piece);
        current.pieces.take(self.rule.piece);
        let last = current.pieces.left() == 0;
        let mut at = staging.offset(number, slot);
        for stretch in piece {
            let (to, from) = (self.to(), &staging.region.memory);
            match landing {
                Landing::Store => to.copy(stretch.at, from, at, stretch.len),
                _ => to.combine(stretch.at, from, at, stretch.len, |mine, theirs| {
                    self.fold(mine, theirs, landing)
                })?,
            }
            at += stretch.len;
        }
        self.sources[number].stock.take();
        if last {
            self.part_of(round).map_err(|_| self.twice(round))?;
        }
        Ok(true)
    }

    fn fold(&self, mine: &mut [u8], theirs: &[u8], landing: Landing) -> Result<()> {
        let failed = |why| Error::Operator { call: self.call.signature.to_string(), why };
        let fold = self.fold.as_ref().ok_or_else(|| failed("the call has none".to_owned()))?;
        fold.fold(mine, theirs, landing == Landing::FoldBefore).map_err(failed)
    }

    fn twice(&self, round: u32) -> Error {
        let what = format!("round {round} of {} arrived twice", self.call.signature);
        Error::transport("notice", what, "are all ranks of one version and one job?")
    }

    /// Tells sources that their slots are empty again, several at a time; false where one could not be told.
    fn give_back_stages(&mut self, io: &mut Io) -> Result<bool> {
        for i in 0..self.sources.len() {
            let Source { channel, ref stock, .. } = self.sources[i];
            if (stock.owed as usize) < STAGES / 2 {
                continue;
            }
            let kind = Kind::Taken { pieces: stock.owed };
            let header = Header { kind, call: self.call, iteration: self.iteration() };
            if !io.slots.send(&mut *io.transport, &mut io.tokens, channel, &header, None)? {
                return Ok(false);
            }
            self.sources[i].stock.owed = 0;
        }
        Ok(true)
    }

    /// Tells sources whose turn it is: as many at a time as the pace says, where one whose last put is on its
    /// way does not count. False where one could not be told.
    fn give_turns(&mut self, io: &mut Io) -> Result<bool> {
        let Some(most) = self.pace.turns.filter(|_| self.is_direct()) else { return Ok(true) };
        while self.next_turn < self.run.plan().rounds() {
            while self.turns.front().is_some_and(|&round| self.has_nearly_arrived(round)) {
                self.turns.pop_front();
            }
            if self.turns.len() == most as usize {
                return Ok(true);
            }
            if let Some(leg) = self.run.plan().round(self.next_turn).arrival {
                if !self.give_turn(leg.peer, io)? {
                    return Ok(false);
                }
                self.turns.push_back(self.next_turn);
            }
            self.next_turn += 1;
        }
        Ok(true)
    }

    fn give_turn(&mut self, source: Rank, io: &mut Io) -> Result<bool> {
        let Some(source) = self.sources.iter().find(|other| other.rank == source) else {
            return Err(self.twice(self.next_turn));
        };
        let kind = Kind::Turn { round: self.next_turn };
        let header = Header { kind, call: self.call, iteration: self.iteration() };
        io.slots.send(&mut *io.transport, &mut io.tokens, source.channel, &header, None)
    }

    fn has_nearly_arrived(&self, round: u32) -> bool {
        let (piece, low) = (self.rule.piece, self.run.arrived_before());
        let current = self.intake.now().filter(|current| current.round == round);
        let staged = current.map(|current| current.pieces.left() <= piece);
        let partial = self.partial.iter().find(|partial| partial.round == round);
        let direct = partial.map(|partial| partial.left <= 1);
        let nearly = staged != Some(false) && direct != Some(false) && staged.or(direct).is_some();
        low > round || low == round && nearly
    }

    fn next_put(&self, slots: &Slots) -> Option<Order> {
        let target = |rank| self.targets.iter().position(|target| target.rank == rank);
        match self.path {
            Path::Slots { .. } => self
                .run
                .next_put(|_, peer| target(peer).is_some_and(|i| slots.may_send(self.targets[i].channel))),
            Path::Direct { .. } if self.flying >= self.pace.in_flight => None,
            Path::Direct { .. } => self.run.next_put(|round, peer| {
                target(peer).is_some_and(|i| {
                    let target = &self.targets[i];
                    let idle = self.legs.iter().all(|leg| leg.target != i);
                    idle && self.is_admitted(target, round)
                        && (self.is_ready(target) || self.may_go_ahead(target, slots))
                })
            }),
        }
    }

    fn is_admitted(&self, target: &Target, round: u32) -> bool {
        self.pace.turns.is_none() || target.admitted.is_some_and(|admitted| round <= admitted)
    }

    fn is_ready(&self, target: &Target) -> bool {
        target.ready > self.iteration()
    }

    /// Whether a leg may go in a message before its target is ready: one for each target, where it fits,
    /// so that the first blocks do not wait for a handshake.
    fn may_go_ahead(&self, target: &Target, slots: &Slots) -> bool {
        target.wide && target.ahead <= self.iteration() && slots.may_send(target.channel)
    }

    /// Begins a leg; false where the transport did not take it.
    fn begin(&mut self, order: Order, io: &mut Io) -> Result<bool> {
        let Some(target) = self.targets.iter().position(|target| target.rank == order.put.peer) else {
            let what = format!("rank {} is none of the plan's targets", order.put.peer);
            return Err(Error::argument(
                self.call.signature.collective.name(),
                what,
                "take another algorithm",
            ));
        };
        if !self.is_direct() {
            let all = stretches(&**self.run.plan(), &*self.layout, order.round, Side::Put);
            return self.put_in_message(order, target, &all, io);
        }
        if !self.is_ready(&self.targets[target]) {
            return self.go_ahead(order, target, io);
        }
        let leg = self.leg(order.round, Side::Put);
        let report = if order.unpaced { Report::Landed } else { Report::Sent };
        self.legs.push(Outgoing {
            round: order.round,
            target,
            report,
            direct: leg.direct.into(),
            staged: leg.staged,
        });
        self.run.ordered(order);
        Ok(true)
    }

    fn go_ahead(&mut self, order: Order, target: usize, io: &mut Io) -> Result<bool> {
        let all = stretches(&**self.run.plan(), &*self.layout, order.round, Side::Put);
        if total(&all) > PAYLOAD {
            // Too large: this target is waited for.
            self.targets[target].ahead = self.iteration() + 1;
            return Ok(true);
        }
        let pieces = match self.rule.piece {
            0 => 0,
            piece => self.leg(order.round, Side::Put).staged.count(piece),
        };
        let taken = self.put_in_message(order, target, &all, io)?;
        if taken {
            self.targets[target].ahead = self.iteration() + 1;
            self.targets[target].pieces += pieces;
        }
        Ok(taken)
    }

    fn put_in_message(&mut self, order: Order, target: usize, all: &[Stretch], io: &mut Io) -> Result<bool> {
        let kind = Kind::Data { round: order.round, bytes: total(all) as u64 };
        let header = Header { kind, call: self.call, iteration: self.iteration() };
        let to = self.targets[target].channel;
        let payload = Some((self.from(), all));
        let taken = io.slots.send(&mut *io.transport, &mut io.tokens, to, &header, payload)?;
        if taken {
            self.run.ordered(order);
            self.run.sent();
        }
        Ok(taken)
    }

    /// Goes on with the legs that have been begun; false where the transport did not take something.
    fn put_legs(&mut self, io: &mut Io) -> Result<bool> {
        let mut i = 0;
        while i < self.legs.len() {
            if !self.put_leg(i, io)? {
                return Ok(false);
            }
            let leg = &self.legs[i];
            if leg.direct.is_empty() && leg.staged.left() == 0 {
                self.legs.remove(i);
                self.run.sent();
            } else {
                i += 1;
            }
        }
        Ok(true)
    }

    fn put_leg(&mut self, i: usize, io: &mut Io) -> Result<bool> {
        while self.flying < self.pace.in_flight {
            let leg = &self.legs[i];
            let taken = match leg.direct.front() {
                Some(&stretch) => self.put_in_place(i, stretch, io)?,
                None if leg.staged.left() == 0 => return Ok(true),
                None if self.targets[leg.target].pieces >= self.targets[leg.target].allowed => {
                    return Ok(true);
                }
                None => self.put_piece(i, io)?,
            };
            if !taken {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn put_in_place(&mut self, i: usize, stretch: Stretch, io: &mut Io) -> Result<bool> {
        let leg = &self.legs[i];
        let (Path::Direct { from, .. }, target) = (&self.path, &self.targets[leg.target]) else {
            return Ok(false);
        };
        let Some(offer) = target.offer else { return Ok(false) };
        let put = Put {
            peer: target.world,
            from,
            segments: &[Segment { offset: stretch.at, len: stretch.len }],
            to: offer.target,
            to_offset: stretch.there,
            notice: Notice::Block { operation: offer.operation, round: leg.round }.encode(),
            report: leg.report,
            token: 0,
        };
        let posted = io.tokens.put(&mut *io.transport, Use::Block(self.number.into()), put)?;
        if posted != Posted::Busy {
            self.legs[i].direct.pop_front();
        }
        Ok(self.posted(posted))
    }

    /// Puts the next piece of a leg into its target's staging: from where it lies, if the transport gathers
    /// that many segments, else packed.
    fn put_piece(&mut self, i: usize, io: &mut Io) -> Result<bool> {
        let Outgoing { target: number, report, ref staged, .. } = self.legs[i];
        let Some(offer) = self.targets[number].offer else { return Ok(false) };
        let slot = self.targets[number].pieces as usize % STAGES;
        let mut piece = Vec::new();
        staged.peek(self.rule.piece, &mut piece);
        let (from, segments) = self.gather(&piece, number, slot, io)?;
        let notice = Notice::Staged { operation: offer.operation, source: offer.source, slot: slot as u8 };
        let put = Put {
            peer: self.targets[number].world,
            from: &from,
            segments: &segments,
            to: offer.staging,
            to_offset: offset_there(self.rule.piece, slot),
            notice: notice.encode(),
            report,
            token: 0,
        };
        let posted = io.tokens.put(&mut *io.transport, Use::Block(self.number.into()), put)?;
        if posted != Posted::Busy {
            self.legs[i].staged.take(self.rule.piece);
            self.targets[number].pieces += 1;
        }
        Ok(self.posted(posted))
    }

    /// Where a piece is put from: its own place, or, where it lies in more segments than a put may have,
    /// a copy in the packing slot for that staging slot.
    fn gather(
        &mut self,
        piece: &[Stretch],
        target: usize,
        slot: usize,
        io: &mut Io,
    ) -> Result<(Region, Vec<Segment>)> {
        if let Path::Direct { from, .. } = &self.path
            && piece.len() <= io.transport.limits().segments
        {
            let segment = |stretch: &Stretch| Segment { offset: stretch.at, len: stretch.len };
            return Ok((from.clone(), piece.iter().map(segment).collect()));
        }
        let packing = match self.packing.take() {
            Some(packing) => packing,
            None => io.pool.take(&mut *io.transport, self.targets.len(), self.rule.piece)?,
        };
        let offset = packing.offset(target, slot);
        let mut at = offset;
        for stretch in piece {
            packing.region.memory.copy(at, self.from(), stretch.at, stretch.len);
            at += stretch.len;
        }
        let region = packing.region.clone();
        self.packing = Some(packing);
        Ok((region, vec![Segment { offset, len: at - offset }]))
    }

    /// Counts a put that was handed over; false where it was not taken.
    fn posted(&mut self, posted: Posted) -> bool {
        self.flying += u32::from(posted == Posted::Pending);
        posted != Posted::Busy
    }
}

/// A message whose call has not begun here: it stays in its slot, or is copied out of it.
pub enum Kept {
    /// In its slot.
    InSlot(Landed),
    /// Its data, copied.
    Copied(Vec<u8>),
}
