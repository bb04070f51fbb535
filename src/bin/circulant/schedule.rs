//! `circulant schedule`: prints the schedules of a graph.

use std::io::{self, Write};
use std::ops::Range;
use std::process::ExitCode;

use circulant::error::Error;
use circulant::rank::Rank;
use circulant::schedule::{Schedule, Skips};
use clap::ValueEnum;

use crate::Outcome;
use crate::output::print;

/// Print who sends and receives which block in which round.
///
/// In round k rank r sends block sendblock[k] to rank r + skip[k] and receives block
/// recvblock[k] from rank r - skip[k], around the circle. Blocks below 0 are those of the
/// phase before, q rounds ago; b is the baseblock, the first that comes in a phase. Ranks
/// count from the root, which is 0.
///
/// Examples:
///   circulant schedule 17                 the table of all 17 ranks
///   circulant schedule 1000000 --rank 7   one rank of a million
///   circulant schedule 36 --format tsv    for other programs
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// The number of ranks, at least 1
    #[arg(value_name = "P", value_parser = clap::value_parser!(u32).range(1..))]
    processes: u32,

    /// Print this rank only
    #[arg(long, value_name = "R")]
    rank: Option<Rank>,

    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// A column a rank and a row a round; a wide table goes on below, after as many ranks as fit in 100
    /// characters
    Text,
    /// A line a rank, tab-separated, no header: rank, b, recvblock[0..q), sendblock[0..q)
    Tsv,
}

impl Arguments {
    /// Prints what was asked for.
    pub fn run(self) -> Outcome {
        let ranks = self.ranks()?;
        let skips = Skips::new(self.processes);
        print(|output| match self.format {
            Format::Text => write_text(output, &skips, ranks),
            Format::Tsv => write_tsv(output, &skips, ranks),
        })?;
        Ok(ExitCode::SUCCESS)
    }

    fn ranks(&self) -> Result<Range<Rank>, Error> {
        match self.rank {
            None => Ok(0..self.processes),
            Some(rank) if rank < self.processes => Ok(rank..rank + 1),
            Some(rank) => Err(Error::argument(
                "circulant schedule",
                format!("there is no rank {rank} among {}", self.processes),
                format!("give --rank a number from 0 to {}", self.processes - 1),
            )),
        }
    }
}

/// How many characters a line of text has at most, unless one rank alone needs more.
const WIDTH: usize = 100;

fn write_text(output: &mut dyn Write, skips: &Skips, ranks: Range<Rank>) -> io::Result<()> {
    let q = skips.rounds();
    let label = format!("recvblock[{}]:", q.saturating_sub(1)).len();
    // A rank, or a block, which has as many digits as q and a sign.
    let column = 1 + (ranks.end - 1).to_string().len().max(q.to_string().len() + 1);
    let columns = ((WIDTH - label) / column).max(1);
    for start in ranks.clone().step_by(columns) {
        let schedules: Vec<_> =
            (start..ranks.end).take(columns).map(|rank| (rank, Schedule::new(skips, rank))).collect();
        let mut row = |name: String, value: &dyn Fn(&(Rank, Schedule)) -> i64| {
            write!(output, "{name:<label$}")?;
            schedules.iter().try_for_each(|rank| write!(output, "{:>column$}", value(rank)))?;
            writeln!(output)
        };
        row("r:".into(), &|(rank, _)| i64::from(*rank))?;
        row("b:".into(), &|(_, schedule)| i64::from(schedule.baseblock()))?;
        for k in 0..q {
            row(format!("recvblock[{k}]:"), &|(_, schedule)| i64::from(schedule.receive(k)))?;
        }
        for k in 0..q {
            row(format!("sendblock[{k}]:"), &|(_, schedule)| i64::from(schedule.send(k)))?;
        }
        if ranks.end - start > columns as u32 {
            writeln!(output)?;
        }
    }
    Ok(())
}

fn write_tsv(output: &mut dyn Write, skips: &Skips, ranks: Range<Rank>) -> io::Result<()> {
    for rank in ranks {
        let schedule = Schedule::new(skips, rank);
        write!(output, "{rank}\t{}", schedule.baseblock())?;
        for k in 0..skips.rounds() {
            write!(output, "\t{}", schedule.receive(k))?;
        }
        for k in 0..skips.rounds() {
            write!(output, "\t{}", schedule.send(k))?;
        }
        writeln!(output)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    type Writer = fn(&mut dyn Write, &Skips, Range<Rank>) -> io::Result<()>;

    fn printed(writer: Writer, p: u32, ranks: Range<Rank>) -> String {
        let mut output = Vec::new();
        writer(&mut output, &Skips::new(p), ranks).unwrap();
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn text_is_laid_out_as_the_source_s_tables() {
        let expected = "\
r:             0  1  2
b:             2  0  1
recvblock[0]: -1  0 -2
recvblock[1]: -2 -1  1
sendblock[0]:  0 -2 -1
sendblock[1]:  1 -2 -1
";
        // The source prints no table for three ranks: this one follows from its conditions.
        assert_eq!(printed(write_text, 3, 0..3), expected);
    }

    #[test]
    fn a_wide_table_goes_on_below() {
        let text = printed(write_text, 100, 0..100);
        assert!(text.lines().all(|line| line.len() <= WIDTH));
        let ranks: Vec<u32> = text
            .lines()
            .filter_map(|line| line.strip_prefix("r:"))
            .flat_map(|line| line.split_whitespace().map(|rank| rank.parse().unwrap()))
            .collect();
        assert_eq!(ranks, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn tsv_is_a_line_a_rank() {
        assert_eq!(printed(write_tsv, 9, 5..6), "5\t3\t-4\t-2\t-3\t3\t-1\t-1\t-1\t-1\n");
        assert_eq!(printed(write_tsv, 1, 0..1), "0\t0\n");
        assert_eq!(printed(write_tsv, 17, 0..17).lines().count(), 17);
    }
}
