//! Turns: where the pace asks for it, this rank tells its sources when each may put, in the order of its rounds.
#![forbid(unsafe_code)]

use std::collections::VecDeque;

use super::arrivals::Arrivals;
use super::course::Course;
use super::io::Io;
use crate::engine::call::Kind;
use crate::error::Result;
use crate::rank::Rank;

/// The turns that this rank has given.
#[derive(Default)]
pub struct Turns {
    /// The rounds whose sources have been told that it is their turn, and that have not nearly arrived.
    given: VecDeque<u32>,
    /// The first round that has not been looked at.
    next: u32,
}

impl Turns {
    /// Tells sources whose turn it is: as many at a time as the pace says, where one whose last put is on its
    /// way does not count. False where one could not be told.
    pub fn give(&mut self, course: &Course, arrivals: &Arrivals, io: &mut Io) -> Result<bool> {
        let Some(most) = course.pace.turns.filter(|_| course.is_direct()) else { return Ok(true) };
        while self.next < course.plan().rounds() {
            while self.given.front().is_some_and(|&round| arrivals.has_nearly(round, course)) {
                self.given.pop_front();
            }
            if self.given.len() == most as usize {
                return Ok(true);
            }
            if let Some(leg) = course.plan().round(self.next).arrival {
                if !self.give_to(leg.peer, course, arrivals, io)? {
                    return Ok(false);
                }
                self.given.push_back(self.next);
            }
            self.next += 1;
        }
        Ok(true)
    }

    fn give_to(&self, source: Rank, course: &Course, arrivals: &Arrivals, io: &mut Io) -> Result<bool> {
        let channel = arrivals.channel(source).ok_or_else(|| course.twice(self.next))?;
        io.send(channel, &course.header(Kind::Turn { round: self.next }), None)
    }
}
