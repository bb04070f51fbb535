//! The line of a call of two ranks of which one puts a long block to the other, and both carry it: the source brings the
//! first bytes to their place, the target reads the rest where the source shows it.
#![forbid(unsafe_code)]

use std::cell::Cell;

use super::course::Course;
use super::io::Io;
use super::line::Errand;
use super::share::{First, Lead, Share, is_shared};
use crate::engine::call::{Header, Kind};
use crate::engine::leg::Stretch;
use crate::engine::notice::Notice;
use crate::error::Result;
use crate::plan::{Landing, Leg, Round, Side};
use crate::transport::{Gait, Posted, Put, Region, RemoteKey, Report, Segment};

/// One end of such a leg, which is all that its rank has to do.
pub struct Carried {
    /// Whether this is its source or its target.
    pub side: Side,
    /// The channel to the other end.
    pub channel: usize,
    /// The block here.
    pub block: Stretch,
    gait: Gait,
    /// From where on in its memory the target tells the source to count.
    told: u64,
    /// Bytes of the part between the two, where nobody else knows.
    between: u64,
    /// What the source has learnt of the two.
    lead: Cell<Lead>,
    /// How far it has been carried in the latest call that went along its line.
    progress: Cell<Progress>,
}

/// How far a leg has been carried, for the run that goes on from there.
#[derive(Clone, Copy, Default)]
pub struct Progress {
    /// What the source has shown the end of, and is still to bring.
    pub to_bring: Option<Stretch>,
    /// What the target has told the source.
    pub ready: Option<Header>,
    /// Puts of the source's that are still under way.
    pub flying: u32,
    /// Whether the target has told the source that it is ready.
    pub told: bool,
    /// Parts of it that have landed.
    pub landed: u32,
}

impl Carried {
    /// Of a call that consists of such a leg.
    pub fn of(course: &Course, io: &Io) -> Option<Carried> {
        let plan = course.plan();
        if course.is_small() || plan.rounds() != 1 || course.call.signature.prepared {
            return None;
        }
        let Round { put, arrival, landing, .. } = plan.round(0);
        let (side, Leg { peer, .. }) = match (put, arrival) {
            (Some(put), None) => (Side::Put, put),
            (None, Some(arrival)) => (Side::Arrival, arrival),
            _ => return None,
        };
        let &[block] = &*course.stretches(0, side) else { return None };
        let is_carried = is_shared(block.len, 0) && block.len <= course.rule.max_put;
        let lands = landing == Landing::Store && course.gait != Gait::PastCaches;
        let channel = io.slots.wide(course.world(peer)).filter(|_| is_carried && lands)?;
        let (told, between) = (course.layout.told(peer), course.layout.between(peer, side));
        let (lead, progress) = Default::default();
        Some(Carried { side, channel, block, gait: course.gait, told, between, lead, progress })
    }

    /// It is started: nothing has been carried.
    pub fn begin(&self) {
        self.progress.set(Progress::default());
    }

    /// How far it has been carried.
    pub fn progress(&self) -> Progress {
        self.progress.get()
    }

    /// Has it carried further.
    pub fn advance(&self, change: impl FnOnce(&mut Progress)) {
        let mut progress = self.progress.get();
        change(&mut progress);
        self.progress.set(progress);
    }

    /// What the source brings, and what it shows; `None` where it had better not.
    pub fn share(&self, errand: &Errand<'_>, io: &mut Io) -> Option<(Stretch, Stretch)> {
        let peer = io.slots.rank_of(self.channel);
        let may = errand.region.is_some_and(|region| io.transport.shows(region, peer));
        if !may || !io.transport.is_worth_showing(peer, self.block.len, None) {
            return None;
        }
        match Share::of_stored(&[self.block], 0, self.lead.get())? {
            Share { first: Some(First::Put(first)), shown } => Some((first, *shown.first()?)),
            _ => None,
        }
    }

    /// Whether a word that the target is ready means the same leg.
    pub fn agrees(&self, ready: Kind) -> bool {
        self.side == Side::Put && matches!(ready, Kind::Ready { bytes, .. } if bytes == self.between)
    }

    /// The word that the target is ready; `None` where its memory is not registered.
    pub fn ready(&self, errand: &Errand<'_>, io: &Io) -> Option<Header> {
        let region = errand.to_region?;
        let key = io.transport.key(region.remote, io.slots.rank_of(self.channel));
        let target = RemoteKey { base: key.base.wrapping_add(self.told), ..key };
        let (operation, bytes) = (errand.number, self.between);
        let kind =
            Kind::Ready { target, staging: RemoteKey::default(), operation, source: 0, opens: None, bytes };
        Some(Header { kind, call: errand.call, iteration: errand.iteration })
    }

    /// The notice that the source has brought what it brings to this rank.
    pub fn notice(errand: &Errand<'_>) -> u32 {
        Notice::Block { operation: errand.number, round: 0, shared: true }.encode()
    }

    /// Brings the first bytes to their place, where the target has told it; `None` where it has not.
    pub fn bring(
        &self,
        first: Stretch,
        (region, errand): (&Region, &Errand<'_>),
        ready: &Header,
        io: &mut Io,
    ) -> Result<Option<Posted>> {
        let Kind::Ready { target, operation, .. } = ready.kind else { return Ok(None) };
        let put = Put {
            peer: io.slots.rank_of(self.channel),
            from: region,
            segments: &[Segment { offset: first.at, len: first.len }],
            to: target,
            to_offset: first.there,
            notice: Notice::Block { operation, round: 0, shared: true }.encode(),
            report: Report::Landed,
            token: 0,
            attended: true,
            for_user: false,
            gait: self.gait,
        };
        io.put(errand.number, put).map(Some)
    }

    /// The source has brought its part: it learns whether the target was through with its own by then.
    pub fn learn(&self, is_read: bool, io: &Io) {
        if let Some(target_through) = is_read.then_some(true).or_else(|| io.slots.has_next(self.channel)) {
            let mut lead = self.lead.get();
            lead.learn(target_through);
            self.lead.set(lead);
        }
    }

    /// Where what is shown, so many bytes, belongs at the target; `None` where that is no end of the block.
    pub fn end(&self, bytes: usize) -> Option<Stretch> {
        let first = self.block.len.checked_sub(bytes)?;
        Some(self.block.split(first).1)
    }
}
