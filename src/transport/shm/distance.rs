//! Whether lines that a peer has read take long to be written again.
//!
//! A line that another core has read is taken from it before it is written. Cores that share a cache do that in passing;
//! others take a round trip for it, about ten at a time: 28 ns a line in a copy on EPYC 9004, where a copy past the caches
//! takes 2, and the reader 4 either way. Where a cache is shared it is the other way round: what was written past it the
//! reader must fetch from memory. Which of the two it is, is measured by the copies themselves: of what a machine tells of its
//! caches nothing need be true where processors are virtual, and they change places while a job runs.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use super::sights::{Seen, Sights};
use super::traffic::{Manner, Spot, Traffic};
use crate::transport::copy::{CopyFn, Gait, copy, copy_afar};
use crate::transport::{Heats, Sight};

/// One of so many copies is timed where lines are near, and one is made as if they were where they are far; of so many legs and puts
/// that rest, one is copied.
const TRIAL: [u32; 2] = [16, 256];
/// Of so many legs, by how often it is asked, one is copied, where no copy tells of lines that are near: who reads what is shown has it
/// as fast from afar, and the other's program, which writes there again, pays.
const SHOWN: u32 = 128;
/// And so many may be copied to find out: some copies tell nothing, as they are short, of several segments, or made by the kernel.
const COPIED: u32 = 16;
/// So many in a row that tell otherwise are believed: a copy may be interrupted.
pub(super) const BELIEVED: u32 = 4;
/// Nanoseconds a line from which on lines are far: near ones take a few, and from memory, or where pages are touched first, up
/// to a dozen.
const FAR: u64 = 16;
/// Bytes of a copy from which on its time tells: of some lines all are under way at once.
const TELLING: usize = 4 << 10;
pub(super) const LINE: u64 = crate::transport::memory::LINE as u64;

/// What is known of a peer's lines.
#[derive(Debug, Default)]
pub struct Distance {
    far: bool,
    /// Of copies into windows, where they are not.
    puts: Heats,
    /// Copies since the last that was timed, and what rests and was not copied.
    untimed: u32,
    /// Those in a row that told otherwise.
    otherwise: u32,
    /// How often it was asked whether to show a leg, since the last copy that told.
    asked: u32,
    traffic: Traffic,
    sights: Sights,
}

impl Distance {
    /// As after copies that took long.
    #[cfg(test)]
    pub fn far() -> Self {
        Distance { far: true, ..Distance::default() }
    }

    /// As after straight puts that did.
    #[cfg(test)]
    pub fn busy() -> Self {
        Distance { traffic: Traffic::heavy(), ..Distance::default() }
    }

    /// Makes a copy of so many bytes to the peer in the manner that suits.
    pub fn copy(&mut self, bytes: usize, make: impl FnOnce(CopyFn)) {
        self.copy_by(bytes, copy, make);
    }

    /// The same into a window, whose lines rest in this core's cache if neither end touches them but by puts. What goes straight goes as
    /// is faster. (Where lines are far, the copy that is made as if they were near is a plain one.)
    pub fn copy_into_window(&mut self, bytes: usize, gait: Gait, make: impl FnOnce(CopyFn)) {
        if self.far || gait != Gait::Straight {
            return self.copy_by(bytes, gait.copy(), make);
        }
        let copying = self.puts.begin(bytes);
        self.copy_by(bytes, copying.gait.copy(), make);
        self.puts.over(copying);
    }

    /// The same, timed as a put that tells of the [traffic](Traffic).
    pub fn copy_timed(&mut self, bytes: usize, gait: Gait, make: impl FnOnce(CopyFn)) {
        let start = Instant::now();
        self.copy_into_window(bytes, gait, make);
        self.traffic.learn(bytes, start.elapsed());
    }

    /// Makes it by `near` where lines are.
    fn copy_by(&mut self, bytes: usize, near: CopyFn, make: impl FnOnce(CopyFn)) {
        if bytes < TELLING || !self.is_due() {
            return make(if self.far { copy_afar } else { near });
        }
        let start = Instant::now();
        make(near);
        self.learn(bytes, start.elapsed());
    }

