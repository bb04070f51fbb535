//! A call that is one long leg, which its two ranks carry together: each says in a word what it has for the other, does its
//! half, and hears in a word that the other one's is done.
#![forbid(unsafe_code)]

use super::super::Engine;
use super::super::call::Header;
use super::super::operation::{Carried, Errand, Kept};
use super::{Message, Walk};
use crate::error::Result;
use crate::plan::{Landing, Side};
use crate::transport::{Posted, Segment};

/// The one round.
const ROUND: u32 = 0;

impl Engine {
    /// Carries this rank's end; false where the run is to go on.
    #[inline(never)]
    pub(super) fn carry(&mut self, leg: &Carried, walk: &mut Walk<'_>) -> Result<bool> {
        leg.begin();
        self.claim_word(leg, walk);
        if !self.claim(walk.errand, &mut walk.early) {
            return Ok(false);
        }
        match leg.side {
            Side::Put => self.carry_as_source(leg, walk),
            Side::Arrival => self.carry_as_target(leg, walk),
        }
    }

    /// Takes up the word that a target was ready before this rank's call began.
    fn claim_word(&mut self, leg: &Carried, walk: &mut Walk<'_>) {
        let Errand { call, iteration, .. } = walk.errand;
        let is_it = |Header { kind, call: theirs, iteration: start }: &Header| {
            (theirs, start) == (call, iteration) && leg.agrees(*kind)
        };
        if let Some(at) = self.waiting.iter().position(|waiting| is_it(&waiting.header)) {
            let word = self.waiting.remove(at);
            if let Kept::InSlot(landed) = word.kept {
                self.io.slots.release(landed);
            }
            leg.advance(|progress| progress.ready = Some(word.header));
        }
    }

    /// Shows the end, and brings the beginning once the target has said where to.
    fn carry_as_source(&mut self, leg: &Carried, walk: &mut Walk<'_>) -> Result<bool> {
        let (Some(region), Some((first, end))) = (walk.errand.region, leg.share(walk.errand, &mut self.io))
        else {
            return Ok(false);
        };
        let end = Segment { offset: end.at, len: end.len };
        if !self.show(walk, leg.channel, (ROUND, leg.block.len as u64), region, &[end])? {
            return Ok(false);
        }
        walk.trail.steps = 1;
        leg.advance(|progress| progress.to_bring = Some(first));
        while leg.progress().ready.is_none() {
            if !self.keep_heard(walk, Some((leg.channel, 0)))? {
                return Ok(false);
            }
        }
        let Some(ready) = leg.progress().ready else { return Ok(false) };
        match leg.bring(first, (region, walk.errand), &ready, &mut self.io)? {
            None | Some(Posted::Busy) => return Ok(false),
            Some(Posted::Pending) => leg.advance(|progress| progress.flying = 1),
            Some(Posted::Done) => leg.learn(walk.trail.unread.is_empty(), &self.io),
        }
        leg.advance(|progress| progress.to_bring = None);
        Ok(leg.progress().flying == 0)
    }

    /// Says where the beginning is to go, and reads the end.
    fn carry_as_target(&mut self, leg: &Carried, walk: &mut Walk<'_>) -> Result<bool> {
        let Some(ready) = leg.ready(walk.errand, &self.io) else { return Ok(false) };
        let mut head = ready.encode();
        if !self.send_when_taken(walk, leg.channel, &mut head[..ready.size()], None)? {
            return Ok(false);
        }
        walk.trail.steps = 1;
        leg.advance(|progress| progress.told = true);
        walk.to_land = Some(Carried::notice(walk.errand));
        let Some(message) = self.await_message(walk, ROUND, leg.channel, 0)? else { return Ok(false) };
        if !self.read_end(leg, walk, message)? {
            return Ok(false);
        }
        while walk.to_land.is_some() {
            if !self.keep_heard(walk, None)? {
                return Ok(false);
            }
        }
        Ok(walk.trail.untold.is_none())
    }

    /// Takes in what the source shows; false where the run is to do that.
    fn read_end(&mut self, leg: &Carried, walk: &mut Walk<'_>, message: Message) -> Result<bool> {
        let shown = match message.runs {
            Some(1) if message.bytes == leg.block.len as u64 => Some(self.what_is_shown(message, 1)?),
            _ => None,
        };
        let end = shown.as_ref().and_then(|shown| leg.end(shown.bytes()));
        let (Some(shown), Some(end)) = (shown, end) else {
            walk.early.messages.push(message);
            return Ok(false);
        };
        let read = self.read_there(walk, message, shown, &[end], Landing::Store)?;
        leg.advance(|progress| progress.landed += u32::from(read));
        Ok(read)
    }
}
