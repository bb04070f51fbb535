//! From what a caller gives, an input and an output as MPI has them, to calls in place.
//!
//! Where a rank needs more room than its caller gives (partial sums, parts that it hands on, parts that do not
//! lie one after the other), the call goes through a workspace: at once segment by segment, in the
//! background as a whole.

use std::borrow::Cow;
use std::sync::Arc;

use super::Communicator;
use super::call::{Counts, RawCall};
use super::request::{Held, Move};
use super::work::{Ends, Places};
use super::world::Workspace;
use crate::collective::Collective;
use crate::engine::Source;
use crate::error::Result;
use crate::transport::Gait;
use crate::transport::memory::Memory;

/// The most bytes of working memory of a call at once that keeps its input.
pub const WORKSPACE: usize = 8 << 20;

/// A buffer of a caller's.
#[derive(Clone)]
pub(super) struct Given {
    pub source: Source,
    /// How many elements there are.
    pub elements: usize,
    /// Where each rank's part begins, in elements; `None` where they lie one after the other.
    pub places: Option<Arc<[usize]>>,
}

impl Given {
    fn memory(&self) -> &Memory {
        self.source.memory()
    }

    /// Where a share's part begins among all.
    fn begin(&self, share: &Share) -> usize {
        self.places.as_ref().map_or(share.part_at, |places| places[share.part])
    }
}

/// What a caller gives to one side of a call, input or output.
enum Side {
    Nothing,
    /// All parts.
    All(Given),
    /// This rank's part, by itself.
    Own(Given),
    /// This rank's part, in its place among all.
    OwnAmongAll(Given),
}

impl Side {
    /// Where a share lies on this side, if it does: in bytes.
    fn place(&self, share: &Share, me: usize, unit: usize) -> Option<(&Memory, usize)> {
        let (given, part_at) = match self {
            Side::All(all) => (all, all.begin(share)),
            Side::OwnAmongAll(all) if share.part == me => (all, all.begin(share)),
            Side::Own(own) if share.part == me => (own, 0),
            _ => return None,
        };
        Some((given.memory(), (part_at + share.skipped) * unit))
    }
}

/// How a call is carried out on what its caller gave.
enum Way {
    /// On the caller's memory, once some of it has been copied there.
    There {
        elements: usize,
        before: Option<Move>,
        ends: Ends<'static>,
        after: Option<Move>,
        copied: Option<Copied>,
    },
    /// In a workspace, which has all parts one after the other.
    Through { counts: Arc<[usize]>, input: Side, output: Side },
}

/// What goes out of a copy, as what comes in overwrites it.
struct Copied {
    workspace: Workspace,
    moves: Vec<Move>,
}

impl Way {
    /// In place on the output.
    fn on(output: Given, elements: usize, before: Option<Move>, after: Option<Move>) -> Way {
        let mut source = output.source;
        if let Source::Registered(region) = &mut source {
            region.is_rewritten |= before.is_some();
        }
        Way::There { elements, before, ends: Ends::one(Cow::Owned(source)), after, copied: None }
    }
}

impl Communicator {
    /// Makes a call at once on what its caller gave; see [`raw`](super::raw) for what that means.
    pub(super) fn between(&self, call: &RawCall, input: Option<Given>, output: Option<Given>) -> Result<()> {
        match self.way(call, input, output)? {
            Way::There { elements, before, ends, after, copied } => {
                let moves = copied.iter().flat_map(|copied| &copied.moves);
                before.iter().chain(moves).for_each(Move::make);
                self.carry_out(call, elements, ends)?;
                after.iter().for_each(Move::make);
                Ok(())
            }
            Way::Through { counts, input, output } => self.through_workspace(call, &counts, &input, &output),
        }
    }

