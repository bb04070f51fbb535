//! Small calls that were made before, and long ones of two ranks, go straight along their [`Line`] of steps.
//!
//! To its peers it is the call that it always was, with the same messages in the same slots, but that a leg may be shown
//! in the place of its message where that is better, and of an exchange always is, before anybody has said where it might be
//! put: then a rank is at its line's end when its peers have read. Whatever
//! is out of the ordinary, such as a put that is not taken, a disagreement, another thread, or a wait that outlasts this
//! rank's patience, is left to the operation's run: it is told by a [`Trail`] what is done, and finds what has landed
//! among the messages that wait for a call to begin.
//!
//! What every step goes through is inlined into one function: what one has for the next would go through memory otherwise.
#![forbid(unsafe_code)]

mod carried;

use smallvec::SmallVec;

use super::call::{Call, Head, Header, Kind};
use super::leg::Stretch;
use super::mail::Waiting;
use super::notice::Notice;
use super::operation::{
    Act, Errand, Kept, Line, Operation, Passage, Payload, Shown, Step, Trail, Word, shown,
};
use super::rest::{Ask, Recalled};
use super::slots::{Expected, Landed};
use super::task::{Operands, OwnPart};
use super::{Engine, Entry, Handle};
use crate::error::Result;
use crate::plan::Landing;
use crate::transport::memory::Memory;
use crate::transport::{Event, Gait, Region, Segment};

/// Messages of later rounds that are left in their slots: of more, their sender might have too few.
const HELD: usize = 4;

/// How often to look for the message that is awaited before the next look for all others.
const LOOKS: u32 = 4;

/// How far a call got along its line.
enum Gone {
    /// To the end: it is over.
    All,
    /// Not so far. Apart, as it would lengthen the way of those that come to the end; nothing where none was begun.
    So(Option<Box<Trail>>),
}

/// A call on its way along its line.
struct Walk<'w> {
    line: &'w Line,
    errand: &'w Errand<'w>,
    early: Early,
    trail: Trail,
    /// The notice of what a peer brings to its place, which has not come yet.
    to_land: Option<u32>,
}

/// What has landed before its step.
struct Early {
    /// The rounds of which nothing has landed, a bit each.
    missing: u64,
    messages: SmallVec<[Message; HELD]>,
}

#[derive(Clone, Copy)]
struct Message {
    round: u32,
    bytes: u64,
    landed: Landed,
    /// In how many runs its data are shown, where it does not have them itself.
    runs: Option<u16>,
}

impl Message {
    /// The one that such a header in a slot belongs to, where it has a line's data.
    fn of(kind: Kind, landed: Landed) -> Option<Message> {
        match kind {
            Kind::Data { round, bytes } => Some(Message { round, bytes, landed, runs: None }),
            Kind::Shown { round, bytes, runs, offers: false } => {
                Some(Message { round, bytes, landed, runs: Some(runs) })
            }
            _ => None,
        }
    }

    fn kind(self) -> Kind {
        let Message { round, bytes, .. } = self;
        match self.runs {
            None => Kind::Data { round, bytes },
            Some(runs) => Kind::Shown { round, bytes, runs, offers: false },
        }
    }
}

/// What a look for news has brought.
enum Heard {
    /// A message of the line, which it was missing.
    Message(Message),
    /// Nothing, or something else that has been seen to.
    Other,
    /// Something that is the run's to see to, or to wait for.
    Leave,
}

impl Early {
    fn new(line: &Line) -> Self {
        Early { missing: line.arrivals, messages: SmallVec::new() }
    }

    /// Whether a message of this round is still missing, and there is room to keep it; then it is so no more.
    fn admits(&mut self, round: u32) -> bool {
        let bit = 1_u64.checked_shl(round).unwrap_or(0);
        let admits = self.missing & bit != 0 && self.messages.len() < HELD;
        if admits {
            self.missing &= !bit;
        }
        admits
    }

    /// False where it is not awaited, or they are too many.
    fn keep(&mut self, message: Message) -> bool {
        let admitted = self.admits(message.round);
        if admitted {
            self.messages.push(message);
        }
        admitted
    }

    /// Keeps a message of the line; false where the run is to go on.
    fn hears(&mut self, heard: Heard) -> bool {
        match heard {
            Heard::Message(message) => self.messages.push(message),
            Heard::Other => {}
            Heard::Leave => return false,
        }
        true
    }

