//! What this rank puts: in messages, straight into its place at the target, or piece by piece into the
//! target's staging slots.
#![forbid(unsafe_code)]

mod shared;
mod target;

use std::collections::VecDeque;

use super::carried::Progress;
use super::course::{Course, Path, Unequal};
use super::index::Index;
use super::io::Io;
use crate::engine::call::{Header, Kind};
use crate::engine::leg::{Leg, Pieces, Stretch, Stretches, total};
use crate::engine::notice::Notice;
use crate::engine::run::Order;
use crate::engine::slots::Slots;
use crate::engine::staging::{STAGES, Staging, offset_there};
use crate::error::Result;
use crate::plan::Side;
use crate::rank::Rank;
use crate::transport::{Gait, Posted, Put, Region, Report, Segment};
use shared::{Early, Showing, Unread};
use target::{Offer, Target};

/// A leg that is being put.
struct Outgoing {
    round: u32,
    target: usize,
    report: Report,
    /// Whether the target takes in the rest from where it is shown.
    shared: bool,
    direct: VecDeque<Stretch>,
    staged: Pieces,
}

/// The targets, and what is being put to them.
pub struct Puts {
    targets: Vec<Target>,
    /// Targets by their rank in the plan, and in the world.
    in_plan: Index,
    in_world: Index,
    packing: Option<Staging>,
    /// Legs that are being put, at most one to a target.
    legs: Vec<Outgoing>,
    /// Legs that wait for their target, at most one to each.
    early: Vec<Early>,
    /// Puts whose source is still needed.
    flying: u32,
    /// Legs that are shown and have not been read.
    shown: VecDeque<Unread>,
}

impl Puts {
    pub fn new(course: &Course, io: &Io) -> Result<Self> {
        let ranks = course.plan().targets().into_iter();
        let targets = ranks.map(|rank| Target::new(rank, course, io)).collect::<Result<Vec<_>>>()?;
        Ok(Puts {
            in_plan: Index::new(targets.iter().map(|target| target.rank)),
            in_world: Index::new(targets.iter().map(|target| target.world)),
            targets,
            packing: None,
            legs: Vec::new(),
            early: Vec::new(),
            flying: 0,
            shown: VecDeque::new(),
        })
    }

    /// Begins with a start.
    pub fn start(&mut self) {
        for target in &mut self.targets {
            (target.pieces, target.allowed, target.admitted) = (0, STAGES as u32, None);
        }
        self.shown.clear();
        self.early.clear();
    }

    /// Forgets what was told of another call's memory.
    pub fn renew(&mut self, course: &Course, io: &Io) {
        self.targets.iter_mut().for_each(|target| target.renew(course, io));
    }

    /// What it took from the pool, and how many slots are to be passed over the next time: none, as others only read it.
    pub fn take_staging(&mut self) -> Option<(Staging, usize)> {
        Some((self.packing.take()?, 0))
    }

    /// Puts whose source is still needed.
    pub fn flying(&self) -> u32 {
        self.flying
    }

    /// The source of one of its puts may be reused.
    pub fn sent(&mut self) {
        self.flying -= 1;
    }

    /// A peer of the world says that it is ready for puts.
    pub fn ready(
        &mut self,
        peer: Rank,
        header: &Header,
        course: &Course,
    ) -> std::result::Result<(), Unequal> {
        let Some(target) = self.target_in_world(peer) else { return Ok(()) };
        if let Kind::Ready { target: key, staging, operation, source, opens, bytes } = header.kind {
            Unequal::check(Side::Put, course.layout.between(target.rank, Side::Put), bytes)?;
            target.offer = Some(Offer { target: key, staging, operation, source, opens });
        }
        target.is_ready_for(header.iteration);
        Ok(())
    }

    /// A peer of the world has emptied some of its staging slots.
    pub fn allow(&mut self, peer: Rank, pieces: u32) {
        if let Some(target) = self.target_in_world(peer) {
            target.allowed = target.allowed.saturating_add(pieces);
        }
    }

    /// A leg has been shown already to the target of this channel, which has not read it.
    pub fn shown_before(&mut self, channel: usize, round: u32) {
        let target = self.targets.iter().find(|target| target.channel == channel);
        self.shown.extend(target.map(|target| Unread { round, peer: target.world, pieces: 0 }));
    }

    /// So far the leg that is all of a call has been carried already: that its end is [shown](Self::shown_before) is known.
    pub fn carried_before(&mut self, progress: &Progress, is_begun: bool, course: &mut Course) {
        let Progress { to_bring, ready, flying, .. } = progress;
        if let (Some(target), Some(ready)) = (self.targets.first(), ready) {
            // That it means the same leg was seen to.
            let _ = self.ready(target.world, ready, course);
        }
        match *to_bring {
            Some(first) => self.wait_to_bring(first, course),
            None if is_begun => course.run.put_before(0),
            None => {}
        }
        self.flying += flying;
    }

