//! The four conditions that make a broadcast of the schedules correct, proved for all ranks of one graph.
//!
//! It never takes one way of computing a schedule for granted because of another: every rank's own schedule is
//! made as a communicator makes it, all conditions are tested on it, and the search and the table of all ranks
//! are held against it.
//!
//! The decision: a breach says where it is (number of ranks, rank, round) and what was found there, because a
//! bare "wrong" about some of millions of numbers helps nobody.

use std::fmt;

use rayon::prelude::*;

use super::observer::Counts;
use super::search::search;
use super::{MAX_ROUNDS, Schedule, Skips, Table};
use crate::rank::Rank;

/// What must hold for every rank and round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Condition 1: a rank receives the block that the rank it receives from sends.
    ReceivesWhatIsSent,
    /// Condition 2: a rank sends the block that the rank it sends to receives.
    SendsWhatIsReceived,
    /// Condition 3: a rank receives each block of a phase once, its baseblock as that of this phase and the
    /// others as those of the phase before; the root has none of its own and would receive all of the others.
    ReceivesEachOnce,
    /// Condition 4: a rank sends its baseblock of the phase before, or what it received earlier in the phase.
    SendsWhatItHas,
    /// The table of all ranks has the rank's own schedules.
    TableAgrees,
    /// The search finds the rank's own receive schedule.
    SearchAgrees,
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Condition::ReceivesWhatIsSent => "condition 1 (receives what is sent)",
            Condition::SendsWhatIsReceived => "condition 2 (sends what is received)",
            Condition::ReceivesEachOnce => "condition 3 (receives each block once)",
            Condition::SendsWhatItHas => "condition 4 (sends what it has)",
            Condition::TableAgrees => "agreement with the table of all ranks",
            Condition::SearchAgrees => "agreement with the search",
        })
    }
}

/// A condition that does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "p = {processes}, rank {rank}, round {round}: {condition} is broken; the rank receives {receive:?} and sends {send:?}"
)]
pub struct Breach {
    /// The number of ranks.
    pub processes: u32,
    /// The rank.
    pub rank: Rank,
    /// The round, `0..q`.
    pub round: u32,
    /// What does not hold.
    pub condition: Condition,
    /// What the rank receives in each round.
    pub receive: Vec<i32>,
    /// What it sends.
    pub send: Vec<i32>,
}

/// The largest number of something, and the first that has it: least `p`, then least rank.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Peak {
    /// How many.
    pub count: u32,
    /// The number of ranks.
    pub processes: u32,
    /// The rank.
    pub rank: Rank,
}

impl Peak {
    fn or(self, other: Peak) -> Peak {
        let order = |peak: Peak| (u32::MAX - peak.count, peak.processes, peak.rank);
        if order(other) < order(self) { other } else { self }
    }
}

/// The largest numbers of the steps that the source bounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Peaks {
    /// Recursive calls in the search for one receive schedule.
    pub recursive_calls: Peak,
    /// Violations in one send schedule.
    pub violations: Peak,
}

impl Peaks {
    /// The larger of both.
    pub fn or(self, other: Peaks) -> Peaks {
        Peaks {
            recursive_calls: self.recursive_calls.or(other.recursive_calls),
            violations: self.violations.or(other.violations),
        }
    }
}

/// Tests all conditions for all ranks of the graph with `processes` ranks: O(p log p) time, about 90 bytes a
/// rank.
///
/// # Panics
/// If `processes` is 0.
pub fn check(processes: u32) -> Result<Peaks, Breach> {
    let skips = Skips::new(processes);
    let mut peaks = Peaks::default();
    let schedules = (0..processes)
        .map(|rank| {
            let mut counts = Counts::default();
            let schedule = Schedule::observed(&skips, rank, &mut counts);
            peaks.violations = peaks.violations.or(Peak { count: counts.violations, processes, rank });
            schedule
        })
        .collect();
    let graph = Graph { table: Table::new(&skips), skips, schedules };
    for rank in 0..processes {
        graph.check_rank(rank, &mut peaks)?;
    }
    Ok(peaks)
}

