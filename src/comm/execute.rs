//! A call from beginning to end: decided anew, or as one like it was made before.

use super::Communicator;
use super::call::{Counts, RawCall};
use super::request::Held;
use super::window::Window;
use super::work::{Decision, Ends};
use crate::algorithm::probe::PingPong;
use crate::collective::{Collective, Numbering};
use crate::engine::call::Signature;
use crate::engine::operation::Pace;
use crate::engine::rest::Ask;
use crate::engine::{Again, Source, Task};
use crate::error::Result;
use crate::plan::partition::Partition;
use crate::rank::Rank;
use crate::transport::memory::Memory;

impl Communicator {
    pub(super) fn in_background(
        &self,
        call: &RawCall,
        elements: usize,
        ends: Ends,
        prepared: bool,
    ) -> Result<Held> {
        let mut decision = self.decide(call, elements)?;
        if decision.entry.relays() {
            if call.algorithm.is_some() {
                let what = format!("`{}` in the background", decision.entry.name);
                return Err(call.bad(what, "call it at once, or take `ring`"));
            }
            // What is handed on lies in a workspace, which lasts as long as a call does.
            decision = self.decide(&call.clone().algorithm("ring"), elements)?;
        }
        self.held(call, &decision, elements, ends, prepared)
    }

    pub(super) fn at_once(&self, call: &RawCall, elements: usize, memory: Source) -> Result<()> {
        self.carry_out(call, elements, Ends::one(memory))
    }

    /// Makes a call, from beginning to end: as one like it was made before, where that is remembered.
    pub(super) fn carry_out(&self, call: &RawCall, elements: usize, ends: Ends) -> Result<()> {
        let ask = self.ask(call, elements, &ends);
        if let Some(ask) = ask {
            let mut engine = self.world.engine();
            if let Some(operation) = engine.recall(&ask) {
                self.copy_own(call, elements, &ends);
                let again = Again { from: ends.from, to: ends.to, fold: call.fold.clone() };
                let handle = engine.begin_again(ask, operation, again)?;
                return self.world.carry_out(engine, handle);
            }
        }
        let decision = self.decide(call, elements)?;
        if decision.entry.relays() {
            let received = received(call, elements, &ends) as usize * call.unit;
            let (from, to) = (ends.from.memory(), ends.to.as_ref().unwrap_or(&ends.from).memory());
            return self.hand_on(call, &decision, elements, (from, 0), (to, received));
        }
        self.copy_own(call, elements, &ends);
        let received = received(call, elements, &ends);
        let task = self.task(call, &decision, elements, received, ends, false);
        self.world.run(task, ask)
    }

    /// What the making of a call depends on, where it is worth being remembered.
    fn ask(&self, call: &RawCall, elements: usize, ends: &Ends) -> Option<Ask> {
        let usual = matches!(call.counts, Counts::Equal) && call.algorithm.is_none() && call.blocks.is_none();
        usual.then(|| Ask {
            communicator: self.number,
            collective: call.collective,
            root: call.root,
            elements,
            unit: call.unit,
            fold: call.fold.as_ref().map(|fold| fold.numbers()),
            commutes: call.fold.as_ref().is_none_or(|fold| fold.commutes()),
            apart: ends.to.is_some(),
        })
    }

    /// What a rank sends to itself in an all-to-all.
    fn copy_own(&self, call: &RawCall, elements: usize, ends: &Ends) {
        if call.collective.numbering() == Numbering::Pairs {
            self.own_part(call, elements, received(call, elements, ends), ends).make();
        }
    }

    /// A call in the background, ready to be started.
    fn held(
        &self,
        call: &RawCall,
        decision: &Decision,
        elements: usize,
        ends: Ends,
        prepared: bool,
    ) -> Result<Held> {
        let received = received(call, elements, &ends);
        let own = (call.collective.numbering() == Numbering::Pairs)
            .then(|| self.own_part(call, elements, received, &ends));
        let task = self.task(call, decision, elements, received, ends, prepared);
        Held::new(&self.world, task, own)
    }

    /// An all-to-all whose blocks are handed on from rank to rank, in a workspace.
    fn hand_on(
        &self,
        call: &RawCall,
        decision: &Decision,
        elements: usize,
        from: (&Memory, usize),
        to: (&Memory, usize),
    ) -> Result<()> {
        let relay = self.relay(&decision.problem);
        let bytes = decision.problem.largest as usize;
        let workspace = self.world.workspace(relay.size() as usize)?;
        let room = &workspace.region.memory;
        for rank in 0..self.size() {
            room.copy(relay.start(rank).start as usize, from.0, from.1 + rank as usize * bytes, bytes);
        }
        let ends = Ends::one(Source::Registered(workspace.region.clone()));
        let task = self.task(call, decision, elements, 0, ends, false);
        self.world.run(task, None)?;
        for rank in 0..self.size() {
            to.0.copy(to.1 + rank as usize * bytes, room, relay.end(rank).start as usize, bytes);
        }
        Ok(())
    }

    /// A ping-pong of `bytes` bytes between rank 0 and another one.
    pub(super) fn probe(&self, window: &Window<u8>, peer: Rank, bytes: usize) -> Result<()> {
        let Some(region) = window.region() else { return Ok(()) };
        let signature = Signature { bytes: bytes as u64, blocks: 1, ..Signature::bare(Collective::Probe) };
        let task = Task {
            communicator: self.number,
            signature,
            group: None,
            plan: Box::new(PingPong { place: self.place, peer }),
            layout: Box::new(Partition::even(bytes as u64, 1)),
            pace: Pace { in_flight: 1, lookahead: 1, turns: None },
            piece: 0,
            longest: usize::MAX,
            fold: None,
            small: false,
            from: Source::Registered(region),
            to: None,
        };
        self.world.run(task, None)
    }
}

/// Where, in elements, what comes in begins: in one memory, behind what goes out.
fn received(call: &RawCall, elements: usize, ends: &Ends) -> u64 {
    if ends.to.is_some() { 0 } else { call.sent(elements) as u64 }
}
