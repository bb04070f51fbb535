//! `circulant plan`: prints an algorithm's plan for all ranks, and proves it.

use std::io::{self, Write};
use std::process::ExitCode;

use circulant::algorithm::{self, CATALOGUE, Entry};
use circulant::error::Error;
use circulant::plan::{Plan, table};
use circulant::rank::{Place, Rank};

use crate::Outcome;
use crate::output::print;

/// Print who puts which block to whom in which round, and prove it.
///
/// A column is a rank, a pair of lines a round: what the rank puts, and what arrives. A number is a
/// block, * a notice without data, . nothing; + marks an arrival that is folded into what the rank
/// has. Rounds are not barriers: a put waits for the arrival that it forwards, and for no other.
///
/// All ranks' plans are then carried out in lockstep: each rank ends with what the collective
/// promises, expects exactly what is put to it, and waits for exactly what it forwards. A breach is
/// printed with rank and round; the program then ends with 1.
///
/// Examples:
///   circulant plan broadcast -p 17 -n 6
///   circulant plan allreduce -p 5 -n 3 --root 2
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

    /// The number of blocks
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=MOST_BLOCKS))]
    blocks: u32,

    /// The rank that sends, or that gets the result
    #[arg(long, value_name = "R", default_value_t = 0)]
    root: Rank,

    /// The algorithm [default: the first of the collective's in --list]
    #[arg(long, value_name = "NAME")]
    algorithm: Option<String>,

    /// Print the catalogue of all algorithms, and no plan
    #[arg(long)]
    list: bool,
}

/// A table beyond is of no use to people, and its proof takes p² n / 8 bytes.
const MOST_RANKS: i64 = 4096;
const MOST_BLOCKS: i64 = 1 << 19;

/// How many characters a line has at most, unless one rank alone needs more.
const WIDTH: usize = 110;

impl Arguments {
    /// Prints what was asked for.
    pub fn run(self) -> Outcome {
        match (&self.collective, self.processes) {
            (Some(collective), Some(p)) if !self.list => self.print_plan(collective, p)?,
            _ => print(list)?,
        }
        Ok(ExitCode::SUCCESS)
    }

    fn print_plan(&self, collective: &str, p: u32) -> Result<(), Box<dyn std::error::Error>> {
        let entry = self.entry(collective)?;
        self.check_numbers(p)?;
        let plans: Vec<_> =
            (0..p).map(|rank| entry.plan(Place { rank, size: p }, self.root, self.blocks)).collect();
        print(|out| {
            head(out, entry, &*plans[0], self.root)?;
            writeln!(out, "\n{}", table::render(&plans, WIDTH))
        })?;
        entry.check(p, self.root, self.blocks)?;
        print(|out| writeln!(out, "{}", proved(p)))?;
        Ok(())
    }

    fn entry(&self, collective: &str) -> Result<&'static Entry, Error> {
        let known = |names: Vec<&str>| format!("there are: {}", names.join(", "));
        let first = algorithm::of(collective).next().ok_or_else(|| {
            let mut names: Vec<_> = CATALOGUE.iter().map(|entry| entry.collective).collect();
            names.dedup();
            Error::argument(CALL, format!("no collective `{collective}`"), known(names))
        })?;
        let Some(name) = &self.algorithm else { return Ok(first) };
        algorithm::of(collective).find(|entry| entry.name == name).ok_or_else(|| {
            let names = algorithm::of(collective).map(|entry| entry.name).collect();
            Error::argument(CALL, format!("no algorithm `{name}` for {collective}"), known(names))
        })
    }

    fn check_numbers(&self, p: u32) -> Result<(), Error> {
        if self.root >= p {
            let cure = format!("give --root a number from 0 to {}", p - 1);
            return Err(Error::argument(CALL, format!("root {} of {p} ranks", self.root), cure));
        }
        let all = u64::from(p) * u64::from(self.blocks);
        if all > MOST_BLOCKS as u64 {
            let what = format!("{p} ranks with {} blocks each are too many to print", self.blocks);
            return Err(Error::argument(
                CALL,
                what,
                format!("give -p and -n with p n at most {MOST_BLOCKS}"),
            ));
        }
        Ok(())
    }
}

const CALL: &str = "circulant plan";

fn head(out: &mut dyn Write, entry: &Entry, plan: &dyn Plan, root: Rank) -> io::Result<()> {
    let p = plan.place().size;
    write!(out, "{} by {}: {}", entry.collective, entry.name, counted(p, "rank"))?;
    match plan.blocks() {
        0 => writeln!(out)?,
        blocks => writeln!(out, ", root {root}, {}", counted(blocks, "block"))?,
    }
    let q = p.next_power_of_two().trailing_zeros();
    writeln!(out, "  rounds  {} = {}, where q = ⌈log₂ {p}⌉ = {q}", entry.rounds, plan.rounds())?;
    writeln!(out, "  volume  {} put by the busiest rank, of a message m", entry.volume)?;
    writeln!(out, "  source  {}", entry.source)
}

fn counted(count: u32, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn proved(p: u32) -> String {
    let ranks = if p == 1 { "the one rank".to_owned() } else { format!("all {p} ranks") };
    format!(
        "proved in lockstep of {ranks}: what is put is expected, what is forwarded has arrived, the end is right"
    )
}

fn list(out: &mut dyn Write) -> io::Result<()> {
    let head = ["collective", "algorithm", "rounds", "volume", "source"];
    let rows = CATALOGUE.iter().map(|e| [e.collective, e.name, e.rounds, e.volume, e.source]);
    let rows: Vec<_> = std::iter::once(head).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 5] = std::array::from_fn(width);
    for row in &rows {
        let cells: String = (0..4).map(|i| format!("{:<1$}  ", row[i], widths[i])).collect();
        writeln!(out, "{cells}{}", row[4])?;
    }
    writeln!(out, "\nn blocks, q = ⌈log₂ p⌉, a message m; volume: what the busiest rank puts")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(algorithm: Option<&str>, blocks: u32, root: Rank) -> Arguments {
        Arguments {
            collective: None,
            processes: None,
            blocks,
            root,
            algorithm: algorithm.map(str::to_owned),
            list: false,
        }
    }

    fn said<T>(result: Result<T, Error>) -> String {
        result.err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn unknown_names_are_answered_with_those_there_are() {
        let error = said(arguments(None, 1, 0).entry("brodcast"));
        assert!(error.contains("no collective `brodcast`; there are: broadcast, reduce"), "{error}");
        let error = said(arguments(Some("ring"), 1, 0).entry("reduce"));
        assert!(error.contains("no algorithm `ring` for reduce; there are: circulant"), "{error}");
    }

    #[test]
    fn a_root_that_is_no_rank_is_refused() {
        assert!(said(arguments(None, 1, 5).check_numbers(5)).contains("from 0 to 4"));
        assert_eq!(said(arguments(None, 1, 4).check_numbers(5)), "");
    }

    #[test]
    fn a_plan_beyond_all_use_is_refused() {
        assert!(said(arguments(None, 1 << 19, 0).check_numbers(2)).contains("too many to print"));
    }

    #[test]
    fn the_catalogue_has_a_line_an_algorithm() {
        let mut text = Vec::new();
        list(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        for entry in CATALOGUE {
            assert!(text.contains(entry.source), "{text}");
        }
    }
}
