//! What a collective call is to do, in one description for all three tenses.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::collective::Collective;
use crate::engine::notice::MAX_BLOCKS;
use crate::error::{Error, Result};
use crate::fold::element::Element;
use crate::fold::{self, AnyFold, Operator};
use crate::rank::{Place, Rank};

/// A collective call, described: what, from or to whom, which parts, by which operator; and, where one
/// wants to say so, by which algorithm and in how many blocks.
///
/// It works in place, on one buffer of all elements that it is about:
///
/// | call | before | after |
/// |---|---|---|
/// | broadcast | the root's whole buffer | everybody's |
/// | reduce | everybody's whole buffer | the root's; the others' is used up |
/// | allreduce | everybody's | everybody's |
/// | allgather(v) | each rank's part `r` | all parts at all |
/// | reduce_scatter(_block) | everybody's | part `r` of each rank; the rest is used up |
/// | scatter(v) | the root's | part `r` of each rank; others may have been used |
/// | gather(v) | each rank's part `r` | the root's; the others' may have been used |
/// | alltoall(v) | the first half: a part for each rank | the second half: a part from each rank |
///
/// ```
/// # use circulant::comm::{Communicator, Call};
/// # use circulant::fold::Sum;
/// # fn main() -> circulant::error::Result<()> {
/// # let comm = &Communicator::loopback(1, 0)?[0];
/// let mut data = [1.0, 2.0];
/// comm.run(&mut data, Call::allreduce(Sum))?;
/// comm.run(&mut data, Call::allreduce(Sum).algorithm("ring"))?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Call<T> {
    pub(super) raw: RawCall,
    element: PhantomData<fn(T)>,
}

/// A [`Call`], or a reference to one that is made again and again: its operator and counts have memory of their own, which
/// is then asked for once.
///
/// ```
/// # use circulant::comm::{Communicator, Call};
/// # use circulant::fold::Max;
/// # fn main() -> circulant::error::Result<()> {
/// # let comm = &Communicator::loopback(1, 0)?[0];
/// let largest = Call::allreduce(Max);
/// for step in 0..10 {
///     comm.run(&mut [step], &largest)?;
/// }
/// # Ok(())
/// # }
/// ```
pub trait AsCall<T>: sealed::Sealed {
    /// The call.
    fn as_call(&self) -> &Call<T>;
}

impl<T> AsCall<T> for Call<T> {
    fn as_call(&self) -> &Call<T> {
        self
    }
}

impl<T> AsCall<T> for &Call<T> {
    fn as_call(&self) -> &Call<T> {
        self
    }
}

mod sealed {
    pub trait Sealed {}
    impl<T> Sealed for super::Call<T> {}
    impl<T> Sealed for &super::Call<T> {}
}

/// A [`Call`] on elements whose type is known at run time only: what callers from other languages make.
#[derive(Clone)]
pub struct RawCall {
    pub(super) collective: Collective,
    pub(super) root: Rank,
    pub(super) counts: Counts,
    /// Bytes of an element.
    pub(super) unit: usize,
    pub(super) fold: Option<AnyFold>,
    pub(super) algorithm: Option<String>,
    pub(super) blocks: Option<u32>,
    elements: Option<usize>,
}

/// How many elements the ranks' parts have.
#[derive(Debug, Clone)]
pub(super) enum Counts {
    /// One vector, or parts of one size: it follows from the buffer.
    Equal,
    /// Each rank's part.
    Each(Arc<[usize]>),
    /// What goes to each rank, and what comes from each.
    Pairs(Arc<[usize]>, Arc<[usize]>),
}

impl<T: Element> Call<T> {
    fn new(collective: Collective) -> Self {
        Call { raw: RawCall::new(collective, size_of::<T>()), element: PhantomData }
    }

    fn rooted(collective: Collective, root: Rank) -> Self {
        Call::new(collective).with(|raw| raw.root(root))
    }

    fn counted(collective: Collective, root: Rank, counts: &[usize]) -> Self {
        Call::rooted(collective, root).with(|raw| raw.counts(counts))
    }

    fn folding(self, operator: impl Operator<T> + 'static) -> Self {
        self.with(|raw| raw.fold(fold::of(operator)))
    }

    fn with(self, change: impl FnOnce(RawCall) -> RawCall) -> Self {
        Call { raw: change(self.raw), ..self }
    }

    /// The root's elements to all ranks.
    pub fn broadcast(root: Rank) -> Self {
        Call::rooted(Collective::Broadcast, root)
    }

    /// All ranks' elements combined, at the root.
    pub fn reduce(root: Rank, operator: impl Operator<T> + 'static) -> Self {
        Call::rooted(Collective::Reduce, root).folding(operator)
    }

    /// All ranks' elements combined, at all ranks.
    pub fn allreduce(operator: impl Operator<T> + 'static) -> Self {
        Call::new(Collective::Allreduce).folding(operator)
    }

