//! Where a rank stands in the part of the ranks that a send schedule (Algorithm 6) has come to.
//!
//! Both schedules ask it, and the table of all ranks' too; it asks none of them.

use super::Skips;

/// A part of the ranks: where in it the rank stands, how many it has, and the block its beginning has.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) place: i64,
    pub(super) end: i64,
    pub(super) block: i8,
}

impl Part {
    /// The half with the rank in it; the upper one begins at `skip` and has `upper_block`.
    #[inline]
    pub(super) fn half(self, skip: i64, upper_block: i8) -> Part {
        let upper = self.place >= skip;
        Part {
            place: if upper { self.place - skip } else { self.place },
            end: if upper { self.end - skip } else { self.end.min(skip) },
            block: if upper { upper_block } else { self.block },
        }
    }

    /// Whether the source looks up what a rank near the middle sends (a violation).
    pub(super) fn violates(self, skips: &Skips, k: u32, baseblock: u32) -> bool {
        let (skip, below) = (i64::from(skips.skip(k)), i64::from(skips.skip(k - 1)));
        if self.place < skip {
            self.end >= below && !(k == 1 && baseblock > 0)
        } else {
            k != 1 && self.end - skip >= below && self.place + skip > self.end
        }
    }

    /// Whether a rank near the middle may have to send another block than its half's: fewer than violate.
    ///
    /// In the lower half the receiver's search comes to the part's beginning, and takes it, unless it was taken
    /// the round before, which the first rank's receiver may have done, or is out of this round's reach, as it
    /// is for the last rank where the skips are uneven.
    #[inline]
    pub(super) fn is_unsure(self, skips: &Skips, k: u32) -> bool {
        let (skip, below) = (i64::from(skips.skip(k)), i64::from(skips.skip(k - 1)));
        if self.place < skip {
            let uneven = skips.skip(k + 1) & 1 == 1;
            self.end >= below && ((self.place == 0 && k != 1) || (self.place + 1 == skip && uneven))
        } else {
            k != 1 && self.end - skip >= below && self.place + skip > self.end
        }
    }
}