    /// A peer of the world has read what was shown to it for a round.
    pub fn loaded(&mut self, peer: Rank, round: u32) {
        let read = self.shown.iter().position(|unread| (unread.round, unread.peer) == (round, peer));
        if let Some(Unread { pieces, .. }) = read.and_then(|at| self.shown.remove(at)) {
            self.allow(peer, pieces);
        }
    }

    /// The first leg that was shown before its target was ready, which it is not yet.
    pub fn first_early(&self) -> Option<Order> {
        self.early.first().map(|early| early.order)
    }

    /// The first leg that is shown and has not been read: its round, and to whom in the world.
    pub fn first_shown(&self) -> Option<(u32, Rank)> {
        self.shown.front().map(|unread| (unread.round, unread.peer))
    }

    /// A peer of the world says that it is the turn of the leg of this round.
    pub fn admit(&mut self, peer: Rank, round: u32) {
        if let Some(target) = self.target_in_world(peer) {
            target.admitted = target.admitted.max(Some(round));
        }
    }

    fn target_in_world(&mut self, peer: Rank) -> Option<&mut Target> {
        self.in_world.find(peer).map(|number| &mut self.targets[number])
    }

    /// The next leg that may be begun.
    pub fn next(&self, course: &Course, slots: &Slots) -> Option<Order> {
        let target = |rank| self.in_plan.find(rank).map(|number| &self.targets[number]);
        match course.path {
            Path::Slots { .. } => course
                .run
                .next_put(|_, peer| target(peer).is_some_and(|target| slots.may_send(target.channel))),
            Path::Direct(_) if self.flying >= course.pace.in_flight => None,
            Path::Direct(_) => course.run.next_put(|round, peer| {
                target(peer).is_some_and(|target| {
                    !target.busy
                        && target.is_admitted(round, course)
                        && (target.is_ready(course) || target.may_go_ahead(course, slots))
                })
            }),
        }
    }

    /// Begins a leg; false where the transport did not take it.
    pub fn begin(&mut self, order: Order, course: &mut Course, io: &mut Io) -> Result<bool> {
        let Some(target) = self.in_plan.find(order.put.peer) else {
            return Err(course.refusal(format!("rank {} is none of the plan's targets", order.put.peer)));
        };
        if !course.is_direct() {
            return match self.is_better_shown(order.round, target, course, io) {
                true => self.show_for_slot(order, target, course, io),
                false => self.put_in_message(order, target, course, io),
            };
        }
        if !self.targets[target].is_ready(course) {
            return self.go_ahead(order, target, course, io);
        }
        let leg = course.leg(order.round, Side::Put);
        let open = self.targets[target].is_open(course);
        match self.shared_out(&leg, order, target, open.map(|open| open.unit), course, io) {
            Some(share) => {
                let pieces = leg.staged.count(course.rule.piece);
                if !self.show_share(
                    Showing { shown: &share.shown, offers: false, pieces },
                    order,
                    target,
                    course,
                    io,
                )? {
                    return Ok(false);
                }
                self.bring(share.first, order, target, open, course, io).map(|()| true)
            }
            None => {
                let Leg { direct, staged } = leg;
                course.run.ordered(order);
                self.put_out(order, target, direct, staged, false);
                Ok(true)
            }
        }
    }

    /// Begins to put what is to be put of a leg.
    fn put_out(&mut self, order: Order, target: usize, direct: Stretches, staged: Pieces, shared: bool) {
        // What is staged goes at the pace of its target's credits.
        let paced = !order.unpaced || staged.left() > 0;
        let report = if paced { Report::Sent } else { Report::Landed };
        let direct = direct.into_iter().collect();
        self.legs.push(Outgoing { round: order.round, target, report, shared, direct, staged });
        self.targets[target].busy = true;
    }

    /// Begins a leg before its target is ready: in a message, where it fits, else by what is shown of it, if anything
    /// is. False where the transport did not take it.
    fn go_ahead(&mut self, order: Order, target: usize, course: &mut Course, io: &mut Io) -> Result<bool> {
        let taken = if total(&course.stretches(order.round, Side::Put)) <= course.pace.ahead {
            let pieces = match course.rule.piece {
                0 => 0,
                piece => course.leg(order.round, Side::Put).staged.count(piece),
            };
            let taken = self.put_in_message(order, target, course, io)?;
            self.targets[target].pieces += if taken { pieces } else { 0 };
            taken
        } else {
            self.show_ahead(order, target, course, io)?
        };
        if taken {
            self.targets[target].ahead = Some(course.iteration());
        }
        Ok(taken)
    }

