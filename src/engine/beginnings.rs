//! Beginnings of heads that a peer remembers, so that they travel once.
//!
//! When a call is made again, its messages' heads are those of the time before but for the last word. So a rank has its
//! peer remember a head's beginning, by a number, and of later heads that begin so it puts the last word only, with that
//! number. That holds in whatever order messages come: a number is not used before the slot that told of it has come back,
//! nor given to another beginning before the slots have in which it was used.
#![forbid(unsafe_code)]

use super::call::BEGINNING;

/// A head's beginning.
pub type Beginning = [u8; BEGINNING];

/// The most that a peer remembers: as many messages, of different calls, rounds or lengths, as a program's loop sends over one channel.
const MOST: usize = 16;

/// What is to be done with the beginning of a message's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// It is there, and that is all.
    Plain,
    /// It is there, and to be remembered by this number.
    Remember(usize),
    /// It is not there, and the one of this number.
    Recall(usize),
}

/// The bit of a mark's byte that tells the latter two apart.
const RECALL: u8 = 0x80;

impl Mark {
    /// As it travels: 0 where nothing is to be done.
    pub fn encode(self) -> u8 {
        match self {
            Mark::Plain => 0,
            Mark::Remember(number) => 1 + number as u8,
            Mark::Recall(number) => RECALL | (1 + number as u8),
        }
    }

    /// What that says; a number above the last is refused by [`Heard`].
    pub fn decode(byte: u8) -> Mark {
        match (usize::from(byte & !RECALL).checked_sub(1), byte & RECALL) {
            (None, 0) => Mark::Plain,
            (Some(number), 0) => Mark::Remember(number),
            (number, _) => Mark::Recall(number.unwrap_or(MOST)),
        }
    }
}

/// The beginnings that two ranks have told each other.
#[derive(Default)]
pub struct Known {
    /// What the peer remembers.
    pub told: Told,
    /// What it has told.
    pub heard: Heard,
}

/// What a peer has been told.
#[derive(Default)]
pub struct Told {
    all: Vec<One>,
    /// How many messages have been sent.
    now: u64,
}

struct One {
    beginning: Beginning,
    /// The slot of the message that tells of it, and those of messages that use it, a bit each, until they are given back.
    told_by: u8,
    used_by: u8,
    /// When it was used last.
    last: u64,
}

impl Told {
    /// How a message goes whose head begins so.
    pub fn mark(&self, beginning: &Beginning) -> Mark {
        match self.all.iter().position(|one| one.beginning == *beginning) {
            Some(number) if self.all[number].told_by == 0 => Mark::Recall(number),
            Some(_) => Mark::Plain,
            None if self.all.len() < MOST => Mark::Remember(self.all.len()),
            None => self.oldest().map_or(Mark::Plain, Mark::Remember),
        }
    }

    /// The one that has not been used for the longest time, of those that nothing under way needs.
    fn oldest(&self) -> Option<usize> {
        let idle = self.all.iter().enumerate().filter(|(_, one)| one.told_by | one.used_by == 0);
        idle.min_by_key(|(_, one)| one.last).map(|(number, _)| number)
    }

    /// It went so, by this slot.
    pub fn sent(&mut self, mark: Mark, beginning: &Beginning, slot: usize) {
        self.now += 1;
        match mark {
            Mark::Plain => {}
            Mark::Remember(number) => {
                let one = One { beginning: *beginning, told_by: 1 << slot, used_by: 0, last: self.now };
                if number < self.all.len() { self.all[number] = one } else { self.all.push(one) }
            }
            Mark::Recall(number) => {
                self.all[number].used_by |= 1 << slot;
                self.all[number].last = self.now;
            }
        }
    }

    /// These slots have come back, a bit each.
    pub fn given_back(&mut self, slots: u8) {
        for one in &mut self.all {
            one.told_by &= !slots;
            one.used_by &= !slots;
        }
    }
}

/// What a peer has told.
#[derive(Default)]
pub struct Heard(Vec<Beginning>);

impl Heard {
    /// Remembers one by its number; false for one that there is not.
    pub fn remember(&mut self, number: usize, beginning: Beginning) -> bool {
        if number >= MOST {
            return false;
        }
        if number >= self.0.len() {
            self.0.resize(number + 1, [0; BEGINNING]);
        }
        self.0[number] = beginning;
        true
    }

    /// The one of a number, if there is one.
    pub fn recall(&self, number: usize) -> Option<&Beginning> {
        self.0.get(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_decoded_as_they_were_encoded_and_all_bytes_are_some() {
        for number in 0..MOST {
            for mark in [Mark::Plain, Mark::Remember(number), Mark::Recall(number)] {
                assert_eq!(Mark::decode(mark.encode()), mark);
            }
        }
        let mut heard = Heard::default();
        for byte in 0..=u8::MAX {
            match Mark::decode(byte) {
                Mark::Plain => assert_eq!(byte, 0),
                Mark::Remember(number) => {
                    assert_eq!(heard.remember(number, [byte; BEGINNING]), number < MOST)
                }
                Mark::Recall(number) => assert_eq!(heard.recall(number).is_some(), number < MOST, "{byte}"),
            }
        }
    }

    /// Messages of a few dozen calls, some more often than others, by eight slots, that come in any order: each one's beginning is what
    /// its receiver makes of it, and of calls that come again it is mostly not sent.
    #[test]
    fn what_is_recalled_is_what_was_meant_in_whatever_order_messages_come() {
        let mut chance = fastrand::Rng::with_seed(11);
        let (mut told, mut heard) = (Told::default(), Heard::default());
        let mut under_way: Vec<(usize, Mark, Beginning)> = Vec::new();
        let mut recalled = 0;
        for _ in 0..20_000 {
            let free = (0..8).find(|slot| under_way.iter().all(|(taken, ..)| taken != slot));
            if let Some(slot) = free.filter(|_| chance.bool()) {
                let most = if chance.u8(..10) == 0 { 40 } else { 6 };
                let beginning = [chance.u8(..most); BEGINNING];
                let mark = told.mark(&beginning);
                told.sent(mark, &beginning, slot);
                under_way.push((slot, mark, beginning));
                recalled += usize::from(matches!(mark, Mark::Recall(_)));
            } else if !under_way.is_empty() {
                let (slot, mark, beginning) = under_way.swap_remove(chance.usize(..under_way.len()));
                match mark {
                    Mark::Plain => {}
                    Mark::Remember(number) => assert!(heard.remember(number, beginning)),
                    Mark::Recall(number) => assert_eq!(heard.recall(number), Some(&beginning)),
                }
                told.given_back(1 << slot);
            }
        }
        assert!(recalled > 6000, "{recalled}");
    }

    #[test]
    fn one_that_is_used_all_the_time_is_not_given_up_for_those_that_are_used_once() {
        let mut told = Told::default();
        let mut send = |byte: u8, slot: usize| {
            let mark = told.mark(&[byte; BEGINNING]);
            told.sent(mark, &[byte; BEGINNING], slot);
            told.given_back(1 << slot);
            mark
        };
        assert_eq!(send(0, 0), Mark::Remember(0));
        for once in 1..200 {
            assert!(matches!(send(once, 1), Mark::Remember(_)));
            assert_eq!(send(0, 0), Mark::Recall(0));
        }
    }
}
