//! The calls made on a communicator: their numbers, and what is remembered of those that are over.
#![forbid(unsafe_code)]

use std::collections::VecDeque;

use super::call::{Call, Signature, is_before};

/// Operations that are remembered when they are over, to know what comes late from what is wrong.
const REMEMBERED: usize = 256;

/// The calls made on each communicator.
#[derive(Default)]
pub struct Ledger {
    /// In the order of the communicators' numbers.
    pages: Vec<(u32, Calls)>,
    /// Where the page of the last call is: it is likely to be the next one's.
    open: usize,
    /// The latest communicators that were freed.
    freed: VecDeque<u32>,
}

/// Communicators that are remembered when they are freed: so many that what was under way for those before has come. Each was
/// made by a call of all its ranks.
const FREED: usize = 4096;

impl Ledger {
    /// Those on a communicator, if there are any.
    pub fn get(&self, communicator: u32) -> Option<&Calls> {
        self.place(communicator).ok().map(|at| &self.pages[at].1)
    }

    /// The same, to be changed.
    pub fn find(&mut self, communicator: u32) -> Option<&mut Calls> {
        if !self.is_open(communicator) {
            self.open = self.place(communicator).ok()?;
        }
        Some(&mut self.pages[self.open].1)
    }

    /// The same, where none may have been made.
    pub fn of(&mut self, communicator: u32) -> &mut Calls {
        if !self.is_open(communicator) {
            self.open = self.place(communicator).unwrap_or_else(|at| {
                self.pages.insert(at, (communicator, Calls::default()));
                at
            });
        }
        &mut self.pages[self.open].1
    }

    /// Whether it is the one that was asked for last.
    fn is_open(&self, communicator: u32) -> bool {
        self.pages.get(self.open).is_some_and(|&(number, _)| number == communicator)
    }

    /// As if so many more calls had been made on each.
    #[cfg(test)]
    pub fn grow_old(&mut self, by: u32) {
        self.pages.iter_mut().for_each(|(_, calls)| calls.last = calls.last.wrapping_add(by));
    }

    /// A communicator is used no more: what still comes for it comes late.
    pub fn close(&mut self, communicator: u32) {
        if self.freed.len() == FREED {
            self.freed.pop_front();
        }
        self.freed.push_back(communicator);
        if let Ok(at) = self.place(communicator) {
            self.pages.remove(at);
        }
    }

    /// Whether it was freed, and not long ago.
    pub fn is_freed(&self, communicator: u32) -> bool {
        self.freed.contains(&communicator)
    }

    /// Where its page is, or belongs.
    fn place(&self, communicator: u32) -> std::result::Result<usize, usize> {
        self.pages.binary_search_by_key(&communicator, |&(number, _)| number)
    }
}

/// The calls made on a communicator.
#[derive(Default)]
pub struct Calls {
    /// The number of the last one.
    last: u32,
    /// The latest that are over, in any order.
    past: Vec<Past>,
    /// Where the next one's place is, that of the oldest.
    oldest: usize,
}

/// An operation that is over.
pub struct Past {
    /// Which.
    pub call: Call,
    /// How often it was started.
    pub starts: u32,
}

impl Calls {
    /// The next one.
    pub fn next(&mut self, communicator: u32, signature: Signature) -> Call {
        self.last = self.last.wrapping_add(1);
        Call { communicator, number: self.last, signature }
    }

    /// Whether a number is of a call that is still to be made.
    pub fn is_to_come(&self, number: u32) -> bool {
        is_before(self.last, number)
    }

    /// One is over.
    pub fn remember(&mut self, past: Past) {
        match self.past.get_mut(self.oldest) {
            Some(oldest) => *oldest = past,
            None => self.past.push(past),
        }
        self.oldest = (self.oldest + 1) % REMEMBERED;
    }

    /// The one with this number, if it is remembered.
    pub fn past(&self, number: u32) -> Option<&Past> {
        self.past.iter().find(|past| past.call.number == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::collective::Collective;

    #[test]
    fn of_communicators_that_were_freed_the_latest_are_remembered() {
        let mut ledger = Ledger::default();
        let last = 3 * FREED as u32;
        (0..=last).for_each(|number| ledger.close(number));
        assert_eq!([last, last - 9, 9].map(|number| ledger.is_freed(number)), [true, true, false]);
        assert_eq!(ledger.freed.len(), FREED);
    }

    #[test]
    fn after_the_last_number_comes_the_first_again() {
        let mut calls = Calls { last: u32::MAX - 1, ..Calls::default() };
        for number in [u32::MAX, 0, 1] {
            assert!(calls.is_to_come(number));
            assert_eq!(calls.next(7, Signature::bare(Collective::Barrier)).number, number);
            assert!(!calls.is_to_come(number) && !calls.is_to_come(u32::MAX - 1));
        }
    }

    #[test]
    fn the_latest_are_remembered_each_on_its_own_communicator() {
        let mut ledger = Ledger::default();
        for number in 1..=REMEMBERED as u32 + 3 {
            for communicator in [5, 0] {
                let calls = ledger.of(communicator);
                let call = calls.next(communicator, Signature::bare(Collective::Barrier));
                assert_eq!(call.number, number);
                calls.remember(Past { call, starts: communicator });
            }
        }
        let starts = |communicator, number| Some(ledger.get(communicator)?.past(number)?.starts);
        for communicator in [0, 5] {
            assert!((1..=3).all(|number| starts(communicator, number).is_none()));
            assert!(
                (4..=REMEMBERED as u32 + 3).all(|number| starts(communicator, number) == Some(communicator))
            );
        }
        ledger.close(0);
        assert!(ledger.get(0).is_none() && ledger.find(0).is_none() && ledger.find(5).is_some());
        assert_eq!(ledger.of(0).next(0, Signature::bare(Collective::Barrier)).number, 1);
    }
}