    /// How a put into a window is to be made that may go round. What goes past the caches goes straight.
    pub fn choose(&mut self, to: Spot) -> Manner {
        if self.far { Manner::Straight } else { self.traffic.choose(to) }
    }

    /// Such a put was not taken.
    pub fn put_off(&mut self) {
        self.traffic.put_off();
    }

    /// Whether the peer may read where they lie what the program writes again: where that takes neither of them long, as far as
    /// is known. Now and then not, so that a copy tells.
    pub fn may_show(&mut self) -> bool {
        self.asked = (self.asked + 1) % (SHOWN + COPIED);
        !self.far && !self.is_looking()
    }

    /// Whether lines are far, as far as is known.
    pub fn is_far(&self) -> bool {
        self.far
    }

    /// Whether it may though lines are far: where what it reads [rests](Self::rests).
    pub fn may_show_afar(&mut self, sight: Sight<'_>) -> bool {
        self.far && self.rests(sight)
    }

    /// Whether nobody has written there since the last call. Now and then not, as above. However often a call asks, it counts once.
    pub fn rests(&mut self, sight: Sight<'_>) -> bool {
        let Seen { rests, is_first } = self.sights.look(sight);
        let tries = self.otherwise > 0 || self.untimed >= TRIAL[1];
        self.untimed += u32::from(is_first && rests && !tries);
        rests && !tries
    }

    /// Whether legs are copied to find out.
    fn is_looking(&self) -> bool {
        self.asked >= SHOWN
    }

    /// Whether what may go round does.
    pub fn goes_round(&self) -> bool {
        !self.far && self.traffic.is_heavy()
    }

    /// Whether the next copy is to tell what it takes.
    fn is_due(&mut self) -> bool {
        self.untimed += 1;
        let looks = !self.far && self.is_looking();
        let due = looks || self.otherwise > 0 || self.untimed >= TRIAL[usize::from(self.far)];
        self.untimed *= u32::from(!due);
        due
    }

    fn learn(&mut self, bytes: usize, took: Duration) {
        let far = took_a_line(FAR, bytes, took);
        self.otherwise = if far == self.far { 0 } else { self.otherwise + 1 };
        if self.otherwise == BELIEVED {
            (self.far, self.otherwise) = (far, 0);
            self.puts = Heats::default();
        }
        // While copies tell otherwise one more is to come.
        if self.otherwise == 0 {
            self.asked = 0;
        }
    }
}