/// The same, on all cores: for a graph that is checked alone; of several breaches any is told. `progress` hears of how many ranks more are done with, of
/// the graph's in all.
///
/// # Panics
/// If `processes` is 0.
pub fn check_divided(processes: u32, progress: impl Fn(u64) + Sync) -> Result<Peaks, Breach> {
    let skips = Skips::new(processes);
    let schedules = (0..processes).into_par_iter().map(|rank| Schedule::new(&skips, rank)).collect();
    let graph = Graph { table: Table::new(&skips), skips, schedules };
    let pieces = (0..processes.div_ceil(PIECE)).into_par_iter().map(|piece| {
        let ranks = piece * PIECE..processes.min((piece + 1).saturating_mul(PIECE));
        let mut peaks = Peaks::default();
        for rank in ranks.clone() {
            // Once more, as what is collected has no room for a count.
            let mut counts = Counts::default();
            Schedule::observed(&graph.skips, rank, &mut counts);
            peaks.violations = peaks.violations.or(Peak { count: counts.violations, processes, rank });
            graph.check_rank(rank, &mut peaks)?;
        }
        progress(ranks.len() as u64);
        Ok(peaks)
    });
    pieces.try_reduce(Peaks::default, |one, other| Ok(one.or(other)))
}

/// Ranks that a core checks at one go.
const PIECE: u32 = 1 << 12;

/// All that is known of one graph.
struct Graph {
    skips: Skips,
    schedules: Vec<Schedule>,
    table: Table,
}

impl Graph {
    fn check_rank(&self, rank: Rank, peaks: &mut Peaks) -> Result<(), Breach> {
        let broken = |condition, round| Breach {
            processes: self.skips.processes(),
            rank,
            round,
            condition,
            receive: (0..self.skips.rounds()).map(|k| self.of(rank).receive(k)).collect(),
            send: (0..self.skips.rounds()).map(|k| self.of(rank).send(k)).collect(),
        };
        [
            (Condition::ReceivesWhatIsSent, self.round_that(rank, Self::receives_what_is_not_sent)),
            (Condition::SendsWhatIsReceived, self.round_that(rank, Self::sends_what_is_not_received)),
            (Condition::ReceivesEachOnce, self.round_that_repeats(rank)),
            (Condition::SendsWhatItHas, self.round_that_is_too_early(rank)),
            (Condition::TableAgrees, self.round_that(rank, Self::differs_from_the_table)),
            (Condition::SearchAgrees, self.round_that_the_search_denies(rank, peaks)),
        ]
        .into_iter()
        .find_map(|(condition, round)| round.map(|round| broken(condition, round)))
        .map_or(Ok(()), Err)
    }

    fn round_that(&self, rank: Rank, fails: impl Fn(&Self, Rank, u32) -> bool) -> Option<u32> {
        (0..self.skips.rounds()).find(|&k| fails(self, rank, k))
    }

    fn of(&self, rank: Rank) -> &Schedule {
        &self.schedules[rank as usize]
    }

    fn receives_what_is_not_sent(&self, rank: Rank, k: u32) -> bool {
        self.of(rank).receive(k) != self.of(self.skips.from(rank, k)).send(k)
    }

    fn sends_what_is_not_received(&self, rank: Rank, k: u32) -> bool {
        self.of(rank).send(k) != self.of(self.skips.to(rank, k)).receive(k)
    }

    /// The first round whose block came before, or is not among those that must come. As many rounds as blocks
    /// must come, so without such a round each comes once.
    fn round_that_repeats(&self, rank: Rank) -> Option<u32> {
        let (schedule, q) = (self.of(rank), self.skips.rounds() as i32);
        let base = schedule.baseblock() as i32;
        let mut missing = (-q..0).fold(0, |blocks, block| blocks | bit(block));
        if rank != 0 {
            missing = missing & !bit(base - q) | bit(base);
        }
        (0..self.skips.rounds()).find(|&k| {
            let block = bit(schedule.receive(k));
            let repeats = missing & block == 0;
            missing &= !block;
            repeats
        })
    }