    /// The same in the background.
    pub(super) fn between_later(
        &self,
        call: &RawCall,
        input: Option<Given>,
        output: Option<Given>,
        prepared: bool,
    ) -> Result<Held> {
        match self.way(call, input, output)? {
            Way::There { elements, before, ends, after, copied } => {
                let held = self.in_background(call, elements, ends, prepared)?;
                let (moves, workspace) = copied.map(|copied| (copied.moves, copied.workspace)).unzip();
                let before = before.into_iter().chain(moves.into_iter().flatten()).collect();
                Ok(held.with(before, after.into_iter().collect(), workspace))
            }
            Way::Through { counts, input, output } => {
                let workspace = self.world.workspace(counts.iter().sum::<usize>() * call.unit)?;
                let segment = self.segment(call, &counts, (0, 1), &workspace, &input, &output)?;
                let held = self.in_background(&segment.call, segment.elements, segment.ends, prepared)?;
                Ok(held.with(segment.before, segment.after, Some(workspace)))
            }
        }
    }

    fn way(&self, call: &RawCall, input: Option<Given>, output: Option<Given>) -> Result<Way> {
        use Collective::*;
        call.check(self.place)?;
        match call.collective {
            Broadcast | Allreduce => self.whole(call, input, output),
            Allgather | Allgatherv => self.gathered_by_all(call, input, output),
            Alltoall | Alltoallv => self.exchanged(call, input, output),
            Reduce => self.reduced(call, input, output),
            ReduceScatter | ReduceScatterBlock => self.reduced_by_parts(call, input, output),
            Scatter | Scatterv => self.scattered(call, input, output),
            Gather | Gatherv => self.gathered(call, input, output),
            other => Err(call.bad(format!("{} moves no memory", other.name()), "call it by its name")),
        }
    }

    /// One vector, which everybody has in the end.
    fn whole(&self, call: &RawCall, input: Option<Given>, output: Option<Given>) -> Result<Way> {
        let output = given(call, output, "output")?;
        let before = match &input {
            Some(input) => {
                same_length(call, input.elements, output.elements)?;
                Some(Move::part(&output.source, 0, &input.source, 0, call.bytes(input.elements)?))
            }
            None => None,
        };
        let elements = call.elements_of(output.elements, self.place)?;
        Ok(Way::on(output, elements, before, None))
    }

    fn gathered_by_all(&self, call: &RawCall, input: Option<Given>, output: Option<Given>) -> Result<Way> {
        let output = given(call, output, "output")?;
        let counts = self.counts(call, output.elements)?;
        let own = match input {
            Some(own) => self.own(call, &counts, own)?,
            None => Side::OwnAmongAll(output.clone()),
        };
        if output.places.is_some() {
            self.check_all(call, &counts, &output)?;
            return Ok(Way::Through { counts, input: own, output: Side::All(output) });
        }
        let elements = call.elements_of(output.elements, self.place)?;
        let before = match own {
            Side::Own(own) => {
                let to = counts[..self.rank() as usize].iter().sum::<usize>() * call.unit;
                Some(Move::part(&output.source, to, &own.source, 0, own.elements * call.unit))
            }
            _ => None,
        };
        Ok(Way::on(output, elements, before, None))
    }

    fn exchanged(&self, call: &RawCall, input: Option<Given>, output: Option<Given>) -> Result<Way> {
        let output = given(call, output, "output")?;
        let elements = self.exchanged_elements(call, input.as_ref().unwrap_or(&output), &output)?;
        let (input, copied) = match input {
            Some(input) => (input, None),
            None => {
                let (copy, copied) = self.copied(call, &output)?;
                (copy, Some(copied))
            }
        };
        let places = Places { sent: input.places, received: output.places };
        let ends = Ends { from: Cow::Owned(input.source), to: Some(Cow::Owned(output.source)), places };
        Ok(Way::There { elements, before: None, ends, after: None, copied })
    }

