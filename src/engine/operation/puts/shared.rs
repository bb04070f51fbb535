//! Legs that this rank and their target share the work of: what is shown, and what is brought there.
#![forbid(unsafe_code)]

use smallvec::smallvec;

use super::super::course::{Course, Path};
use super::super::io::{Io, segments};
use super::super::share::{First, Open, Share, fold_there};
use super::super::shown;
use super::{Puts, Target};
use crate::engine::call::{HEAD, Kind};
use crate::engine::leg::{Leg, Pieces, Stretch, Stretches, total};
use crate::engine::run::Order;
use crate::error::Result;
use crate::plan::Side;
use crate::rank::Rank;
use crate::transport::{Gait, Sight};

/// A leg that was shown before its target was ready, and of which the first bytes wait for that.
pub struct Early {
    pub order: Order,
    pub target: usize,
    pub first: First,
}

/// A leg that is shown and has not been read.
pub struct Unread {
    pub round: u32,
    /// To whom, in the world.
    pub peer: Rank,
    /// In how many pieces it would have been put: they have their numbers all the same, so that those of other legs
    /// are known whatever comes first.
    pub pieces: u32,
}

/// What a target is told of a leg that is shared.
pub struct Showing<'s> {
    /// Where that lies which it is to take in.
    pub shown: &'s [Stretch],
    /// Whether the first run of it is folded by this rank, where the target opens its memory.
    pub offers: bool,
    /// How many pieces the leg would else go in, beside what is put into its place.
    pub pieces: u32,
}

impl Puts {
    /// How this rank and a target that can read what it shows share a leg's work, where this one may fold elements of so
    /// many bytes there; `None` where they do not.
    pub(super) fn shared_out(
        &self,
        leg: &Leg,
        Order { round, unpaced, .. }: Order,
        target: usize,
        unit: Option<usize>,
        course: &Course,
        io: &mut Io,
    ) -> Option<Share> {
        let target = &self.targets[target];
        let is_put = leg.staged.left() == 0 && course.attended && course.gait != Gait::PastCaches;
        let put = if is_put { total(&leg.direct) } else { 0 };
        let Path::Direct(ends) = &course.path else { return None };
        // What this rank writes in each call, itself or for its caller, does not rest.
        let may_rest = leg.staged.left() > 0 && unpaced && !ends.from.is_rewritten;
        let segments = may_rest.then(|| segments(&course.stretches(round, Side::Put)));
        let call = (course.call.name(), course.iteration());
        let sight = |segments| Sight { call, memory: &ends.from.memory, segments };
        let may = target.reads && io.slots.may_send(target.channel);
        if !may || !io.transport.is_worth_showing(target.world, put, segments.as_deref().map(sight)) {
            return None;
        }
        let arriving = match course.plan().round(round).arrival {
            Some(_) => total(&course.stretches(round, Side::Arrival)),
            None => 0,
        };
        match leg.staged.left() {
            0 => Share::of_stored(&leg.direct, arriving, target.lead),
            _ => Share::of_staged(&course.stretches(round, Side::Put), arriving, unit, target.lead),
        }
    }

    /// Learns from a leg that is shared, and of which this rank has done its part just now, whether the target was through with
    /// its own. Where neither has anything else to do in the call, which waits for both; what others carry for this rank is not
    /// its time.
    pub(super) fn learn(&mut self, round: u32, target: usize, course: &Course, io: &Io) {
        let nothing_else = course.plan().rounds() == 1 && course.plan().round(round).arrival.is_none();
        if !(course.attended && nothing_else && self.flying == 0) {
            return;
        }
        let Target { world, channel, ref mut lead, .. } = self.targets[target];
        let is_read = self.shown.iter().all(|unread| (unread.round, unread.peer) != (round, world));
        // The next word from a target that has begun is mostly that it has read.
        if let Some(target_through) = is_read.then_some(true).or_else(|| io.slots.has_next(channel)) {
            lead.learn(target_through);
        }
    }

    /// Whether a target had better read a leg where it lies though a slot has room for it.
    pub(super) fn is_better_shown(&self, round: u32, target: usize, course: &Course, io: &mut Io) -> bool {
        let (Some(from), peer) = (course.source_region(), self.targets[target].world) else { return false };
        let to_come = (0..course.plan().rounds()).filter(|&arriving| !course.run.has_arrived(arriving));
        if !io.may_show(from, peer) || !course.may_show(round, to_come) {
            return false;
        }
        let call = (course.call.name(), course.iteration());
        io.rests(call, from, &segments(&course.stretches(round, Side::Put)), peer)
    }

    /// Shows all of a leg in the place of its message; false where that was not taken.
    pub(super) fn show_for_slot(
        &mut self,
        order: Order,
        target: usize,
        course: &mut Course,
        io: &mut Io,
    ) -> Result<bool> {
        let all: Stretches = course.stretches(order.round, Side::Put).iter().copied().collect();
        let taken =
            self.show_share(Showing { shown: &all, offers: false, pieces: 0 }, order, target, course, io)?;
        if taken {
            course.run.sent();
            #[cfg(test)]
            shown::BY_RUN.set(shown::BY_RUN.get() + 1);
        }
        Ok(taken)
    }

