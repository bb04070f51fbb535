//! One rank's receive schedule, most of it read off from the rank's digits.
//!
//! A rank is a sum of skips, from the largest down (its digits). Going through the rounds from last to first:
//! - In the round of a digit the block comes along that digit, from a rank below all its later digits: it is the
//!   block of the digit before, or the rank's own baseblock when there is none.
//! - The rounds between two digits are, up to the digit before, those of a smaller graph: the one whose number of
//!   ranks is the skip of that digit, seen from the rank that is left. For in these rounds the search never
//!   looks behind that digit.
//! - In that smaller graph the block comes from the upper end, beyond its root. There the send schedule
//!   (Algorithm 6) is one run of a constant for nearly all ranks.
//!
//! The few rounds that stay open, about one for a rank, are for senders near the middle of their part. The search
//! would come to one of few skips there, and takes the first that no earlier round has taken. The last open
//! round needs not even that: every schedule brings each block once (condition 3), so it brings the block that is
//! missing. For about one rank in ten the sender is further off, and the search is made.
//!
//! The decision: this and not the search alone, because the search jumps from step to step as a processor cannot
//! foresee, and what it then guesses wrong costs more than all the arithmetic here.

use super::part::Part;
use super::search::{Hops, search};
use super::{MAX_ROUNDS, Skips};
use crate::rank::Rank;

/// A rank's baseblock and what it receives.
pub(super) struct Receive {
    pub(super) baseblock: u32,
    pub(super) blocks: [i8; MAX_ROUNDS],
}

/// The receive schedule of `rank`, O(log p).
#[inline]
pub(super) fn receive(skips: &Skips, rank: Rank) -> Receive {
    let q = skips.rounds();
    let mut reading = Reading::new(skips, rank);
    reading.read();
    reading.complete();
    let baseblock = reading.digit;
    let mut blocks = [0; MAX_ROUNDS];
    for (block, &hop) in blocks.iter_mut().zip(&reading.hops[..q as usize]) {
        *block = if u32::from(hop) == q { baseblock as i8 } else { hop as i8 - q as i8 };
    }
    Receive { baseblock, blocks }
}

struct Reading<'s> {
    skips: &'s Skips,
    rank: Rank,
    hops: Hops,
    /// The hops already found, a bit each.
    found: u64,
    /// The rounds that could not be read off, a bit each.
    open: u64,
    /// For each open round, where its block may come from.
    choices: [Choice; MAX_ROUNDS],
    /// The digit found last: the smaller graph we are in has `skip[digit]` ranks.
    digit: u32,
    /// What is left of the rank below its digits so far.
    rest: i64,
}

/// What the search comes to in an open round; small, as a rank's array of them is cleared each time.
#[derive(Clone, Copy, Default)]
struct Choice {
    /// It sees the skips below this one first, from the largest down; [`UNKNOWN`] if we cannot tell.
    below: u8,
    /// The skip it then turns back to.
    then: u8,
}

/// The sender stands in another part than the last one.
const UNKNOWN: u8 = u8::MAX;

impl<'s> Reading<'s> {
    fn new(skips: &'s Skips, rank: Rank) -> Self {
        Reading {
            skips,
            rank,
            hops: [0; MAX_ROUNDS],
            found: 0,
            open: 0,
            choices: [Choice::default(); MAX_ROUNDS],
            digit: skips.rounds(),
            rest: i64::from(rank),
        }
    }

    /// Goes through the rounds from last to first, and beside that through the parts in which the last rank of
    /// the smaller graph stands: the last of them has `end` ranks and was reached by `hop`.
    #[inline]
    fn read(&mut self) {
        let mut end = self.skip(self.digit);
        let mut hop = self.digit;
        for k in (0..self.digit).rev() {
            let skip = self.skip(k);
            let is_digit = self.rest >= skip;
            if !is_digit && self.rest <= 2 * skip - end {
                self.read_near_middle(k, end, hop);
            } else {
                self.set(k, if is_digit { self.digit } else { k });
            }
            hop = if end > skip { k } else { hop };
            end = match (is_digit, end > skip) {
                (true, _) => skip,
                (false, true) => end - skip,
                (false, false) => end,
            };
            self.rest -= if is_digit { skip } else { 0 };
            self.digit = if is_digit { k } else { self.digit };
        }
    }

    /// Round `k` when its sender does not stand beyond the middle of the last part.
    #[inline]
    fn read_near_middle(&mut self, k: u32, end: i64, hop: u32) {
        if k == 0 {
            // The sender is the graph's last rank, and this its last digit.
            return self.set(0, if end > 1 { 0 } else { hop });
        }
        let skip = self.skip(k);
        let place = end - skip + self.rest;
        let upper = place >= skip;
        if place >= 0 && !(Part { place, end, block: 0 }).is_unsure(self.skips, k) {
            return self.set(k, if upper { k } else { hop });
        }
        let below = match place {
            ..0 => UNKNOWN,
            0 => 0,
            _ => k as u8 + u8::from(upper),
        };
        self.open |= 1 << k;
        self.choices[k as usize] = Choice { below, then: hop as u8 };
    }

    /// Finds the hops of the open rounds, from the first on.
    #[inline]
    fn complete(&mut self) {
        let all = ((2 << self.skips.rounds()) - 1) & !(1u64 << self.digit);
        while self.open != 0 {
            let k = self.open.trailing_zeros();
            let last = self.open.is_power_of_two();
            let hop = if last { (all & !self.found).checked_ilog2() } else { self.choose(k, all) };
            let Some(hop) = hop else { return self.search() };
            self.set(k, hop);
            self.open &= self.open - 1;
        }
    }

    /// The first of round `k`'s choices that no earlier round has taken.
    fn choose(&self, k: u32, all: u64) -> Option<u32> {
        let Choice { below, then } = self.choices[k as usize];
        if below == UNKNOWN {
            return None;
        }
        let taken = self.hops[..k as usize].iter().fold(0, |taken, &hop| taken | 1u64 << hop);
        let free = all & !taken;
        let first = free & ((1 << below) - 1);
        first.checked_ilog2().or((free >> then & 1 == 1).then_some(u32::from(then)))
    }

    #[cold]
    fn search(&mut self) {
        let rounds = self.open.ilog2() + 1;
        let hops = search(self.skips, self.rank, self.digit, rounds, &mut ());
        for k in (0..rounds).filter(|k| self.open >> k & 1 == 1) {
            self.hops[k as usize] = hops[k as usize];
        }
    }

    #[inline]
    fn set(&mut self, k: u32, hop: u32) {
        self.hops[k as usize] = hop as u8;
        self.found |= 1 << hop;
    }

    #[inline]
    fn skip(&self, k: u32) -> i64 {
        i64::from(self.skips.skip(k))
    }
}