    /// A copy of what goes out in place: of no more of a window than the call has, and of parts without what is between them.
    fn copied(&self, call: &RawCall, all: &Given) -> Result<(Given, Copied)> {
        let parts = match (&call.counts, &all.places) {
            (Counts::Pairs(sent, _), Some(places)) => {
                places.iter().copied().zip(sent.iter().copied()).collect()
            }
            _ => vec![(0, all.elements)],
        };
        let elements = parts.iter().map(|(_, count)| count).sum();
        let workspace = self.world.workspace(call.bytes(elements)?)?;
        let (source, unit, mut at) = (workspace.source(), call.unit, 0);
        let mut moves = Vec::with_capacity(parts.len());
        for (place, count) in parts.into_iter().filter(|&(_, count)| count > 0) {
            moves.push(Move::part(&source, at * unit, &all.source, place * unit, count * unit));
            at += count;
        }
        Ok((Given { source, elements, places: None }, Copied { workspace, moves }))
    }

    /// How many elements go out and come in together.
    fn exchanged_elements(&self, call: &RawCall, input: &Given, output: &Given) -> Result<usize> {
        if call.collective == Collective::Alltoall {
            same_length(call, input.elements, output.elements)?;
        }
        let Counts::Pairs(sent, received) = &call.counts else {
            return call.elements_of(input.elements.saturating_add(output.elements), self.place);
        };
        let elements = call.elements_of(usize::MAX, self.place)?;
        self.check_all(call, sent, input)?;
        self.check_all(call, received, output)?;
        Ok(elements)
    }

    fn reduced(&self, call: &RawCall, input: Option<Given>, output: Option<Given>) -> Result<Way> {
        let output = if self.rank() == call.root { Some(given(call, output, "output")?) } else { None };
        let input = match (&output, input) {
            (Some(output), Some(input)) => {
                same_length(call, input.elements, output.elements)?;
                input
            }
            (Some(output), None) => output.clone(),
            (None, input) => given(call, input, "input")?,
        };
        let counts = [input.elements].into();
        Ok(Way::Through { counts, input: Side::All(input), output: output.map_or(Side::Nothing, Side::All) })
    }

    fn reduced_by_parts(&self, call: &RawCall, input: Option<Given>, output: Option<Given>) -> Result<Way> {
        let output = given(call, output, "output")?;
        let Some(input) = input else { return self.reduced_by_parts_in_place(call, output) };
        let counts = self.counts(call, input.elements)?;
        self.check_all(call, &counts, &input)?;
        let output = self.own(call, &counts, output)?;
        Ok(Way::Through { counts, input: Side::All(input), output })
    }

    /// The part goes to the front, as MPI has it.
    fn reduced_by_parts_in_place(&self, call: &RawCall, output: Given) -> Result<Way> {
        let counts = self.counts(call, output.elements)?;
        let elements = call.elements_of(output.elements, self.place)?;
        let me = self.rank() as usize;
        let (from, len) = (counts[..me].iter().sum::<usize>() * call.unit, counts[me] * call.unit);
        let after = Some(Move::part(&output.source, 0, &output.source, from, len));
        Ok(Way::on(output, elements, None, after))
    }

    fn scattered(&self, call: &RawCall, input: Option<Given>, output: Option<Given>) -> Result<Way> {
        let root = self.rank() == call.root;
        let own = output.as_ref().map(|own| own.elements);
        let input = if root { Some(given(call, input, "input")?) } else { None };
        let counts = self.counts_by(call, own, input.as_ref().map(|all| all.elements))?;
        let input = match input {
            Some(all) => {
                self.check_all(call, &counts, &all)?;
                Side::All(all)
            }
            None => Side::Nothing,
        };
        let output = match output {
            Some(own) => self.own(call, &counts, own)?,
            None if root => Side::Nothing,
            None => Side::Own(given(call, None, "output")?),
        };
        Ok(Way::Through { counts, input, output })
    }

