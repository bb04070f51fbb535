//! What is put to this rank: its sources are told where and when, and what lands is taken in.
//!
//! What is folded, and small blocks that travel together, land in staging slots, from which [`Intake`] takes
//! them in the order of rounds; all else lands at its place.
#![forbid(unsafe_code)]

use std::collections::VecDeque;

use super::carried::Progress;
use super::course::{Course, Path};
use super::index::Index;
use super::io::Io;
use super::payload::Payload;
use super::shown::Shown;
use crate::engine::call::Kind;
use crate::engine::intake::{Early, Intake, Stock};
use crate::engine::leg::{Stretches, total};
use crate::engine::notice::MAX_SOURCES;
use crate::engine::run::Unexpected;
use crate::engine::staging::Staging;
use crate::error::{Error, Result};
use crate::plan::{Landing, Leg, Side};
use crate::rank::Rank;
use crate::transport::{Region, RemoteKey, Transport};

/// A peer that puts to this rank.
struct Source {
    /// In the plan.
    rank: Rank,
    channel: usize,
    stock: Stock,
    /// Whether it knows this rank's memory and number.
    knows: bool,
    /// Whether it has offered in vain to fold some of what it shows, and waits for the answer.
    offered: bool,
}

/// A round of which some direct puts have landed.
struct Partial {
    round: u32,
    /// How many are still to land.
    left: usize,
    /// Whether that is what its source brings itself, of a leg of which it shows the rest.
    shared: bool,
}

/// The sources, and what they have put.
pub struct Arrivals {
    sources: Vec<Source>,
    index: Index,
    /// How many sources have been told that this rank is ready, or do not wait for that.
    told: usize,
    staging: Option<Staging>,
    intake: Intake,
    /// The round of the first arrival of all, if that is folded.
    first_folded: Option<u32>,
    partial: Vec<Partial>,
    /// Sources that are to be told that slots of theirs are empty again, each once.
    due: VecDeque<usize>,
    /// The channels of sources that are to be told that what they have shown has been read, with its round.
    loaded: VecDeque<(usize, u32)>,
}

impl Arrivals {
    pub fn new(course: &Course, io: &mut Io) -> Result<Self> {
        let ranks = if course.is_direct() { course.plan().sources() } else { Vec::new() };
        check_sources(course, ranks.len())?;
        let index = Index::new(ranks.iter().copied());
        let source = |rank| {
            let channel = course.channel(rank, io)?;
            Ok(Source { rank, channel, stock: Stock::default(), knows: false, offered: false })
        };
        let sources = ranks.into_iter().map(source).collect::<Result<Vec<_>>>()?;
        let mut arrivals = Arrivals {
            sources,
            index,
            told: 0,
            staging: None,
            intake: Intake::default(),
            first_folded: None,
            partial: Vec::new(),
            due: VecDeque::new(),
            loaded: VecDeque::new(),
        };
        arrivals.renew(course, io)?;
        Ok(arrivals)
    }

    /// Begins with a start.
    pub fn start(&mut self, course: &Course) {
        self.told = 0;
        self.sources.iter_mut().for_each(|source| (source.stock, source.offered) = (Stock::default(), false));
        self.due.clear();
        self.loaded.clear();
        self.partial.clear();
        self.intake = match course.takes_in() {
            true => Intake::new(course.plan(), |round| course.taken_in(round)),
            false => Intake::default(),
        };
        self.first_folded = first_folded(&self.intake, course);
    }

    /// Takes memory for staging anew, where it was given back, for a call of which no source has heard.
    pub fn renew(&mut self, course: &Course, io: &mut Io) -> Result<()> {
        self.sources.iter_mut().for_each(|source| source.knows = false);
        let stages = course.rule.piece > 0 && !self.sources.is_empty();
        let kept = course.call.signature.prepared;
        let stage = || io.stage(self.sources.len(), course.rule.piece, kept);
        self.staging = stages.then(stage).transpose()?;
        Ok(())
    }

    /// What it took from the pool, and how many slots of a source it has used.
    pub fn take_staging(&mut self) -> Option<(Staging, usize)> {
        let used = self.sources.iter().map(|source| source.stock.taken()).max().unwrap_or(0);
        Some((self.staging.take()?, used as usize))
    }

    /// The channel of a source.
    pub fn channel(&self, source: Rank) -> Option<usize> {
        self.index.find(source).map(|number| self.sources[number].channel)
    }

