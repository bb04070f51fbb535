//! One question after another along the chain of who waits for whom, and the sentence it makes.
//!
//! Pure: it sends nothing. The asker leads the chain itself, so that a rank that is asked keeps no
//! state, a rank that is stopped leaves the chain as far as it is known, and a circle is seen at once.
#![forbid(unsafe_code)]

use super::news::Answer;
use super::status::{Report, communicator_of};
use crate::rank::Rank;

/// A longer chain is told by so many reports at its start and as many at its end.
const TOLD_AT_EACH_END: usize = 4;

/// A question of this rank, with what has been answered.
pub struct Inquiry {
    id: u32,
    me: Rank,
    first: Rank,
    /// Where the call is that it is asked for.
    communicator: u32,
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
    /// The question `id` of rank `me`, which begins with `first`, for a call on a communicator.
    pub fn new(id: u32, me: Rank, first: Rank, communicator: u32) -> Self {
        Inquiry { id, me, first, communicator, reports: Vec::new() }
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

    /// On which communicator above all: that of the call in which the one before waits for it.
    pub fn communicator(&self) -> u32 {
        let last = self.reports.last().and_then(|(_, report)| report.call());
        last.map_or(self.communicator, |(number, _)| communicator_of(number))
    }

    /// Takes a reply; false if nobody waits for it.
    pub fn hears(&mut self, id: u32, from: Rank, report: Report) -> bool {
        let awaited = id == self.id && self.asks() == Some(from);
        if awaited {
            self.reports.push((from, report));
        }
        awaited
    }

    /// What is known so far. `over` gives the ranks that lie between this one and another, there and back.
    pub fn answer(&self, over: impl Fn(Rank) -> Vec<Rank>) -> Answer {
        let mut told = self.told();
        match self.chain() {
            Chain::Asks(rank) => told.push(unanswered(rank, &over(rank))),
            Chain::Circle => told
                .iter_mut()
                .next_back()
                .into_iter()
                .for_each(|last| last.push_str(", which closes the circle")),
            Chain::End => {}
        }
        let call = self.reports.first().and_then(|(_, report)| report.call());
        Answer { id: self.id, rank: self.first, call, text: told.join("; "), complete: self.asks().is_none() }
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

/// Who is stopped does not carry what others say either.
fn unanswered(rank: Rank, over: &[Rank]) -> String {
    let over: Vec<String> = over.iter().map(Rank::to_string).collect();
    match &over[..] {
        [] => format!("rank {rank} has not answered"),
        [one] => format!("rank {rank} has not answered, or rank {one} does not pass it on"),
        _ => format!("rank {rank} has not answered, or one of ranks {} does not pass it on", over.join(", ")),
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

    fn answer(inquiry: &Inquiry) -> Answer {
        inquiry.answer(|_| Vec::new())
    }

    #[test]
    fn each_is_asked_about_the_communicator_on_which_it_is_waited_for() {
        let mut inquiry = Inquiry::new(1, 2, 1, 7);
        assert_eq!(inquiry.communicator(), 7);
        let awaited = Awaited { peer: 0, what: Awaiting::Readiness, round: 0, rounds: 1 };
        let other = Report::Busy { name: "barrier".into(), number: 9 << 32 | 4, awaited: Some(awaited) };
        inquiry.hears(1, 1, other);
        assert_eq!(inquiry.communicator(), 9);
    }

    #[test]
    fn who_has_not_answered_is_told_with_who_stands_between() {
        let inquiry = Inquiry::new(1, 2, 1, 0);
        let text = |over: &[Rank]| inquiry.answer(|_| over.to_vec()).text;
        assert_eq!(text(&[]), "rank 1 has not answered");
        assert_eq!(text(&[5]), "rank 1 has not answered, or rank 5 does not pass it on");
        assert_eq!(text(&[5, 7]), "rank 1 has not answered, or one of ranks 5, 7 does not pass it on");
    }

    #[test]
    fn the_chain_ends_at_the_culprit() {
        let mut inquiry = Inquiry::new(1, 2, 1, 0);
        assert_eq!(inquiry.asks(), Some(1));
        assert!(inquiry.hears(1, 1, waits(0)));
        assert_eq!(inquiry.asks(), Some(0));
        assert!(answer(&inquiry).text.ends_with("(round 1 of 9); rank 0 has not answered"));
        assert!(!answer(&inquiry).complete);
        assert!(inquiry.hears(1, 0, Report::Idle { made: 5, elsewhere: None }));
        assert!(answer(&inquiry).text.ends_with("(round 1 of 9); rank 0 is alive, in no call (5 made)"));
        assert!(answer(&inquiry).complete);
    }

    #[test]
    fn a_circle_is_named() {
        for closing in [1, 2, 3] {
            let mut inquiry = Inquiry::new(1, 3, 1, 0);
            inquiry.hears(1, 1, waits(2));
            inquiry.hears(1, 2, waits(closing));
            assert!(answer(&inquiry).text.ends_with(", which closes the circle"));
            assert_eq!(inquiry.asks(), None);
        }
    }

    #[test]
    fn replies_that_nobody_awaits_are_ignored() {
        let mut inquiry = Inquiry::new(5, 3, 1, 0);
        assert!(!inquiry.hears(4, 1, Report::Left));
        assert!(!inquiry.hears(5, 2, Report::Left));
        assert!(inquiry.hears(5, 1, Report::Left));
        assert!(!inquiry.hears(5, 1, Report::Left));
    }

    #[test]
    fn a_long_chain_is_told_by_its_ends() {
        let mut inquiry = Inquiry::new(1, 0, 1, 0);
        (1..100).for_each(|rank| assert!(inquiry.hears(1, rank, waits(rank + 1))));
        let text = answer(&inquiry).text;
        assert!(text.contains("; 91 more; rank 96 is alive"), "{text}");
        assert!(text.ends_with("rank 100 has not answered"), "{text}");
    }
}
