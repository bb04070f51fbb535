//! A call from beginning to end: decided anew, or as one like it was made before.

use std::borrow::Cow;
use std::ops::Range;

use super::Communicator;
use super::call::{Counts, RawCall};
use super::request::{Held, Move};
use super::window::Window;
use super::work::{Decision, Ends, received};
use super::world::Workspace;
use crate::algorithm::probe::PingPong;
use crate::collective::Collective;
use crate::engine::call::Signature;
use crate::engine::operation::Pace;
use crate::engine::rest::Ask;
use crate::engine::{Operands, OwnPart, Source, Task};
use crate::error::Result;
use crate::plan::partition::Partition;
use crate::rank::Rank;
use crate::select::SMALL;
use crate::transport::Gait;
use crate::transport::memory::Memory;

impl Communicator {
    pub(super) fn in_background(
        &self,
        call: &RawCall,
        elements: usize,
        ends: Ends<'_>,
        prepared: bool,
    ) -> Result<Held> {
        let decision = self.decide_in_background(call, elements)?;
        if decision.entry.relays() {
            return self.held_in_workspace(call, &decision, elements, ends, prepared);
        }
        self.held(call, &decision, elements, ends, prepared)
    }

    /// Which algorithm, and how many blocks, for a call that is started or prepared.
    pub(super) fn decide_in_background(&self, call: &RawCall, elements: usize) -> Result<Decision> {
        let decision = self.decide(call, elements)?;
        match decision.entry.relays() && call.algorithm.is_none() {
            // What is handed on waits for this rank's next call, whoever it is for; what goes straight does not.
            true => self.decide(&call.clone().algorithm("ring"), elements),
            false => Ok(decision),
        }
    }

    pub(super) fn at_once(&self, call: &RawCall, elements: usize, memory: &Source) -> Result<()> {
        self.carry_out(call, elements, Ends::one(Cow::Borrowed(memory)))
    }

    /// Makes a call, from beginning to end: as one like it was made before, where that is remembered.
    pub(super) fn carry_out(&self, call: &RawCall, elements: usize, ends: Ends<'_>) -> Result<()> {
        let ask = self.ask(call, elements, &ends);
        if let Some(ask) = &ask {
            let mut engine = self.world.engine();
            if let Some(made) = engine.recall(ask) {
                let own = self.own_part(call, elements, &ends);
                let operands =
                    Operands { from: &ends.from, to: ends.to.as_deref(), fold: call.fold.as_ref() };
                return match engine.begin_again(made, operands, own.as_ref())? {
                    Some(handle) => self.world.carry_out(engine, handle),
                    None => Ok(()),
                };
            }
        }
        self.carry_out_anew(call, elements, ends, ask)
    }

    /// The same as a call that is made for the first time. Apart, as it would lengthen the way of those that are not.
    #[inline(never)]
    fn carry_out_anew(
        &self,
        call: &RawCall,
        elements: usize,
        ends: Ends<'_>,
        ask: Option<Ask<'_>>,
    ) -> Result<()> {
        let decision = self.decide(call, elements)?;
        if decision.entry.relays() {
            return self.hand_on(call, &decision, elements, &ends);
        }
        self.own_move(call, elements, &ends).iter().for_each(Move::make);
        let received = received(call, elements, &ends);
        let task = self.task(call, &decision, elements, received, ends, false);
        self.world.run(task, ask)
    }

    /// What the making of a call depends on, where it is worth being remembered.
    fn ask<'c>(&self, call: &'c RawCall, elements: usize, ends: &Ends<'_>) -> Option<Ask<'c>> {
        let counts = match &call.counts {
            Counts::Equal => None,
            Counts::Each(counts) => Some(Cow::Borrowed(&**counts)),
            Counts::Pairs(..) => return None,
        };
        Some(Ask {
            communicator: self.number,
            collective: call.collective,
            root: call.root,
            elements,
            counts,
            unit: call.unit,
            fold: call.fold.as_ref().map(|fold| fold.numbers()),
            commutes: call.fold.as_ref().is_none_or(|fold| fold.commutes()),
            apart: ends.to.is_some(),
            algorithm: call.algorithm.as_deref().map(Cow::Borrowed),
            blocks: call.blocks,
        })
    }

    /// What a rank sends to itself, to be copied as the call copies, where nobody has the engine.
    fn own_move(&self, call: &RawCall, elements: usize, ends: &Ends<'_>) -> Option<Move> {
        let OwnPart { from, to, bytes, touched } = self.own_part(call, elements, ends)?;
        let target = ends.to.as_ref().unwrap_or(&ends.from);
        let gait = self.world.engine().gait(touched, false);
        Some(Move { gait, ..Move::part(target, to, &ends.from, from, bytes) })
    }

