//! The collectives, by name and by number: what a call is, before any algorithm or memory comes in.
#![forbid(unsafe_code)]

/// What all ranks of a communicator do together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Collective {
    /// One rank's data to all.
    Broadcast = 1,
    /// All wait for all.
    Barrier = 2,
    /// All wait for all, and then leave.
    Finalize = 3,
    /// Two ranks measure, the others rest.
    Probe = 4,
    /// All ranks' data combined, at one rank.
    Reduce = 5,
    /// All ranks' data combined, at all.
    Allreduce = 6,
    /// Every rank's part, of one size, at all ranks.
    Allgather = 7,
    /// Every rank's part, of a size of its own, at all ranks.
    Allgatherv = 8,
    /// All ranks' data combined, each rank getting a part of its own size.
    ReduceScatter = 9,
    /// All ranks' data combined, each rank getting a part of one size.
    ReduceScatterBlock = 10,
    /// One rank's parts, one for each rank, of one size.
    Scatter = 11,
    /// One rank's parts, each of a size of its own.
    Scatterv = 12,
    /// Every rank's part, of one size, at one rank.
    Gather = 13,
    /// Every rank's part, of a size of its own, at one rank.
    Gatherv = 14,
    /// From every rank a part for every rank, of one size.
    Alltoall = 15,
    /// From every rank a part for every rank, each of a size of its own.
    Alltoallv = 16,
}

/// How the blocks of a collective's plans are numbered, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbering {
    /// One vector in `n` blocks: a block's number is its place.
    Whole,
    /// A part for each rank, each in `n` blocks: block `b` of part `j` is `j n + b`.
    Parts,
    /// A part for each pair of ranks: the part from `s` for `t` is `s p + t`.
    Pairs,
}

use Collective::*;

/// Every collective with its name, as the program, the catalogue and the C ABI say it.
const NAMES: [(Collective, &str); 16] = [
    (Broadcast, "broadcast"),
    (Barrier, "barrier"),
    (Finalize, "finalize"),
    (Probe, "probe"),
    (Reduce, "reduce"),
    (Allreduce, "allreduce"),
    (Allgather, "allgather"),
    (Allgatherv, "allgatherv"),
    (ReduceScatter, "reduce_scatter"),
    (ReduceScatterBlock, "reduce_scatter_block"),
    (Scatter, "scatter"),
    (Scatterv, "scatterv"),
    (Gather, "gather"),
    (Gatherv, "gatherv"),
    (Alltoall, "alltoall"),
    (Alltoallv, "alltoallv"),
];

impl Collective {
    /// All that users call, in the order of tables.
    pub const ALL: [Collective; 14] = [
        Broadcast,
        Reduce,
        Allreduce,
        Allgather,
        Allgatherv,
        ReduceScatter,
        ReduceScatterBlock,
        Scatter,
        Scatterv,
        Gather,
        Gatherv,
        Alltoall,
        Alltoallv,
        Barrier,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(one, _)| *one == self).map_or("", |(_, name)| name)
    }

    /// The one that users call so.
    pub fn named(name: &str) -> Option<Collective> {
        Collective::ALL.into_iter().find(|one| one.name() == name)
    }

    /// By its number on the wire.
    pub fn numbered(number: u8) -> Option<Collective> {
        NAMES.iter().map(|(one, _)| *one).find(|one| *one as u8 == number)
    }

    /// How its plans number blocks.
    pub fn numbering(self) -> Numbering {
        match self {
            Broadcast | Barrier | Finalize | Probe | Reduce | Allreduce => Numbering::Whole,
            Allgather | Allgatherv | ReduceScatter | ReduceScatterBlock => Numbering::Parts,
            Scatter | Scatterv | Gather | Gatherv => Numbering::Parts,
            Alltoall | Alltoallv => Numbering::Pairs,
        }
    }

    /// Whether one rank has a part of its own in it.
    pub fn has_root(self) -> bool {
        matches!(self, Broadcast | Reduce | Scatter | Scatterv | Gather | Gatherv)
    }

    /// Whether it combines data by an operator.
    pub fn reduces(self) -> bool {
        matches!(self, Reduce | Allreduce | ReduceScatter | ReduceScatterBlock)
    }

    /// Whether ranks' parts may differ in size.
    pub fn has_counts(self) -> bool {
        matches!(self, Allgatherv | ReduceScatter | Scatterv | Gatherv | Alltoallv)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_collective_is_found_by_name_and_number() {
        for one in Collective::ALL {
            assert_eq!(Collective::named(one.name()), Some(one));
            assert_eq!(Collective::numbered(one as u8), Some(one));
        }
        assert_eq!(Collective::named("finalize"), None);
        assert_eq!(Collective::numbered(0), None);
    }
}
