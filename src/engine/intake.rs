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
    /// Those to come that the source may not put before it is told.
    withheld: u32,
}

impl Stock {
    /// Of a source of which so many pieces are to come.
    pub fn new(pieces: u32) -> Self {
        Stock { withheld: pieces.saturating_sub(STAGES as u32), ..Stock::default() }
    }

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
        self.taken += pieces;
        self.owed += pieces;
    }

    /// The same where the source learns of it otherwise.
    pub fn pass(&mut self, pieces: u32) {
        self.taken += pieces;
        self.withheld = self.withheld.saturating_sub(pieces);
    }

    /// Whether enough has been taken for the source to be told, and it waits for that.
    pub fn is_due(&self) -> bool {
        self.withheld > 0 && self.owed >= GIVEN_BACK
    }

    /// How many pieces have been taken since the source was told.
    pub fn owed(&self) -> u32 {
        self.owed
    }

    /// The source has been told.
    pub fn told(&mut self) {
        self.withheld = self.withheld.saturating_sub(self.owed);
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

    /// Keeps a whole arrival until its turn. Fails where there is one of its round already.
    pub fn keep(&mut self, round: u32, early: Early) -> Result<(), Unexpected> {
        if self.early.iter().any(|(other, _)| *other == round) {
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
        self.current
            .as_ref()
            .is_some_and(|current| self.early.iter().any(|(round, _)| *round == current.round))
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
    fn a_source_is_told_of_taken_pieces_only_where_it_waits_for_that() {
        let told = |mut stock: Stock, pieces: u32| {
            let mut told = Vec::new();
            for _ in 0..pieces {
                stock.skip(1);
                if stock.is_due() {
                    told.push(stock.owed());
                    stock.told();
                }
            }
            told
        };
        let (stages, back) = (STAGES as u32, GIVEN_BACK);
        assert!(told(Stock::new(stages), stages).is_empty());
        assert_eq!(told(Stock::new(stages + 1), stages + 1), [back]);
        assert_eq!(told(Stock::new(stages + back), stages + back), [back]);
        assert_eq!(told(Stock::new(stages + back + 1), stages + back + 1), [back, back]);
        // What it shows it hears of otherwise.
        let mut stock = Stock::new(stages + 1);
        stock.pass(1);
        assert!(told(stock, stages).is_empty());
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