    fn take(&mut self, round: u32) -> Option<Message> {
        let at = self.messages.iter().position(|message| message.round == round)?;
        Some(self.messages.swap_remove(at))
    }
}

impl Engine {
    /// What was asked for lately, to be made [again](Self::begin_again).
    pub fn recall(&mut self, ask: &Ask<'_>) -> Option<Recalled> {
        self.rest.find(ask)
    }

    /// Makes again what was [recalled](Self::recall), as the next call on its communicator, on this memory and by
    /// this operator; `None` where it is over at once. What the rank keeps for itself (`own`) is where it belongs then in either case.
    ///
    /// As long as it goes along its line it only borrows what is its caller's, and stays among what is kept.
    pub fn begin_again(
        &mut self,
        kept: Recalled,
        operands: Operands<'_>,
        own: Option<&OwnPart>,
    ) -> Result<Option<Handle>> {
        self.check()?;
        self.rest.at(kept).anticipate(&mut self.io);
        let handle = self.vacancy()?;
        let Call { communicator, signature, .. } = self.rest.at(kept).call();
        let call = self.calls.of(communicator).next(communicator, signature);
        let line = self.rest.at(kept).lend_line(&self.io);
        let errand = Errand::new((call, 0), handle as u16, operands, own);
        let gone = self.go_along(line, &errand, |engine| Some(engine.rest.at(kept)));
        self.copy_own(&errand);
        let trail = match gone.map_err(|error| self.fail(error))? {
            Gone::All => {
                self.vigil.makes_one();
                self.remember(call, 1);
                return Ok(None);
            }
            Gone::So(trail) => trail,
        };
        let mut operation = self.rest.take(kept);
        let path = self.path(operation.is_small(), operands.from, operands.to)?;
        operation.renew(call, handle as u16, path, operands.fold.cloned());
        if !operation.is_small() {
            operation.reach(&mut self.io).map_err(|error| self.fail(error))?;
        }
        self.operations[handle] = Some(Entry::new(operation));
        self.start_or_forget(handle, trail.as_deref()).map(Some)
    }

    /// Starts a prepared operation that is at rest, on what it was prepared for; whether it is over at once.
    pub fn start_again(&mut self, handle: Handle, operands: Operands<'_>) -> Result<bool> {
        self.check_at_rest(handle)?;
        let Some(Some(Entry { operation, .. })) = self.operations.get_mut(handle) else { return Ok(true) };
        operation.anticipate(&mut self.io);
        let line = operation.lend_line(&self.io);
        let errand = Errand::new((operation.call(), operation.starts()), handle as u16, operands, None);
        let gone = self.go_along(line, &errand, |engine| engine.prepared(handle));
        match gone.map_err(|error| self.fail(error))? {
            Gone::All => {
                self.vigil.makes_one();
                self.prepared(handle).into_iter().for_each(Operation::pass);
                Ok(true)
            }
            Gone::So(trail) => self.start_after(handle, trail.as_deref()).map(|()| false),
        }
    }

    fn prepared(&mut self, handle: Handle) -> Option<&mut Operation> {
        Some(&mut *self.operations.get_mut(handle)?.as_mut()?.operation)
    }

    /// Goes along an operation's line, where it has one and nothing is under way, and gives it back to its `owner`.
    fn go_along(
        &mut self,
        line: Option<Box<Line>>,
        errand: &Errand<'_>,
        owner: impl FnOnce(&mut Engine) -> Option<&mut Operation>,
    ) -> Result<Gone> {
        let Some(mut line) = line else { return Ok(Gone::So(None)) };
        let is_tried = line.is_tried() && self.is_idle();
        let gone = if is_tried { self.go_straight(&line, errand) } else { Ok(Gone::So(None)) };
        if is_tried && !matches!(gone, Ok(Gone::All)) {
            line.was_left();
        }
        #[cfg(test)]
        if line.is_long {
            count_long(&gone);
        }
        if let Some(owner) = owner(self) {
            owner.return_line(line);
        }
        gone
    }

    /// Whether nothing is under way.
    fn is_idle(&self) -> bool {
        self.operations.iter().flatten().all(|entry| entry.operation.is_done())
    }

