//! `circulant plan`: prints an algorithm's plan for all ranks, and proves it.

use std::io::{self, Write};
use std::process::ExitCode;

use circulant::algorithm::groups::Groups;
use circulant::algorithm::{self, Entry, Nesting, Shape, torus};
use circulant::collective::{Collective, Numbering};
use circulant::engine::notice::MAX_BLOCKS;
use circulant::error::Error;
use circulant::plan::{Plan, table};
use circulant::rank::Rank;

use crate::fit::{self, Use, counted};
use crate::output::print;
use crate::{Failure, Outcome};

/// Print who puts which block to whom in which round, and prove it.
///
/// A column is a rank, a pair of lines a round: what the rank puts, and what arrives. A number is a
/// block, 3-7 a run of blocks (6-1: which goes on with block 0), {12} so many blocks, * a notice
/// without data, . nothing; + marks an arrival that is folded into what the rank has. Where each
/// rank has a part, 3.1 is block 1 of rank 3's; in an all-to-all, 3:1 is what rank 3 has for rank 1.
/// Where ranks put over different distances, >5 says to whom and <5 from whom. Rounds are not
/// barriers: a put waits for the arrivals that it forwards, and for no others. (When they are run, some
/// calls keep in step besides: long all-to-alls, and where many ranks share a core reductions to one.)
///
/// All ranks' plans are then carried out in lockstep: each rank ends with what the collective
/// promises, expects exactly what is put to it, waits for all that it forwards, and folds nothing
/// twice. A breach is printed with rank and round; the program then ends with 1.
///
/// Examples:
///   circulant plan broadcast -p 17 -n 6
///   circulant plan reduce -p 5 -n 3 --root 2
///   circulant plan allgather -p 12 --algorithm torus
///   circulant plan broadcast -p 12 -n 4 --algorithm leader --nodes 3
///   circulant plan broadcast -p 16 -n 4 --algorithm leader-domains --nodes 2 --domains 2
///   circulant plan allreduce -p 12 --algorithm leader --nodes 3 --leaders 2
///   circulant plan allreduce --list
///   circulant plan --list
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// The collective (see --list)
    #[arg(required_unless_present = "list")]
    collective: Option<String>,

    /// The number of ranks
    #[arg(short = 'p', long, value_name = "P", required_unless_present = "list", value_parser = clap::value_parser!(u32).range(1..=MOST_RANKS))]
    processes: Option<u32>,

    /// The number of blocks, where the algorithm takes one
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=MOST_BLOCKS))]
    blocks: u32,

    /// The rank that sends, or that gets the result, where the collective has one [default: 0]
    #[arg(long, value_name = "R")]
    root: Option<Rank>,

    /// The algorithm [default: the first of the collective's in --list]
    #[arg(long, value_name = "NAME")]
    algorithm: Option<String>,

    /// On how many nodes, in contiguous runs of nearly equal length, for algorithms that go node by node
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=MOST_RANKS))]
    nodes: u32,

    /// In how many domains each node's ranks are, in contiguous runs, for algorithms that go by domains, and for several
    /// leaders
    #[arg(long, value_name = "D", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=MOST_RANKS))]
    domains: u32,

    /// How many leaders a node has, for algorithms in which it may have several
    #[arg(long, value_name = "L", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=MOST_RANKS))]
    leaders: u32,

    /// Print the catalogue of all algorithms, or of the collective's, and no plan
    #[arg(long, conflicts_with_all = ["processes", "blocks", "root", "algorithm", "nodes", "domains", "leaders"])]
    list: bool,
}

/// A table beyond is of no use to people.
const MOST_RANKS: i64 = 4096;
const MOST_BLOCKS: i64 = MAX_BLOCKS as i64;
/// Twice this is what a table has of cells.
const MOST_ROUNDS: u64 = 1 << 20;
/// A proof takes about 100 bytes for each.
const MOST_HELD: u64 = 1 << 21;

/// What stands between the two formulas of what goes by domains.
const ON_ONE_NODE: &str = "; on one node ";

const NODES: Use = Use { option: "--nodes", lacks: "knows no nodes", wants: Entry::is_nested };

/// How many characters a line has at most, unless one rank alone needs more.
const WIDTH: usize = 110;

impl Arguments {
    /// Prints what was asked for.
    pub fn run(self) -> Outcome {
        let collective = self.collective.as_deref().map(collective).transpose()?;
        match (collective, self.processes) {
            (Some(collective), Some(p)) if !self.list => self.print_plan(collective, p)?,
            (collective, _) => print(|out| list(out, collective))?,
        }
        Ok(ExitCode::SUCCESS)
    }

