//! What a source shows: bytes that it leaves where they are, because their target can read them there.
//!
//! A word in a slot says where they are. The target takes them in when it is their turn, straight from the source's
//! memory, and says so; until then the source leaves them alone. So what is folded crosses memory once less than
//! through staging, and what is short once less than through a slot.
#![forbid(unsafe_code)]

use std::iter;

use smallvec::{SmallVec, smallvec};

use super::payload::{Act, Bytes, Payload, Shore};
use crate::engine::call::{PAIR, shown_bytes};
use crate::engine::leg::{Stretch, total};
use crate::engine::slots::PAYLOAD;
use crate::error::{Error, Result};
use crate::plan::Landing;
use crate::rank::Rank;
use crate::transport::memory::Memory;
use crate::transport::{Gait, RemoteKey, Segment, Transport};

/// Bytes of a source's memory, in the order in which they are taken.
pub struct Shown {
    /// Whose, in the world.
    peer: Rank,
    memory: Memory,
    runs: SmallVec<[Segment; 2]>,
}

/// Whether there is something to show, and a message has room to say where it is.
pub fn fits(stretches: &[Stretch]) -> bool {
    let has_room = |runs| shown_bytes(runs) <= PAYLOAD;
    total(stretches) > 0 && u16::try_from(stretches.len()).is_ok_and(has_room)
}

/// Bytes of a leg from which on it may be shown though a slot has room for it. Two ranks on a Xeon guest, windows
/// that rest: with 4 KiB a broadcast takes 0.66 of the time, with 2 KiB 1.0.
pub const SHOWN_FOR_SLOT: usize = 4 << 10;

