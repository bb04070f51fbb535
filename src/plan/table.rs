//! All ranks' plans as a table that people read: a column a rank, two lines a round.
//!
//! In the circulant algorithms all ranks of a round put over one distance, so it stands once, before the
//! line, and a cell is as short as a block's number; where distances differ, each cell names its peer.

use super::{Blocks, Landing, Leg, Plan, Round, Side, each_block};
use crate::collective::Numbering;
use crate::rank::{Place, Rank};

/// Renders all ranks' plans, `plans[r]` being rank r's, in lines of at most `width` characters (more
/// where one rank alone needs more): ranks that do not fit go on below, under a head of their own.
///
/// A cell is a block's number, `3-7` for a run of blocks (`6-1` for one that goes on with block 0), `{12}`
/// for so many blocks that are no run, `*` for a notice without data, `.` for nothing; `+` goes before an
/// arrival that is folded, and `>5` after a block that goes to rank 5, or `<5` if it comes from there. Block
/// 1 of the part of rank 3 is `3.1`, what goes from rank 3 to rank 1 is `3:1`.
pub fn render<P: Plan>(plans: &[P], numbering: Numbering, width: usize) -> String {
    let lines = lines(plans, numbering);
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

/// More characters than this a list of blocks does not take: only their number is said then.
const LONGEST_LIST: usize = 11;

/// A line of the table, however long.
struct Line {
    label: String,
    cells: Vec<String>,
}

/// A rank's place, its round and the cells of both sides' blocks.
struct Part {
    place: Place,
    round: Round,
    blocks: [String; 2],
}

fn lines<P: Plan>(plans: &[P], numbering: Numbering) -> Vec<Line> {
    let Some(first) = plans.first() else { return Vec::new() };
    let head = Line { label: "rank".to_owned(), cells: (0..plans.len()).map(|r| r.to_string()).collect() };
    let digits = first.rounds().saturating_sub(1).to_string().len();
    let round = |i| {
        let part = |plan: &P| Part {
            place: plan.place(),
            round: plan.round(i),
            blocks: [Side::Put, Side::Arrival].map(|side| blocks(plan, i, side, numbering)),
        };
        let parts: Vec<_> = plans.iter().map(part).collect();
        let puts = line(format!("round {i:>digits$}  puts"), Side::Put, &parts);
        let arrivals = line(format!("      {:digits$}  gets", ""), Side::Arrival, &parts);
        [puts, arrivals]
    };
    std::iter::once(head).chain((0..first.rounds()).flat_map(round)).collect()
}

fn line(label: String, side: Side, parts: &[Part]) -> Line {
    let distance = common_distance(side, parts);
    let label = match (distance.map(|distance| forwards(distance, parts.len())), side) {
        (None, _) => label,
        (Some((true, far)), Side::Put) => format!("{label} to r + {far}"),
        (Some((false, far)), Side::Put) => format!("{label} to r - {far}"),
        (Some((true, far)), Side::Arrival) => format!("{label} from r - {far}"),
        (Some((false, far)), Side::Arrival) => format!("{label} from r + {far}"),
    };
    Line { label, cells: parts.iter().map(|part| cell(side, part, distance.is_some())).collect() }
}

/// A distance around a circle of `p`: forwards as far as skips reach, `⌈p / 2⌉`, else backwards.
fn forwards(distance: u32, p: usize) -> (bool, u32) {
    let back = p as u32 - distance;
    if distance <= back + 1 { (true, distance) } else { (false, back) }
}

/// How far all of a round's legs reach around the circle, where all reach equally far.
fn common_distance(side: Side, parts: &[Part]) -> Option<u32> {
    let mut distances = parts.iter().filter_map(|Part { place, round, .. }| {
        let Leg { peer, .. } = round.leg(side)?;
        let (from, to): (Rank, Rank) = match side {
            Side::Put => (place.rank, peer),
            Side::Arrival => (peer, place.rank),
        };
        Some(Place { rank: to, ..*place }.before(from))
    });
    let first = distances.next()?;
    distances.all(|distance| distance == first).then_some(first)
}

fn cell(side: Side, part: &Part, peer_is_known: bool) -> String {
    let Some(Leg { peer, .. }) = part.round.leg(side) else { return ".".to_owned() };
    let block = &part.blocks[side as usize];
    let (fold, towards) = match side {
        Side::Put => ("", '>'),
        Side::Arrival if part.round.landing != Landing::Store => ("+", '<'),
        Side::Arrival => ("", '<'),
    };
    if peer_is_known { format!("{fold}{block}") } else { format!("{fold}{block}{towards}{peer}") }
}

/// The blocks of a leg in few characters.
fn blocks(plan: &impl Plan, i: u32, side: Side, numbering: Numbering) -> String {
    let name = |block| name(block, plan, numbering);
    match plan.round(i).leg(side).map(|leg| leg.blocks) {
        None => String::new(),
        Some(Blocks::Nothing) => "*".to_owned(),
        Some(Blocks::One(block)) => name(block),
        Some(Blocks::Run { first, count: 1 }) => name(first),
        Some(Blocks::Run { first, count }) => {
            let last = (u64::from(first) + u64::from(count) - 1) % u64::from(plan.blocks());
            format!("{}-{}", name(first), name(last as u32))
        }
        Some(Blocks::Many) => {
            let (mut names, mut count) = (String::new(), 0);
            each_block(plan, i, side, &mut |block| {
                if names.len() <= LONGEST_LIST {
                    names += if count == 0 { "" } else { "," };
                    names += &name(block);
                }
                count += 1;
            });
            if names.len() <= LONGEST_LIST { names } else { format!("{{{count}}}") }
        }
    }
}

fn name(block: u32, plan: &impl Plan, numbering: Numbering) -> String {
    let p = plan.place().size;
    match (numbering, plan.blocks() / p) {
        (Numbering::Whole, _) | (Numbering::Parts, 1) => block.to_string(),
        (Numbering::Parts, n) => format!("{}.{}", block / n, block % n),
        (Numbering::Pairs, _) => format!("{}:{}", block / p, block % p),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::groups::Groups;
    use crate::algorithm::{CATALOGUE, Entry, Shape, named, of};
    use crate::collective::Collective::{self, *};
    use crate::plan::Needs;

    fn table(entry: &Entry, p: u32, blocks: u32, width: usize) -> String {
        render(
            &entry.plans(&Shape::new(Groups::alone(p), 0, blocks, None)),
            entry.collective.numbering(),
            width,
        )
    }

    fn first(collective: Collective) -> &'static Entry {
        of(collective).next().unwrap()
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
        assert_eq!(table(first(Broadcast), 3, 2, 100), expected);
    }

    #[test]
    fn a_wide_table_goes_on_below_with_every_rank_once() {
        for entry in CATALOGUE.iter().filter(|entry| entry.fits(64)) {
            let text = table(entry, 64, 4, 80);
            assert!(text.lines().all(|line| line.len() <= 80), "{text}");
            let heads = text.lines().filter_map(|line| line.strip_prefix("rank"));
            let ranks: Vec<u32> =
                heads.flat_map(str::split_whitespace).map(|rank| rank.parse().unwrap()).collect();
            assert_eq!(ranks, (0..64).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_fold_is_marked_and_so_is_a_notice() {
        assert!(table(first(Reduce), 2, 1, 80).contains("+0"));
        assert!(table(first(Barrier), 2, 1, 80).contains('*'));
    }

    #[test]
    fn runs_say_where_they_begin_and_end_and_lists_are_short() {
        let allgather = table(first(Allgather), 8, 1, 200);
        assert!(allgather.contains("  7-0") && allgather.contains("  5-0"), "{allgather}");
        let parts = table(named(Allgather, "circulant-n").unwrap(), 3, 2, 200);
        assert!(parts.contains("0.1,1.0"), "{parts}");
        let pairs = table(named(Alltoall, "store-and-forward").unwrap(), 8, 1, 200);
        assert!(pairs.contains("{4}"), "{pairs}");
        assert!(table(first(Alltoall), 3, 1, 200).contains("2:0"));
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
        let text = render(&plans, Numbering::Whole, 80);
        assert!(text.contains("0>1") && text.contains("0<2"), "{text}");
    }
}