    /// Whether all sources that wait for it have been told that this rank is ready, and that it has read what they show.
    pub fn all_are_told(&self) -> bool {
        self.told == self.sources.len() && self.loaded.is_empty()
    }

    /// Tells the sources that this rank is ready, those of later rounds as rounds before have arrived: where all
    /// ranks tell all others at once, as in an all-to-all, the first blocks would wait behind these words. False where
    /// one that waits for it could not be told.
    ///
    /// Sources stand in the order of their first rounds, so that the n-th does not put before round n: that of the
    /// first round that has not arrived has always been told.
    pub fn tell(&mut self, course: &Course, io: &mut Io) -> Result<bool> {
        if self.told == self.sources.len() {
            return Ok(true);
        }
        let due = course.run.arrived_before() as usize + told_ahead(course);
        while let Some(source) = self.sources.get(self.told).filter(|_| self.told < due) {
            let readiness = self.readiness(self.told, course, io);
            let taken = io.send(source.channel, &course.header(readiness), None)?;
            if !taken && self.is_awaited(self.told, course) {
                return Ok(false);
            }
            self.sources[self.told].knows |= taken;
            self.told += 1;
        }
        Ok(true)
    }

    /// Whether a source waits for the word that this rank is ready. Who has put all without it may be gone, and nobody takes it.
    fn is_awaited(&self, number: usize, course: &Course) -> bool {
        let Source { rank, offered, .. } = self.sources[number];
        let is_its = |round| course.plan().round(round).arrival.is_some_and(|leg| leg.peer == rank);
        let is_here = |round| course.run.has_arrived(round) || self.intake.holds(round);
        let mut rounds = course.run.arrived_before()..course.plan().rounds();
        offered || rounds.any(|round| is_its(round) && !is_here(round))
    }

    fn readiness(&self, number: usize, course: &Course, io: &Io) -> Kind {
        let Path::Direct(ends) = &course.path else { return Kind::Again };
        let Source { rank: source, knows, .. } = self.sources[number];
        if knows {
            return Kind::Again;
        }
        let ahead = |region: &Region, bytes: u64| {
            let key = io.transport.key(region.remote, course.world(source));
            RemoteKey { base: key.base.wrapping_add(bytes), ..key }
        };
        let slots = |staging: &Staging| ahead(&staging.region, staging.offset(number, 0) as u64);
        Kind::Ready {
            target: ahead(ends.to(), course.layout.told(source)),
            staging: self.staging.as_ref().map(slots).unwrap_or_default(),
            operation: course.number,
            source: number as u32,
            opens: self.opens(source, course, &*io.transport),
            bytes: course.layout.between(source, Side::Arrival),
        }
    }

    /// How a source may fold its leg in this rank's memory: where that is the first leg of all, for which nothing has to
    /// arrive before, and the source reaches the memory.
    fn opens(&self, source: Rank, course: &Course, transport: &dyn Transport) -> Option<Landing> {
        let Path::Direct(ends) = &course.path else { return None };
        let round = course.plan().round(self.first_folded?);
        let is_its = round.arrival.is_some_and(|leg| leg.peer == source);
        (is_its && transport.shows(ends.to(), course.world(source))).then_some(round.landing)
    }

    /// The blocks of a round have come in a message: they are taken in, or kept until it is their turn.
    pub fn message(
        &mut self,
        round: u32,
        from: &Payload<'_>,
        course: &mut Course,
    ) -> Result<std::result::Result<(), Unexpected>> {
        if !is_to_come(round, course) {
            return Ok(Err(Unexpected { round }));
        }
        let bytes = total(&course.stretches(round, Side::Arrival));
        if bytes > from.room() {
            return Ok(Err(Unexpected { round }));
        }
        if self.intake.is_at(round) && may_take(round, course) {
            return self.take_message(round, from, course).map(Ok);
        }
        if course.taken_in(round).left() == 0 {
            course.shore().land(from, &course.stretches(round, Side::Arrival), Landing::Store)?;
            return Ok(course.run.arrived(round));
        }
        Ok(self.intake.keep(round, Early::Message(from.copied(bytes))))
    }

