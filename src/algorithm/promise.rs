//! What each collective begins with and what it promises, block by block: the terms of the lockstep check.

use std::sync::Arc;

use crate::collective::Collective::{self, *};
use crate::plan::contributions::Contributions;
use crate::plan::lockstep::WORD;
use crate::rank::Rank;

/// A collective among so many ranks.
#[derive(Debug, Clone)]
pub struct Promise {
    /// Which.
    pub collective: Collective,
    /// The number of ranks.
    pub p: u32,
    /// The rank with a part of its own, where there is one.
    pub root: Rank,
    /// All blocks that there are among all ranks.
    pub blocks: u32,
    /// The ranks whose parts are not empty; `None`: all.
    pub present: Option<Arc<[Rank]>>,
}

impl Promise {
    /// The blocks that a rank begins with, each with its own contribution.
    pub fn start(&self, rank: Rank) -> Vec<u32> {
        let at_the_root = |blocks: Vec<u32>| if rank == self.root { blocks } else { Vec::new() };
        match self.collective {
            Broadcast => at_the_root((0..self.blocks).collect()),
            Scatter | Scatterv => at_the_root(self.parts()),
            Reduce | Allreduce => (0..self.blocks).collect(),
            ReduceScatter | ReduceScatterBlock => self.parts(),
            Allgather | Allgatherv | Gather | Gatherv => self.part(rank),
            Alltoall | Alltoallv => (0..self.p).map(|to| rank * self.p + to).collect(),
            Barrier | Finalize => vec![WORD],
            Probe => Vec::new(),
        }
    }

    /// The blocks that a rank must end with, and whose contributions must be in each.
    pub fn end(&self, rank: Rank) -> Vec<(u32, Contributions)> {
        let all = Contributions::all(self.p);
        let from = |blocks: Vec<u32>, from: &Contributions| {
            blocks.into_iter().map(|block| (block, from.clone())).collect::<Vec<_>>()
        };
        let own_parts_of_all = || {
            let of = |rank| from(self.part(rank), &Contributions::of(rank));
            (0..self.p).flat_map(of).collect()
        };
        match self.collective {
            Broadcast => from((0..self.blocks).collect(), &Contributions::of(self.root)),
            Scatter | Scatterv => from(self.part(rank), &Contributions::of(self.root)),
            Reduce if rank == self.root => from((0..self.blocks).collect(), &all),
            Gather | Gatherv if rank == self.root => own_parts_of_all(),
            Reduce | Gather | Gatherv => Vec::new(),
            Allreduce => from((0..self.blocks).collect(), &all),
            ReduceScatter | ReduceScatterBlock => from(self.part(rank), &all),
            Allgather | Allgatherv => own_parts_of_all(),
            Alltoall | Alltoallv => {
                (0..self.p).map(|from| (from * self.p + rank, Contributions::of(from))).collect()
            }
            Barrier | Finalize => vec![(WORD, all)],
            Probe => Vec::new(),
        }
    }

    fn parts(&self) -> Vec<u32> {
        (0..self.p).flat_map(|rank| self.part(rank)).collect()
    }

    /// The blocks of a rank's part.
    fn part(&self, rank: Rank) -> Vec<u32> {
        let is_present = self.present.as_ref().is_none_or(|some| some.binary_search(&rank).is_ok());
        let blocks = if is_present { self.blocks / self.p } else { 0 };
        (0..blocks).map(|block| rank * (self.blocks / self.p) + block).collect()
    }
}
