//! The calls made on a communicator: their numbers, and what is remembered of those that are over.
#![forbid(unsafe_code)]

use std::collections::VecDeque;

use super::call::{Call, Signature};

/// Operations that are remembered when they are over, to know what comes late from what is wrong.
const REMEMBERED: usize = 256;

/// The calls made on a communicator.
#[derive(Default)]
pub struct Calls {
    /// The number of the last one.
    last: u32,
    /// The latest that are over.
    pub past: VecDeque<Past>,
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

    /// Whether a number is of a call that is still to be made; numbers begin anew when all have been used.
    pub fn is_to_come(&self, number: u32) -> bool {
        (1..=u32::MAX / 2).contains(&number.wrapping_sub(self.last))
    }

    /// One is over.
    pub fn remember(&mut self, past: Past) {
        if self.past.len() == REMEMBERED {
            self.past.pop_front();
        }
        self.past.push_back(past);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::Collective;

    #[test]
    fn after_the_last_number_comes_the_first_again() {
        let mut calls = Calls { last: u32::MAX - 1, past: VecDeque::new() };
        for number in [u32::MAX, 0, 1] {
            assert!(calls.is_to_come(number));
            assert_eq!(calls.next(7, Signature::bare(Collective::Barrier)).number, number);
            assert!(!calls.is_to_come(number) && !calls.is_to_come(u32::MAX - 1));
        }
    }
}