    /// Goes along a line, and waits until what it has shown is read.
    fn go_straight(&mut self, line: &Line, errand: &Errand<'_>) -> Result<Gone> {
        self.io.slots.spare(0);
        let mut walk = Walk { line, errand, early: Early::new(line), trail: Trail::default(), to_land: None };
        let is_through = match &line.carried {
            None => {
                (self.waiting.is_empty() || self.claim(errand, &mut walk.early))
                    && self.take_steps(&mut walk)?
            }
            Some(leg) => self.carry(leg, &mut walk)?,
        };
        let all = is_through && (walk.trail.unread.is_empty() || self.await_readers(&mut walk)?);
        if all {
            return Ok(Gone::All);
        }
        // Where it has come since it was awaited, the run will not hear of it.
        if let (Some(leg), None) = (&line.carried, walk.to_land) {
            leg.advance(|progress| progress.landed += u32::from(progress.told));
        }
        self.leave_to_run(errand, walk.early);
        Ok(Gone::So(Some(Box::new(walk.trail))))
    }

    /// Takes one step after the other; false where the run is to go on.
    #[inline(always)]
    fn take_steps(&mut self, walk: &mut Walk<'_>) -> Result<bool> {
        let line = walk.line;
        for step in &line.steps {
            let taken = match &step.act {
                Act::Put { channel, from, passage: Passage::Slot } => {
                    self.put_when_taken(walk, step, *channel, from)?
                }
                Act::Put { channel, from, passage } => {
                    match (self.is_better_shown(walk.errand, *channel, from, *passage), passage) {
                        (true, _) => self.show_when_taken(walk, step, *channel, from)?,
                        (false, Passage::SlotOrShown) => self.put_when_taken(walk, step, *channel, from)?,
                        (false, _) => false,
                    }
                }
                Act::TakeIn { into, landing, channel } => {
                    self.copy_own(walk.errand);
                    match self.look_out_first(walk, step, *channel) {
                        Some(next) => self.take_in_next(walk, step, next, (into, *landing))?,
                        None => self.take_in_what_comes(walk, step, *channel, (into, *landing))?,
                    }
                }
            };
            if !taken {
                return Ok(false);
            }
            walk.trail.steps += 1;
            if walk.trail.untold.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Copies what a rank keeps for itself to where that belongs, unless it has been: while others get theirs, or their words of it.
    #[inline(always)]
    fn copy_own(&mut self, errand: &Errand<'_>) {
        if let Some(own) = errand.own.filter(|_| !errand.own_is_there.replace(true)) {
            self.copy(*own, errand);
        }
    }

    /// The same as the call copies, or faster.
    #[inline(never)]
    fn copy(&mut self, OwnPart { from, to, bytes, touched }: OwnPart, errand: &Errand<'_>) {
        let copy = |gait| errand.to.copy_in(gait, to, errand.from, from, bytes);
        let gait = self.gait(touched, false);
        if gait != Gait::Straight {
            return copy(gait);
        }
        let copying = self.own_copies.begin(bytes);
        copy(copying.gait);
        self.own_copies.over(copying);
    }

    /// Waits until all is read that was shown; false where the run is to do that.
    #[inline(never)]
    fn await_readers(&mut self, walk: &mut Walk<'_>) -> Result<bool> {
        while let Some(&Word { channel, .. }) = walk.trail.unread.first() {
            // A peer may lack the slot to say so that this rank owes it.
            if self.held_up || !self.keep_heard(walk, Some((channel, 0)))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Looks for news and keeps a message of the line; false where the run is to go on.
    #[inline(never)]
    fn keep_heard(&mut self, walk: &mut Walk<'_>, awaited: Option<(usize, u64)>) -> Result<bool> {
        let heard = self.listen(walk, awaited)?;
        Ok(walk.early.hears(heard))
    }

    /// Whether a channel's peer had better read what is put where it lies.
    fn is_better_shown(
        &mut self,
        errand: &Errand<'_>,
        channel: usize,
        from: &[Segment],
        passage: Passage,
    ) -> bool {
        let call = (errand.call.name(), errand.iteration);
        let peer = self.io.slots.rank_of(channel);
        errand.region.is_some_and(|region| {
            self.io.may_show(region, peer)
                && match passage {
                    Passage::Slot => false,
                    Passage::Shown { folded: true } => self.io.is_worth_showing(call, region, from, peer),
                    Passage::SlotOrShown | Passage::Shown { folded: false } => {
                        self.io.rests(call, region, from, peer)
                    }
                }
        })
    }

    /// Makes a step's put, once there is a slot for it; false where the run is to do that.
    fn put_when_taken(
        &mut self,
        walk: &mut Walk<'_>,
        step: &Step,
        channel: usize,
        from: &[Segment],
    ) -> Result<bool> {
        let mut head = walk.line.heads.of(walk.errand.start(), step.round, step.bytes).bytes();
        self.send_when_taken(walk, channel, &mut head, Some((walk.errand.from, from)))
    }

    /// Shows what a step would put, likewise.
    #[inline(never)]
    fn show_when_taken(
        &mut self,
        walk: &mut Walk<'_>,
        step: &Step,
        channel: usize,
        from: &[Segment],
    ) -> Result<bool> {
        let Some(region) = walk.errand.region else { return Ok(false) };
        let taken = self.show(walk, channel, (step.round, step.bytes), region, from)?;
        #[cfg(test)]
        shown::BY_LINE.set(shown::BY_LINE.get() + u64::from(taken));
        Ok(taken)
    }

    /// Shows some of a round's bytes, of which there are so many in all.
    fn show(
        &mut self,
        walk: &mut Walk<'_>,
        channel: usize,
        (round, bytes): (u32, u64),
        region: &Region,
        from: &[Segment],
    ) -> Result<bool> {
        let key = self.io.transport.key(region.remote, self.io.slots.rank_of(channel));
        let head = walk.line.heads.of_shown(walk.errand.start(), round, bytes, from.len() as u16);
        let taken =
            self.send_when_taken(walk, channel, &mut shown::message(&head.bytes(), key, from), None)?;
        if taken {
            walk.trail.unread.push(Word { channel, round });
        }
        Ok(taken)
    }

    /// Sends a message, once there is a slot for it; false where the run is to do that.
    #[inline(always)]
    fn send_when_taken(
        &mut self,
        walk: &mut Walk<'_>,
        channel: usize,
        head: &mut [u8],
        data: Option<(&Memory, &[Segment])>,
    ) -> Result<bool> {
        while !self.io.send_head(channel, head, data)? {
            // Of a transport that is busy, and not short of slots, there may be nothing to hear.
            if self.io.slots.may_send(channel) || !self.keep_heard(walk, None)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes up what came before the call began; false where some of it is for the run, as what was copied out of
    /// its slot, or means another call: it would be waited for in vain.
    #[inline(never)]
    fn claim(&mut self, &Errand { call, iteration, .. }: &Errand<'_>, early: &mut Early) -> bool {
        let mut all = true;
        self.waiting.retain(|waiting| {
            let Header { kind, call: theirs, iteration: start } = waiting.header;
            let message = match waiting.kept {
                Kept::InSlot(landed) if (theirs, start) == (call, iteration) => Message::of(kind, landed),
                _ => None,
            };
            let claimed = message.is_some_and(|message| early.keep(message));
            all &= claimed || (theirs.name(), start) != (call.name(), iteration);
            !claimed
        });
        all
    }

    /// Looks where a message of so many bytes is to be expected, as long as nothing else happens: it and its notice come on
    /// two cache lines, and to see it saves the way of one. `None` where there is something else to be seen to.
    #[inline(always)]
    fn look_out(&mut self, line: &Line, channel: usize, bytes: u64) -> Option<Expected> {
        if !self.events.is_empty() {
            return None;
        }
        let next = self.io.slots.expected(channel)?;
        while !self.has_come_soon(next) {
            match self.io.transport.next_notice() {
                // There are few of these: of no more messages than may be seen before they are told of.
                Some(notice) if self.io.slots.pass_over(notice) => {}
                Some(notice) => {
                    self.waited_well();
                    self.events.add(Event::Notice(notice));
                    return None;
                }
                None if !self.io.transport.is_quiet() || self.leaves_wait_to_run(line) => return None,
                None => {}
            }
        }
        self.io.slots.prefetch(next, bytes as usize);
        self.waited_well();
        Some(next)
    }

    /// The same for a step's message, if nothing has come before it.
    #[inline(always)]
    fn look_out_first(&mut self, walk: &Walk<'_>, step: &Step, channel: usize) -> Option<Expected> {
        match walk.early.messages.is_empty() {
            true => self.look_out(walk.line, channel, walk.line.expected(step.bytes)),
            false => None,
        }
    }

    /// Whether a message has come, after some looks.
    #[inline(always)]
    fn has_come_soon(&self, next: Expected) -> bool {
        (0..LOOKS).any(|_| self.io.slots.has_come(next))
    }

    /// Takes in a message that has come where that of a step was expected; false where the run is to do that.
    #[inline(always)]
    fn take_in_next(
        &mut self,
        walk: &mut Walk<'_>,
        step: &Step,
        next: Expected,
        place: (&[Stretch], Landing),
    ) -> Result<bool> {
        let (landed, head) = self.io.slots.see(next);
        let Step { round, bytes, .. } = *step;
        if walk.line.heads.read(walk.errand.start(), &head) != Some((round, bytes))
            || !walk.early.admits(round)
        {
            return self.take_in_after(walk, step, (landed, &head), place);
        }
        self.io.slots.credit(landed.channel, head.credits());
        self.take_in(walk, step, Message { round, bytes, landed, runs: None }, place)
    }

    /// The same where it was another one.
    #[inline(never)]
    fn take_in_after(
        &mut self,
        walk: &mut Walk<'_>,
        step: &Step,
        (other, head): (Landed, &Head),
        place: (&[Stretch], Landing),
    ) -> Result<bool> {
        let heard = self.read(other, head, walk)?;
        Ok(walk.early.hears(heard) && self.take_in_what_comes(walk, step, other.channel, place)?)
    }

    /// Takes in a step's message, whatever comes before it; false where the run is to do that.
    #[inline(never)]
    fn take_in_what_comes(
        &mut self,
        walk: &mut Walk<'_>,
        step: &Step,
        channel: usize,
        place: (&[Stretch], Landing),
    ) -> Result<bool> {
        match self.await_message(walk, step.round, channel, step.bytes)? {
            Some(message) => self.take_in(walk, step, message, place),
            None => Ok(false),
        }
    }

    /// Waits for a round's message; `None` where the run is to do that.
    fn await_message(
        &mut self,
        walk: &mut Walk<'_>,
        round: u32,
        channel: usize,
        bytes: u64,
    ) -> Result<Option<Message>> {
        loop {
            if let Some(message) = walk.early.take(round) {
                return Ok(Some(message));
            }
            let awaited = (channel, walk.line.expected(bytes));
            if !self.keep_heard(walk, Some(awaited))? {
                return Ok(None);
            }
        }
    }

    /// Takes a step's message in; false where the run is to do that.
    #[inline(always)]
    fn take_in(
        &mut self,
        walk: &mut Walk<'_>,
        step: &Step,
        message: Message,
        (into, landing): (&[Stretch], Landing),
    ) -> Result<bool> {
        let (memory, start, room) = self.io.slots.payload(message.landed);
        if message.bytes != step.bytes || message.runs.is_none() && step.bytes > room as u64 {
            walk.early.messages.push(message);
            return Ok(false);
        }
        if let Some(runs) = message.runs {
            return self.read_all_there(walk, message, runs, into, landing);
        }
        if step.bytes > 0 {
            walk.errand.shore(Gait::Straight).land(&Payload::InSlot(memory, start, room), into, landing)?;
        }
        self.io.slots.release(message.landed);
        self.pay()?;
        Ok(true)
    }

    /// The same where the message says where its data are shown. Apart, as it would lengthen the way of what is shorter.
    #[inline(never)]
    fn read_all_there(
        &mut self,
        walk: &mut Walk<'_>,
        message: Message,
        runs: u16,
        into: &[Stretch],
        landing: Landing,
    ) -> Result<bool> {
        let shown = self.what_is_shown(message, runs)?;
        if shown.bytes() as u64 != message.bytes {
            walk.early.messages.push(message);
            return Ok(false);
        }
        self.read_there(walk, message, shown, into, landing)
    }

    fn what_is_shown(&mut self, Message { landed, .. }: Message, runs: u16) -> Result<Shown> {
        let (memory, start, room) = self.io.slots.payload(landed);
        let (transport, peer) = (&mut *self.io.transport, self.io.slots.rank_of(landed.channel));
        Shown::read(&Payload::InSlot(memory, start, room), runs, peer, transport)
    }

    /// Takes in what a message says is shown; its source is told that it has been read. False where the run is to do that, and
    /// to see to the word where that is not taken.
    fn read_there(
        &mut self,
        walk: &mut Walk<'_>,
        message: Message,
        shown: Shown,
        into: &[Stretch],
        landing: Landing,
    ) -> Result<bool> {
        let Message { landed, round, .. } = message;
        let shore = walk.errand.shore(walk.line.gait);
        if !shown.land(into, landing, shore, &mut *self.io.transport)? {
            walk.early.messages.push(message);
            return Ok(false);
        }
        drop(shown);
        self.io.slots.release(landed);
        let mut head = walk.line.heads.of_loaded(walk.errand.start(), round).bytes();
        if !self.io.send_head(landed.channel, &mut head, None)? {
            walk.trail.untold = Some(Word { channel: landed.channel, round });
        }
        self.pay()?;
        Ok(true)
    }

    /// Looks for news, perhaps awaited by a channel, and of so many bytes. Where nothing is expected, also as too many messages
    /// have been seen that were not told of yet, all that is told comes at once: with one notice for each call each would go
    /// this way.
    fn listen(&mut self, walk: &mut Walk<'_>, awaited: Option<(usize, u64)>) -> Result<Heard> {
        let next = awaited.and_then(|(channel, bytes)| self.look_out(walk.line, channel, bytes));
        if let Some(next) = next {
            let (landed, head) = self.io.slots.see(next);
            return self.read(landed, &head, walk);
        }
        self.refill()?;
        match self.events.take() {
            Some(Event::Notice(notice)) => self.hear(notice, walk),
            Some(event) => self.handle(event).map(|()| Heard::Other),
            None if self.leaves_wait_to_run(walk.line) => Ok(Heard::Leave),
            None => Ok(Heard::Other),
        }
    }

    /// Nothing has happened: whether another thread wants in, or this rank has no patience left.
    fn leaves_wait_to_run(&mut self, line: &Line) -> bool {
        self.crowd.is_outside() || self.patience.is_over(line.soon)
    }

    /// What a notice tells, the event that was taken last; what is the run's to see to stays to be heard.
    #[inline(never)]
    fn hear(&mut self, bits: u32, walk: &mut Walk<'_>) -> Result<Heard> {
        match Notice::decode(bits) {
            Notice::Slot { channel, slot } if self.io.slots.has_slot(channel, slot) => {
                let landed = Landed { channel: channel as usize, slot: slot.into() };
                match self.io.slots.news(landed)? {
                    Some(head) => self.read(landed, &head, walk),
                    None => Ok(Heard::Other),
                }
            }
            Notice::Credit { .. } => self.handle(Event::Notice(bits)).map(|()| Heard::Other),
            Notice::Block { .. } if walk.to_land == Some(bits) => {
                walk.to_land = None;
                Ok(Heard::Other)
            }
            _ => {
                self.events.put_back();
                Ok(Heard::Leave)
            }
        }
    }

    /// What a message is; what is the run's to see to waits for it to begin.
    #[inline(always)]
    fn read(&mut self, landed: Landed, head: &Head, walk: &mut Walk<'_>) -> Result<Heard> {
        if let Some((round, bytes)) = walk.line.heads.read(walk.errand.start(), head)
            && walk.early.admits(round)
        {
            self.io.slots.credit(landed.channel, head.credits());
            return Ok(Heard::Message(Message { round, bytes, landed, runs: None }));
        }
        self.read_other(landed, head, walk)
    }

    /// The same of all but data that the line awaits.
    #[inline(never)]
    fn read_other(&mut self, landed: Landed, head: &Head, walk: &mut Walk<'_>) -> Result<Heard> {
        if !walk.line.heads.is_of(walk.errand.start(), head) {
            self.message(landed)?;
            // Where it was copied, or came late, its slot is free, and the line may have nothing more to take in.
            self.pay()?;
            return Ok(Heard::Other);
        }
        let header = self.io.slots.header(landed)?;
        if let Some(heard) = self.read_word(landed, &header, walk)? {
            return Ok(heard);
        }
        self.io.slots.hold(landed);
        self.waiting.push(Waiting { channel: landed.channel, header, kept: Kept::InSlot(landed) });
        Ok(Heard::Leave)
    }

    /// What a message of the call tells of what does not go in slots: that a peer shows data, has read them, or is ready.
    #[inline(never)]
    fn read_word(&mut self, landed: Landed, header: &Header, walk: &mut Walk<'_>) -> Result<Option<Heard>> {
        let Errand { call, iteration, .. } = *walk.errand;
        if (header.call, header.iteration) != (call, iteration) {
            return Ok(None);
        }
        if let Kind::Loaded { round } = header.kind {
            let word = Word { channel: landed.channel, round };
            let Some(at) = walk.trail.unread.iter().position(|unread| *unread == word) else {
                return Ok(None);
            };
            walk.trail.unread.remove(at);
            self.io.slots.release(landed);
            self.pay()?;
            return Ok(Some(Heard::Other));
        }
        if let Some(leg) = walk.line.carried.as_ref().filter(|leg| leg.agrees(header.kind)) {
            leg.advance(|progress| progress.ready = Some(*header));
            self.io.slots.release(landed);
            self.pay()?;
            return Ok(Some(Heard::Other));
        }
        let message = Message::of(header.kind, landed);
        Ok(message
            .filter(|message| message.runs.is_some() && walk.early.admits(message.round))
            .map(Heard::Message))
    }

    /// What has landed waits for the run to begin.
    fn leave_to_run(&mut self, &Errand { call, iteration, .. }: &Errand<'_>, early: Early) {
        for message in early.messages {
            let landed = message.landed;
            self.io.slots.hold(landed);
            let header = Header { kind: message.kind(), call, iteration };
            self.waiting.push(Waiting { channel: landed.channel, header, kept: Kept::InSlot(landed) });
        }
    }
}

#[cfg(test)]
fn count_long(gone: &Result<Gone>) {
    let [all, left] = shown::LONG_LINES.get();
    match gone {
        Ok(Gone::All) => shown::LONG_LINES.set([all + 1, left]),
        Ok(Gone::So(Some(trail))) if trail.steps > 0 => shown::LONG_LINES.set([all, left + 1]),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::Collective;
    use crate::engine::Source;
    use crate::engine::call::Signature;
    use crate::engine::slots::Slots;
    use crate::engine::vigil::{Limits, Vigil};
    use crate::transport::loopback::Loopback;

    /// Which start of its call is claimed for.
    const START: u32 = 2;

    fn call(number: u32, collective: Collective) -> Call {
        Call { communicator: 3, number, signature: Signature::bare(collective) }
    }

    fn message(call: Call, round: u32, kept: Kept) -> Waiting {
        of_start(START, call, round, kept)
    }

    fn of_start(iteration: u32, call: Call, round: u32, kept: Kept) -> Waiting {
        let header = Header { kind: Kind::Data { round, bytes: 0 }, call, iteration };
        Waiting { channel: 0, header, kept }
    }

    /// What is claimed of what waits, of a call with this many arrivals: how many, how many still wait, and whether
    /// it was all.
    fn claimed(arrivals: u32, waiting: Vec<Waiting>) -> (usize, usize, bool) {
        let transport = Loopback::world(1, 0).unwrap().swap_remove(0);
        let vigil = Vigil::new(None, Default::default(), Limits { tell: None, end: None });
        let mut engine = Engine::new(Box::new(transport), Slots::default(), vigil, 1.0).unwrap();
        engine.waiting = waiting;
        let mut early = Early { missing: (1 << arrivals) - 1, messages: SmallVec::new() };
        let nothing = Source::Unregistered(Memory::nothing());
        let operands = Operands { from: &nothing, to: None, fold: None };
        let all =
            engine.claim(&Errand::new((call(5, Collective::Barrier), START), 0, operands, None), &mut early);
        (early.messages.len(), engine.waiting.len(), all)
    }

    #[test]
    fn a_line_waits_for_nothing_that_waits_for_it_already() {
        let (own, next) = (call(5, Collective::Barrier), call(6, Collective::Barrier));
        let in_slot = |slot| Kept::InSlot(Landed { channel: 0, slot });
        let copied = || Kept::Copied(Vec::new());
        assert_eq!(claimed(2, vec![message(own, 1, in_slot(0)), message(next, 0, copied())]), (1, 1, true));
        assert_eq!(claimed(2, vec![message(own, 1, in_slot(0)), message(own, 0, copied())]), (1, 1, false));
        let later = of_start(START + 1, own, 0, copied());
        assert_eq!(claimed(2, vec![message(own, 1, in_slot(0)), later]), (1, 1, true), "the next start's");
        let many = (0..HELD as u32 + 1).map(|round| message(own, round, in_slot(round as usize)));
        assert_eq!(claimed(8, many.collect()), (HELD, 1, false));
        let other = call(5, Collective::Broadcast);
        assert_eq!(claimed(2, vec![message(other, 0, in_slot(0))]), (0, 1, false), "it is to be told");
    }
}
