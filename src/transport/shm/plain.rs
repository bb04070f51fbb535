//! Memory of two ranks for plain copies and sums, by which whatever goes through shared memory is measured.
//!
//! No put, no notice: a rank works on memory of its own with what the next rank has in its, both in segments
//! as windows are. What lies there for others is written before they can know of it, and never again.

use rustix::process::{Pid, getpid};

use super::home::Home;
use crate::error::{Error, Result};
use crate::rank::Rank;
use crate::transport::segment::{Label, Mapping, Segment, nonce};

/// What a rank must be told to reach the memory of another: its process, its random word, its segment.
pub type Card = [u64; 3];

/// Bytes of one rank that the one before it may read, and as many for the rank's own results.
pub struct Plain {
    segment: Segment,
    own: Mapping,
    len: usize,
}

/// A rank's results and what the next rank offers, each of so many bytes.
pub struct Pair {
    own: Plain,
    theirs: Mapping,
}

impl Plain {
    /// `len` bytes twice. Those that are offered are all `byte`.
    ///
    /// # Errors
    /// As windows: no memory, or a limit, with its cure.
    pub fn new(len: usize, byte: u8) -> Result<Plain> {
        let both = len.checked_mul(2).ok_or_else(|| {
            Error::transport("copy", format!("no memory has twice {len} bytes"), "take a smaller size")
        })?;
        let segment = Segment::create(both.max(1))?;
        let own = segment.map()?;
        // SAFETY: - the mapping has twice as many bytes, and nobody else knows of it yet
        unsafe { own.start().as_ptr().write_bytes(byte, len) };
        Ok(Plain { segment, own, len })
    }

    /// What the rank before this one must be told. Memory is not to be dropped before all have [met](Plain::meet).
    pub fn card(&self) -> Card {
        [getpid().as_raw_pid() as u64, nonce(), self.segment.label().number()]
    }

    /// Maps the memory of the next rank, which must be of the same length.
    ///
    /// # Errors
    /// [`Error::Transport`] where it cannot be reached, or is shorter.
    pub fn meet(self, next: Rank, [pid, nonce, label]: Card) -> Result<Pair> {
        let what = || format!("the memory of rank {next} is not what it says");
        let nonsense = || Error::transport("copy", what(), "start the same version on all ranks");
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(nonsense)?;
        let theirs = Home { pid, nonce }.map(Label::from_number(label)).map_err(|e| e.of(next, "memory"))?;
        if theirs.len() < self.own.len() {
            return Err(nonsense());
        }
        Ok(Pair { own: self, theirs })
    }
}

impl Pair {
    /// This rank's results, and what the next one offers.
    pub fn both(&mut self) -> (&mut [u8], &[u8]) {
        // SAFETY: - both mappings have twice as many bytes (checked in `meet`)
        //         - the second half of the own one is only here (`meet` takes its `Plain`), and borrowed with `self`
        //         - nobody writes the first half of theirs any more: its rank did so in `new`, before it had a card
        unsafe {
            let Plain { own, len, .. } = &self.own;
            (
                std::slice::from_raw_parts_mut(own.start().as_ptr().add(*len), *len),
                std::slice::from_raw_parts(self.theirs.start().as_ptr(), *len),
            )
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_one_offers_the_other_reads_and_keeps_its_own() {
        let [zero, one] = [3, 5].map(|byte| Plain::new(10_000, byte).unwrap());
        let cards = [zero.card(), one.card()];
        let mut pair = zero.meet(1, cards[1]).unwrap();
        let (mine, theirs) = pair.both();
        assert!(theirs.iter().all(|&byte| byte == 5) && mine.iter().all(|&byte| byte == 0));
        mine.copy_from_slice(theirs);
        let mut back = one.meet(0, cards[0]).unwrap();
        assert_eq!(back.both(), (&mut [0; 10_000][..], &[3; 10_000][..]));
    }

    #[test]
    fn memory_of_another_length_is_refused() {
        let (short, long) = (Plain::new(10, 1).unwrap(), Plain::new(10_000, 1).unwrap());
        assert!(long.meet(1, short.card()).err().unwrap().to_string().contains("rank 1 is not what it says"));
    }
}
