//! The collectives by name, on slices, as MPI has them: what goes in is kept, what comes out is another slice.
//!
//! Where a rank needs more room than its caller gives (partial sums, parts that it hands on), the call goes
//! segment by segment through a workspace of at most [`WORKSPACE`](super::sides::WORKSPACE) bytes, whatever the size. The forms in
//! place, [`Communicator::run`], need none.

use super::Communicator;
use super::call::Call;
use super::lent::Lent;
use super::sides::Given;
use crate::error::Result;
use crate::fold::Operator;
use crate::fold::element::Element;
use crate::rank::Rank;

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
        let output = (self.rank() == root).then_some(output);
        self.named(Call::reduce(root, operator), Some(input), output)
    }

    /// Combines all ranks' `input`, element by element, into everybody's `output`: bit for bit the same on all.
    pub fn allreduce<T: Element>(
        &self,
        input: &[T],
        output: &mut [T],
        operator: impl Operator<T> + 'static,
    ) -> Result<()> {
        self.named(Call::allreduce(operator), Some(input), Some(output))
    }

    /// Gathers every rank's `own` part, all of one length, into everybody's `all`, in rank order.
    pub fn allgather<T: Element>(&self, own: &[T], all: &mut [T]) -> Result<()> {
        self.named(Call::allgather(), Some(own), Some(all))
    }

    /// The same with parts of unequal lengths: rank `r`'s has `counts[r]` elements.
    pub fn allgatherv<T: Element>(&self, own: &[T], all: &mut [T], counts: &[usize]) -> Result<()> {
        self.named(Call::allgatherv(counts), Some(own), Some(all))
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
        self.named(Call::reduce_scatter(counts, operator), Some(input), Some(own))
    }

    /// The same with parts of one length, that of `own`.
    pub fn reduce_scatter_block<T: Element>(
        &self,
        input: &[T],
        own: &mut [T],
        operator: impl Operator<T> + 'static,
    ) -> Result<()> {
        self.named(Call::reduce_scatter_block(operator), Some(input), Some(own))
    }

    /// Sends each rank its part of the root's `all`, all of one length, that of `own`. Other ranks may leave
    /// `all` empty.
    pub fn scatter<T: Element>(&self, all: &[T], own: &mut [T], root: Rank) -> Result<()> {
        self.named(Call::scatter(root), (self.rank() == root).then_some(all), Some(own))
    }

    /// The same with parts of unequal lengths: rank `r`'s has `counts[r]` elements. All ranks give all counts.
    pub fn scatterv<T: Element>(&self, all: &[T], own: &mut [T], counts: &[usize], root: Rank) -> Result<()> {
        self.named(Call::scatterv(counts, root), (self.rank() == root).then_some(all), Some(own))
    }

    /// Gathers every rank's `own` part, all of one length, into the root's `all`. Other ranks may leave `all`
    /// empty.
    pub fn gather<T: Element>(&self, own: &[T], all: &mut [T], root: Rank) -> Result<()> {
        self.named(Call::gather(root), Some(own), (self.rank() == root).then_some(all))
    }

    /// The same with parts of unequal lengths: rank `r`'s has `counts[r]` elements. All ranks give all counts.
    pub fn gatherv<T: Element>(&self, own: &[T], all: &mut [T], counts: &[usize], root: Rank) -> Result<()> {
        self.named(Call::gatherv(counts, root), Some(own), (self.rank() == root).then_some(all))
    }

    /// From every rank a part for every rank, all of one length: part `t` of rank `s`'s `outgoing` becomes
    /// part `s` of rank `t`'s `incoming`.
    pub fn alltoall<T: Element>(&self, outgoing: &[T], incoming: &mut [T]) -> Result<()> {
        self.named(Call::alltoall(), Some(outgoing), Some(incoming))
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
        self.named(Call::alltoallv(sent, received), Some(outgoing), Some(incoming))
    }

    fn named<T: Element>(&self, call: Call<T>, input: Option<&[T]>, output: Option<&mut [T]>) -> Result<()> {
        let (from, into) = (input.map(<[T]>::len), output.as_ref().map(|output| output.len()));
        // SAFETY: nobody writes these bytes: a call puts from its input and copies it, and lets peers put into its
        //         output alone (sides)
        let input = input.map(|input| unsafe { Lent::shared(input, &self.world) });
        let output = output.map(|output| Lent::new(output, &self.world));
        let given = |lent: &Option<Lent<'_>>, elements: Option<usize>| {
            let (source, elements) = (lent.as_ref()?.source(), elements?);
            Some(Given { source: source.clone(), elements, places: None })
        };
        let done = self.between(&call.raw, given(&input, from), given(&output, into));
        let checked = output.map_or(Ok(()), |output| output.check::<T>());
        done.and(checked)
    }
}