    /// Begins a leg that is shared by the word of what is shown; false where that was not taken.
    pub(super) fn show_share(
        &mut self,
        Showing { shown, offers, pieces }: Showing<'_>,
        order: Order,
        target: usize,
        course: &mut Course,
        io: &mut Io,
    ) -> Result<bool> {
        if !self.show(order.round, shown, offers, target, course, io)? {
            return Ok(false);
        }
        course.run.ordered(order);
        self.targets[target].pieces += pieces;
        self.shown.push_back(Unread { round: order.round, peer: self.targets[target].world, pieces });
        Ok(true)
    }

    /// Brings the first bytes of a leg that is shared to its target, which is ready.
    pub(super) fn bring(
        &mut self,
        first: Option<First>,
        order: Order,
        target: usize,
        open: Option<Open>,
        course: &mut Course,
        io: &mut Io,
    ) -> Result<()> {
        let put = match (first, open) {
            (Some(First::Put(stretch)), _) => stretch,
            (Some(First::Fold(stretch)), Some(open)) => {
                let peer = self.targets[target].world;
                if !fold_there(stretch, open, peer, course, &mut *io.transport)? {
                    return Ok(());
                }
                // A word that it is done.
                Stretch { len: 0, ..stretch }
            }
            (Some(First::Fold(_)), None) | (None, _) => {
                course.run.sent();
                return Ok(());
            }
        };
        self.put_out(order, target, smallvec![put], Pieces::default(), true);
        Ok(())
    }

    /// Tells the target where some of a leg's bytes lie; false where the message was not taken.
    fn show(
        &self,
        round: u32,
        shown: &[Stretch],
        offers: bool,
        target: usize,
        course: &Course,
        io: &mut Io,
    ) -> Result<bool> {
        let Some(from) = course.source_region() else { return Ok(false) };
        let Target { world, channel, .. } = &self.targets[target];
        let bytes = total(&course.stretches(round, Side::Put)) as u64;
        let head = course.header(Kind::Shown { round, bytes, runs: shown.len() as u16, offers }).encode();
        let key = io.transport.key(from.remote, *world);
        let mut message = shown::message(&head[..HEAD], key, &segments(shown));
        io.send_head(*channel, &mut message, None)
    }

    /// Shows what a target that is not ready is to take in of a leg, so that it can begin: where it opens its memory, all
    /// but what this rank is to fold there, else all. The rest waits. Where nothing is shown, the leg does.
    pub(super) fn show_ahead(
        &mut self,
        order: Order,
        target: usize,
        course: &mut Course,
        io: &mut Io,
    ) -> Result<bool> {
        // Of calls in the background there may be many that their target has not begun: its slots are for others, too.
        if !course.attended {
            return Ok(true);
        }
        let unit = course.unit().filter(|_| self.targets[target].pieces == 0);
        let leg = course.leg(order.round, Side::Put);
        let pieces = leg.staged.count(course.rule.piece);
        let Some(share) = self.shared_out(&leg, order, target, unit, course, io) else {
            return Ok(true);
        };
        let offered = match share.first {
            Some(First::Fold(offered)) => Some(offered),
            Some(First::Put(_)) | None => None,
        };
        let offers = offered.is_some();
        let shown: Stretches = offered.into_iter().chain(share.shown).collect();
        if !self.show_share(Showing { shown: &shown, offers, pieces }, order, target, course, io)? {
            return Ok(false);
        }
        match share.first {
            Some(first) => {
                self.targets[target].busy = true;
                self.early.push(Early { order, target, first });
            }
            None => course.run.sent(),
        }
        Ok(true)
    }

    /// The only target has been shown the end of the only leg, whose first bytes wait until it is ready.
    pub(super) fn wait_to_bring(&mut self, first: Stretch, course: &mut Course) {
        let (Some(order), Some(target)) = (course.run.next_put(|_, _| true), self.targets.first_mut()) else {
            return;
        };
        course.run.ordered(order);
        (target.busy, target.ahead) = (true, Some(course.iteration()));
        self.early.push(Early { order, target: 0, first: First::Put(first) });
    }

    /// Goes on with the legs that were shown before their targets were ready, and are ready now.
    pub(super) fn bring_early(&mut self, course: &mut Course, io: &mut Io) -> Result<()> {
        while let Some(at) = self.early.iter().position(|early| self.targets[early.target].is_ready(course)) {
            let Early { order, target, first } = self.early.swap_remove(at);
            let open = self.targets[target].opening(course);
            self.targets[target].busy = false;
            self.bring(Some(first), order, target, open, course, io)?;
        }
        Ok(())
    }
}
