//! The collectives by name, on slices, as MPI has them: what goes in is kept, what comes out is another slice.
//!
//! Where a rank needs more room than its caller gives (partial sums, parts that it hands on), the call goes
//! segment by segment through a workspace of at most [`WORKSPACE`] bytes, whatever the size. The forms in
//! place, [`Communicator::run`], need none.

use std::ops::Range;
use std::ptr::NonNull;

use super::world::World;
use super::{Call, Communicator, Ends, Lent, window};
use crate::engine::Source;
use crate::error::{Error, Result};
use crate::fold::Operator;
use crate::fold::element::Element;
use crate::rank::Rank;
use crate::transport::memory::Memory;

/// The most bytes of working memory of a call that keeps its input.
pub const WORKSPACE: usize = 8 << 20;

impl Communicator {
    /// Sends the root's elements to all ranks. `data` has the same length on all ranks.
    ///
    /// `n - 1 + ⌈log₂ p⌉` rounds for n blocks (Träff, doi:10.1145/3735139); see [`run`](Self::run) for memory and errors.
    pub fn broadcast<T: Element>(&self, data: &mut [T], root: Rank) -> Result<()> {
        self.run(data, Call::broadcast(root))
    }

    /// Combines all ranks' `input`, element by element, into the root's `output`, which other ranks may
    /// leave empty.
    pub fn reduce<T: Element>(
        &self,
        input: &[T],
        output: &mut [T],
        operator: impl Operator<T> + 'static,
        root: Rank,
    ) -> Result<()> {
        let call = Call::reduce(root, operator);
        if self.rank() != root {
            return self.through_workspace(&call, &[input.len()], Input::All(input), Output::Nothing);
        }
        same_length(&call, input.len(), output.len())?;
        self.through_workspace(&call, &[input.len()], Input::All(input), Output::All(output))
    }

    /// Combines all ranks' `input`, element by element, into everybody's `output`: bit for bit the same on all.
    pub fn allreduce<T: Element>(
        &self,
        input: &[T],
        output: &mut [T],
        operator: impl Operator<T> + 'static,
    ) -> Result<()> {
        let call = Call::allreduce(operator);
        same_length(&call, input.len(), output.len())?;
        output.copy_from_slice(input);
        self.run(output, call)
    }

    /// Gathers every rank's `own` part, all of one length, into everybody's `all`, in rank order.
    pub fn allgather<T: Element>(&self, own: &[T], all: &mut [T]) -> Result<()> {
        let call = Call::allgather();
        same_length(&call, own.len().saturating_mul(self.size() as usize), all.len())?;
        let start = own.len() * self.rank() as usize;
        all[start..start + own.len()].copy_from_slice(own);
        self.run(all, call)
    }

    /// The same with parts of unequal lengths: rank `r`'s has `counts[r]` elements.
    pub fn allgatherv<T: Element>(&self, own: &[T], all: &mut [T], counts: &[usize]) -> Result<()> {
        let call = Call::allgatherv(counts);
        let total = call.elements_of(all.len(), self.place)?;
        let part = part_of(counts, self.rank());
        same_length(&call, own.len(), part.len())?;
        all[part].copy_from_slice(own);
        self.run(&mut all[..total], call)
    }

    /// Combines all ranks' `input`, element by element; rank `r` gets the `counts[r]` elements that are its
    /// part, in `own`.
    pub fn reduce_scatter<T: Element>(
        &self,
        input: &[T],
        own: &mut [T],
        counts: &[usize],
        operator: impl Operator<T> + 'static,
    ) -> Result<()> {
        let call = Call::reduce_scatter(counts, operator);
        self.by_parts(&call, counts, Input::All(input), Output::Own(own))
    }

    /// The same with parts of one length, that of `own`.
    pub fn reduce_scatter_block<T: Element>(
        &self,
        input: &[T],
        own: &mut [T],
        operator: impl Operator<T> + 'static,
    ) -> Result<()> {
        let (call, counts) = (Call::reduce_scatter_block(operator), self.equal(own.len()));
        self.by_parts(&call, &counts, Input::All(input), Output::Own(own))
    }

    /// Sends each rank its part of the root's `all`, all of one length, that of `own`. Other ranks may leave
    /// `all` empty.
    pub fn scatter<T: Element>(&self, all: &[T], own: &mut [T], root: Rank) -> Result<()> {
        let (call, counts) = (Call::scatter(root), self.equal(own.len()));
        self.by_parts(&call, &counts, self.at_root(all, root), Output::Own(own))
    }

    /// The same with parts of unequal lengths: rank `r`'s has `counts[r]` elements. All ranks give all counts.
    pub fn scatterv<T: Element>(&self, all: &[T], own: &mut [T], counts: &[usize], root: Rank) -> Result<()> {
        self.by_parts(&Call::scatterv(counts, root), counts, self.at_root(all, root), Output::Own(own))
    }

