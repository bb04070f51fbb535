//! What comes from the transport finds its operation, or waits for the call that it is about to begin here.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use super::call::{Call, Header, Kind, is_before};
use super::calls::Calls;
use super::notice::Notice;
use super::operation::{Io, Kept, Operation, Payload, Shown, Unequal};
use super::run::Unexpected;
use super::slots::{Landed, Slots};
use super::tokens::Use;
use super::{Engine, Entry, Handle};
use crate::error::{Error, Result};
use crate::plan::Side;
use crate::rank::Rank;
use crate::transport::Event;

/// Messages for calls to come that are copied out of each neighbour's slots; more stay where they are, so that nobody who
/// is slow is flooded, until a wait stands still.
const KEPT: usize = 64;
/// Messages for calls to come that are left in each neighbour's slots.
const LEFT: usize = 2;

/// How long after a jam was cleared the next one is, at least: each brings a neighbour's slots. It is so many times as long
/// as there are `MANY` messages already: of 1000 the last is there after 0.2 s, of 10000 after 13.
const CLEARED_AFTER: Duration = Duration::from_millis(1);
const MANY: usize = 512;

/// A message for a call that has not begun here.
pub(super) struct Waiting {
    /// By which channel it came.
    pub(super) channel: usize,
    /// Its head.
    pub(super) header: Header,
    /// Where its data are.
    pub(super) kept: Kept,
}

impl Waiting {
    /// Leaves the slot that it is in, if it is in one, to the next message.
    fn copy_out(&mut self, slots: &mut Slots) {
        if let Kept::InSlot(landed) = self.kept {
            self.kept = Kept::Copied(slots.copied(landed, self.header.data()));
            slots.release(landed);
        }
    }
}

impl Engine {
    pub(super) fn handle(&mut self, event: Event) -> Result<()> {
        match event {
            Event::Moved => {
                // Of whichever call it is: what travels in slots is none.
                let long = self.operations.iter_mut().flatten().filter(|entry| !entry.operation.is_small());
                long.for_each(|entry| entry.stirs += 1);
                Ok(())
            }
            Event::Sent(token) => match self.io.tokens.give_back(token) {
                Use::Slot => Ok(()),
                Use::Block(handle) => {
                    self.stir(handle, Operation::sent);
                    Ok(())
                }
            },
            Event::Notice(bits) => match Notice::decode(bits) {
                Notice::Slot { channel, slot } if self.io.slots.has_slot(channel, slot) => {
                    let landed = Landed { channel: channel as usize, slot: slot.into() };
                    if self.io.slots.news(landed)?.is_some() { self.message(landed) } else { Ok(()) }
                }
                Notice::Credit { channel, slots } if self.io.slots.has(channel) => {
                    self.io.slots.credit(channel as usize, slots);
                    self.operations.iter_mut().flatten().for_each(|entry| entry.stirred = true);
                    Ok(())
                }
                Notice::Block { operation, round, shared } => {
                    let landed = self.stir(operation.into(), |operation| operation.landed(round, shared));
                    awaited(landed, || format!("a block of operation {operation}, round {round}"))
                }
                Notice::Staged { operation, source, slot } => {
                    let staged =
                        self.stir(operation.into(), |operation| operation.staged(source as usize, slot));
                    awaited(staged, || format!("a piece of operation {operation} from its source {source}"))
                }
                _ => Err(nonsense(format!("a notice {bits:#010x}"))),
            },
        }
    }

    /// A message has landed in a slot: it is taken by its operation, or waits for it.
    pub(super) fn message(&mut self, landed: Landed) -> Result<()> {
        let was_scarce = self.io.slots.is_scarce(landed.channel);
        let header = self.io.slots.header(landed)?;
        if was_scarce {
            // Whatever waited for a slot of this channel.
            self.operations.iter_mut().flatten().for_each(|entry| entry.stirred = true);
        }
        let waiting = Waiting { channel: landed.channel, header, kept: Kept::InSlot(landed) };
        if let Some(waiting) = self.take(waiting)? {
            self.keep(waiting, landed);
        }
        Ok(())
    }