    /// All ranks' parts, of one size, to all.
    pub fn allgather() -> Self {
        Call::new(Collective::Allgather)
    }

    /// All ranks' parts to all; rank `r`'s has `counts[r]` elements.
    pub fn allgatherv(counts: &[usize]) -> Self {
        Call::counted(Collective::Allgatherv, 0, counts)
    }

    /// All ranks' elements combined, `counts[r]` of them to rank `r`.
    pub fn reduce_scatter(counts: &[usize], operator: impl Operator<T> + 'static) -> Self {
        Call::counted(Collective::ReduceScatter, 0, counts).folding(operator)
    }

    /// All ranks' elements combined, to each rank as many.
    pub fn reduce_scatter_block(operator: impl Operator<T> + 'static) -> Self {
        Call::new(Collective::ReduceScatterBlock).folding(operator)
    }

    /// The root's parts, of one size, one to each rank.
    pub fn scatter(root: Rank) -> Self {
        Call::rooted(Collective::Scatter, root)
    }

    /// The root's parts, `counts[r]` elements to rank `r`.
    pub fn scatterv(counts: &[usize], root: Rank) -> Self {
        Call::counted(Collective::Scatterv, root, counts)
    }

    /// All ranks' parts, of one size, to the root.
    pub fn gather(root: Rank) -> Self {
        Call::rooted(Collective::Gather, root)
    }

    /// All ranks' parts to the root; rank `r`'s has `counts[r]` elements.
    pub fn gatherv(counts: &[usize], root: Rank) -> Self {
        Call::counted(Collective::Gatherv, root, counts)
    }

    /// From every rank a part for every rank, all of one size. The buffer's first half goes out, part by
    /// part; the second half comes in.
    pub fn alltoall() -> Self {
        Call::new(Collective::Alltoall)
    }

    /// From every rank a part for every rank: `sent[r]` elements to rank `r`, one part after the other, and
    /// behind them `received[r]` from it. What one rank sends to another is what that one receives.
    pub fn alltoallv(sent: &[usize], received: &[usize]) -> Self {
        Call::new(Collective::Alltoallv).with(|raw| raw.pairs(sent, received))
    }

    /// Sets the algorithm by its name in the catalogue (all ranks the same); otherwise it follows from sizes,
    /// the number of ranks, the operator, and what a put costs.
    pub fn algorithm(self, name: impl Into<String>) -> Self {
        self.with(|raw| raw.algorithm(name))
    }

    /// Sets the number of blocks by hand (all ranks the same), for algorithms that take several.
    pub fn blocks(self, blocks: u32) -> Self {
        self.with(|raw| raw.blocks(blocks))
    }

    /// Takes only the first `elements` elements of the buffer (all ranks the same). A call with counts has as many as they say.
    pub fn elements(self, elements: usize) -> Self {
        self.with(|raw| RawCall { elements: Some(elements), ..raw })
    }

    /// What is done.
    pub fn collective(&self) -> Collective {
        self.raw.collective
    }
}

impl RawCall {
    /// A call on elements of `unit` bytes; what it needs beside (a root, counts, a fold) is to be added.
    pub fn new(collective: Collective, unit: usize) -> Self {
        RawCall {
            collective,
            root: 0,
            counts: Counts::Equal,
            unit,
            fold: None,
            algorithm: None,
            blocks: None,
            elements: None,
        }
    }

    /// From or to this rank.
    pub fn root(self, root: Rank) -> Self {
        RawCall { root, ..self }
    }

    /// Rank `r`'s part has `counts[r]` elements.
    pub fn counts(self, counts: &[usize]) -> Self {
        RawCall { counts: Counts::Each(counts.into()), ..self }
    }

    /// `sent[r]` elements go to rank `r`, `received[r]` come from it.
    pub fn pairs(self, sent: &[usize], received: &[usize]) -> Self {
        RawCall { counts: Counts::Pairs(sent.into(), received.into()), ..self }
    }

    /// Arrivals are combined by this.
    pub fn fold(self, fold: impl Into<AnyFold>) -> Self {
        RawCall { fold: Some(fold.into()), ..self }
    }

    /// See [`Call::algorithm`].
    pub fn algorithm(self, name: impl Into<String>) -> Self {
        RawCall { algorithm: Some(name.into()), ..self }
    }

    /// See [`Call::blocks`].
    pub fn blocks(self, blocks: u32) -> Self {
        RawCall { blocks: Some(blocks), ..self }
    }

    /// What is done.
    pub fn collective(&self) -> Collective {
        self.collective
    }

    /// The same on parts of these lengths; a call without parts stays as it is.
    pub(super) fn segment(&self, counts: &[usize]) -> Self {
        let collective = match self.collective {
            Collective::Reduce => return self.clone(),
            Collective::ReduceScatterBlock => Collective::ReduceScatter,
            Collective::Scatter => Collective::Scatterv,
            Collective::Gather => Collective::Gatherv,
            other => other,
        };
        RawCall { collective, counts: Counts::Each(counts.into()), ..self.clone() }
    }