    fn put_in_message(&self, order: Order, target: usize, course: &mut Course, io: &mut Io) -> Result<bool> {
        let all = course.stretches(order.round, Side::Put);
        let header = course.header(Kind::Data { round: order.round, bytes: total(&all) as u64 });
        let taken = io.send(self.targets[target].channel, &header, Some((course.from(), &all)))?;
        drop(all);
        if taken {
            course.run.ordered(order);
            course.run.sent();
        }
        Ok(taken)
    }

    /// Goes on with the legs that have been begun; false where the transport did not take something.
    pub fn go_on(&mut self, course: &mut Course, io: &mut Io) -> Result<bool> {
        self.bring_early(course, io)?;
        let mut i = 0;
        while i < self.legs.len() {
            if !self.put_leg(i, course, io)? {
                return Ok(false);
            }
            let leg = &self.legs[i];
            if leg.direct.is_empty() && leg.staged.left() == 0 {
                let Outgoing { round, target, shared, .. } = self.legs.remove(i);
                self.targets[target].busy = false;
                if shared {
                    self.learn(round, target, course, io);
                }
                course.run.sent();
            } else {
                i += 1;
            }
        }
        Ok(true)
    }

    fn put_leg(&mut self, i: usize, course: &Course, io: &mut Io) -> Result<bool> {
        while self.flying < course.pace.in_flight {
            let leg = &self.legs[i];
            let taken = match leg.direct.front() {
                Some(&stretch) => self.put_in_place(i, stretch, course, io)?,
                None if leg.staged.left() == 0 => return Ok(true),
                None if self.targets[leg.target].pieces >= self.targets[leg.target].allowed => {
                    return Ok(true);
                }
                None => self.put_piece(i, course, io)?,
            };
            if !taken {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn put_in_place(&mut self, i: usize, stretch: Stretch, course: &Course, io: &mut Io) -> Result<bool> {
        let leg = &self.legs[i];
        let (Path::Direct(ends), target) = (&course.path, &self.targets[leg.target]) else {
            return Ok(false);
        };
        let Some(offer) = target.offer else { return Ok(false) };
        let put = Put {
            peer: target.world,
            from: &ends.from,
            segments: &[Segment { offset: stretch.at, len: stretch.len }],
            to: offer.target,
            to_offset: stretch.there,
            notice: Notice::Block { operation: offer.operation, round: leg.round, shared: leg.shared }
                .encode(),
            report: leg.report,
            token: 0,
            attended: course.attended,
            for_user: !leg.shared,
            gait: course.gait,
        };
        let posted = io.put(course.number, put)?;
        if posted != Posted::Busy {
            self.legs[i].direct.pop_front();
        }
        Ok(self.posted(posted))
    }

    /// Puts the next piece of a leg into its target's staging: from where it lies, if the transport gathers
    /// that many segments, else packed.
    fn put_piece(&mut self, i: usize, course: &Course, io: &mut Io) -> Result<bool> {
        let Outgoing { target: number, report, ref staged, .. } = self.legs[i];
        let Some(offer) = self.targets[number].offer else { return Ok(false) };
        let slot = self.targets[number].pieces as usize % STAGES;
        let mut piece = Stretches::new();
        staged.peek(course.rule.piece, &mut piece);
        let (from, segments) = self.gather(&piece, number, slot, course, io)?;
        let notice = Notice::Staged { operation: offer.operation, source: offer.source, slot: slot as u8 };
        let put = Put {
            peer: self.targets[number].world,
            from: &from,
            segments: &segments,
            to: offer.staging,
            to_offset: offset_there(course.rule.piece, slot),
            notice: notice.encode(),
            report,
            token: 0,
            attended: course.attended,
            for_user: false,
            // Its target is about to read it.
            gait: Gait::Straight,
        };
        let posted = io.put(course.number, put)?;
        if posted != Posted::Busy {
            self.legs[i].staged.take(course.rule.piece);
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
        course: &Course,
        io: &mut Io,
    ) -> Result<(Region, Vec<Segment>)> {
        if let Path::Direct(ends) = &course.path
            && piece.len() <= io.transport.limits().segments
        {
            let segment = |stretch: &Stretch| Segment { offset: stretch.at, len: stretch.len };
            return Ok((ends.from.clone(), piece.iter().map(segment).collect()));
        }
        let packing = match self.packing.take() {
            Some(packing) => packing,
            None => io.stage(self.targets.len(), course.rule.piece, true)?,
        };
        let offset = packing.offset(target, slot);
        let mut at = offset;
        for stretch in piece {
            packing.region.memory.copy(at, course.from(), stretch.at, stretch.len);
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