    /// A call in the background, ready to be started.
    fn held(
        &self,
        call: &RawCall,
        decision: &Decision,
        elements: usize,
        ends: Ends<'_>,
        prepared: bool,
    ) -> Result<Held> {
        let received = received(call, elements, &ends);
        let own = self.own_move(call, elements, &ends);
        let task = self.task(call, decision, elements, received, ends, prepared);
        Held::new(&self.world, task, own)
    }

    /// An all-to-all whose blocks are handed on from rank to rank, in a workspace.
    fn hand_on(&self, call: &RawCall, decision: &Decision, elements: usize, ends: &Ends<'_>) -> Result<()> {
        let (workspace, into, out_of) = self.workspace_of(call, decision, elements, ends)?;
        into.iter().for_each(Move::make);
        let task = self.task(call, decision, elements, 0, Ends::one(Cow::Owned(workspace.source())), false);
        self.world.run(task, None)?;
        out_of.iter().for_each(Move::make);
        Ok(())
    }

    /// The same in the background.
    fn held_in_workspace(
        &self,
        call: &RawCall,
        decision: &Decision,
        elements: usize,
        ends: Ends<'_>,
        prepared: bool,
    ) -> Result<Held> {
        let (workspace, into, out_of) = self.workspace_of(call, decision, elements, &ends)?;
        let task =
            self.task(call, decision, elements, 0, Ends::one(Cow::Owned(workspace.source())), prepared);
        Ok(Held::new(&self.world, task, None)?.with(into, out_of, Some(workspace)))
    }

    /// Where the blocks of an all-to-all are handed on, and what is copied there first, and out of there at last.
    fn workspace_of(
        &self,
        call: &RawCall,
        decision: &Decision,
        elements: usize,
        ends: &Ends<'_>,
    ) -> Result<(Workspace, Vec<Move>, Vec<Move>)> {
        let places = self.handed_on(&decision.problem, decision.entry);
        let workspace = self.world.workspace(places.size() as usize)?;
        let (room, from, (to, at)) =
            (&workspace.region.memory, ends.from.memory(), landing(call, elements, ends));
        let into =
            stretches(self.size(), |rank| places.start(rank)).map(|Stretch { part, place, len }| Move {
                source: from.clone(),
                from: part,
                target: room.clone(),
                to: place,
                len,
                gait: Gait::Straight,
            });
        let out_of =
            stretches(self.size(), |rank| places.end(rank)).map(|Stretch { part, place, len }| Move {
                source: room.clone(),
                from: place,
                target: to.clone(),
                to: at + part,
                len,
                gait: Gait::Straight,
            });
        let (into, out_of) = (into.collect(), out_of.collect());
        Ok((workspace, into, out_of))
    }

    /// A ping-pong of `bytes` bytes between two ranks.
    pub(super) fn probe(&self, window: &Window<u8>, (one, peer): (Rank, Rank), bytes: usize) -> Result<()> {
        let signature = Signature { bytes: bytes as u64, blocks: 1, ..Signature::bare(Collective::Probe) };
        let task = Task {
            communicator: self.number,
            signature,
            group: None,
            plan: Box::new(PingPong { place: self.place, one, peer }),
            layout: Box::new(Partition::even(bytes as u64, 1)),
            // It sleeps as long calls do, whose blocks its times are for.
            pace: Pace {
                in_flight: 1,
                lookahead: 1,
                turns: None,
                welcome: None,
                ahead: SMALL as usize,
                soon: false,
            },
            piece: 0,
            longest: usize::MAX,
            fold: None,
            small: false,
            from: window.source().clone(),
            to: None,
            // What is measured is what a byte costs that the cache holds.
            touched: 0,
        };
        self.world.run(task, None)
    }
}

/// Where what comes in belongs, and from which of its bytes on.
fn landing<'e>(call: &RawCall, elements: usize, ends: &'e Ends<'_>) -> (&'e Memory, usize) {
    let to = ends.to.as_ref().unwrap_or(&ends.from);
    (to.memory(), received(call, elements, ends) as usize * call.unit)
}

/// Bytes that lie together among the parts of all ranks, and in a workspace.
#[derive(Debug, PartialEq)]
struct Stretch {
    part: usize,
    place: usize,
    len: usize,
}

/// Parts of one size, one after another, and where each has its place.
fn stretches(p: u32, place: impl Fn(Rank) -> Range<u64>) -> impl Iterator<Item = Stretch> {
    let mut ranks = (0..p).peekable();
    let mut part = 0;
    std::iter::from_fn(move || {
        let Range { start, mut end } = place(ranks.next()?);
        while let Some(next) = ranks.next_if(|&rank| place(rank).start == end) {
            end = place(next).end;
        }
        let stretch = Stretch { part, place: start as usize, len: (end - start) as usize };
        part += stretch.len;
        Some(stretch)
    })
}
