//! The two schedules of one rank.

use super::observer::Observer;
use super::receive::receive;
use super::send::send;
use super::{MAX_ROUNDS, Skips};
use crate::rank::Rank;

/// What one rank receives and sends in each of the `q` rounds of a phase, before the blocks of a particular
/// broadcast are counted from it.
///
/// A block is `0..q`, or negative, `-q..0`, for one of the phase before (and then none in the first phase). The
/// root is rank 0; it is given a receive schedule like the others, with which the others' send schedules agree,
/// though nobody puts to the root.
///
/// Made in O(log p) without heap and without a word to another rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    rounds: u8,
    baseblock: u8,
    receive: [i8; MAX_ROUNDS],
    send: [i8; MAX_ROUNDS],
}

impl Schedule {
    /// The schedule of `rank`, as seen from the root.
    ///
    /// # Panics
    /// If `rank` is not one of the graph's.
    #[inline]
    pub fn new(skips: &Skips, rank: Rank) -> Self {
        Self::observed(skips, rank, &mut ())
    }

    /// The same, with `observer` told of the steps.
    #[inline]
    pub(super) fn observed(skips: &Skips, rank: Rank, observer: &mut impl Observer) -> Self {
        assert!(rank < skips.processes(), "rank {rank} of {}", skips.processes());
        let received = receive(skips, rank);
        Schedule {
            rounds: skips.rounds() as u8,
            baseblock: received.baseblock as u8,
            receive: received.blocks,
            send: send(skips, rank, received.baseblock, observer),
        }
    }

    /// The number of rounds in a phase, `q`.
    #[inline]
    pub fn rounds(&self) -> u32 {
        u32::from(self.rounds)
    }

    /// The block that comes first; `q` for the root.
    #[inline]
    pub fn baseblock(&self) -> u32 {
        u32::from(self.baseblock)
    }

    /// The block that comes in round `k < q`.
    #[inline]
    pub fn receive(&self, k: u32) -> i32 {
        i32::from(self.receive[k as usize])
    }

    /// The block that goes in round `k < q`.
    #[inline]
    pub fn send(&self, k: u32) -> i32 {
        i32::from(self.send[k as usize])
    }
}

#[cfg(test)]
impl Schedule {
    /// The same with another block to receive: for tests of what finds that out.
    pub(super) fn receiving(mut self, k: u32, block: i8) -> Self {
        self.receive[k as usize] = block;
        self
    }

    /// The same with another block to send.
    pub(super) fn sending(mut self, k: u32, block: i8) -> Self {
        self.send[k as usize] = block;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::literal::{self, Counts};
    use proptest::prelude::*;

    fn agrees_with_the_source(skips: &Skips, rank: Rank) {
        let schedule = Schedule::new(skips, rank);
        let mut counts = Counts::default();
        let receive = literal::receive(skips, rank, &mut counts);
        let send = literal::send(skips, rank, &mut counts);
        assert_eq!(schedule.baseblock(), literal::baseblock(skips, rank));
        for k in 0..skips.rounds() {
            let at = format!("p {}, rank {rank}, round {k}", skips.processes());
            assert_eq!(schedule.receive(k), receive[k as usize], "receive, {at}");
            assert_eq!(schedule.send(k), send[k as usize], "send, {at}");
        }
    }

    #[test]
    fn every_rank_of_every_graph_agrees_with_the_source() {
        for p in (1..=1200).chain(2030..=2060) {
            let skips = Skips::new(p);
            (0..p).for_each(|rank| agrees_with_the_source(&skips, rank));
        }
    }

    #[test]
    fn a_large_graph_agrees_with_the_source_at_both_ends() {
        for p in [4097, 65_535, 1_000_001, 2_099_000, (1 << 31) + 1, u32::MAX - 1, u32::MAX] {
            let skips = Skips::new(p);
            (0..2000).chain(p - 2000..p).for_each(|rank| agrees_with_the_source(&skips, rank));
        }
    }

    #[test]
    fn one_rank_has_nothing_to_do() {
        let alone = Schedule::new(&Skips::new(1), 0);
        assert_eq!((alone.rounds(), alone.baseblock()), (0, 0));
    }

    #[test]
    fn two_ranks_swap_the_one_block() {
        let skips = Skips::new(2);
        let (root, other) = (Schedule::new(&skips, 0), Schedule::new(&skips, 1));
        assert_eq!((root.receive(0), root.send(0)), (-1, 0));
        assert_eq!((other.receive(0), other.send(0)), (0, -1));
    }

    #[test]
    #[should_panic = "rank 5 of 5"]
    fn a_rank_outside_the_graph_is_refused() {
        Schedule::new(&Skips::new(5), 5);
    }

    proptest! {
        #[test]
        fn a_random_rank_of_a_random_graph_agrees_with_the_source(p in 1..=u32::MAX, place in 0.0..1.0f64) {
            let rank = (f64::from(p) * place) as Rank;
            agrees_with_the_source(&Skips::new(p), rank);
        }
    }
}