    fn gathered(&self, call: &RawCall, input: Option<Given>, output: Option<Given>) -> Result<Way> {
        let root = self.rank() == call.root;
        let own = input.as_ref().map(|own| own.elements);
        let output = if root { Some(given(call, output, "output")?) } else { None };
        let counts = self.counts_by(call, own, output.as_ref().map(|all| all.elements))?;
        let input = match (input, &output) {
            (Some(own), _) => self.own(call, &counts, own)?,
            (None, Some(all)) => Side::OwnAmongAll(all.clone()),
            (None, None) => Side::Own(given(call, None, "input")?),
        };
        let output = match output {
            Some(all) => {
                self.check_all(call, &counts, &all)?;
                Side::All(all)
            }
            None => Side::Nothing,
        };
        Ok(Way::Through { counts, input, output })
    }

    /// Each rank's count, where all parts have `all` elements.
    fn counts(&self, call: &RawCall, all: usize) -> Result<Arc<[usize]>> {
        match &call.counts {
            Counts::Each(counts) => {
                call.elements_of(usize::MAX, self.place)?;
                Ok(Arc::clone(counts))
            }
            _ => {
                let all = call.elements_of(all, self.place)?;
                Ok(self.equal(all / self.size() as usize))
            }
        }
    }

    /// The same, where only this rank's part may be given.
    fn counts_by(&self, call: &RawCall, own: Option<usize>, all: Option<usize>) -> Result<Arc<[usize]>> {
        let all = own.map(|own| own.saturating_mul(self.size() as usize)).or(all);
        self.counts(call, all.unwrap_or(0))
    }

    fn equal(&self, count: usize) -> Arc<[usize]> {
        std::iter::repeat_n(count, self.size() as usize).collect()
    }

    fn own(&self, call: &RawCall, counts: &[usize], own: Given) -> Result<Side> {
        same_length(call, counts[self.rank() as usize], own.elements)?;
        Ok(Side::Own(own))
    }

    /// Fails unless the parts fit where they are said to lie.
    fn check_all(&self, call: &RawCall, counts: &[usize], all: &Given) -> Result<()> {
        let Some(places) = &all.places else {
            return same_length(call, counts.iter().sum(), all.elements);
        };
        if places.len() != counts.len() {
            let what = format!("{} displacements for {} ranks", places.len(), counts.len());
            return Err(call.bad(what, "give one for each rank"));
        }
        let end = |rank: usize| places[rank].checked_add(counts[rank]);
        let beyond = |&rank: &usize| counts[rank] > 0 && end(rank).is_none_or(|end| end > all.elements);
        (0..counts.len()).find(beyond).map_or(Ok(()), |rank| {
            let (count, place) = (counts[rank], places[rank]);
            let what = format!("rank {rank}'s {count} elements at {place} of a buffer of {}", all.elements);
            Err(call.bad(what, "give a displacement that leaves room for the count"))
        })
    }

    /// Copies the input into a workspace, calls in place there, and copies the output out of it: as often as
    /// it takes, each time with a segment of each part.
    fn through_workspace(&self, call: &RawCall, counts: &[usize], input: &Side, output: &Side) -> Result<()> {
        let total: usize = counts.iter().sum();
        let segments = segments(call.collective, total * call.unit);
        let most: usize = counts.iter().map(|count| count.div_ceil(segments)).sum();
        let workspace = self.world.workspace(most * call.unit)?;
        for segment in 0..segments {
            let made =
                self.segment(call, counts, (segment, segments), &workspace, input, output).and_then(|one| {
                    one.before.iter().for_each(Move::make);
                    self.carry_out(&one.call, one.elements, one.ends)?;
                    one.after.iter().for_each(Move::make);
                    Ok(())
                });
            match made {
                // The others are amid the call, which this rank cannot take up again.
                Err(error) if segment > 0 => return Err(self.give_up(error)),
                made => made?,
            }
        }
        Ok(())
    }

