//! One question after another along the chain of who waits for whom, and the sentence it makes.
//!
//! Pure: it sends nothing. The asker leads the chain itself, so that a rank that is asked keeps no
//! state, a rank that is stopped leaves the chain as far as it is known, and a circle is seen at once.
#![forbid(unsafe_code)]

use super::news::Answer;
use super::status::Report;
use crate::rank::Rank;

/// A longer chain is told by so many reports at its start and as many at its end.
const TOLD_AT_EACH_END: usize = 4;

/// The newest question of this rank, with what has been answered.
pub struct Inquiry {
    id: u32,
    me: Rank,
    first: Rank,
    reports: Vec<(Rank, Report)>,
}

/// Where a chain stands.
#[derive(Debug, PartialEq, Eq)]
enum Chain {
    /// This rank is asked and has not answered.
    Asks(Rank),
    /// The last one waits for a rank of the chain, or for the asker.
    Circle,
    /// The last one waits for nobody, or cannot say.
    End,
}

impl Inquiry {
    /// The question `id` of rank `me`, which begins with `first`.
    pub fn new(id: u32, me: Rank, first: Rank) -> Self {
        Inquiry { id, me, first, reports: Vec::new() }
    }

    /// The number that replies must carry.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Who is to be asked now.
    pub fn asks(&self) -> Option<Rank> {
        match self.chain() {
            Chain::Asks(rank) => Some(rank),
            Chain::Circle | Chain::End => None,
        }
    }

    /// Takes a reply; false if nobody waits for it.
    pub fn hears(&mut self, id: u32, from: Rank, report: Report) -> bool {
        let awaited = id == self.id && self.asks() == Some(from);
        if awaited {
            self.reports.push((from, report));
        }
        awaited
    }

    /// What is known so far.
    pub fn answer(&self) -> Answer {
        let mut told = self.told();
        match self.chain() {
            Chain::Asks(rank) => told.push(format!("rank {rank} has not answered")),
            Chain::Circle => told
                .iter_mut()
                .next_back()
                .into_iter()
                .for_each(|last| last.push_str(", which closes the circle")),
            Chain::End => {}
        }
        let call = self.reports.first().and_then(|(_, report)| report.call());
        Answer { rank: self.first, call, text: told.join("; "), complete: self.asks().is_none() }
    }

    fn chain(&self) -> Chain {
        let Some((_, last)) = self.reports.last() else { return Chain::Asks(self.first) };
        match last.awaits() {
            None => Chain::End,
            Some(peer) if self.knows(peer) => Chain::Circle,
            Some(peer) => Chain::Asks(peer),
        }
    }

    fn knows(&self, rank: Rank) -> bool {
        rank == self.me || self.reports.iter().any(|(known, _)| *known == rank)
    }

    fn told(&self) -> Vec<String> {
        let sentences = |reports: &[(Rank, Report)]| -> Vec<String> {
            reports.iter().map(|(rank, report)| report.sentence(*rank)).collect()
        };
        let skipped = self.reports.len().saturating_sub(2 * TOLD_AT_EACH_END);
        if skipped == 0 {
            return sentences(&self.reports);
        }
        let mut told = sentences(&self.reports[..TOLD_AT_EACH_END]);
        told.push(format!("{skipped} more"));
        told.extend(sentences(&self.reports[TOLD_AT_EACH_END + skipped..]));
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifeline::status::{Awaited, Awaiting};

    fn waits(peer: Rank) -> Report {
        let awaited = Awaited { peer, what: Awaiting::Block(7), round: 1, rounds: 9 };
        Report::Busy { name: "broadcast".into(), number: 6, awaited: Some(awaited) }
    }

    #[test]
    fn the_chain_ends_at_the_culprit() {
        let mut inquiry = Inquiry::new(1, 2, 1);
        assert_eq!(inquiry.asks(), Some(1));
        assert!(inquiry.hears(1, 1, waits(0)));
        assert_eq!(inquiry.asks(), Some(0));
        assert!(inquiry.answer().text.ends_with("(round 1 of 9); rank 0 has not answered"));
        assert!(!inquiry.answer().complete);
        assert!(inquiry.hears(1, 0, Report::Idle { made: 5 }));
        assert!(inquiry.answer().text.ends_with("(round 1 of 9); rank 0 is alive, in no call (5 made)"));
        assert!(inquiry.answer().complete);
    }

    #[test]
    fn a_circle_is_named() {
        for closing in [1, 2, 3] {
            let mut inquiry = Inquiry::new(1, 3, 1);
            inquiry.hears(1, 1, waits(2));
            inquiry.hears(1, 2, waits(closing));
            assert!(inquiry.answer().text.ends_with(", which closes the circle"));
            assert_eq!(inquiry.asks(), None);
        }
    }

    #[test]
    fn replies_that_nobody_awaits_are_ignored() {
        let mut inquiry = Inquiry::new(5, 3, 1);
        assert!(!inquiry.hears(4, 1, Report::Left));
        assert!(!inquiry.hears(5, 2, Report::Left));
        assert!(inquiry.hears(5, 1, Report::Left));
        assert!(!inquiry.hears(5, 1, Report::Left));
    }

    #[test]
    fn a_long_chain_is_told_by_its_ends() {
        let mut inquiry = Inquiry::new(1, 0, 1);
        (1..100).for_each(|rank| assert!(inquiry.hears(1, rank, waits(rank + 1))));
        let text = inquiry.answer().text;
        assert!(text.contains("; 91 more; rank 96 is alive"), "{text}");
        assert!(text.ends_with("rank 100 has not answered"), "{text}");
    }
}
