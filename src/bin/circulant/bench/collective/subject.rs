//! What is measured: how many elements, which of them a rank gives and gets, and what is right.
//!
//! Pure arithmetic; it moves nothing. The decision: sizes and counts are those of the field's benchmarks of
//! MPI libraries (a size is a total, in `i32`s), so that rows of both stand beside each other.

use std::ops::Range;

use circulant::collective::{Collective, Numbering};
use circulant::comm::Call;
use circulant::fold::Sum;
use circulant::rank::{Place, Rank};

/// Bytes of an element.
const UNIT: usize = size_of::<i32>();

/// How a total is divided among the ranks, where their parts may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Every rank has the same
    Regular,
    /// Rank i has (i mod 3) parts: of nine ranks three have nothing, and three twice what other three have
    Irregular,
    /// Rank 0 has all
    Degenerate,
    /// One after the other of these three
    All,
}

impl Kind {
    /// Those that are measured one after the other.
    pub fn each(self) -> Vec<Kind> {
        match self {
            Kind::All => vec![Kind::Regular, Kind::Irregular, Kind::Degenerate],
            one => vec![one],
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Kind::Regular => "regular",
            Kind::Irregular => "irregular",
            Kind::Degenerate => "degenerate",
            Kind::All => "all",
        }
    }

    /// How many parts a rank has.
    fn weight(self, rank: usize) -> usize {
        match self {
            Kind::Regular | Kind::All => 1,
            Kind::Irregular => rank % 3,
            Kind::Degenerate => usize::from(rank == 0),
        }
    }
}

/// One collective on one total, as one rank sees it.
#[derive(Debug)]
pub struct Subject {
    pub collective: Collective,
    pub place: Place,
    pub root: Rank,
    pub kind: Kind,
    /// Elements of the total.
    total: usize,
    /// How many of them are each rank's, where it has some.
    pub counts: Vec<usize>,
    /// Where each rank's begin.
    starts: Vec<usize>,
}

impl Subject {
    /// `bytes` as the user wrote them; see [`bytes`](Self::bytes).
    pub fn new(collective: Collective, kind: Kind, place: Place, root: Rank, bytes: usize) -> Self {
        let p = place.size as usize;
        // Less than an element is one, and nothing is nothing.
        let least = usize::from(bytes > 0);
        let wanted = (bytes / UNIT).max(least);
        let counts = match collective.numbering() {
            Numbering::Whole => vec![],
            _ if collective.has_counts() => divided(kind, p, wanted),
            _ => vec![(wanted / p).max(least); p],
        };
        let total = match collective {
            Collective::Barrier => 0,
            _ if counts.is_empty() => wanted,
            _ => counts.iter().sum(),
        };
        let start = |at: &mut usize, count: &usize| Some(std::mem::replace(at, *at + count));
        let starts = counts.iter().scan(0, start).collect();
        Subject { collective, place, root, kind, total, counts, starts }
    }

    /// The bytes that are really moved about.
    pub fn bytes(&self) -> usize {
        self.total * UNIT
    }

    /// Elements of the buffer of a call in place.
    pub fn len(&self) -> usize {
        if self.collective == Collective::Alltoall { self.total.saturating_mul(2) } else { self.total }
    }

    /// The call in place; `None` for a barrier, which has no elements.
    pub fn call(&self) -> Option<Call<i32>> {
        use Collective::*;
        Some(match self.collective {
            Broadcast => Call::broadcast(self.root),
            Reduce => Call::reduce(self.root, Sum),
            Allreduce => Call::allreduce(Sum),
            Allgather => Call::allgather(),
            Allgatherv => Call::allgatherv(&self.counts),
            ReduceScatter => Call::reduce_scatter(&self.counts, Sum),
            ReduceScatterBlock => Call::reduce_scatter_block(Sum),
            Scatter => Call::scatter(self.root),
            Scatterv => Call::scatterv(&self.counts, self.root),
            Gather => Call::gather(self.root),
            Gatherv => Call::gatherv(&self.counts, self.root),
            Alltoall => Call::alltoall(),
            Alltoallv => Call::alltoallv(&self.counts, &self.counts),
            Barrier | Finalize | Probe => return None,
        })
    }

    /// The elements that this rank gives.
    pub fn input(&self) -> Range<usize> {
        use Collective::*;
        match self.collective {
            Broadcast | Scatter => self.all_at_root(),
            Allgather | Allgatherv | Gather => self.part(),
            _ => 0..self.total,
        }
    }

    /// The elements that this rank gets.
    pub fn output(&self) -> Range<usize> {
        use Collective::*;
        match self.collective {
            Reduce | Gather => self.all_at_root(),
            ReduceScatter | ReduceScatterBlock | Scatter => self.part(),
            Alltoall => self.total..2 * self.total,
            _ => 0..self.total,
        }
    }

    fn all_at_root(&self) -> Range<usize> {
        if self.place.rank == self.root { 0..self.total } else { 0..0 }
    }

