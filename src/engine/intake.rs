//! Takes in what is folded, and what came packed: strictly in the order of rounds, whatever the order of
//! arrival, so that a sum is the same bit for bit in every run.
//!
//! What has landed stays in its staging slot (or, if it came in a message, in a copy) until its turn.
#![forbid(unsafe_code)]

use super::leg::Pieces;
use super::operation::Shown;
use super::run::Unexpected;
use super::staging::STAGES;
use crate::plan::{Landing, Plan};
use crate::rank::Rank;

/// Taken pieces of which a source is told at a time.
const GIVEN_BACK: u32 = STAGES as u32 * 3 / 4;

/// The pieces of one source: which have landed, and how many have been taken.
#[derive(Default)]
pub struct Stock {
    landed: u16,
    taken: u32,
    /// Taken, and not yet told to the source.
    owed: u32,
}

impl Stock {
    /// A piece has landed in a slot; false where one lies there already.
    pub fn land(&mut self, slot: u8) -> bool {
        let bit = 1 << slot;
        let vacant = self.landed & bit == 0;
        self.landed |= bit;
        vacant
    }

    /// The slot of the next piece, if it is there.
    pub fn next(&self) -> Option<usize> {
        let slot = self.taken as usize % STAGES;
        (self.landed & 1 << slot != 0).then_some(slot)
    }

    /// The next piece has been taken out of its slot.
    pub fn take(&mut self) {
        self.landed &= !(1 << (self.taken as usize % STAGES));
        self.skip(1);
    }

    /// The next pieces came another way: their slots stay empty.
    pub fn skip(&mut self, pieces: u32) {
        self.pass(pieces);
        self.owed += pieces;
    }

    /// The same where the source learns of it otherwise.
    pub fn pass(&mut self, pieces: u32) {
        self.taken += pieces;
    }

    /// Once enough has been taken to tell the source: how many pieces it may put without being told.
    pub fn untold(&self) -> Option<u32> {
        (self.owed >= GIVEN_BACK).then_some((STAGES as u32).saturating_sub(self.owed))
    }

    /// How many pieces have been taken.
    pub fn taken(&self) -> u32 {
        self.taken
    }

    /// How many pieces have been taken since the source was told.
    pub fn owed(&self) -> u32 {
        self.owed
    }

    /// The source has been told.
    pub fn told(&mut self) {
        self.owed = 0;
    }
}

/// The round whose arrival is taken in now.
pub struct Current {
    /// Which.
    pub round: u32,
    /// From whom, in the plan.
    pub source: Rank,
    /// What becomes of it.
    pub landing: Landing,
    /// What of it is still to come, where it belongs.
    pub pieces: Pieces,
}

/// A whole arrival before its turn.
pub enum Early {
    /// It came in a message, and was copied out of it.
    Message(Vec<u8>),
    /// It lies in its source's memory.
    Shown(Shown),
}

/// What is taken in, in which order.
#[derive(Default)]
pub struct Intake {
    current: Option<Current>,
    /// The first round that has not been looked at.
    next: u32,
    /// Arrivals that came whole before their turn.
    early: Vec<(u32, Early)>,
}

impl Intake {
    /// At the beginning of a plan, of whose rounds `pieces` are what is taken in.
    pub fn new(plan: &dyn Plan, pieces: impl Fn(u32) -> Pieces) -> Self {
        let mut intake = Intake::default();
        intake.advance(plan, pieces);
        intake
    }

    /// The first round whose turn has not come.
    pub fn next(&self) -> u32 {
        self.next
    }

    /// The round that is taken in now, to be looked at.
    pub fn now(&self) -> Option<&Current> {
        self.current.as_ref()
    }

    /// The round that is taken in now.
    pub fn current(&mut self) -> Option<&mut Current> {
        self.current.as_mut()
    }

    /// Whether it is the turn of this round.
    pub fn is_at(&self, round: u32) -> bool {
        self.current.as_ref().is_some_and(|current| current.round == round)
    }

    /// On to the next round that has something to take in.
    pub fn advance(&mut self, plan: &dyn Plan, pieces: impl Fn(u32) -> Pieces) {
        self.current = None;
        while self.current.is_none() && self.next < plan.rounds() {
            let round = plan.round(self.next);
            if let Some(source) = round.arrival {
                let pieces = pieces(self.next);
                self.current = (pieces.left() > 0).then_some(Current {
                    round: self.next,
                    source: source.peer,
                    landing: round.landing,
                    pieces,
                });
            }
            self.next += 1;
        }
    }

    /// Whether a round's whole arrival is kept.
    pub fn holds(&self, round: u32) -> bool {
        self.early.iter().any(|(other, _)| *other == round)
    }

    /// Keeps a whole arrival until its turn. Fails where there is one of its round already.
    pub fn keep(&mut self, round: u32, early: Early) -> Result<(), Unexpected> {
        if self.holds(round) {
            return Err(Unexpected { round });
        }
        self.early.push((round, early));
        Ok(())
    }

    /// The current round's arrival, if it came before its turn.
    pub fn early(&mut self) -> Option<Early> {
        let round = self.current.as_ref()?.round;
        let found = self.early.iter().position(|(other, _)| *other == round)?;
        Some(self.early.swap_remove(found).1)
    }

    /// Whether the current round's arrival came before its turn.
    pub fn has_early(&self) -> bool {
        self.current.as_ref().is_some_and(|current| self.holds(current.round))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_taken_in_the_order_of_their_slots() {
        let mut stock = Stock::default();
        assert!(stock.land(1) && stock.land(2) && !stock.land(2));
        assert_eq!(stock.next(), None);
        assert!(stock.land(0));
        for slot in 0..3 {
            assert_eq!(stock.next(), Some(slot));
            stock.take();
        }
        assert_eq!((stock.next(), stock.owed()), (None, 3));
    }

    #[test]
    fn of_some_taken_pieces_their_source_need_not_be_told() {
        let mut stock = Stock::default();
        stock.skip(GIVEN_BACK - 1);
        assert_eq!(stock.untold(), None);
        stock.skip(1);
        assert_eq!(stock.untold(), Some(STAGES as u32 - GIVEN_BACK));
        stock.skip(STAGES as u32);
        assert_eq!(stock.untold(), Some(0));
        stock.told();
        assert_eq!((stock.untold(), stock.owed()), (None, 0));
    }

    #[test]
    fn a_piece_that_came_another_way_leaves_its_slot_empty() {
        let mut stock = Stock::default();
        assert!(stock.land(1));
        stock.skip(1);
        assert_eq!((stock.next(), stock.owed()), (Some(1), 1));
        assert!(stock.land(4));
        stock.take();
        stock.pass(2);
        assert_eq!((stock.next(), stock.owed()), (Some(4), 2));
    }
}