/// Whether a copy took so many nanoseconds a line, or more.
pub(super) fn took_a_line(nanoseconds: u64, bytes: usize, took: Duration) -> bool {
    took.as_nanos() as u64 >= nanoseconds * (bytes as u64).div_ceil(LINE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Segment;
    use crate::transport::copy::has_two_ways;
    use crate::transport::memory::Memory;

    const SHORT: Duration = Duration::from_nanos(TELLING as u64 / LINE);
    const LONG: Duration = Duration::from_nanos(28 * TELLING as u64 / LINE);

    /// Copies that each take so long, and how many of them were made past the caches.
    fn copies(distance: &mut Distance, count: u32, took: Duration) -> u32 {
        let mut past = 0;
        for _ in 0..count {
            match distance.is_due() {
                true => distance.learn(TELLING, took),
                false => past += u32::from(distance.far),
            }
        }
        past
    }

    #[test]
    fn where_lines_are_near_nothing_goes_past_the_caches() {
        assert_eq!(copies(&mut Distance::default(), 1000, SHORT), 0);
    }

    #[test]
    fn where_they_are_far_nearly_all_goes_and_when_they_come_near_nothing_any_more() {
        let mut distance = Distance::default();
        assert_eq!(copies(&mut distance, TRIAL[0] + BELIEVED - 1, LONG), 0);
        assert!(distance.far);
        assert_eq!(copies(&mut distance, 10 * TRIAL[1], LONG), 10 * (TRIAL[1] - 1));
        copies(&mut distance, TRIAL[1] + BELIEVED, SHORT);
        assert!(!distance.far);
    }

    /// Of so many legs, each of which is shown or else copied, so long, how many are shown.
    fn legs(distance: &mut Distance, count: u32, bytes: usize, took: Duration) -> u32 {
        let is_shown = |_: &u32| {
            let shown = distance.may_show();
            if !shown && bytes >= TELLING && distance.is_due() {
                distance.learn(bytes, took);
            }
            shown
        };
        (0..count).filter(is_shown).count() as u32
    }

    #[test]
    fn where_nothing_is_copied_a_leg_is_now_and_then_and_tells() {
        let mut near = Distance::default();
        assert_eq!(legs(&mut near, 10 * SHOWN, TELLING, SHORT), 10 * (SHOWN - 1));
        let mut far = Distance::default();
        assert_eq!(legs(&mut far, 10 * SHOWN, TELLING, LONG), SHOWN - 1);
        assert!(far.far);
        copies(&mut far, TRIAL[1] + BELIEVED, SHORT);
        assert_eq!(legs(&mut far, SHOWN, TELLING, SHORT), SHOWN - 1, "they have come near");
    }

    #[test]
    fn afar_only_what_rests_is_shown() {
        let (memory, segments) = (Memory::zeroed(TELLING).unwrap(), [Segment { offset: 0, len: TELLING }]);
        let may_show = |distance: &mut Distance, call: u64, what: u8| {
            memory.write(0, &[what]);
            distance.may_show_afar(Sight { call: (call, 0), memory: &memory, segments: &segments })
        };
        let mut near = Distance::default();
        assert!(![1, 2].map(|call| may_show(&mut near, call, 7)).contains(&true), "it is near");
        let mut far = Distance::far();
        let shown = [(1, 7), (2, 7), (3, 8), (4, 8)].map(|(call, what)| {
            assert!(!far.may_show());
            may_show(&mut far, call, what)
        });
        assert_eq!(shown, [false, true, false, true]);
        let resting = |far: &mut Distance, first, calls| {
            (first..first + calls).filter(|&call| may_show(far, call, 8)).count() as u64
        };
        let shown = resting(&mut far, 5, 2 * u64::from(TRIAL[1]));
        assert!((200..u64::from(TRIAL[1])).contains(&shown), "until a copy tells: {shown}");
        for _ in 0..BELIEVED {
            assert!(far.is_due());
            far.learn(TELLING, SHORT);
        }
        assert!(far.may_show(), "it has come near");
    }

    #[test]
    fn of_copies_into_windows_what_goes_straight_is_made_in_two_ways_where_lines_are_near() {
        const BYTES: usize = 64 << 10;
        for (mut distance, gait, used) in [
            (Distance::default(), Gait::Straight, has_two_ways(BYTES)),
            (Distance::default(), Gait::Abreast, false),
            (Distance::default(), Gait::PastCaches, false),
            (Distance::far(), Gait::Straight, false),
        ] {
            let mut made = 0;
            distance.copy_into_window(BYTES, gait, |_| made += 1);
            assert_eq!((made, distance.puts.is_used()), (1, used), "{gait:?}, far: {}", distance.far);
        }
    }

    #[test]
    fn where_no_copy_tells_most_is_shown() {
        let shown = legs(&mut Distance::default(), 10 * (SHOWN + COPIED), TELLING - 1, SHORT);
        assert_eq!(shown, 10 * SHOWN);
    }

    #[test]
    fn what_is_copied_beside_tells_enough() {
        let mut distance = Distance::default();
        for _ in 0..100 {
            assert_eq!(legs(&mut distance, SHOWN / 2, TELLING, SHORT), SHOWN / 2);
            copies(&mut distance, TRIAL[0], SHORT);
        }
    }

    #[test]
    fn copies_that_were_interrupted_change_nothing() {
        let mut distance = Distance::default();
        for _ in 0..100 {
            copies(&mut distance, TRIAL[0], SHORT);
            (0..BELIEVED - 1).for_each(|_| distance.learn(TELLING, LONG));
            distance.learn(TELLING, SHORT);
        }
        assert!(!distance.far);
    }
}