    fn part(&self) -> Range<usize> {
        let me = self.place.rank as usize;
        self.starts[me]..self.starts[me] + self.counts[me]
    }

    /// What this rank gives, at one of the places of [`input`](Self::input).
    pub fn given(&self, iteration: u32, at: usize) -> i32 {
        value(iteration, self.place.rank, at)
    }

    /// What this rank must get, at one of the places of [`output`](Self::output).
    pub fn right(&self, iteration: u32, at: usize) -> i32 {
        use Collective::*;
        match self.collective {
            Broadcast | Scatter => value(iteration, self.root, at),
            Allgather | Allgatherv | Gather => value(iteration, self.owner(at), at),
            Alltoall => {
                let (from, within) = ((at - self.total) / self.counts[0], at % self.counts[0]);
                value(iteration, from as Rank, self.part().start + within)
            }
            _ => {
                let given = (0..self.place.size).map(|rank| value(iteration, rank, at));
                given.fold(0, i32::wrapping_add)
            }
        }
    }

    /// Whose part a place lies in.
    fn owner(&self, at: usize) -> Rank {
        self.starts.partition_point(|&start| start <= at) as Rank - 1
    }
}

/// A total in parts; what the division leaves goes to the last rank that has a part.
fn divided(kind: Kind, p: usize, total: usize) -> Vec<usize> {
    let weights: Vec<_> = (0..p).map(|rank| kind.weight(rank)).collect();
    let sum = weights.iter().sum::<usize>().max(1);
    let share = |&weight: &usize| (total as u128 * weight as u128 / sum as u128) as usize;
    let mut counts: Vec<_> = weights.iter().map(share).collect();
    let last = weights.iter().rposition(|&weight| weight > 0).unwrap_or(0);
    counts[last] += total - counts.iter().sum::<usize>();
    counts
}

/// A rank's element at a place in an iteration: no two ranks, no two places near each other, and no two
/// iterations agree throughout.
fn value(iteration: u32, rank: Rank, at: usize) -> i32 {
    let which = (u64::from(iteration) << 32 | u64::from(rank)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    let mixed = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ which;
    ((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(collective: Collective, kind: Kind, p: u32, rank: Rank, bytes: usize) -> Subject {
        Subject::new(collective, kind, Place { rank, size: p }, 0, bytes)
    }

    #[test]
    fn parts_are_divided_as_in_the_peers_benchmark() {
        assert_eq!(divided(Kind::Regular, 4, 10), [2, 2, 2, 4]);
        assert_eq!(divided(Kind::Irregular, 5, 10), [0, 2, 5, 0, 3]);
        assert_eq!(divided(Kind::Irregular, 4, 1), [0, 0, 1, 0]);
        assert_eq!(divided(Kind::Irregular, 1, 7), [7]);
        assert_eq!(divided(Kind::Degenerate, 3, 10), [10, 0, 0]);
    }

    #[test]
    fn bytes_are_those_that_are_moved() {
        let bytes = |collective, p, bytes| subject(collective, Kind::Regular, p, 0, bytes).bytes();
        assert_eq!(bytes(Collective::Broadcast, 8, 1027), 1024);
        assert_eq!(bytes(Collective::Reduce, 8, 1), 4);
        assert_eq!((bytes(Collective::Reduce, 8, 0), bytes(Collective::Alltoall, 8, 0)), (0, 0));
        assert_eq!(bytes(Collective::Allgather, 5, 1024), 1020);
        assert_eq!(bytes(Collective::Alltoall, 8, 4), 32);
        assert_eq!(bytes(Collective::Allgatherv, 5, 1024), 1024);
        assert_eq!(bytes(Collective::Barrier, 5, 1024), 0);
    }

    #[test]
    fn all_that_is_gathered_has_an_owner_with_a_part_there() {
        for kind in Kind::All.each() {
            for p in 1..8 {
                let subject = subject(Collective::Allgatherv, kind, p, 0, 40);
                for at in 0..10 {
                    let owner = subject.owner(at) as usize;
                    let part = subject.starts[owner]..subject.starts[owner] + subject.counts[owner];
                    assert!(part.contains(&at), "{kind:?}, p = {p}: {at} is not in {part:?}");
                }
            }
        }
    }

    #[test]
    fn what_comes_in_of_an_alltoall_is_what_was_sent() {
        let of = |rank| subject(Collective::Alltoall, Kind::Regular, 3, rank, 24);
        // Rank 1's second element for rank 2 lies behind two parts of two, and comes in behind one.
        assert_eq!(of(2).right(5, of(2).output().start + 3), of(1).given(5, 5));
    }

    #[test]
    fn ranks_and_iterations_differ_everywhere_near() {
        for at in 0..1000 {
            assert_ne!(value(0, 0, at), value(0, 1, at));
            assert_ne!(value(0, 0, at), value(1, 0, at));
            assert_ne!(value(0, 0, at), value(0, 0, at + 1));
        }
    }
}
