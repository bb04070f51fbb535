//! What a leg of a round is in bytes: which of them are put straight into their place, and which go
//! through the target's staging slots, in pieces.
//!
//! Both ends of a put compute the same from plan, layout and [`Rule`], so nothing about it travels.
#![forbid(unsafe_code)]

use smallvec::SmallVec;

use crate::plan::layout::Layout;
use crate::plan::{Landing, Plan, Side, each_block};
use crate::transport::memory::LINE;

/// Bytes from which a stretch that travels with others is put by itself. Below, it is cheaper to pack
/// them and to copy them out again at the target: measured over tcp, 2 to 8 stretches of 64 B to 64 KiB
/// (manual, "Blocks that travel together").
pub const DIRECT: usize = 16 << 10;

/// Bytes that lie together on both ends of a put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// Where in this rank's memory.
    pub at: usize,
    /// Where in the target's, from what the target has told.
    pub there: u64,
    /// How many.
    pub len: usize,
}

impl Stretch {
    /// Its first `len` bytes, and the rest.
    pub fn split(self, len: usize) -> (Stretch, Stretch) {
        let rest = Stretch { at: self.at + len, there: self.there + len as u64, len: self.len - len };
        (Stretch { len, ..self }, rest)
    }

    /// Whether it has bytes of this rank's memory in common with another one.
    pub fn overlaps(&self, other: &Stretch) -> bool {
        self.at < other.at + other.len && other.at < self.at + self.len
    }
}

/// Some stretches; most legs have one.
pub type Stretches = SmallVec<[Stretch; 2]>;

/// How legs are cut; the same on all ranks of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// The most bytes of a staged piece, whole elements; 0 where the call stages nothing.
    pub piece: usize,
    /// What the length of a staged piece is a multiple of, but for the last one's: never a part of an element that is folded.
    pub unit: usize,
    /// The most bytes of a put.
    pub max_put: usize,
}

/// A leg in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leg {
    /// Put into their place, each by itself; none longer than a put may be.
    pub direct: Stretches,
    /// Put through staging slots: a string of bytes, whatever stretches it consists of.
    pub staged: Pieces,
}

impl Leg {
    /// Of all these bytes. A leg without bytes has one direct stretch of none, which is its notice.
    pub fn new(all: Stretches, landing: Landing, rule: Rule) -> Leg {
        let folds = landing != Landing::Store;
        let packs = rule.piece > 0 && all.len() > 1;
        let (staged, direct) = match (folds, packs) {
            (true, _) => (all, Stretches::new()),
            (false, true) => all.into_iter().partition(|stretch| stretch.len < DIRECT),
            (false, false) => (Stretches::new(), all),
        };
        let mut direct = match direct.iter().all(|stretch| stretch.len <= rule.max_put) {
            true => direct,
            false => direct.into_iter().flat_map(|stretch| cut(stretch, rule.max_put)).collect(),
        };
        if direct.is_empty() && staged.is_empty() {
            direct.push(Stretch { at: 0, there: 0, len: 0 });
        }
        Leg { direct, staged: Pieces::new(staged, rule.unit) }
    }
}

/// The bytes of one side of round `i`, in the order in which they travel; no empty ones.
pub fn stretches(plan: &dyn Plan, layout: &dyn Layout, i: u32, side: Side) -> Stretches {
    let mut all = Stretches::new();
    each_block(plan, i, side, &mut |block| {
        let (range, there) = match side {
            Side::Put => (layout.source(block), layout.remote(block)),
            Side::Arrival => (layout.target(block), layout.target(block).start),
        };
        let next = Stretch { at: range.start as usize, there, len: (range.end - range.start) as usize };
        match all.last_mut() {
            _ if next.len == 0 => {}
            Some(last) if last.at + last.len == next.at && last.there + last.len as u64 == next.there => {
                last.len += next.len;
            }
            _ => all.push(next),
        }
    });
    all
}

/// The bytes of some stretches together.
pub fn total(stretches: &[Stretch]) -> usize {
    stretches.iter().map(|stretch| stretch.len).sum()
}

fn cut(mut rest: Stretch, most: usize) -> impl Iterator<Item = Stretch> {
    std::iter::from_fn(move || {
        let first;
        (first, rest) = rest.split(even(rest.len, most, LINE));
        (first.len > 0).then_some(first)
    })
}

