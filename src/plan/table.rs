//! All ranks' plans as a table that people read: a column a rank, two lines a round.
//!
//! In the circulant algorithms all ranks of a round put over one distance, so it stands once, before the
//! line, and a cell is as short as a block's number; where distances differ, each cell names its peer.

use super::{Blocks, Landing, Leg, Plan, Round};
use crate::rank::{Place, Rank};

/// Renders all ranks' plans, `plans[r]` being rank r's, in lines of at most `width` characters (more
/// where one rank alone needs more): ranks that do not fit go on below, under a head of their own.
///
/// A cell is a block's number, `*` for a notice without data, `.` for nothing; `+` goes before an arrival
/// that is folded, and `>5` after a block that goes to rank 5, or `<5` if it comes from there.
pub fn render<P: Plan>(plans: &[P], width: usize) -> String {
    let lines = lines(plans);
    let label = lines.iter().map(|line| line.label.len()).max().unwrap_or(0);
    let cells = || lines.iter().flat_map(|line| &line.cells);
    let column = 2 + cells().map(String::len).max().unwrap_or(0);
    let ranks = (width.saturating_sub(label) / column).max(1);
    let panels = (0..plans.len()).step_by(ranks).map(|start| {
        let end = plans.len().min(start + ranks);
        let line = |line: &Line| {
            let cells: String =
                line.cells[start..end].iter().map(|cell| format!("{cell:>column$}")).collect();
            format!("{:<label$}{cells}\n", line.label)
        };
        lines.iter().map(line).collect::<String>()
    });
    panels.collect::<Vec<_>>().join("\n")
}

/// A line of the table, however long.
struct Line {
    label: String,
    cells: Vec<String>,
}

#[derive(Clone, Copy)]
enum Direction {
    Put,
    Arrival,
}

fn lines<P: Plan>(plans: &[P]) -> Vec<Line> {
    let Some(first) = plans.first() else { return Vec::new() };
    let head = Line { label: "rank".to_owned(), cells: (0..plans.len()).map(|r| r.to_string()).collect() };
    let digits = first.rounds().saturating_sub(1).to_string().len();
    let round = |i| {
        let parts: Vec<_> = plans.iter().map(|plan| (plan.place(), plan.round(i))).collect();
        let puts = line(format!("round {i:>digits$}  puts"), Direction::Put, &parts);
        let arrivals = line(format!("      {:digits$}  gets", ""), Direction::Arrival, &parts);
        [puts, arrivals]
    };
    std::iter::once(head).chain((0..first.rounds()).flat_map(round)).collect()
}

fn line(label: String, direction: Direction, parts: &[(Place, Round)]) -> Line {
    let distance = common_distance(direction, parts);
    let cell = |(_, round): &(Place, Round)| cell(direction, round, distance.is_some());
    let label = match (distance.map(|distance| forwards(distance, parts.len())), direction) {
        (None, _) => label,
        (Some((true, far)), Direction::Put) => format!("{label} to r + {far}"),
        (Some((false, far)), Direction::Put) => format!("{label} to r - {far}"),
        (Some((true, far)), Direction::Arrival) => format!("{label} from r - {far}"),
        (Some((false, far)), Direction::Arrival) => format!("{label} from r + {far}"),
    };
    Line { label, cells: parts.iter().map(cell).collect() }
}

/// A distance around a circle of `p`: forwards as far as skips reach, `⌈p / 2⌉`, else backwards.
fn forwards(distance: u32, p: usize) -> (bool, u32) {
    let back = p as u32 - distance;
    if distance <= back + 1 { (true, distance) } else { (false, back) }
}

/// How far all of a round's legs reach around the circle, where all reach equally far.
fn common_distance(direction: Direction, parts: &[(Place, Round)]) -> Option<u32> {
    let mut distances = parts.iter().filter_map(|(place, round)| {
        let Leg { peer, .. } = leg(direction, round)?;
        let (from, to): (Rank, Rank) = match direction {
            Direction::Put => (place.rank, peer),
            Direction::Arrival => (peer, place.rank),
        };
        Some(Place { rank: to, ..*place }.before(from))
    });
    let first = distances.next()?;
    distances.all(|distance| distance == first).then_some(first)
}

fn leg(direction: Direction, round: &Round) -> Option<Leg> {
    match direction {
        Direction::Put => round.put,
        Direction::Arrival => round.arrival,
    }
}

fn cell(direction: Direction, round: &Round, peer_is_known: bool) -> String {
    let Some(Leg { peer, blocks }) = leg(direction, round) else { return ".".to_owned() };
    let block = match blocks {
        Blocks::Nothing => "*".to_owned(),
        Blocks::One(block) => block.to_string(),
        Blocks::Run { first, count } => format!("{first}+{count}"),
        Blocks::Many => "many".to_owned(),
    };
    let (fold, towards) = match direction {
        Direction::Put => ("", '>'),
        Direction::Arrival if round.landing != Landing::Store => ("+", '<'),
        Direction::Arrival => ("", '<'),
    };
    if peer_is_known { format!("{fold}{block}") } else { format!("{fold}{block}{towards}{peer}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{CATALOGUE, Entry, of};
    use crate::plan::Needs;

    fn table(entry: &Entry, p: u32, blocks: u32, width: usize) -> String {
        let plans: Vec<_> = (0..p).map(|rank| entry.plan(Place { rank, size: p }, 0, blocks)).collect();
        render(&plans, width)
    }

    #[test]
    fn a_round_is_two_lines_with_its_distance_before_them() {
        let expected = "\
rank                      0  1  2
round 0  puts to r + 2    0  .  .
         gets from r - 2  .  .  0
round 1  puts to r + 1    1  .  .
         gets from r - 1  .  1  .
round 2  puts to r + 2    1  .  0
         gets from r - 2  .  0  1
";
        assert_eq!(table(of("broadcast").next().unwrap(), 3, 2, 100), expected);
    }

    #[test]
    fn a_wide_table_goes_on_below_with_every_rank_once() {
        for entry in CATALOGUE {
            let text = table(entry, 100, 4, 80);
            assert!(text.lines().all(|line| line.len() <= 80), "{text}");
            let heads = text.lines().filter_map(|line| line.strip_prefix("rank"));
            let ranks: Vec<u32> =
                heads.flat_map(str::split_whitespace).map(|rank| rank.parse().unwrap()).collect();
            assert_eq!(ranks, (0..100).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_fold_is_marked_and_so_is_a_notice() {
        assert!(table(of("reduce").next().unwrap(), 2, 1, 80).contains("+0"));
        assert!(table(of("barrier").next().unwrap(), 2, 1, 80).contains('*'));
    }

    /// Rank 0 puts to rank 1, rank 2 to rank 0, of four: two distances in one round.
    struct Uneven(Place);

    impl Plan for Uneven {
        fn place(&self) -> Place {
            self.0
        }
        fn rounds(&self) -> u32 {
            1
        }
        fn blocks(&self) -> u32 {
            1
        }
        fn round(&self, _: u32) -> Round {
            let leg = |peer| Some(Leg { peer, blocks: Blocks::One(0) });
            let (put, arrival) =
                [(leg(1), leg(2)), (None, leg(0)), (leg(0), None), (None, None)][self.0.rank as usize];
            Round { put, arrival, needs: Needs::Nothing, landing: Landing::Store }
        }
    }

    #[test]
    fn where_distances_differ_each_cell_names_its_peer() {
        let plans: Vec<_> = (0..4).map(|rank| Uneven(Place { rank, size: 4 })).collect();
        let text = render(&plans, 80);
        assert!(text.contains("0>1") && text.contains("0<2"), "{text}");
    }
}
