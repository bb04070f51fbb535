//! A peer that this rank puts to, and what it has told.
#![forbid(unsafe_code)]

use super::super::course::{Course, Path};
use super::super::io::Io;
use super::super::share::{Lead, Open};
use crate::engine::call::is_before;
use crate::engine::slots::Slots;
use crate::error::Result;
use crate::plan::Landing;
use crate::rank::Rank;
use crate::transport::RemoteKey;

/// A peer that this rank puts to.
pub struct Target {
    /// In the plan.
    pub rank: Rank,
    /// In the world.
    pub world: Rank,
    pub channel: usize,
    /// Whether the channel carries data.
    pub wide: bool,
    /// Whether the target can read where it is what would be put through its staging slots.
    pub reads: bool,
    pub offer: Option<Offer>,
    /// The latest start that it has said to be ready for.
    pub ready: Option<u32>,
    /// The last start in which a leg has gone ahead to it.
    pub ahead: Option<u32>,
    /// How much of a leg that is shared with it is this rank's work.
    pub lead: Lead,
    /// Whether a leg is being put to it.
    pub busy: bool,
    /// Pieces that have been put to its staging slots, and how many it has allowed.
    pub pieces: u32,
    pub allowed: u32,
    /// The last round of which it has said that it is its turn.
    pub admitted: Option<u32>,
}

impl Target {
    pub fn new(rank: Rank, course: &Course, io: &Io) -> Result<Self> {
        let world = course.world(rank);
        let wide = io.slots.wide(world).is_some();
        let mut target = Target {
            rank,
            world,
            channel: course.channel(rank, io)?,
            wide,
            reads: false,
            offer: None,
            ready: None,
            ahead: None,
            lead: Lead::default(),
            busy: false,
            pieces: 0,
            allowed: 0,
            admitted: None,
        };
        target.renew(course, io);
        Ok(target)
    }

    pub fn renew(&mut self, course: &Course, io: &Io) {
        let shows = |from| io.transport.shows(from, self.world);
        self.reads = self.wide && matches!(&course.path, Path::Direct(ends) if shows(&ends.from));
        (self.offer, self.ready, self.ahead) = (None, None, None);
    }

    pub fn is_admitted(&self, round: u32, course: &Course) -> bool {
        course.pace.turns.is_none() || self.admitted.is_some_and(|admitted| round <= admitted)
    }

    /// It says that it is ready for a start, and so it is for all before.
    pub fn is_ready_for(&mut self, start: u32) {
        if self.ready.is_none_or(|ready| is_before(ready, start)) {
            self.ready = Some(start);
        }
    }

    pub fn is_ready(&self, course: &Course) -> bool {
        self.ready.is_some_and(|ready| !is_before(ready, course.iteration()))
    }

    /// Where, and how, this rank may fold the first one of all legs that its target folds.
    pub fn opening(&self, course: &Course) -> Option<Open> {
        let offer = self.offer?;
        Some(Open { target: offer.target, landing: offer.opens?, unit: course.unit()? })
    }

    /// The same, if that leg is the next one.
    pub fn is_open(&self, course: &Course) -> Option<Open> {
        self.opening(course).filter(|_| self.pieces == 0)
    }

    /// Whether a leg may go in a message, or be shown, before its target is ready: one for each target, where it fits,
    /// so that the first blocks do not wait for a handshake.
    pub fn may_go_ahead(&self, course: &Course, slots: &Slots) -> bool {
        self.wide && self.ahead != Some(course.iteration()) && slots.may_send(self.channel)
    }
}

/// What a target has told.
#[derive(Clone, Copy)]
pub struct Offer {
    pub target: RemoteKey,
    pub staging: RemoteKey,
    pub operation: u16,
    pub source: u32,
    pub opens: Option<Landing>,
}
