//! Long legs of small calls are shown where a peer can read them: they are copied once, and not into a slot and out of it.
#![forbid(unsafe_code)]

use super::{Heard, Message, Walk};
use crate::engine::Engine;
use crate::engine::call::{HEAD, Header, Kind};
use crate::engine::leg::Stretch;
use crate::engine::operation::{Act, Errand, Payload, Rounds, Shown, Step, shown_message};
use crate::engine::slots::Landed;
use crate::error::Result;
use crate::plan::Landing;
use crate::transport::{RemoteKey, Segment};

impl Engine {
    /// By which key a channel's peer reads what is put, where that is to be shown: it must stay as it is until it is read,
    /// as bytes do that `last` or have nothing land in their memory.
    pub(super) fn shown_to(&self, errand: &Errand<'_>, channel: usize, last: bool) -> Option<RemoteKey> {
        let region = errand.region.filter(|_| self.shows_soon && (last || errand.is_apart()))?;
        let peer = self.io.slots.rank_of(channel);
        let transport = &self.io.transport;
        transport.shows(region, peer).then(|| transport.key(region.remote, peer))
    }

    /// Shows a step's bytes, once there is a slot for the word of it; false where the run is to put them.
    pub(super) fn show(
        &mut self,
        walk: &mut Walk<'_>,
        step: &Step,
        channel: usize,
        from: &[Segment],
        key: RemoteKey,
    ) -> Result<bool> {
        let Step { round, bytes, .. } = *step;
        let head = head_of(walk, Kind::Shown { round, bytes, runs: from.len() as u16, offers: false });
        let shown = self.send_when_taken(walk, channel, &mut shown_message(&head, key, from), None)?;
        if shown {
            walk.left.unread.insert(round);
        }
        Ok(shown)
    }

    /// What a message of the line's start is that brings no data: what is shown, or that this rank's has been read; `None`
    /// where it is neither.
    pub(super) fn read_of_shown(
        &mut self,
        header: &Header,
        landed: Landed,
        walk: &mut Walk<'_>,
    ) -> Result<Option<Heard>> {
        if header.call != walk.errand.call || header.iteration != walk.errand.iteration {
            return Ok(None);
        }
        match (header.kind, Message::of(header.kind, landed)) {
            (_, Some(message)) if walk.early.admits(message.round) => Ok(Some(Heard::Message(message))),
            (Kind::Loaded { round }, _) if walk.left.unread.remove(round) => {
                self.io.slots.release(landed);
                self.pay()?;
                Ok(Some(Heard::Other))
            }
            _ => Ok(None),
        }
    }

    /// Takes in what is shown for a step, and tells its source; false where the run is to do that.
    pub(super) fn take_in_shown(
        &mut self,
        walk: &mut Walk<'_>,
        step: &Step,
        message: Message,
        runs: u16,
        into: &[Stretch],
        landing: Landing,
    ) -> Result<bool> {
        let channel = message.landed.channel;
        let (memory, start, room) = self.io.slots.payload(message.landed);
        let (peer, words) = (self.io.slots.rank_of(channel), Payload::InSlot(memory, start, room));
        let transport = &mut *self.io.transport;
        let shown = Shown::read(&words, runs, peer, transport)?;
        let is_it = message.bytes == step.bytes && shown.bytes() as u64 == step.bytes;
        if !is_it || !shown.land(into, landing, walk.errand.shore(), transport)? {
            walk.early.messages.push(message);
            return Ok(false);
        }
        // From now on its source has its memory for itself: in one process it counts who holds it.
        drop(shown);
        // The word that it has been read takes the slot along.
        self.io.slots.release(message.landed);
        walk.left.untold.insert(step.round);
        self.tell_of(walk, step.round, channel)?;
        Ok(true)
    }

    /// Tells a source that what it has shown for a round has been read, if a message can be sent.
    fn tell_of(&mut self, walk: &mut Walk<'_>, round: u32, channel: usize) -> Result<()> {
        let mut head = head_of(walk, Kind::Loaded { round });
        if self.io.send_head(channel, &mut head, None)? {
            walk.left.untold.remove(round);
        }
        Ok(())
    }

    /// Waits until all that was shown on the line has been read, and all sources know what has been read here; false where
    /// the run is to do that.
    pub(super) fn settle(&mut self, walk: &mut Walk<'_>) -> Result<bool> {
        loop {
            let untold = walk.left.untold.first().and_then(|round| Some((round, source(walk, round)?)));
            if let Some((round, channel)) = untold {
                self.tell_of(walk, round, channel)?;
            }
            if walk.left.is_settled() {
                return Ok(true);
            }
            let awaited = reader(walk, walk.left.unread).map(|channel| (channel, 0));
            if let Heard::Leave = self.listen(walk, awaited)? {
                return Ok(false);
            }
        }
    }
}

fn head_of(walk: &Walk<'_>, kind: Kind) -> [u8; HEAD] {
    let header = Header { kind, call: walk.errand.call, iteration: walk.errand.iteration };
    let mut head = [0; HEAD];
    head.copy_from_slice(&header.encode()[..HEAD]);
    head
}

/// The channel by which a round's arrival comes.
fn source(walk: &Walk<'_>, round: u32) -> Option<usize> {
    walk.line.steps.iter().find_map(|step| match step.act {
        Act::TakeIn { channel, .. } if step.round == round => Some(channel),
        _ => None,
    })
}

/// The channel to the first that is to read something.
fn reader(walk: &Walk<'_>, unread: Rounds) -> Option<usize> {
    let first = unread.first()?;
    walk.line.steps.iter().find_map(|step| match step.act {
        Act::Put { channel, .. } if step.round == first => Some(channel),
        _ => None,
    })
}
