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
//! Every schedule brings each block once (condition 3), so a single open round brings the block that is missing.
//! Only where two or more are open the search is asked.
//!
//! The decision: this and not the search alone, because here no step depends on the one before in a way that
//! a processor could guess wrong, and a guess costs more than the arithmetic.

use super::search::{Hops, search};
use super::send::Part;
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
    let hops = reading.complete(rank);
    let baseblock = reading.digit;
    let mut blocks = [0; MAX_ROUNDS];
    for k in 0..q as usize {
        let hop = u32::from(hops[k]);
        blocks[k] = if hop == q { baseblock as i8 } else { (hop as i32 - q as i32) as i8 };
    }
    Receive { baseblock, blocks }
}

/// The sender stands in another part than the last.
const LOST: u64 = u64::MAX;

struct Reading<'s> {
    skips: &'s Skips,
    hops: Hops,
    /// The blocks already found, a bit each.
    found: u64,
    /// The rounds that could not be read off, a bit each.
    open: u64,
    /// For each open round the skips that come before the hop noted for it.
    nearer: [u64; MAX_ROUNDS],
    /// The digit found last: the smaller graph we are in has `skip[digit]` ranks.
    digit: u32,
    /// What is left of the rank below its digits so far.
    rest: i64,
}

impl<'s> Reading<'s> {
    fn new(skips: &'s Skips, rank: Rank) -> Self {
        let q = skips.rounds();
        Reading {
            skips,
            hops: [0; MAX_ROUNDS],
            found: 0,
            open: 0,
            nearer: [0; MAX_ROUNDS],
            digit: q,
            rest: i64::from(rank),
        }
    }

    #[inline]
    fn read(&mut self) {
        let mut end = self.skip(self.digit);
        let mut hop = self.digit;
        for k in (0..self.digit).rev() {
            let skip = self.skip(k);
            let is_digit = self.rest >= skip;
            if !is_digit && self.rest <= 2 * skip - end {
                self.read_at_the_seam(k, end, hop);
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

    /// Round `k` when its sender stands at or before the middle of the last part, which has `end` ranks and was
    /// reached by `hop`.
    #[inline]
    fn read_at_the_seam(&mut self, k: u32, end: i64, hop: u32) {
        if k == 0 {
            // The sender is the graph's last rank, and this its last digit.
            return self.set(0, if end > 1 { 0 } else { hop });
        }
        let skip = self.skip(k);
        let sender = Part { place: end - skip + self.rest, end, block: 0 };
        let upper = sender.place >= skip;
        if sender.place >= 0 && !sender.is_unsure(self.skips, k) {
            return self.set(k, if upper { k } else { hop });
        }
        self.open |= 1 << k;
        self.hops[k as usize] = hop as u8;
        self.nearer[k as usize] = match sender.place {
            ..0 => LOST,
            0 => 0,
            _ => (1 << k) - 1 + (u64::from(upper) << k),
        };
    }

    /// All hops, those of the open rounds too.
    #[inline]
    fn complete(&mut self, rank: Rank) -> Hops {
        let all = ((2 << self.skips.rounds()) - 1) & !(1u64 << self.digit);
        while self.open != 0 {
            if self.open.is_power_of_two() {
                self.set(self.open.ilog2(), (all & !self.found).ilog2());
                break;
            }
            let k = self.open.trailing_zeros();
            let taken = (0..k as usize).fold(0u64, |taken, k| taken | 1 << self.hops[k]);
            let free = all & !taken;
            let nearer = self.nearer[k as usize];
            let hop = u32::from(self.hops[k as usize]);
            if nearer == LOST || (free & nearer == 0 && free >> hop & 1 == 0) {
                let hops = search(self.skips, rank, self.digit, self.open.ilog2() + 1, &mut ());
                for k in (0..MAX_ROUNDS).filter(|k| self.open >> k & 1 == 1) {
                    self.hops[k] = hops[k];
                }
                break;
            }
            let hop = (free & nearer).checked_ilog2().unwrap_or(hop);
            self.set(k, hop);
            self.open &= self.open - 1;
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