    fn print_plan(&self, collective: Collective, p: u32) -> Result<(), Failure> {
        let entry = self.entry(collective)?;
        self.check_numbers(entry, p)?;
        let plans = entry.plans(&self.shape(p));
        print(|out| {
            self.head(out, entry, &*plans[0])?;
            writeln!(out, "\n{}", table::render(&plans, collective.numbering(), WIDTH))
        })?;
        entry.check(&self.shape(p))?;
        print(|out| writeln!(out, "{}", proved(entry, p)))?;
        Ok(())
    }

    fn shape(&self, p: u32) -> Shape {
        let groups = Groups::runs(p, self.nodes).with_runs_of_domains(self.domains);
        Shape { leaders: self.leaders, ..Shape::new(groups, self.root(), self.blocks, None) }
    }

    fn entry(&self, collective: Collective) -> Result<&'static Entry, Error> {
        let first = algorithm::of(collective).next().map_or("", |entry| entry.name);
        fit::named(CALL, collective, self.algorithm.as_deref().unwrap_or(first), "")
    }

    fn root(&self) -> Rank {
        self.root.unwrap_or(0)
    }

    fn check_numbers(&self, entry: &Entry, p: u32) -> Result<(), Error> {
        let collective = entry.collective;
        fit::check_root(CALL, collective, self.root)?;
        fit::check_ranks(CALL, Some(entry), self.root(), p)?;
        for (given, whose) in [
            (self.nodes, NODES),
            (self.domains, if self.leaders > 1 { fit::DOMAINS_OF_LEADERS } else { fit::DOMAINS }),
            (self.leaders, fit::LEADERS),
            (self.blocks, Use { option: "-n", ..fit::BLOCKS }),
        ] {
            if given != 1 {
                fit::check_use(CALL, collective, Some(entry), &whose)?;
            }
        }
        if self.nodes > p {
            let what = format!("{} nodes for {}", self.nodes, counted(p, "rank"));
            return Err(Error::argument(CALL, what, "take as many as ranks at most"));
        }
        fit::check_groups(CALL, entry, &self.shape(p).groups, self.domains)?;
        self.check_size(entry, p)
    }

    fn head(&self, out: &mut dyn Write, entry: &Entry, plan: &dyn Plan) -> io::Result<()> {
        let p = plan.place().size;
        write!(out, "{} by {}: {}", entry.collective.name(), entry.name, counted(p, "rank"))?;
        if entry.collective.has_root() {
            write!(out, ", root {}", self.root())?;
        }
        match plan.blocks() {
            0 => writeln!(out)?,
            blocks => writeln!(out, ", {}", counted(blocks, "block"))?,
        }
        match self.leaders(p) {
            // Formulas are for several.
            _ if p == 1 => write!(out, "  rounds  {}", plan.rounds())?,
            1 => write!(out, "  rounds  {} = {}", self.formula(entry), plan.rounds())?,
            leaders => {
                write!(out, "  rounds  {} with {leaders} leaders a node", plan.rounds())?;
                write!(out, " (with one: {})", self.formula(entry))?;
            }
        }
        match entry.is_nested() {
            true => write!(out, ", where {}", self.sizes_of_groups(entry, p))?,
            false => write!(out, ", where q = ⌈log₂ {p}⌉ = {}", log2(p))?,
        }
        if entry.rounds.contains("a + b") {
            let (a, b) = torus::sides(p);
            write!(out, ", and the torus has {a} x {b}")?;
        }
        writeln!(out, "\n  volume  {} put by the busiest rank, of a message m", entry.volume)?;
        if !entry.restriction.is_empty() {
            writeln!(out, "  for     {}", entry.restriction)?;
        }
        writeln!(out, "  source  {}", entry.source)
    }

    /// How many leaders a node has: no more than the largest has ranks.
    fn leaders(&self, p: u32) -> u32 {
        self.leaders.min(self.shape(p).groups.largest())
    }

    /// Of a formula for several nodes and one for one node, that which applies.
    fn formula(&self, entry: &Entry) -> &'static str {
        match entry.rounds.split_once(ON_ONE_NODE) {
            Some((_, on_one)) if self.nodes == 1 => on_one,
            Some((on_several, _)) => on_several,
            None => entry.rounds,
        }
    }

    /// What the letters mean in formulas of algorithms that go node by node.
    fn sizes_of_groups(&self, entry: &Entry, p: u32) -> String {
        let groups = self.shape(p).groups;
        let (g, k) = (groups.count(), groups.largest());
        let nodes = format!("g = {g} nodes of at most k = {k} ranks, q_g = {}, q_k = {}", log2(g), log2(k));
        if entry.nesting != Nesting::Domains {
            return nodes;
        }
        let (d, j) = (self.domains, k.div_ceil(self.domains));
        format!("{nodes}, d = {d} domains of at most j = {j}, q_d = {}, q_j = {}", log2(d), log2(j))
    }

    fn check_size(&self, entry: &Entry, p: u32) -> Result<(), Error> {
        let parts = match entry.collective.numbering() {
            Numbering::Whole => 1,
            Numbering::Parts => u64::from(p),
            // What is stored and forwarded stands at several ranks.
            Numbering::Pairs => 8 * u64::from(p),
        };
        let held = u64::from(p) * parts * u64::from(self.blocks);
        let too_many = |what, cure| Err(Error::argument(CALL, what, cure));
        if held > MOST_HELD {
            let what = format!("{held} blocks of {p} ranks together are too many to prove");
            return too_many(what, format!("take fewer ranks or blocks: {MOST_HELD} in all"));
        }
        let rounds = u64::from(p) * u64::from(entry.plan(&self.shape(p)).rounds());
        if rounds > MOST_ROUNDS {
            let what = format!("{rounds} rounds of {p} ranks together are too many to print");
            return too_many(what, format!("take fewer ranks or blocks: {MOST_ROUNDS} in all"));
        }
        Ok(())
    }
}