#[cfg(test)]
thread_local! {
    /// Legs that this thread has shown along calls' lines.
    pub static BY_LINE: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    /// Long calls that it has made along their lines to the end, and that were left on the way.
    pub static LONG_LINES: std::cell::Cell<[u64; 2]> = const { std::cell::Cell::new([0; 2]) };
    /// Legs that it has shown in operations' runs though a slot had room for them.
    pub static BY_RUN: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// A message about what is shown: mostly of one run or two.
pub type Message = SmallVec<[u8; 128]>;

/// Behind a message's head, its data: they say where the bytes of these segments of a region are.
pub fn message(head: &[u8], key: RemoteKey, segments: &[Segment]) -> Message {
    let mut message: Message = smallvec![0; head.len() + PAIR * (1 + segments.len())];
    let (start, pairs) = message.split_at_mut(head.len());
    start.copy_from_slice(head);
    let runs = segments.iter().map(|run| [key.base.wrapping_add(run.offset as u64), run.len as u64]);
    for (place, [one, other]) in
        pairs.as_chunks_mut::<PAIR>().0.iter_mut().zip(iter::once([0, key.key]).chain(runs))
    {
        *place = (u128::from(other) << 64 | u128::from(one)).to_le_bytes();
    }
    message
}

impl Shown {
    /// What a peer's message says that it shows, in so many runs. Fails where the peer does not.
    pub fn read(from: &Payload<'_>, runs: u16, peer: Rank, transport: &mut dyn Transport) -> Result<Shown> {
        let senseless = || {
            let what = format!("rank {peer} shows memory that it does not have");
            Error::transport("view", what, "are all ranks of one version and one job?")
        };
        let len = shown_bytes(runs);
        if runs == 0 || len > from.room() {
            return Err(senseless());
        }
        let mut words: Message = smallvec![0; len];
        from.copy_to(&mut words);
        let word = |at: usize| words[at..].first_chunk().map_or(0, |&eight| u64::from_le_bytes(eight));
        let memory = transport.view(peer, RemoteKey { base: 0, key: word(8) })?;
        let run = |i: usize| Segment { offset: word(PAIR * i) as usize, len: word(PAIR * i + 8) as usize };
        let runs: SmallVec<[Segment; 2]> = (1..=usize::from(runs)).map(run).collect();
        let lies_there =
            |run: &Segment| run.offset.checked_add(run.len).is_some_and(|end| end <= memory.len());
        if runs.iter().all(lies_there) { Ok(Shown { peer, memory, runs }) } else { Err(senseless()) }
    }

    /// The same without the first run.
    pub fn behind_the_first_run(mut self) -> Shown {
        self.runs.remove(0);
        self
    }

    /// How many bytes.
    pub fn bytes(&self) -> usize {
        self.runs.iter().fold(0, |all, run| all.saturating_add(run.len))
    }

    /// Stores them where they belong, or combines them with what this rank has. False where their source has shut down,
    /// and nothing was read: they are its user's again.
    pub fn land(
        &self,
        into: &[Stretch],
        landing: Landing,
        shore: Shore<'_>,
        transport: &mut dyn Transport,
    ) -> Result<bool> {
        let mut landed = Ok(());
        let in_one_run = self.runs.len() == 1 && into.len() == 1;
        let shown = if in_one_run && landing == Landing::Store && shore.gait == Gait::Straight {
            transport.while_shown_to_copy(self.peer, self.bytes(), &mut |gait| {
                landed = Shore { gait, ..shore }.land(self, into, landing);
            })
        } else {
            transport.while_shown(self.peer, &mut || landed = shore.land(self, into, landing))
        }?;
        landed.map(|()| shown)
    }

    /// Gives `len` of the bytes, from `from` on, to `each`, run by run: how many went before, where they lie, and
    /// how many they are.
    fn each(
        &self,
        from: usize,
        len: usize,
        mut each: impl FnMut(usize, usize, usize) -> Result<()>,
    ) -> Result<()> {
        let (mut skipped, mut done) = (from, 0);
        for run in &self.runs {
            let here = run.len.saturating_sub(skipped).min(len - done);
            if here > 0 {
                each(done, run.offset + skipped, here)?;
                done += here;
            }
            skipped = skipped.saturating_sub(run.len);
        }
        Ok(())
    }
}

impl Bytes for Shown {
    fn store(&self, from: usize, to: &Memory, at: usize, len: usize, gait: Gait) {
        // A copy does not fail.
        let _ = self.each(from, len, |done, start, len| {
            to.copy_in(gait, at + done, &self.memory, start, len);
            Ok(())
        });
    }

    fn combine(&self, from: usize, to: &Memory, at: usize, len: usize, act: &mut Act<'_>) -> Result<()> {
        self.each(from, len, |done, start, len| to.combine(at + done, &self.memory, start, len, &mut *act))
    }
}

#[cfg(test)]
mod tests {
    use super::super::io::segments;
    use super::*;
    use crate::transport::loopback::Loopback;
    use proptest::prelude::*;

    fn shown(data: &[u8], runs: u16, of: usize) -> Result<Shown> {
        let mut world = Loopback::world(2, 1)?;
        let memory = Memory::zeroed(of)?;
        let numbers: Vec<u8> = (0..of).map(|i| i as u8).collect();
        memory.write(0, &numbers);
        let region = world[0].register(memory)?;
        assert_eq!(region.remote.near.key, 1);
        Shown::read(&Payload::Copied(data), runs, 0, &mut world[1])
    }

    #[test]
    fn what_is_shown_is_stored_in_every_gait() {
        const LEN: usize = 100_000;
        let mut world = Loopback::world(2, 1).unwrap();
        let memory = Memory::zeroed(LEN).unwrap();
        let numbers: Vec<u8> = (0..LEN).map(|i| (i * 31 + i / 251) as u8).collect();
        memory.write(0, &numbers);
        let region = world[0].register(memory).unwrap();
        let words = message(&[], region.remote.near, &[Segment { offset: 5, len: LEN - 5 }]);
        let shown = Shown::read(&Payload::Copied(&words), 1, 0, &mut world[1]).unwrap();
        for gait in [Gait::Straight, Gait::AtRest, Gait::Abreast, Gait::PastCaches] {
            let (to, mut stored) = (Memory::zeroed(LEN).unwrap(), vec![0; LEN]);
            shown.store(2, &to, 3, LEN - 7, gait);
            to.read(0, &mut stored);
            assert!(stored[..3] == [0; 3] && stored[3..LEN - 4] == numbers[7..], "{gait:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_run_by_run(lengths in proptest::collection::vec(1usize..20, 1..6), from: usize, len: usize) {
            let mut at = 3;
            let stretch = |&len: &usize| {
                at += len + 2;
                Stretch { at: at - len, there: 0, len }
            };
            let stretches: Vec<_> = lengths.iter().map(stretch).collect();
            let key = RemoteKey { base: 0, key: 1 };
            let words = message(&[], key, &segments(&stretches));
            let all = total(&stretches);
            let shown = shown(&words, lengths.len() as u16, 200).unwrap();
            prop_assert_eq!(shown.bytes(), all);
            let (from, to) = (from % all, Memory::zeroed(200).unwrap());
            let len = len % (all - from + 1);
            let expected: Vec<u8> =
                stretches.iter().flat_map(|run| run.at..run.at + run.len).map(|byte| byte as u8).collect();
            let read = |to: &Memory| {
                let mut bytes = vec![0; len];
                to.read(7, &mut bytes);
                bytes
            };
            shown.store(from, &to, 7, len, Gait::Straight);
            prop_assert_eq!(read(&to), &expected[from..from + len]);
            let mut double = |mine: &mut [u8], theirs: &[u8]| {
                mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine = mine.wrapping_add(*theirs));
                Ok(())
            };
            shown.combine(from, &to, 7, len, &mut double).unwrap();
            let twice: Vec<u8> = expected[from..from + len].iter().map(|byte| byte.wrapping_mul(2)).collect();
            prop_assert_eq!(read(&to), twice);
        }
    }

    #[test]
    fn no_more_is_shown_than_a_message_has_room_for() {
        let most = PAYLOAD / PAIR - 1;
        let runs = |count| vec![Stretch { at: 0, there: 0, len: 1 }; count];
        for (count, fit) in [(0, false), (1, true), (most, true), (most + 1, false), ((1 << 16) + 1, false)] {
            assert_eq!(fits(&runs(count)), fit, "{count} runs");
        }
    }

    #[test]
    fn what_cannot_be_shown_is_an_error_that_names_the_rank() {
        let words = |key, at, len| message(&[], RemoteKey { base: 0, key }, &[Segment { offset: at, len }]);
        let good = words(1, 90, 10);
        assert!(shown(&good, 1, 100).is_ok());
        let bad = [
            (good.clone(), 0),
            (good.clone(), 2),
            (good, u16::MAX),
            (words(1, 91, 10), 1),
            (words(1, usize::MAX, 10), 1),
            (words(2, 0, 10), 1),
        ];
        for (words, runs) in bad {
            let error = shown(&words, runs, 100).err().unwrap().to_string();
            assert!(error.contains("rank 0"), "{error}");
        }
    }
}
