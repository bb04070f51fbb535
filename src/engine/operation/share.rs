//! How the two ends of a long leg share its work, where each reaches the other's memory: half of it the source puts,
//! or folds in where it belongs, and half it shows, for the target to take in. So both copy, or add up, as much at one
//! time. Where one of them has turned out to be the slower, by its core or by its way of copying, it gets less
//! ([`Lead`]).
#![forbid(unsafe_code)]

use smallvec::smallvec;

use super::course::Course;
use super::shown;
use crate::engine::leg::{Stretch, Stretches, whole_lines};
use crate::error::{Error, Result};
use crate::plan::Landing;
use crate::rank::Rank;
use crate::transport::memory::LINE;
use crate::transport::{RemoteKey, Transport};

/// By how many bytes a leg must be longer than what arrives, for the difference to be shared. Of two ranks on
/// two cores, a broadcast of 64 KiB takes as long either way, one of 256 KiB to 16 MiB half as long.
const SHARED: usize = 64 << 10;
/// Bytes of such a leg, where it is stored, that are its target's at least.
const LEFT: usize = SHARED / 4;
/// Bytes that are folded in a peer's memory at a time: a peer that shuts down meanwhile waits for no more.
const STEP: usize = 1 << 20;

/// How much of a leg's work is its source's: a half at first, then by who was through first.
///
/// It moves only when one end has been first so much more often: lines about the border are another core's after each move, and
/// of two ends that are alike now the one is first, now the other. Measured on two cores of a Xeon guest, windows that rest, builds in
/// turns: 1 MiB take 0.95 to 0.99 of the time that they take with halves, 256 KiB 0.97 to 1.0, 4 and 16 MiB 0.95 to 1.01; moved
/// after each call 1 MiB 0.98 to 1.02.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lead {
    /// Of [all](Lead::ALL) of the work.
    part: u8,
    /// How much more often the source was through first than the target since the last move.
    source_first: i8,
}

impl Lead {
    const ALL: usize = 64;
    /// Between one quarter and three quarters: whoever shares a core with others for a while is not judged by that.
    const RANGE: std::ops::RangeInclusive<u8> = 16..=48;
    const OFTEN: i8 = 6;

    /// Of so much work of both ends.
    fn of(self, work: usize) -> usize {
        let part = usize::from(self.part);
        work / Lead::ALL * part + work % Lead::ALL * part / Lead::ALL
    }

    /// The source was through with its part, and the target with its own, or not yet.
    pub fn learn(&mut self, target_through: bool) {
        let step = if target_through { -1 } else { 1 };
        self.source_first += step;
        if self.source_first.abs() == Lead::OFTEN {
            let part = self.part.saturating_add_signed(step).clamp(*Lead::RANGE.start(), *Lead::RANGE.end());
            *self = Lead { part, source_first: 0 };
        }
    }
}

impl Default for Lead {
    fn default() -> Self {
        Lead { part: Lead::ALL as u8 / 2, source_first: 0 }
    }
}

/// That a target lets the source of a leg fold it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Open {
    /// Its memory.
    pub target: RemoteKey,
    /// How.
    pub landing: Landing,
    /// Bytes of an element.
    pub unit: usize,
}

/// What becomes of a leg's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// The first ones, if they are the source's to bring to their place.
    pub first: Option<First>,
    /// Taken in by the target from where they lie.
    pub shown: Stretches,
}

/// What a source brings to its place in the target's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    /// By a put.
    Put(Stretch),
    /// By folding it in there, where the target opens its memory; else that takes it in, too.
    Fold(Stretch),
}

/// Whether the two ends of a leg of one block share its work, while so many bytes arrive at its source.
pub fn is_shared(bytes: usize, arriving: usize) -> bool {
    bytes >= SHARED.saturating_add(arriving)
}

impl Share {
    /// Of a leg that is stored where it lands, while so many bytes arrive at its source: it puts its part (`lead`) of all
    /// that the two have to copy. `None` where it is to put the whole.
    pub fn of_stored(direct: &[Stretch], arriving: usize, lead: Lead) -> Option<Share> {
        match *direct {
            [block] if is_shared(block.len, arriving) => {
                let put = lead.of(block.len + arriving).min(block.len - LEFT);
                let (put, shown) = block.split(put / LINE * LINE);
                Some(Share { first: Some(First::Put(put)), shown: smallvec![shown] })
            }
            _ => None,
        }
    }

    /// Of a leg that the target folds, or unpacks: that is shown, as far as a message has room to say where it is. Where
    /// the source may fold elements of so many bytes (`unit`), while so many bytes arrive that it folds besides, it
    /// folds its part (`lead`) of all that the two have to. `None` where the leg is to be staged.
    pub fn of_staged(all: &[Stretch], arriving: usize, unit: Option<usize>, lead: Lead) -> Option<Share> {
        if !shown::fits(all) {
            return None;
        }
        Some(match (all, unit) {
            (&[block], Some(unit)) if is_shared(block.len, arriving) && unit <= SHARED / 2 => {
                let grain = whole_lines(unit);
                let folded = lead.of(block.len + arriving).saturating_sub(arriving);
                let (folded, shown) = block.split((folded / grain).max(1) * grain);
                Share { first: Some(First::Fold(folded)), shown: smallvec![shown] }
            }
            _ => Share { first: None, shown: Stretches::from_slice(all) },
        })
    }
}