    /// How many of a buffer's elements go out; what comes in begins behind them, where it has a place of its own.
    pub(super) fn sent(&self, elements: usize) -> usize {
        match &self.counts {
            Counts::Pairs(sent, _) => sent.iter().sum(),
            _ if self.collective == Collective::Alltoall => elements / 2,
            _ => 0,
        }
    }

    pub(super) fn bad(&self, what: impl Into<String>, cure: impl Into<String>) -> Error {
        Error::argument(self.collective.name(), what, cure)
    }

    /// Fails where what it says does not make a call of its collective.
    pub(super) fn check(&self, place: Place) -> Result<()> {
        if let Some(cure) = self.lacks() {
            return Err(self.bad("it is not said in full", cure));
        }
        if let Some(fold) = self.fold.as_ref().filter(|fold| fold.unit() != self.unit.max(1)) {
            let what = format!("an operator on {} bytes, and elements of {}", fold.unit(), self.unit);
            return Err(self.bad(what, "give the operator of the elements' type"));
        }
        self.check_root(place.size)
    }

    fn lacks(&self) -> Option<&'static str> {
        let counts = match self.counts {
            Counts::Equal => !self.collective.has_counts(),
            Counts::Each(_) => self.collective.has_counts() && self.collective != Collective::Alltoallv,
            Counts::Pairs(..) => self.collective == Collective::Alltoallv,
        };
        match () {
            () if self.fold.is_some() != self.collective.reduces() => {
                Some("give a fold where it reduces, only there")
            }
            () if !counts => Some("give the counts that it takes, and no others"),
            () => None,
        }
    }

    fn check_root(&self, p: u32) -> Result<()> {
        if self.root < p { Ok(()) } else { Err(self.no_such_root(p)) }
    }

    #[cold]
    fn no_such_root(&self, p: u32) -> Error {
        let what = format!("root {} of a communicator of {p} ranks", self.root);
        self.bad(what, format!("take a root from 0 to {}", p - 1))
    }

    /// How many elements of a buffer of `len` it is about, where its arguments fit.
    pub(super) fn elements_of(&self, len: usize, place: Place) -> Result<usize> {
        let p = place.size;
        self.check_root(p)?;
        if let Some(blocks) = self.blocks.filter(|&blocks| blocks == 0 || blocks > MAX_BLOCKS) {
            return Err(self.bad(format!("{blocks} blocks"), format!("take 1 to {MAX_BLOCKS}")));
        }
        let wanted = match &self.counts {
            Counts::Equal => self.elements.unwrap_or(len),
            Counts::Each(counts) => self.sum(counts, p)?,
            Counts::Pairs(sent, received) => {
                let both = self.sum(sent, p)?.checked_add(self.sum(received, p)?);
                self.check_own(sent[place.rank as usize], received[place.rank as usize], place.rank)?;
                both.ok_or_else(|| self.too_many())?
            }
        };
        if wanted > len {
            let cure = format!("make it larger, or take {len} elements at most");
            return Err(self.bad(format!("{wanted} elements of a buffer of {len}"), cure));
        }
        self.bytes(wanted)?;
        self.check_divides(wanted, p as usize)?;
        Ok(wanted)
    }

    /// The bytes of so many elements, where there can be as many.
    pub(super) fn bytes(&self, elements: usize) -> Result<usize> {
        let countable =
            elements.checked_mul(self.unit.max(1)).is_some_and(|bytes| bytes <= isize::MAX as usize);
        if countable { Ok(elements * self.unit) } else { Err(self.too_many()) }
    }

    fn check_own(&self, sent: usize, received: usize, rank: Rank) -> Result<()> {
        if sent == received {
            return Ok(());
        }
        let what = format!("{sent} elements from rank {rank} to itself, and {received} received");
        Err(self.bad(what, "give the same count for both"))
    }

    fn check_divides(&self, elements: usize, p: usize) -> Result<()> {
        let parts = match self.collective {
            Collective::Alltoall => 2 * p,
            Collective::Allgather
            | Collective::ReduceScatterBlock
            | Collective::Scatter
            | Collective::Gather => p,
            _ => return Ok(()),
        };
        if elements.is_multiple_of(parts) {
            return Ok(());
        }
        let cure = format!("take a multiple of {parts}, or the call with counts");
        Err(self.bad(format!("{elements} elements in {parts} equal parts"), cure))
    }

    fn sum(&self, counts: &[usize], p: u32) -> Result<usize> {
        if counts.len() != p as usize {
            let what = format!("{} counts for {p} ranks", counts.len());
            return Err(self.bad(what, "give one for each rank"));
        }
        counts.iter().try_fold(0usize, |sum, &count| sum.checked_add(count)).ok_or_else(|| self.too_many())
    }

    fn too_many(&self) -> Error {
        self.bad("counts whose bytes exceed all memory", "give smaller counts")
    }
}
