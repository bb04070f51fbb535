//! What a peer would be shown, and how to tell at a glance whether it is as it was.
#![forbid(unsafe_code)]

use super::Segment;
use super::memory::Memory;
use crate::digest;

/// So many segments, and so many words of each, are looked at.
const SEGMENTS: usize = 4;
const WORDS: usize = 16;
const WORD: usize = 8;

/// What a peer would be shown. Its segments lie in its memory.
#[derive(Clone, Copy)]
pub struct Sight<'s> {
    /// In which call, and which start of it.
    pub call: (u64, u32),
    /// In which memory it lies.
    pub memory: &'s Memory,
    /// Where in it.
    pub segments: &'s [Segment],
}

impl Sight<'_> {
    /// Where it lies, and how many bytes it is.
    pub fn place(&self) -> (usize, usize) {
        let start = self.segments.first().map_or(0, |first| first.offset);
        (self.memory.address().as_ptr() as usize + start, self.bytes())
    }

    /// How many bytes it is.
    pub fn bytes(&self) -> usize {
        self.segments.iter().map(|segment| segment.len).sum()
    }

    /// A number of some of its bytes: nearly always another one when these are others.
    pub fn sample(&self) -> u64 {
        let words = self.segments.iter().take(SEGMENTS).flat_map(|&Segment { offset, len }| {
            (0..WORDS).map(move |i| (offset + len.saturating_sub(WORD) * i / (WORDS - 1), len.min(WORD)))
        });
        digest::of_words(words.map(|(at, len)| {
            let mut word = [0; WORD];
            self.memory.read(at, &mut word[..len]);
            u64::from_le_bytes(word)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_at_a_samples_place_is_seen_and_what_is_elsewhere_is_not() {
        let memory = Memory::zeroed(4096).unwrap();
        let segments = [(64, 1000), (2000, 5), (3000, 0)].map(|(offset, len)| Segment { offset, len });
        let sight = Sight { call: (1, 0), memory: &memory, segments: &segments };
        let before = sight.sample();
        assert_eq!(sight.place(), (memory.address().as_ptr() as usize + 64, 1005));
        for at in [0, 63, 1064, 2005, 4095] {
            memory.write(at, &[1]);
            assert_eq!(sight.sample(), before, "{at}");
        }
        for at in [64, 1063, 2004] {
            memory.write(at, &[1]);
            assert_ne!(sight.sample(), before, "{at}");
            memory.write(at, &[0]);
        }
        assert_eq!(Sight { segments: &[], ..sight }.place().1, 0);
    }
}
