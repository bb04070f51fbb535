//! The collectives by name, on slices, as MPI has them: what goes in is kept, what comes out is another slice.
//!
//! Where a rank needs more room than its caller gives (partial sums, parts that it hands on), the call goes
//! segment by segment through a workspace of at most [`WORKSPACE`] bytes, whatever the size. The forms in
//! place, [`Communicator::run`], need none.

use std::ops::Deref;

use super::Communicator;
use super::call::{Call, part_of};
use super::lent::Lent;
use super::work::Ends;
use crate::engine::Source;
use crate::error::Result;
use crate::fold::Operator;
use crate::fold::element::Element;
use crate::rank::Rank;
use crate::select::SMALL;

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
        let short = size_of_val(input) as u64 <= SMALL;
        if self.rank() != root {
            // Partial sums of a short vector need no registered memory.
            if short {
                return self.run(&mut input.to_vec(), call);
            }
            return self.through_workspace(&call, &[input.len()], Side::All(input), Side::Nothing);
        }
        same_length(&call, input.len(), output.len())?;
        if short {
            output.copy_from_slice(input);
            return self.run(output, call);
        }
        self.through_workspace(&call, &[input.len()], Side::All(input), Side::All(output))
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
        self.by_parts(&call, counts, Side::All(input), Side::Own(own))
    }

    /// The same with parts of one length, that of `own`.
    pub fn reduce_scatter_block<T: Element>(
        &self,
        input: &[T],
        own: &mut [T],
        operator: impl Operator<T> + 'static,
    ) -> Result<()> {
        let (call, counts) = (Call::reduce_scatter_block(operator), self.equal(own.len()));
        self.by_parts(&call, &counts, Side::All(input), Side::Own(own))
    }

    /// Sends each rank its part of the root's `all`, all of one length, that of `own`. Other ranks may leave
    /// `all` empty.
    pub fn scatter<T: Element>(&self, all: &[T], own: &mut [T], root: Rank) -> Result<()> {
        let (call, counts) = (Call::scatter(root), self.equal(own.len()));
        self.by_parts(&call, &counts, self.at_root(all, root), Side::Own(own))
    }

    /// The same with parts of unequal lengths: rank `r`'s has `counts[r]` elements. All ranks give all counts.
    pub fn scatterv<T: Element>(&self, all: &[T], own: &mut [T], counts: &[usize], root: Rank) -> Result<()> {
        self.by_parts(&Call::scatterv(counts, root), counts, self.at_root(all, root), Side::Own(own))
    }

    /// Gathers every rank's `own` part, all of one length, into the root's `all`. Other ranks may leave `all`
    /// empty.
    pub fn gather<T: Element>(&self, own: &[T], all: &mut [T], root: Rank) -> Result<()> {
        let (call, counts) = (Call::gather(root), self.equal(own.len()));
        self.by_parts(&call, &counts, Side::Own(own), self.at_root(all, root))
    }

    /// The same with parts of unequal lengths: rank `r`'s has `counts[r]` elements. All ranks give all counts.
    pub fn gatherv<T: Element>(&self, own: &[T], all: &mut [T], counts: &[usize], root: Rank) -> Result<()> {
        self.by_parts(&Call::gatherv(counts, root), counts, Side::Own(own), self.at_root(all, root))
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
        // SAFETY: nobody writes these bytes: the call puts from this memory, and lets peers put into the other
        let from = unsafe { Lent::shared(outgoing, &self.world) };
        let into = Lent::new(incoming, &self.world);
        let ends = Ends { from: from.source(), to: Some(into.source()) };
        let done = self.carry_out(call, elements, ends);
        let checked = into.check::<T>();
        done.and(checked)
    }

    fn at_root<S>(&self, all: S, root: Rank) -> Side<S> {
        if self.rank() == root { Side::All(all) } else { Side::Nothing }
    }

    fn equal(&self, count: usize) -> Vec<usize> {
        vec![count; self.size() as usize]
    }

    /// A call on parts, once the lengths have been checked.
    fn by_parts<T: Element>(
        &self,
        call: &Call<T>,
        counts: &[usize],
        input: Side<&[T]>,
        output: Side<&mut [T]>,
    ) -> Result<()> {
        let total = call.segment(counts).elements_of(usize::MAX, self.place)?;
        let own = counts[self.rank() as usize];
        input.check_length(call, total, own)?;
        output.check_length(call, total, own)?;
        self.through_workspace(call, counts, input, output)
    }

    /// Copies the input into a workspace, calls in place there, and copies the output out of it: as often as
    /// it takes, each time with a segment of each part.
    fn through_workspace<T: Element>(
        &self,
        call: &Call<T>,
        counts: &[usize],
        input: Side<&[T]>,
        output: Side<&mut [T]>,
    ) -> Result<()> {
        let unit = size_of::<T>();
        let total: usize = counts.iter().sum();
        let segments = (total * unit).div_ceil(WORKSPACE).max(1);
        let most: usize = counts.iter().map(|count| count.div_ceil(segments)).sum();
        let workspace = self.world.workspace(most * unit)?;
        let room = &workspace.region.memory;
        let (me, output) = (self.rank() as usize, output.map(|output| Lent::new(output, &self.world)));
        for segment in 0..segments {
            let shares = shares(counts, segment, segments);
            for share in &shares {
                if let Some((elements, from)) = input.place(share, me) {
                    room.write(share.at * unit, bytemuck::cast_slice(&elements[from..from + share.len]));
                }
            }
            let lengths: Vec<usize> = shares.iter().map(|share| share.len).collect();
            let call = if segments == 1 { call.clone() } else { call.segment(&lengths) };
            let elements = call.elements_of(lengths.iter().sum(), self.place)?;
            self.at_once(&call, elements, Source::Registered(workspace.region.clone()))?;
            for share in &shares {
                if let Some((lent, to)) = output.place(share, me) {
                    lent.memory.copy(to * unit, room, share.at * unit, share.len * unit);
                }
            }
        }
        output.slice().map_or(Ok(()), Lent::check::<T>)
    }
}