    /// Gathers every rank's `own` part, all of one length, into the root's `all`. Other ranks may leave `all`
    /// empty.
    pub fn gather<T: Element>(&self, own: &[T], all: &mut [T], root: Rank) -> Result<()> {
        let (call, counts) = (Call::gather(root), self.equal(own.len()));
        let output = if self.rank() == root { Output::All(all) } else { Output::Nothing };
        self.by_parts(&call, &counts, Input::Own(own), output)
    }

    /// The same with parts of unequal lengths: rank `r`'s has `counts[r]` elements. All ranks give all counts.
    pub fn gatherv<T: Element>(&self, own: &[T], all: &mut [T], counts: &[usize], root: Rank) -> Result<()> {
        let output = if self.rank() == root { Output::All(all) } else { Output::Nothing };
        self.by_parts(&Call::gatherv(counts, root), counts, Input::Own(own), output)
    }

    /// From every rank a part for every rank, all of one length: part `t` of rank `s`'s `outgoing` becomes
    /// part `s` of rank `t`'s `incoming`.
    pub fn alltoall<T: Element>(&self, outgoing: &[T], incoming: &mut [T]) -> Result<()> {
        let call = Call::alltoall();
        same_length(&call, outgoing.len(), incoming.len())?;
        self.exchange(&call, outgoing, incoming)
    }

    /// The same with parts of unequal lengths: `sent[r]` elements go to rank `r`, `received[r]` come from
    /// it, one part after the other.
    pub fn alltoallv<T: Element>(
        &self,
        outgoing: &[T],
        sent: &[usize],
        incoming: &mut [T],
        received: &[usize],
    ) -> Result<()> {
        let call = Call::alltoallv(sent, received);
        call.elements_of(outgoing.len().saturating_add(incoming.len()), self.place)?;
        same_length(&call, sent.iter().sum(), outgoing.len())?;
        same_length(&call, received.iter().sum(), incoming.len())?;
        self.exchange(&call, outgoing, incoming)
    }

    /// An all-to-all from one slice into another.
    fn exchange<T: Element>(&self, call: &Call<T>, outgoing: &[T], incoming: &mut [T]) -> Result<()> {
        let elements = call.elements_of(outgoing.len().saturating_add(incoming.len()), self.place)?;
        let decision = self.decide(call, elements)?;
        let (start, bytes) = (NonNull::from(outgoing).cast::<u8>(), size_of_val(outgoing));
        // SAFETY: - the bytes are `outgoing`'s, which is borrowed until this function returns, and its last
        //           holder is the call, which ends before (`into`, dropped after it, sees to that)
        //         - nobody writes them: the call puts from this memory, and lets peers put into the other only
        let from = unsafe { Memory::lend(start, bytes) };
        let into = Lent::new(incoming, &self.world);
        let done = if decision.entry.relays() {
            self.hand_on(call, &decision, elements, (&from, 0), (&into.memory, 0))
        } else {
            let lent = |memory: &Memory| Source::Unregistered(memory.clone());
            let ends = Ends { from: lent(&from), to: Some(lent(&into.memory)) };
            self.held(call, &decision, elements, ends, false).and_then(|held| held.run())
        };
        let checked = window::check::<T>(&into.memory);
        if from.holders() > 1 {
            let error = Error::transport("alltoall", "it was cut off", "see the first error");
            self.world.engine().shut_down(error);
        }
        done.and(checked)
    }