    /// The first round whose block to send is not there yet.
    fn round_that_is_too_early(&self, rank: Rank) -> Option<u32> {
        let (schedule, q) = (self.of(rank), self.skips.rounds() as i32);
        let mut has = bit(schedule.baseblock() as i32 - q);
        (0..self.skips.rounds()).find(|&k| {
            let early = rank != 0 && has & bit(schedule.send(k)) == 0;
            has |= bit(schedule.receive(k));
            early
        })
    }

    fn differs_from_the_table(&self, rank: Rank, k: u32) -> bool {
        let schedule = self.of(rank);
        self.table.receive(rank, k) != schedule.receive(k) || self.table.send(rank, k) != schedule.send(k)
    }

    fn round_that_the_search_denies(&self, rank: Rank, peaks: &mut Peaks) -> Option<u32> {
        let (schedule, q) = (self.of(rank), self.skips.rounds());
        let mut counts = Counts::default();
        let hops = search(&self.skips, rank, schedule.baseblock(), q, &mut counts);
        let peak = Peak { count: counts.recursive_calls, processes: self.skips.processes(), rank };
        peaks.recursive_calls = peaks.recursive_calls.or(peak);
        (0..q).find(|&k| {
            let hop = u32::from(hops[k as usize]);
            let block = if hop == q { schedule.baseblock() as i32 } else { hop as i32 - q as i32 };
            block != schedule.receive(k)
        })
    }
}

