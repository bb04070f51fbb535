//! What the plan of a call of few rounds says, looked at once: such a call is made again and again.
#![forbid(unsafe_code)]

use std::ops::Deref;

use crate::engine::leg::{Stretch, Stretches, stretches};
use crate::plan::layout::Layout;
use crate::plan::{Plan, Round, Side};
use crate::rank::{Place, Rank};

/// A plan whose rounds are in a table.
pub struct Noted {
    plan: Box<dyn Plan>,
    rounds: Vec<Round>,
}

impl Noted {
    pub fn new(plan: Box<dyn Plan>) -> Self {
        Noted { rounds: (0..plan.rounds()).map(|i| plan.round(i)).collect(), plan }
    }
}

impl Plan for Noted {
    fn place(&self) -> Place {
        self.plan.place()
    }
    fn rounds(&self) -> u32 {
        self.rounds.len() as u32
    }
    fn blocks(&self) -> u32 {
        self.plan.blocks()
    }
    fn round(&self, i: u32) -> Round {
        self.rounds[i as usize]
    }
    fn many(&self, i: u32, side: Side, each: &mut dyn FnMut(u32)) {
        self.plan.many(i, side, each)
    }
    fn forwarded(&self, i: u32) -> Option<u32> {
        self.plan.forwarded(i)
    }
    fn sources(&self) -> Vec<Rank> {
        self.plan.sources()
    }
    fn targets(&self) -> Vec<Rank> {
        self.plan.targets()
    }
}

/// Where the bytes of each round's legs lie.
pub struct Legs(Vec<[Stretches; 2]>);

impl Legs {
    pub fn new(plan: &dyn Plan, layout: &dyn Layout) -> Self {
        let both = |i| [Side::Put, Side::Arrival].map(|side| stretches(plan, layout, i, side));
        Legs((0..plan.rounds()).map(both).collect())
    }

    pub fn of(&self, round: u32, side: Side) -> &[Stretch] {
        &self.0[round as usize][side as usize]
    }
}

/// Stretches, looked up or made.
pub enum Known<'a> {
    Noted(&'a [Stretch]),
    Made(Stretches),
}

impl Deref for Known<'_> {
    type Target = [Stretch];

    fn deref(&self) -> &[Stretch] {
        match self {
            Known::Noted(stretches) => stretches,
            Known::Made(stretches) => stretches,
        }
    }
}