    fn at_root<'a, T>(&self, all: &'a [T], root: Rank) -> Input<'a, T> {
        if self.rank() == root { Input::All(all) } else { Input::Nothing }
    }

    fn equal(&self, count: usize) -> Vec<usize> {
        vec![count; self.size() as usize]
    }

    /// A call on parts, once the lengths have been checked.
    fn by_parts<T: Element>(
        &self,
        call: &Call<T>,
        counts: &[usize],
        input: Input<'_, T>,
        output: Output<'_, T>,
    ) -> Result<()> {
        let total = call.segment(counts).elements_of(usize::MAX, self.place)?;
        let own = counts[self.rank() as usize];
        if let Some(length) = input.length() {
            same_length(call, if matches!(input, Input::All(_)) { total } else { own }, length)?;
        }
        if let Some(length) = output.length() {
            same_length(call, if matches!(output, Output::All(_)) { total } else { own }, length)?;
        }
        self.through_workspace(call, counts, input, output)
    }

    /// Copies the input into a workspace, calls in place there, and copies the output out of it: as often as
    /// it takes, each time with a segment of each part.
    fn through_workspace<T: Element>(
        &self,
        call: &Call<T>,
        counts: &[usize],
        input: Input<'_, T>,
        output: Output<'_, T>,
    ) -> Result<()> {
        let unit = size_of::<T>();
        let total: usize = counts.iter().sum();
        let segments = (total * unit).div_ceil(WORKSPACE).max(1);
        let most: usize = counts.iter().map(|count| count.div_ceil(segments)).sum();
        let workspace = self.world.workspace(most * unit)?;
        let room = &workspace.region.memory;
        let (me, mut output) = (self.rank() as usize, output.lent(&self.world));
        for segment in 0..segments {
            let taken = |count: &usize| {
                let at = |i: usize| (*count as u128 * i as u128 / segments as u128) as usize;
                at(segment)..at(segment + 1)
            };
            let ranges: Vec<Range<usize>> = counts.iter().map(taken).collect();
            let lengths: Vec<usize> = ranges.iter().map(Range::len).collect();
            let (mut at, mut part_at) = (0, 0);
            for (part, range) in ranges.iter().enumerate() {
                if let Some(elements) = input.elements(part, part_at, range, me) {
                    room.write(at * unit, bytemuck::cast_slice(elements));
                }
                (at, part_at) = (at + range.len(), part_at + counts[part]);
            }
            let call = if segments == 1 { call.clone() } else { call.segment(&lengths) };
            let elements = call.elements_of(at, self.place)?;
            self.at_once(&call, elements, Source::Registered(workspace.region.clone()))?;
            let (mut at, mut part_at) = (0, 0);
            for (part, range) in ranges.iter().enumerate() {
                output.take(part, part_at, range, me, room, at, unit);
                (at, part_at) = (at + range.len(), part_at + counts[part]);
            }
        }
        output.check::<T>()
    }
}

/// What goes in, of some parts.
enum Input<'a, T> {
    Nothing,
    /// All parts, one after the other.
    All(&'a [T]),
    /// This rank's.
    Own(&'a [T]),
}

impl<'a, T> Input<'a, T> {
    fn length(&self) -> Option<usize> {
        match self {
            Input::Nothing => None,
            Input::All(all) | Input::Own(all) => Some(all.len()),
        }
    }

    /// A range of a part that begins at `start` of all.
    fn elements(&self, part: usize, start: usize, range: &Range<usize>, me: usize) -> Option<&'a [T]> {
        match self {
            Input::All(all) => Some(&all[start + range.start..start + range.end]),
            Input::Own(own) if part == me => Some(&own[range.clone()]),
            Input::Own(_) | Input::Nothing => None,
        }
    }
}

/// What comes out, of some parts.
enum Output<'a, T> {
    Nothing,
    /// All parts, one after the other.
    All(&'a mut [T]),
    /// This rank's.
    Own(&'a mut [T]),
}

impl<'a, T: Element> Output<'a, T> {
    fn length(&self) -> Option<usize> {
        match self {
            Output::Nothing => None,
            Output::All(all) | Output::Own(all) => Some(all.len()),
        }
    }

    fn lent(self, world: &'a World) -> Room<'a> {
        match self {
            Output::Nothing => Room::Nothing,
            Output::All(all) => Room::All(Lent::new(all, world)),
            Output::Own(own) => Room::Own(Lent::new(own, world)),
        }
    }
}

/// The bytes of an output.
enum Room<'a> {
    Nothing,
    All(Lent<'a>),
    Own(Lent<'a>),
}

impl Room<'_> {
    #[allow(clippy::too_many_arguments)]
    fn take(
        &mut self,
        part: usize,
        start: usize,
        range: &Range<usize>,
        me: usize,
        from: &Memory,
        at: usize,
        unit: usize,
    ) {
        let (lent, to) = match self {
            Room::All(lent) => (lent, start + range.start),
            Room::Own(lent) if part == me => (lent, range.start),
            Room::Own(_) | Room::Nothing => return,
        };
        lent.memory.copy(to * unit, from, at * unit, range.len() * unit);
    }

    fn check<T: Element>(&self) -> Result<()> {
        match self {
            Room::All(lent) | Room::Own(lent) => window::check::<T>(&lent.memory),
            Room::Nothing => Ok(()),
        }
    }
}

fn part_of(counts: &[usize], rank: Rank) -> Range<usize> {
    let start: usize = counts[..rank as usize].iter().sum();
    start..start + counts[rank as usize]
}

fn same_length<T: Element>(call: &Call<T>, expected: usize, found: usize) -> Result<()> {
    match expected == found {
        true => Ok(()),
        false => Err(call.bad(
            format!("a slice of {found} elements where {expected} belong"),
            "give slices as long as the counts and the other slice say",
        )),
    }
}