/// A block as a bit of a set of blocks, `-q..q`.
fn bit(block: i32) -> u64 {
    1 << (block + MAX_ROUNDS as i32)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use proptest::prelude::*;

    fn graph(processes: u32) -> Graph {
        let skips = Skips::new(processes);
        let schedules = (0..processes).map(|rank| Schedule::new(&skips, rank)).collect();
        Graph { table: Table::new(&skips), skips, schedules }
    }

    fn breach(graph: &Graph, rank: Rank) -> (Condition, u32) {
        let breach = graph.check_rank(rank, &mut Peaks::default()).unwrap_err();
        assert_eq!((breach.processes, breach.rank), (graph.skips.processes(), rank));
        (breach.condition, breach.round)
    }

    #[test]
    fn all_conditions_hold_for_every_small_graph() {
        for p in 1..=700 {
            check(p).unwrap();
        }
    }

    #[test]
    fn a_graph_whose_ranks_are_divided_has_the_same_peaks_and_all_ranks_are_heard_of() {
        for p in [1, 2, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 5] {
            let heard = AtomicU64::new(0);
            let divided = check_divided(p, |ranks| {
                heard.fetch_add(ranks, Ordering::Relaxed);
            });
            assert_eq!(divided, check(p));
            assert_eq!(heard.into_inner(), u64::from(p));
        }
    }

    #[test]
    fn four_violations_are_met_first_with_2049_ranks() {
        let four = Peak { count: 4, processes: 2049, rank: 1536 };
        assert_eq!(check(2049).unwrap().violations, four);
        let before = [1025, 2047, 2048].map(|p| check(p).unwrap().violations.count);
        assert!(before.iter().all(|&count| count < 4), "{before:?}");
    }

    #[test]
    fn powers_of_two_have_no_violations() {
        for p in (0..12).map(|q| 1 << q) {
            assert_eq!(check(p).unwrap().violations.count, 0, "p = {p}");
        }
    }

    #[test]
    fn peaks_name_the_first_that_reaches_them() {
        let peak = |count, processes, rank| Peak { count, processes, rank };
        assert_eq!(peak(2, 9, 5).or(peak(3, 10, 1)), peak(3, 10, 1));
        assert_eq!(peak(3, 10, 1).or(peak(3, 9, 7)), peak(3, 9, 7));
        assert_eq!(peak(3, 9, 5).or(peak(3, 9, 7)), peak(3, 9, 5));
    }

    #[test]
    fn a_block_that_nobody_sends_breaks_condition_1() {
        let mut graph = graph(17);
        graph.schedules[5] = graph.schedules[5].receiving(2, -2);
        assert_eq!(breach(&graph, 5), (Condition::ReceivesWhatIsSent, 2));
        assert_eq!(breach(&graph, 2), (Condition::SendsWhatIsReceived, 2));
    }

    #[test]
    fn a_block_that_nobody_receives_breaks_condition_2() {
        let mut graph = graph(17);
        graph.schedules[3] = graph.schedules[3].sending(1, -4);
        assert_eq!(breach(&graph, 3), (Condition::SendsWhatIsReceived, 1));
    }

    #[test]
    fn a_block_that_comes_twice_breaks_condition_3() {
        let mut graph = graph(17);
        let from = graph.skips.from(5, 2);
        graph.schedules[5] = graph.schedules[5].receiving(2, -3);
        graph.schedules[from as usize] = graph.schedules[from as usize].sending(2, -3);
        assert_eq!(breach(&graph, 5), (Condition::ReceivesEachOnce, 2));
    }

    #[test]
    fn a_block_that_is_not_there_yet_breaks_condition_4() {
        let mut graph = graph(17);
        let to = graph.skips.to(3, 0);
        graph.schedules[3] = graph.schedules[3].sending(0, -1);
        graph.schedules[to as usize] = graph.schedules[to as usize].receiving(0, -1);
        assert_eq!(breach(&graph, 3), (Condition::SendsWhatItHas, 0));
    }

    #[test]
    fn a_table_of_another_graph_is_found_out() {
        let mut graph = graph(17);
        graph.table = Table::new(&Skips::new(18));
        assert_eq!(breach(&graph, 0).0, Condition::TableAgrees);
    }

    #[test]
    fn a_breach_says_where_it_is() {
        let mut graph = graph(9);
        graph.schedules[4] = graph.schedules[4].receiving(3, 0);
        let said = graph.check_rank(4, &mut Peaks::default()).unwrap_err().to_string();
        assert!(said.starts_with("p = 9, rank 4, round 3: condition 1 (receives what is sent)"), "{said}");
        assert!(said.contains("receives [-2, -3, 0, 0] and sends"), "{said}");
    }

    proptest! {
        #[test]
        fn neighbours_agree_in_graphs_of_any_size(p in 1..=u32::MAX, place in 0.0..1.0f64) {
            let skips = Skips::new(p);
            let rank = (f64::from(p) * place) as Rank;
            let mine = Schedule::new(&skips, rank);
            for k in 0..skips.rounds() {
                prop_assert_eq!(mine.receive(k), Schedule::new(&skips, skips.from(rank, k)).send(k));
                prop_assert_eq!(mine.send(k), Schedule::new(&skips, skips.to(rank, k)).receive(k));
            }
        }

        #[test]
        fn a_rank_receives_each_block_once_and_sends_what_it_has(p in 2..=u32::MAX, place in 0.0..1.0f64) {
            let skips = Skips::new(p);
            let q = skips.rounds() as i32;
            let rank = (1.0 + f64::from(p - 2) * place) as Rank;
            let mine = Schedule::new(&skips, rank);
            let base = mine.baseblock() as i32;
            let received: Vec<_> = (0..skips.rounds()).map(|k| mine.receive(k)).collect();
            let mut sorted = received.clone();
            sorted.sort();
            let expected: Vec<_> = (-q..0).filter(|&block| block != base - q).chain([base]).collect();
            prop_assert_eq!(sorted, expected);
            for k in 0..skips.rounds() {
                let block = mine.send(k);
                prop_assert!(block == base - q || received[..k as usize].contains(&block), "round {}", k);
            }
        }
    }
}