    /// A source shows the blocks of a round, or the last bytes of one block, of which it puts, or folds, the first ones; or
    /// it `offers` to fold the first run, which it does if it is told that it may. They are taken in, or left
    /// there until it is their turn. Where the source has shut down they never are, as everybody is about to hear.
    pub fn shown(
        &mut self,
        round: u32,
        from: Shown,
        offers: bool,
        course: &mut Course,
        io: &mut Io,
    ) -> Result<std::result::Result<(), Unexpected>> {
        if !is_to_come(round, course) {
            return Ok(Err(Unexpected { round }));
        }
        let source = course.plan().round(round).arrival.map(|leg| leg.peer);
        let opens = |source| self.opens(source, course, &*io.transport).is_some();
        // A source offers in its first leg only, and puts legs to one target in order: what it is told to open is that one.
        let is_first = offers && self.first_folded == Some(round);
        let is_open_to_it = is_first && source.is_some_and(opens);
        if let Some(number) = source.and_then(|source| self.index.find(source)) {
            self.sources[number].offered |= offers && !is_open_to_it;
        }
        let from = if is_open_to_it { from.behind_the_first_run() } else { from };
        let all = course.stretches(round, Side::Arrival);
        let (bytes, stored) = (total(&all), course.taken_in(round).left() == 0);
        let is_open = stored || self.first_folded == Some(round) && self.intake.is_at(round);
        if let ([stretch], true) = (&all[..], is_open && from.bytes() < bytes) {
            let (_, rest) = stretch.split(bytes - from.bytes());
            let landing = course.plan().round(round).landing;
            let landed = from.land(&[rest], landing, course.shore(), &mut *io.transport)?;
            drop(all);
            if !landed {
                return Ok(Ok(()));
            }
            self.let_go_of(from, round, course, io)?;
            return Ok(self.part_of(round, true, course));
        }
        drop(all);
        if from.bytes() != bytes {
            return Ok(Err(Unexpected { round }));
        }
        if stored || self.intake.is_at(round) && may_take(round, course) {
            return self.load(round, from, course, io).map(|_| Ok(()));
        }
        Ok(self.intake.keep(round, Early::Shown(from)))
    }

    /// Bytes have landed at their place.
    pub fn landed(
        &mut self,
        round: u32,
        shared: bool,
        course: &mut Course,
    ) -> std::result::Result<(), Unexpected> {
        if is_to_come(round, course) {
            self.part_of(round, shared, course)
        } else {
            Err(Unexpected { round })
        }
    }

    /// A part of a round's arrival is there, one of two where it is `shared`; with the last one the round has arrived.
    fn part_of(
        &mut self,
        round: u32,
        shared: bool,
        course: &mut Course,
    ) -> std::result::Result<(), Unexpected> {
        let left = match self.partial.iter().position(|partial| partial.round == round) {
            Some(known) => self.partial.swap_remove(known).left,
            None if shared => 2,
            None => {
                let leg = course.leg(round, Side::Arrival);
                leg.direct.len() + usize::from(leg.staged.left() > 0)
            }
        };
        if left > 1 {
            self.partial.push(Partial { round, left: left - 1, shared });
            return Ok(());
        }
        course.run.arrived(round)?;
        self.go_past(round, course);
        Ok(())
    }

    /// A piece has landed in a staging slot.
    pub fn staged(&mut self, source: usize, slot: u8) -> std::result::Result<(), Unexpected> {
        let stages = self.staging.is_some();
        let landed = self.sources.get_mut(source).is_some_and(|source| stages && source.stock.land(slot));
        if landed { Ok(()) } else { Err(Unexpected { round: 0 }) }
    }

    /// Whether no more than the last put of a round is still to land.
    pub fn has_nearly(&self, round: u32, course: &Course) -> bool {
        let (piece, low) = (course.rule.piece, course.run.arrived_before());
        let current = self.intake.now().filter(|current| current.round == round);
        let staged = current.map(|current| current.pieces.left() <= piece);
        let partial = self.partial.iter().find(|partial| partial.round == round);
        let direct = partial.map(|partial| partial.left <= 1);
        let nearly = staged != Some(false) && direct != Some(false) && staged.or(direct).is_some();
        low > round || low == round && nearly
    }