/// Folds what a target would else take in itself, where it belongs in the target's memory, which is at that
/// and touches nothing of it meanwhile. False where the target has shut down, as everybody is about to hear.
pub fn fold_there(
    stretch: Stretch,
    open: Open,
    peer: Rank,
    course: &Course,
    transport: &mut dyn Transport,
) -> Result<bool> {
    let Open { target, landing, unit } = open;
    // What has shut down may be gone.
    if !transport.while_shown(peer, &mut || ())? {
        return Ok(false);
    }
    let there = transport.view(peer, RemoteKey { base: 0, ..target })?;
    let at = usize::try_from(target.base.wrapping_add(stretch.there)).unwrap_or(usize::MAX);
    if at.checked_add(stretch.len).is_none_or(|end| end > there.len()) {
        let what = format!("rank {peer} lets be folded in what is not in its memory");
        return Err(Error::transport("view", what, "are all ranks of one version and one job?"));
    }
    let step = (STEP / unit).max(1) * unit;
    for done in (0..stretch.len).step_by(step) {
        let (len, mut folded) = (step.min(stretch.len - done), Ok(()));
        let is_open = transport.while_shown(peer, &mut || {
            folded = there.combine(at + done, course.from(), stretch.at + done, len, |mine, theirs| {
                course.shore().fold(mine, theirs, landing)
            });
        })?;
        folded?;
        if !is_open {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::slots::PAYLOAD;
    use proptest::prelude::*;

    fn block(len: usize) -> Stretch {
        Stretch { at: 5, there: 7, len }
    }

    proptest! {
        #[test]
        fn both_ends_have_as_much_to_do(
            len in 0usize..1 << 20,
            arriving in 0usize..1 << 20,
            unit in prop_oneof![1usize..100, SHARED / 2 - 1..SHARED + 2],
        ) {
            let (len, lead) = (len / unit * unit, Lead::default());
            let stored = Share::of_stored(&[block(len)], arriving, lead);
            prop_assert_eq!(stored.is_some(), len >= SHARED + arriving);
            if let Some(Share { first, shown }) = stored {
                let Some(First::Put(put)) = first else { panic!("{first:?}") };
                prop_assert_eq!(put.len + shown[0].len, len);
                // The source puts, the target reads and puts: within what the cut rounds.
                prop_assert!(put.len.abs_diff(shown[0].len + arriving) <= 2 * LINE);
            }

            let Some(folded) = Share::of_staged(&[block(len)], arriving, Some(unit), lead) else {
                prop_assert_eq!(len, 0);
                return Ok(());
            };
            let mine = match folded.first {
                Some(First::Fold(mine)) => mine.len,
                Some(First::Put(put)) => panic!("{put:?}"),
                None => 0,
            };
            let theirs = folded.shown[0].len;
            prop_assert_eq!((mine + theirs, mine % unit), (len, 0));
            prop_assert!(mine == 0 || (mine + arriving).abs_diff(theirs) <= 2 * LINE.max(unit));
            prop_assert_eq!(folded.first.is_some(), mine > 0);
            prop_assert_eq!(mine > 0, len >= SHARED + arriving && unit <= SHARED / 2);
        }
    }

    #[test]
    fn what_lies_apart_is_shown_as_a_whole_or_staged() {
        let two = [block(SHARED), Stretch { at: SHARED * 2, there: 0, len: SHARED }];
        let lead = Lead::default();
        assert_eq!(Share::of_staged(&two, 0, Some(8), lead).unwrap().shown[..], two);
        assert_eq!(Share::of_staged(&vec![block(1); PAYLOAD], 0, Some(8), lead), None);
    }

    /// After so many calls in which the target was through first, or not.
    fn lead(calls: usize, target_through: bool) -> Lead {
        (0..calls).fold(Lead::default(), |mut lead, _| {
            lead.learn(target_through);
            lead
        })
    }

    #[test]
    fn an_end_that_is_slower_gets_less_to_do() {
        let put = |lead| match Share::of_stored(&[block(1 << 20)], 0, lead).unwrap().first {
            Some(First::Put(put)) => put.len,
            other => panic!("{other:?}"),
        };
        assert_eq!([5, 6, 48].map(|calls| put(lead(calls, false))), [512 << 10, 528 << 10, 640 << 10]);
        assert_eq!([5, 6, 48].map(|calls| put(lead(calls, true))), [512 << 10, 496 << 10, 384 << 10]);
        assert_eq!(
            [true, false].map(|was| put(lead(1000, was))),
            [256 << 10, 768 << 10],
            "each has a quarter"
        );

        let mut by_turns = Lead::default();
        (0..1000).for_each(|call| by_turns.learn(call % 2 == 0));
        assert_eq!(put(by_turns), 512 << 10, "they are alike");
    }

    #[test]
    fn both_ends_have_something_to_do_whatever_was_learned() {
        for lead in [lead(1000, false), lead(1000, true)] {
            for len in [SHARED, 2 * SHARED, (1 << 20) + 40] {
                for arriving in [0, len / 3, len - SHARED] {
                    for unit in [4, 12, SHARED / 2] {
                        let len = len / unit * unit;
                        let shares = [
                            Share::of_stored(&[block(len)], arriving, lead),
                            Share::of_staged(&[block(len)], arriving, Some(unit), lead),
                        ];
                        for Share { first, shown } in shares.into_iter().flatten() {
                            let grain = if matches!(first, Some(First::Fold(_))) { unit } else { 1 };
                            let Some(First::Put(first) | First::Fold(first)) = first else { continue };
                            assert!(first.len.is_multiple_of(grain), "an element is folded as a whole");
                            assert!(first.len > 0 && shown[0].len > 0 && first.len + shown[0].len == len);
                        }
                    }
                }
            }
        }
    }
}