/// What parts of a vector of such elements had better be multiples of: whole cache lines, where these are whole elements.
pub fn whole_lines(element: usize) -> usize {
    if element > 0 && LINE.is_multiple_of(element) { LINE } else { element.max(1) }
}

/// The length of the next one of the fewest pieces of at most `most` bytes that `left` bytes make; of several it is a
/// multiple of `unit`, as far as `most` is. All are about as long: the last one tells that the others are there, and
/// a short one would say so too late to have anything done meanwhile.
fn even(left: usize, most: usize, unit: usize) -> usize {
    let count = left.div_ceil(most).max(1);
    left.div_ceil(count).next_multiple_of(unit).min(most).min(left)
}

/// Stretches as one string of bytes, taken piece by piece.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pieces {
    stretches: Stretches,
    /// The stretch that the next byte is in, and how much of it has been taken.
    next: usize,
    taken: usize,
    left: usize,
    unit: usize,
}

impl Pieces {
    /// Of these, which consist of elements of so many bytes.
    pub fn new(stretches: Stretches, unit: usize) -> Self {
        Pieces { left: total(&stretches), stretches, next: 0, taken: 0, unit: unit.max(1) }
    }

    /// Bytes that have not been taken.
    pub fn left(&self) -> usize {
        self.left
    }

    /// How many pieces of at most `most` bytes are left.
    pub fn count(&self, most: usize) -> u32 {
        self.left.div_ceil(most.max(1)) as u32
    }

    /// The next piece of at most `most` bytes, without taking it.
    pub fn peek(&self, most: usize, into: &mut Stretches) {
        into.clear();
        let (mut room, mut skipped) = (even(self.left, most, self.unit), self.taken);
        for stretch in &self.stretches[self.next..] {
            if room == 0 {
                return;
            }
            let len = room.min(stretch.len - skipped);
            into.push(Stretch { at: stretch.at + skipped, there: stretch.there + skipped as u64, len });
            (room, skipped) = (room - len, 0);
        }
    }

    /// Takes the next piece of at most `most` bytes.
    pub fn take(&mut self, most: usize) {
        let mut room = even(self.left, most, self.unit);
        self.left -= room;
        while room > 0 {
            let here = self.stretches[self.next].len - self.taken;
            if room < here {
                self.taken += room;
                return;
            }
            (room, self.next, self.taken) = (room - here, self.next + 1, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(lengths: &[usize]) -> Stretches {
        let mut at = 0;
        let stretch = |&len: &usize| {
            at += len + 3;
            Stretch { at: at - len, there: at as u64, len }
        };
        lengths.iter().map(stretch).collect()
    }

    proptest! {
        #[test]
        fn pieces_are_the_stretches_bytes_in_their_order(lengths in proptest::collection::vec(1usize..50, 0..12), piece in 1usize..20, unit in 1usize..5) {
            let lengths: Vec<_> = lengths.iter().map(|elements| elements * unit).collect();
            let stretches = of(&lengths);
            let bytes = |stretches: &[Stretch]| -> Vec<usize> {
                stretches.iter().flat_map(|stretch| stretch.at..stretch.at + stretch.len).collect()
            };
            let most = piece * unit;
            let mut pieces = Pieces::new(stretches.clone(), unit);
            let (mut all, mut piece, mut count, mut shortest) = (Vec::new(), Stretches::new(), 0, usize::MAX);
            let expected = pieces.count(most);
            while pieces.left() > 0 {
                pieces.peek(most, &mut piece);
                let (len, left) = (total(&piece), pieces.left());
                prop_assert!(len <= most && len <= left && len.is_multiple_of(unit));
                shortest = shortest.min(len);
                all.extend(bytes(&piece));
                pieces.take(most);
                count += 1;
            }
            prop_assert_eq!(all, bytes(&stretches));
            prop_assert_eq!(count, expected);
            prop_assert!(count < 2 || shortest + unit > total(&stretches) / count as usize);
        }

        #[test]
        fn a_cut_stretch_is_whole(len in 1usize..1000, most in 1usize..300) {
            let parts: Vec<_> = cut(Stretch { at: 7, there: 9, len }, most).collect();
            prop_assert!(parts.iter().all(|part| part.len <= most && part.len > 0));
            prop_assert_eq!(total(&parts), len);
            prop_assert_eq!(parts.len(), len.div_ceil(most));
            prop_assert!(parts.windows(2).all(|two| two[0].at + two[0].len == two[1].at));
        }
    }
}
