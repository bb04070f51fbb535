//! One rank's receive schedule, most of it read off from the rank's digits.
//!
//! A rank is a sum of skips, from the largest down (its digits). Going through the rounds from last to first:
//! - In the round of a digit the block comes along that digit, from a rank below all its later digits: it is the
//!   block of the digit before, or the rank's own baseblock when there is none.
//! - The rounds between two digits are, up to the digit before, those of a smaller graph: the one whose number of
//!   ranks is the skip of that digit, seen from the rank that is left. For in these rounds the search never
//!   looks behind that digit.
//! - In that smaller graph the block comes from the upper end, beyond its root. There the send schedule
//!   (Algorithm 6) is one run of a constant for nearly all ranks; the few others are the source's violations.
//!
//! Every schedule brings each block once (condition 3), so one open round is the block that is missing. Two
//! open rounds are as easy when one is round 0, whose block is the sender's baseblock. The rest is searched for.
//!
//! The decision: this and not the search alone, because here no step depends on the one before in a way that
//! a processor could guess wrong, and a guess costs more than the arithmetic.

use super::observer::Observer;
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
pub(super) fn receive(skips: &Skips, rank: Rank, observer: &mut impl Observer) -> Receive {
    let q = skips.rounds();
    let mut reading = Reading::new(skips, rank);
    reading.read();
    let hops = reading.complete(rank, observer);
    let baseblock = reading.digit;
    let mut blocks = [0; MAX_ROUNDS];
    for k in 0..q as usize {
        let hop = u32::from(hops[k]);
        blocks[k] = if hop == q { baseblock as i8 } else { (hop as i32 - q as i32) as i8 };
    }
    Receive { baseblock, blocks }
}

struct Reading<'s> {
    skips: &'s Skips,
    hops: Hops,
    /// The blocks already found, a bit each.
    found: u64,
    /// The rounds that could not be read off, a bit each.
    open: u64,
    /// The digit found last: the smaller graph we are in has `skip[digit]` ranks.
    digit: u32,
    /// What is left of the rank below its digits so far.
    rest: i64,
}

impl<'s> Reading<'s> {
    fn new(skips: &'s Skips, rank: Rank) -> Self {
        let q = skips.rounds();
        Reading { skips, hops: [0; MAX_ROUNDS], found: 0, open: 0, digit: q, rest: i64::from(rank) }
    }

    #[inline]
    fn read(&mut self) {
        let mut end = self.skip(self.digit);
        let mut hop = self.digit;
        for k in (0..self.digit).rev() {
            let skip = self.skip(k);
            let is_digit = self.rest >= skip;
            if !is_digit && self.rest <= 2 * skip - end {
                match self.at_the_seam(k, end, hop) {
                    Some(hop) => self.set(k, hop),
                    None => self.open |= 1 << k,
                }
            } else {
                self.set(k, if is_digit { self.digit } else { k });
            }
            let splits = end > skip;
            hop = if splits { k } else { hop };
            end = if is_digit {
                skip
            } else if splits {
                end - skip
            } else {
                end
            };
            self.rest -= if is_digit { skip } else { 0 };
            self.digit = if is_digit { k } else { self.digit };
        }
    }

    /// The block of round `k` when its sender stands at or before the middle of the last part, which has `end`
    /// ranks and was reached by `hop`: Algorithm 6 for that sender, without its violations.
    fn at_the_seam(&self, k: u32, end: i64, hop: u32) -> Option<u32> {
        if k == 0 {
            return None;
        }
        let (skip, below) = (self.skip(k), self.skip(k - 1));
        let sender = end - skip + self.rest;
        if sender == skip {
            let surely = end == 2 * skip || end - skip < below || k == 1;
            return surely.then_some(k);
        }
        let surely = sender >= 0 && (end < below || (k == 1 && sender == 0));
        surely.then_some(hop)
    }

    /// All hops, those of the open rounds too.
    #[inline]
    fn complete(&mut self, rank: Rank, observer: &mut impl Observer) -> Hops {
        if self.open > 1 && self.open & 1 == 1 {
            self.open &= !1;
            self.set(0, self.skips.baseblock(self.skips.skip(self.digit) - 1));
        }
        if self.open.is_power_of_two() {
            let all = ((2 << self.skips.rounds()) - 1) & !(1u64 << self.digit);
            self.set(self.open.ilog2(), (all & !self.found).ilog2());
        } else if self.open != 0 {
            let hops = search(self.skips, rank, self.open.ilog2() + 1, observer);
            for k in (0..MAX_ROUNDS).filter(|k| self.open >> k & 1 == 1) {
                self.hops[k] = hops[k];
            }
        }
        self.hops
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