    /// Gives a message to its operation; gives it back where the operation is still to begin.
    fn take(&mut self, mut message: Waiting) -> Result<Option<Waiting>> {
        let call = message.header.call;
        let found = self.addressee(call).and_then(|handle| self.operations[handle].as_mut());
        let Some(entry) = found else { return self.take_without_operation(message) };
        if entry.operation.call() != call {
            let mine = format!("{:#}", entry.operation.call().signature);
            return Err(self.disagreement(message.channel, call, mine));
        }
        if message.header.kind.is_of_a_start() && entry.operation.is_to_start(&message.header) {
            return Ok(Some(message));
        }
        let peer = self.io.slots.rank_of(message.channel);
        let agreed = match message.header.kind {
            Kind::Data { round, bytes } | Kind::Shown { round, bytes, .. } => {
                let agreed = entry.operation.is_as_long(round, bytes);
                if agreed.is_ok() {
                    hand_over(&mut entry.operation, &mut message, peer, &mut self.io)?;
                }
                agreed
            }
            Kind::Loaded { round } => {
                entry.operation.loaded(peer, &message.header, round);
                Ok(())
            }
            Kind::Turn { round } => {
                entry.operation.admitted(peer, &message.header, round);
                Ok(())
            }
            Kind::Taken { pieces } => {
                entry.operation.taken(peer, &message.header, pieces);
                Ok(())
            }
            Kind::Ready { .. } | Kind::Again => entry.operation.ready(peer, &message.header),
        };
        entry.stirred = true;
        if let Err(unequal) = agreed {
            return Err(self.unequal(peer, call, unequal));
        }
        let_go(message.kept, &mut self.io.slots);
        Ok(None)
    }

    /// A message for a call that is to come, which is given back, or that is over.
    fn take_without_operation(&mut self, message: Waiting) -> Result<Option<Waiting>> {
        let Call { communicator, number, .. } = message.header.call;
        let to_come = match self.calls.get(communicator) {
            Some(calls) => calls.is_to_come(number),
            // None has been made here, or none will be any more.
            None => !self.calls.is_freed(communicator),
        };
        if to_come {
            return Ok(Some(message));
        }
        self.late(message).map(|()| None)
    }

    /// The operation of this call, or of another one of its number, where that is not a prepared one so old that the
    /// number is given again.
    fn addressee(&self, call: Call) -> Option<Handle> {
        let mut named = self.entries().filter(|(_, entry)| entry.operation.call().name() == call.name());
        let (first, entry) = named.next()?;
        if entry.operation.call() == call {
            return Some(first);
        }
        let same = named.find(|(_, entry)| entry.operation.call() == call);
        same.map(|(handle, _)| handle).or_else(|| Some(first).filter(|_| !self.is_given_again(call)))
    }

    /// Whether this very call is to come, or over, though there is another one of its number.
    fn is_given_again(&self, call: Call) -> bool {
        let is_over = |calls: &Calls| calls.past(call.number).is_some_and(|past| past.call == call);
        self.calls.get(call.communicator).is_some_and(|calls| calls.is_to_come(call.number) || is_over(calls))
    }

    /// A message that waits is copied out of its slot, so that it does not hold up those behind it; but for
    /// the first few, which leave their sender enough. Beyond a bound they stay, and it runs out of slots.
    fn keep(&mut self, mut waiting: Waiting, landed: Landed) {
        let kept = self.waiting.iter().filter(|other| other.channel == waiting.channel).count();
        if (LEFT..KEPT).contains(&kept) {
            waiting.copy_out(&mut self.io.slots);
        } else {
            self.jammed |= kept >= KEPT;
            self.io.slots.hold(landed);
        }
        self.waiting.push(waiting);
    }

    /// Where what is waited for, `handle` or by other threads, has stood still for a while, it may be held up behind
    /// messages for calls to come, which this rank will make only after its wait: then they are copied out of their slots,
    /// too, however many; but the more there are the later, as it may also be that a peer is faster than this rank.
    ///
    /// Without a `handle` nobody waits, and all that is under way counts.
    pub(super) fn clear_jam(&mut self, handle: Option<Handle>) -> Result<()> {
        let pause = CLEARED_AFTER * (1 + self.waiting.len() / MANY) as u32;
        if self.cleared.is_some_and(|at| at.elapsed() < pause) || !self.stands_still(handle) {
            return Ok(());
        }
        (self.jammed, self.cleared) = (false, Some(Instant::now()));
        self.waiting.iter_mut().for_each(|waiting| waiting.copy_out(&mut self.io.slots));
        self.pay()
    }

    /// Whether a wait that somebody is in, or any, has stood still for a while.
    fn stands_still(&self, handle: Option<Handle>) -> bool {
        self.entries().any(|(number, Entry { awaited, wait, stirs, .. })| {
            (handle.is_none_or(|handle| handle == number) || *awaited)
                && wait.as_ref().is_some_and(|wait| wait.stands(*stirs))
        })
    }

    fn entries(&self) -> impl Iterator<Item = (Handle, &Entry)> {
        self.operations.iter().enumerate().filter_map(|(handle, entry)| Some((handle, entry.as_ref()?)))
    }