fn collective(name: &str) -> Result<Collective, Error> {
    Collective::named(name).ok_or_else(|| {
        let names: Vec<_> = Collective::ALL.into_iter().map(Collective::name).collect();
        Error::argument(CALL, format!("no collective `{name}`"), format!("there are: {}", names.join(", ")))
    })
}

const CALL: &str = "circulant plan";

/// Rounded up.
fn log2(number: u32) -> u32 {
    number.next_power_of_two().trailing_zeros()
}

fn proved(entry: &Entry, p: u32) -> String {
    let ranks = if p == 1 { "the one rank".to_owned() } else { format!("all {p} ranks") };
    let order =
        if entry.ordered && entry.collective.reduces() { ", folds keep the ranks' order" } else { "" };
    format!(
        "proved in lockstep of {ranks}: what is put is expected, what is forwarded has arrived{order}, the end is right"
    )
}

fn list(out: &mut dyn Write, only: Option<Collective>) -> io::Result<()> {
    let head = ["collective", "algorithm", "rounds", "volume", "for", "source"];
    let all = Collective::ALL.into_iter().filter(|one| only.is_none_or(|only| only == *one));
    let rows = all
        .flat_map(algorithm::of)
        .map(|e| [e.collective.name(), e.name, e.rounds, e.volume, e.restriction, e.source]);
    let rows: Vec<_> = std::iter::once(head).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 6] = std::array::from_fn(width);
    for row in &rows {
        let cells: String = (0..5).map(|i| format!("{:<1$}  ", row[i], widths[i])).collect();
        writeln!(out, "{cells}{}", row[5])?;
    }
    writeln!(
        out,
        "\np ranks, n blocks, q = ⌈log₂ p⌉, r = ⌈√p⌉ (where p is a power of two, the next one), a torus of a x b, a message m\n\
         (a vector, all parts, or all that a rank has for others); volume: what the busiest rank puts; for: what it is\n\
         fit for, if not for everything. The first of a collective is its default where nothing speaks against it. Ranks in\n\
         groups share nodes: g of them, the largest of k ranks, q_g = ⌈log₂ g⌉ and q_k = ⌈log₂ k⌉; there what goes by leaders\n\
         is the default. Ranks in domains share a memory or a cache of a node: d domains of the node that has most, the\n\
         largest of j ranks."
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use circulant::algorithm::CATALOGUE;
    use circulant::collective::Collective::{Allgather, Allreduce, Barrier, Broadcast, Reduce, Scatter};

    fn arguments(algorithm: Option<&str>, blocks: u32, root: impl Into<Option<Rank>>) -> Arguments {
        Arguments {
            collective: None,
            processes: None,
            blocks,
            root: root.into(),
            algorithm: algorithm.map(str::to_owned),
            nodes: 1,
            domains: 1,
            leaders: 1,
            list: false,
        }
    }

    fn said<T>(result: Result<T, Error>) -> String {
        result.err().map(|error| error.to_string()).unwrap_or_default()
    }

    fn checked(collective: Collective, p: u32, arguments: &Arguments) -> String {
        said(arguments.entry(collective).and_then(|entry| arguments.check_numbers(entry, p)))
    }

    #[test]
    fn unknown_names_are_answered_with_those_there_are() {
        let error = said(collective("brodcast"));
        assert!(error.contains("no collective `brodcast`; there are: broadcast, reduce"), "{error}");
        let error = said(arguments(Some("ring"), 1, None).entry(Reduce));
        assert!(error.contains("no algorithm `ring` for reduce; there are: circulant"), "{error}");
    }

    #[test]
    fn a_root_that_is_no_rank_is_refused() {
        assert!(checked(Broadcast, 5, &arguments(None, 1, 5)).contains("from 0 to 4"));
        assert_eq!(checked(Broadcast, 5, &arguments(None, 1, 4)), "");
        assert!(checked(Allreduce, 5, &arguments(None, 1, 4)).contains("leave --root out"));
    }

    #[test]
    fn a_number_of_ranks_that_does_not_fit_is_answered_with_what_does() {
        let error = checked(Allgather, 12, &arguments(Some("hypercube"), 1, None));
        assert!(error.contains("p is a power of two") && error.contains("there are: circulant"), "{error}");
        assert_eq!(checked(Allgather, 16, &arguments(Some("hypercube"), 1, None)), "");
    }

    #[test]
    fn blocks_for_whole_parts_are_refused_with_the_algorithm_that_takes_them() {
        let error = checked(Allgather, 12, &arguments(None, 4, None));
        assert!(error.contains("leave -n out, or take --algorithm circulant-n"), "{error}");
        assert!(checked(Scatter, 12, &arguments(None, 4, None)).ends_with("leave -n out"));
    }

    #[test]
    fn domains_and_leaders_are_for_algorithms_that_know_them() {
        let with = |name, domains, leaders| Arguments {
            nodes: 2,
            domains,
            leaders,
            ..arguments(Some(name), 1, None)
        };
        assert!(checked(Broadcast, 8, &with("leader", 2, 1)).contains("take --algorithm leader-domains"));
        for name in ["leader", "leader-domains"] {
            assert_eq!(checked(Broadcast, 8, &with(name, 2, 2)), "");
        }
        let refused = checked(Allreduce, 8, &with("lanes", 1, 2));
        assert!(refused.contains("or take --algorithm leader or leader-ring or leader-domains"), "{refused}");
        assert!(checked(Allgather, 8, &with("leader", 1, 2)).ends_with("leave --leaders out"));
    }

    #[test]
    fn nodes_that_an_algorithm_does_not_suit_are_refused() {
        let with = |name, nodes, domains| Arguments { nodes, domains, ..arguments(Some(name), 1, None) };
        let refused = checked(Allgather, 6, &with("lanes", 4, 1));
        assert!(refused.contains("is for groups of one size, and not for 6 ranks on 4 nodes"), "{refused}");
        assert_eq!(checked(Allgather, 6, &with("lanes", 3, 1)), "");
        assert!(checked(Broadcast, 8, &with("leader", 1, 1)).contains("on 1 node of 1 domain"));
        assert!(checked(Broadcast, 8, &with("leader-domains", 2, 1)).contains("is for ranks in domains"));
        assert!(checked(Broadcast, 4, &with("leader", 5, 1)).contains("5 nodes for 4 ranks"));
        assert!(checked(Scatter, 6, &with("mst", 1, 2)).ends_with("leave --domains out"));
    }

    #[test]
    fn a_plan_beyond_all_use_is_refused() {
        assert!(checked(Broadcast, 40, &arguments(None, 1 << 16, None)).contains("too many to prove"));
        assert!(checked(Broadcast, 20, &arguments(None, 1 << 16, None)).contains("too many to print"));
        assert!(checked(Allgather, 2000, &arguments(None, 1, None)).contains("too many to prove"));
        assert!(checked(Allgather, 1200, &arguments(Some("ring"), 1, None)).contains("too many to print"));
    }

    #[test]
    fn the_head_has_the_formula_that_applies_and_the_leaders_that_there_are() {
        let head = |collective, name, p, nodes, domains, leaders| {
            let with = Arguments { nodes, domains, leaders, blocks: 4, ..arguments(Some(name), 1, None) };
            let entry = with.entry(collective).unwrap();
            let mut text = Vec::new();
            with.head(&mut text, entry, &*entry.plan(&with.shape(p))).unwrap();
            String::from_utf8(text).unwrap()
        };
        let several = head(Broadcast, "leader-domains", 16, 2, 2, 1);
        assert!(several.contains("rounds  3 (n - 3 + q_g + q_d + q_j) = 15, where"), "{several}");
        let one = head(Broadcast, "leader-domains", 8, 1, 2, 1);
        assert!(one.contains("rounds  2 (n - 2 + q_d + q_j) = 10, where"), "{one}");
        let led = head(Broadcast, "leader", 12, 6, 1, 9);
        assert!(led.contains(" with 2 leaders a node (with one: 2 (n - 2 + q_g + q_k)), where"), "{led}");
    }

    #[test]
    fn the_catalogue_has_a_line_an_algorithm() {
        let listed = |only| {
            let mut text = Vec::new();
            list(&mut text, only).unwrap();
            String::from_utf8(text).unwrap()
        };
        for entry in &CATALOGUE {
            assert!(listed(None).contains(entry.source));
        }
        assert!(listed(Some(Barrier)).contains("Hensgen") && !listed(Some(Barrier)).contains("ring"));
    }
}