    /// Folds, or copies to its place, whatever it is the turn of.
    pub fn take_in(&mut self, course: &mut Course, io: &mut Io) -> Result<()> {
        while let Some(current) = self.intake.now() {
            let round = current.round;
            let early = self.intake.has_early();
            let taken = match early {
                true => self.take_early(round, course, io)?,
                false => self.take_piece(course)?,
            };
            if !taken {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Takes in the current round, which came in a message or is shown, once that may be.
    fn take_early(&mut self, round: u32, course: &mut Course, io: &mut Io) -> Result<bool> {
        if !may_take(round, course) {
            return Ok(false);
        }
        match self.intake.early() {
            Some(Early::Message(bytes)) => {
                self.take_message(round, &Payload::Copied(&bytes), course).map(|()| true)
            }
            Some(Early::Shown(shown)) => self.load(round, shown, course, io),
            None => Ok(false),
        }
    }

    /// Takes in the current round, whose blocks have come in a message.
    fn take_message(&mut self, round: u32, from: &Payload<'_>, course: &mut Course) -> Result<()> {
        let Some(current) = self.intake.current() else { return Ok(()) };
        let (source, landing) = (current.source, current.landing);
        let pieces = current.pieces.count(course.rule.piece);
        course.shore().land(from, &course.stretches(round, Side::Arrival), landing)?;
        self.all_of(round, course)?;
        if let Some(number) = self.index.find(source) {
            self.taken(number, course, |stock| stock.skip(pieces));
        }
        Ok(())
    }

    /// Takes in a round whose blocks a source shows, and is to be told when they are here. False where it shows them no
    /// more.
    fn load(&mut self, round: u32, from: Shown, course: &mut Course, io: &mut Io) -> Result<bool> {
        let landing = course.plan().round(round).landing;
        if !from.land(&course.stretches(round, Side::Arrival), landing, course.shore(), &mut *io.transport)? {
            return Ok(false);
        }
        self.let_go_of(from, round, course, io)?;
        self.all_of(round, course).map(|()| true)
    }

    /// What would have come in pieces was shown: that it is read gives its source their slots back.
    fn pass_pieces(&mut self, round: u32, piece: usize) {
        let current = self.intake.now().filter(|current| current.round == round);
        let pieces = current.map(|current| (self.index.find(current.source), current.pieces.count(piece)));
        if let Some((Some(number), pieces)) = pieces {
            self.sources[number].stock.pass(pieces);
        }
    }

    /// What was shown for a round has been read: its source, which may wait for nothing else, is told before anything
    /// else is done here, or when a message can be sent. From then on it has its memory for itself: in one process it
    /// counts who holds it.
    fn let_go_of(&mut self, from: Shown, round: u32, course: &Course, io: &mut Io) -> Result<()> {
        drop(from);
        self.pass_pieces(round, course.rule.piece);
        if let Some(Leg { peer, .. }) = course.plan().round(round).arrival {
            let channel = self.channel(peer).map_or_else(|| course.channel(peer, io), Ok)?;
            self.loaded.push_back((channel, round));
        }
        self.tell_loaded(course, io).map(|_| ())
    }

    /// The whole of a leg has come, whatever of it would have been put directly.
    fn all_of(&mut self, round: u32, course: &mut Course) -> Result<()> {
        course.run.arrived(round).map_err(|_| course.twice(round))?;
        self.go_past(round, course);
        Ok(())
    }

    /// A round has been taken in: if it was the current one, it is the turn of the next.
    fn go_past(&mut self, round: u32, course: &Course) {
        if self.intake.is_at(round) {
            self.intake.advance(course.plan(), |round| course.taken_in(round));
        }
    }

    /// What was shown for a round has been read already, of which its source is to be told by this channel.
    pub fn read_before(&mut self, channel: usize, round: u32) {
        self.loaded.push_back((channel, round));
    }

    /// A round that came in a message, or was shown, has been taken in already, in the order of rounds.
    pub fn taken_before(&mut self, round: u32, course: &mut Course) {
        // The run is at its beginning, and hears of every round once.
        let _ = course.run.arrived(round);
        self.go_past(round, course);
    }

    /// So far the leg that is all of a call has been carried already.
    pub fn carried_before(&mut self, progress: &Progress, course: &mut Course) {
        self.told = usize::from(progress.told);
        for _ in 0..progress.landed {
            // The run is at its beginning, and hears of two parts at most.
            let _ = self.part_of(0, true, course);
        }
    }

    /// Takes in the next piece of the current round, if it has landed.
    fn take_piece(&mut self, course: &mut Course) -> Result<bool> {
        let (Some(current), Some(staging)) = (self.intake.current(), &self.staging) else { return Ok(false) };
        // Pieces that come before what is awaited of a shared leg are a later round's.
        if self.partial.iter().any(|partial| partial.shared && partial.round == current.round) {
            return Ok(false);
        }
        let Some(number) = self.index.find(current.source) else { return Ok(false) };
        let Some(slot) = self.sources[number].stock.next() else { return Ok(false) };
        let (round, landing) = (current.round, current.landing);
        let mut piece = Stretches::new();
        current.pieces.peek(course.rule.piece, &mut piece);
        current.pieces.take(course.rule.piece);
        let last = current.pieces.left() == 0;
        let mut at = staging.offset(number, slot);
        for stretch in piece {
            let (to, from) = (course.to(), &staging.region.memory);
            match landing {
                Landing::Store => to.copy(stretch.at, from, at, stretch.len),
                _ => to.combine(stretch.at, from, at, stretch.len, |mine, theirs| {
                    course.shore().fold(mine, theirs, landing)
                })?,
            }
            at += stretch.len;
        }
        self.taken(number, course, Stock::take);
        if last {
            self.part_of(round, false, course).map_err(|_| course.twice(round))?;
            self.go_past(round, course);
        }
        Ok(true)
    }

    /// Counts what was taken from a source, which is told when it is enough, if it waits for that.
    fn taken(&mut self, number: usize, course: &Course, count: impl FnOnce(&mut Stock)) {
        let source = &mut self.sources[number];
        count(&mut source.stock);
        let (rank, untold) = (source.rank, source.stock.untold());
        if untold.is_some_and(|untold| !self.due.contains(&number) && self.has_more(rank, untold, course)) {
            self.due.push_back(number);
        }
    }

    /// Whether a source has more than so many pieces still to put.
    fn has_more(&self, source: Rank, than: u32, course: &Course) -> bool {
        let piece = course.rule.piece;
        let current = self.intake.now().filter(|current| current.source == source);
        let mut left = current.map_or(0, |current| current.pieces.count(piece));
        let rounds = self.intake.next()..course.plan().rounds();
        let its = |&i: &u32| course.plan().round(i).arrival.is_some_and(|leg| leg.peer == source);
        let mut pieces = rounds.filter(its).map(|i| course.taken_in(i).count(piece));
        while left <= than {
            let Some(more) = pieces.next() else { return false };
            left += more;
        }
        true
    }

    /// Tells sources that their slots are empty again, several at a time; false where one could not be told.
    pub fn give_back_stages(&mut self, course: &Course, io: &mut Io) -> Result<bool> {
        while let Some(&number) = self.due.front() {
            let Source { channel, stock, .. } = &mut self.sources[number];
            if !io.send(*channel, &course.header(Kind::Taken { pieces: stock.owed() }), None)? {
                return Ok(false);
            }
            stock.told();
            self.due.pop_front();
        }
        Ok(true)
    }

    /// Tells sources that what they show has been read; false where one could not be told.
    pub fn tell_loaded(&mut self, course: &Course, io: &mut Io) -> Result<bool> {
        while let Some(&(channel, round)) = self.loaded.front() {
            if !io.send(channel, &course.header(Kind::Loaded { round }), None)? {
                return Ok(false);
            }
            self.loaded.pop_front();
        }
        Ok(true)
    }
}

/// The round of the first arrival of all, if that is the first to be taken in, and is folded.
fn first_folded(intake: &Intake, course: &Course) -> Option<u32> {
    let first = intake.now().filter(|current| current.landing != Landing::Store)?.round;
    (0..first).all(|i| course.plan().round(i).arrival.is_none()).then_some(first)
}

/// How many sources are told before anything has arrived, unless the pace says so: all that a circulant graph has, or
/// else enough to keep the link busy.
fn told_ahead(course: &Course) -> usize {
    let neighbours = u32::BITS - course.plan().place().size.leading_zeros();
    course.pace.welcome.unwrap_or(neighbours.max(course.pace.in_flight)) as usize
}

/// Whether a round is still to arrive.
fn is_to_come(round: u32, course: &Course) -> bool {
    round < course.plan().rounds() && !course.run.has_arrived(round)
}

/// Whether a round that came in a message may be taken in: not while its blocks are still to be put from here.
fn may_take(round: u32, course: &Course) -> bool {
    course.is_direct() || course.run.has_ordered(round)
}

/// Sources must fit into a notice.
fn check_sources(course: &Course, sources: usize) -> Result<()> {
    if course.rule.piece == 0 || sources <= MAX_SOURCES || !course.is_direct() {
        return Ok(());
    }
    let what = format!("{sources} sources");
    let cure = format!("take an algorithm of at most {MAX_SOURCES} sources");
    Err(Error::argument(course.call.signature.collective.name(), what, cure))
}