    /// Takes what waits and is `due`, as far as it is not to wait on.
    pub(super) fn deliver_waiting(&mut self, due: impl Fn(&Call) -> bool) -> Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        for message in std::mem::take(&mut self.waiting) {
            let left = if due(&message.header.call) { self.take(message)? } else { Some(message) };
            self.waiting.extend(left);
        }
        Ok(())
    }

    /// A message for a call that is over here. That a peer is ready may come late, where all that was
    /// to be put to it went ahead; anything else means another call of the same number.
    fn late(&mut self, message: Waiting) -> Result<()> {
        let Header { kind, call, iteration } = message.header;
        let calls = self.calls.get(call.communicator);
        let past = calls.and_then(|calls| calls.past(call.number));
        let harmless = !matches!(kind, Kind::Data { .. } | Kind::Shown { .. });
        let mine = match past {
            // Of a communicator that was freed, or so long ago that it is not remembered.
            None if harmless => {
                let_go(message.kept, &mut self.io.slots);
                return Ok(());
            }
            Some(past) if past.call == call && harmless && is_before(iteration, past.starts) => {
                let_go(message.kept, &mut self.io.slots);
                return Ok(());
            }
            None if self.calls.is_freed(call.communicator) => {
                "a call on a communicator that was freed here".to_owned()
            }
            Some(past) if past.call == call => format!("{}, which is over here", call.signature),
            Some(past) => format!("{:#}", past.call.signature),
            None => "a call long past".to_owned(),
        };
        Err(self.disagreement(message.channel, call, mine))
    }

    /// Two ranks that mean the same call, but not the same part between them.
    fn unequal(&self, peer: Rank, call: Call, Unequal { side, mine, theirs }: Unequal) -> Error {
        let (rank, signature) = (self.place().rank, call.signature);
        let sends = |bytes, to| format!("{signature} with {bytes} bytes for rank {to}");
        let awaits = |bytes, from| format!("{signature} with {bytes} bytes from rank {from}");
        let (mine, theirs) = match side {
            Side::Put => (sends(mine, peer), awaits(theirs, rank)),
            Side::Arrival => (awaits(mine, peer), sends(theirs, rank)),
        };
        Error::Disagreement { number: call.number.into(), rank, mine, peer, theirs }
    }

    fn disagreement(&self, channel: usize, theirs: Call, mine: String) -> Error {
        Error::Disagreement {
            number: theirs.number.into(),
            rank: self.place().rank,
            mine,
            peer: self.io.slots.rank_of(channel),
            theirs: format!("{:#}", theirs.signature),
        }
    }
}

/// Gives an operation the blocks of a round that have come in a message, or that one shows.
fn hand_over(operation: &mut Operation, message: &mut Waiting, peer: Rank, io: &mut Io) -> Result<()> {
    let Header { kind, call, .. } = message.header;
    let payload = match &message.kept {
        Kept::InSlot(landed) => {
            let (memory, start, room) = io.slots.payload(*landed);
            Payload::InSlot(memory, start, room)
        }
        Kept::Copied(bytes) => Payload::Copied(bytes),
    };
    let (round, taken) = match kind {
        Kind::Shown { round, .. } | Kind::Data { round, .. }
            if !operation.is_of_this_start(&message.header) =>
        {
            (round, Err(Unexpected { round }))
        }
        Kind::Shown { round, runs, offers, .. } => {
            let shown = Shown::read(&payload, runs, peer, &mut *io.transport)?;
            // The word that it has been read takes the slot along.
            let kept = std::mem::replace(&mut message.kept, Kept::Copied(Vec::new()));
            let_go(kept, &mut io.slots);
            // The last slot is the oldest operation's, which may be another: the pump knows.
            io.slots.spare(1);
            (round, operation.shown(round, shown, offers, io)?)
        }
        Kind::Data { round, .. } => (round, operation.message(round, &payload)?),
        _ => return Err(nonsense(format!("blocks in a word of {}", call.signature))),
    };
    awaited(Some(taken), || format!("data of {} for round {round}", call.signature))
}

/// A message is not needed any more: its slot, if it is in one, can go back.
fn let_go(kept: Kept, slots: &mut Slots) {
    if let Kept::InSlot(landed) = kept {
        slots.release(landed);
    }
}

fn awaited(landed: Option<std::result::Result<(), Unexpected>>, what: impl FnOnce() -> String) -> Result<()> {
    match landed {
        Some(Ok(())) => Ok(()),
        _ => Err(nonsense(format!("{}, which is not awaited", what()))),
    }
}

fn nonsense(what: String) -> Error {
    Error::transport("notice", format!("a peer sent {what}"), "are all ranks of one version and one job?")
}