/// What a caller gives to one side of a call, input or output.
enum Side<S> {
    Nothing,
    /// All parts, one after the other.
    All(S),
    /// This rank's part.
    Own(S),
}

impl<S> Side<S> {
    fn map<R>(self, change: impl FnOnce(S) -> R) -> Side<R> {
        match self {
            Side::Nothing => Side::Nothing,
            Side::All(all) => Side::All(change(all)),
            Side::Own(own) => Side::Own(change(own)),
        }
    }

    fn slice(&self) -> Option<&S> {
        match self {
            Side::Nothing => None,
            Side::All(slice) | Side::Own(slice) => Some(slice),
        }
    }

    /// The slice that has a share, if this side does, and where the share begins in it.
    fn place(&self, share: &Share, me: usize) -> Option<(&S, usize)> {
        match self {
            Side::All(all) => Some((all, share.part_at + share.skipped)),
            Side::Own(own) if share.part == me => Some((own, share.skipped)),
            Side::Own(_) | Side::Nothing => None,
        }
    }

    /// Fails unless it is as long as all parts, or this rank's own.
    fn check_length<T: Element>(&self, call: &Call<T>, total: usize, own: usize) -> Result<()>
    where
        S: Deref<Target = [T]>,
    {
        match self {
            Side::Nothing => Ok(()),
            Side::All(all) => same_length(call, total, all.len()),
            Side::Own(part) => same_length(call, own, part.len()),
        }
    }
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

fn same_length<T: Element>(call: &Call<T>, expected: usize, found: usize) -> Result<()> {
    match expected == found {
        true => Ok(()),
        false => Err(call.bad(
            format!("a slice of {found} elements where {expected} belong"),
            "give slices as long as the counts and the other slice say",
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