    /// A segment of a call through a workspace.
    fn segment(
        &self,
        call: &RawCall,
        counts: &[usize],
        (segment, segments): (usize, usize),
        workspace: &Workspace,
        input: &Side,
        output: &Side,
    ) -> Result<Segment> {
        let (unit, me) = (call.unit, self.rank() as usize);
        let room = &workspace.region.memory;
        let shares = shares(counts, segment, segments);
        let moves = |side: &Side, act: &dyn Fn(&Share, &Memory, usize) -> Move| {
            let move_of = |share| side.place(share, me, unit).map(|(memory, at)| act(share, memory, at));
            shares.iter().filter(|share| share.len > 0).filter_map(move_of).collect::<Vec<_>>()
        };
        let into = |share: &Share, memory: &Memory, at: usize| Move {
            source: memory.clone(),
            from: at,
            target: room.clone(),
            to: share.at * unit,
            len: share.len * unit,
            gait: Gait::Straight,
        };
        let out_of = |share: &Share, memory: &Memory, at: usize| Move {
            source: room.clone(),
            from: share.at * unit,
            target: memory.clone(),
            to: at,
            len: share.len * unit,
            gait: Gait::Straight,
        };
        let lengths: Vec<usize> = shares.iter().map(|share| share.len).collect();
        let one = if segments == 1 { call.clone() } else { call.segment(&lengths) };
        let elements = one.elements_of(lengths.iter().sum(), self.place)?;
        let ends = Ends::one(Cow::Owned(workspace.source()));
        Ok(Segment { call: one, elements, ends, before: moves(input, &into), after: moves(output, &out_of) })
    }
}

/// A call in a workspace, and what is copied before and after.
struct Segment {
    call: RawCall,
    elements: usize,
    ends: Ends<'static>,
    before: Vec<Move>,
    after: Vec<Move>,
}

/// What a segment has of a part, in elements.
struct Share {
    part: usize,
    /// Where the part begins among all parts.
    part_at: usize,
    /// How much of the part comes before.
    skipped: usize,
    len: usize,
    /// Where it lies in the workspace, behind the shares of the parts before.
    at: usize,
}

/// A segment's share of every part: as much of each as of the others.
fn shares(counts: &[usize], segment: usize, segments: usize) -> Vec<Share> {
    let (mut part_at, mut at) = (0, 0);
    let share = |(part, &count): (usize, &usize)| {
        let cut = |i: usize| (count as u128 * i as u128 / segments as u128) as usize;
        let (skipped, len) = (cut(segment), cut(segment + 1) - cut(segment));
        let share = Share { part, part_at, skipped, len, at };
        (part_at, at) = (part_at + count, at + len);
        share
    };
    counts.iter().enumerate().map(share).collect()
}

fn given(call: &RawCall, side: Option<Given>, which: &str) -> Result<Given> {
    side.ok_or_else(|| call.bad(format!("no {which}"), format!("give this rank's {which}")))
}

/// How many segments a call of so many bytes goes in that needs a workspace.
pub(super) fn segments(collective: Collective, bytes: usize) -> usize {
    if may_go_straight(collective) { 1 } else { bytes.div_ceil(WORKSPACE).max(1) }
}

/// Whether other ranks may make the same call without a workspace, as their parts lie side by side, which is nobody
/// else's concern: then it is one call everywhere.
fn may_go_straight(collective: Collective) -> bool {
    collective == Collective::Allgatherv
}

fn same_length(call: &RawCall, expected: usize, found: usize) -> Result<()> {
    match expected == found {
        true => Ok(()),
        false => Err(call.bad(
            format!("a buffer of {found} elements where {expected} belong"),
            "give buffers as long as the counts and the other buffer say",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_have_every_element_of_every_part_once() {
        let counts = [5, 0, 1, 12];
        for segments in 1..8 {
            let mut taken = [0; 4];
            for segment in 0..segments {
                let mut at = 0;
                for share in shares(&counts, segment, segments) {
                    let part_at: usize = counts[..share.part].iter().sum();
                    assert_eq!((share.part_at, share.skipped, share.at), (part_at, taken[share.part], at));
                    assert!(share.len <= counts[share.part].div_ceil(segments));
                    taken[share.part] += share.len;
                    at += share.len;
                }
            }
            assert_eq!(taken, counts);
        }
    }
}
