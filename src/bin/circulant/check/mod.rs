//! `circulant check`: proves the schedules of a range of graphs, or the plans of all algorithms on them.

mod plans;

use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Instant;

use circulant::schedule::conditions::{self, Breach, Peak, Peaks};
use indicatif::{ProgressBar, ProgressStyle};
use rayon::prelude::*;

use crate::Outcome;
use crate::output::print;

/// Prove the schedules, or all algorithms' plans, for every number of ranks in a range.
///
/// Computes every rank's schedules as a broadcast does, and tests the four conditions under
/// which each rank receives each block once and sends only what it has; then holds the table
/// of all ranks and the source's search against them. Says the largest numbers of steps that
/// the source bounds: recursive calls of a search (less than q) and violations of a send
/// schedule (at most 4). Uses all cores, which divide the graphs, or if these are fewer the ranks of
/// one after the other, and about 100 bytes a rank of each graph that is under way;
/// graphs of up to 134217728 ranks can be checked.
///
/// With --plans, every algorithm of every collective instead (`circulant plan --list`), for all
/// ranks together: the two ends of a put name the same blocks; a rank puts only what it has, and
/// waits for all of it; nothing is folded twice, or out of the ranks' order where that is to be
/// kept; and each rank ends with what the collective promises. For up to four roots; up to 32 ranks
/// with up to four numbers of blocks, beyond with one of up to three; up to 1024 ranks.
///
/// A breach is printed with number of ranks, rank, round and what is wrong; the program then
/// ends with 1.
///
/// Examples:
///   circulant check 1..=9000
///   circulant check --plans 1..=100
///   circulant check 2097000..2097010
///   circulant check 1000000
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Numbers of ranks: LO..=HI, LO..HI (without HI), or a single one
    #[arg(value_name = "RANGE")]
    range: Sizes,

    /// Prove the plans of the whole catalogue instead of the schedules
    #[arg(long)]
    plans: bool,
}

impl Arguments {
    /// Checks, and says what came of it.
    pub fn run(self) -> Outcome {
        let start = Instant::now();
        let report = if self.plans {
            let proved = self.range.prove_plans()?;
            plans::report(&self.range.0, &proved, start.elapsed().as_secs_f64())
        } else {
            let peaks = self.range.check()?;
            self.range.report(peaks, start.elapsed().as_secs_f64())
        };
        print(|output| output.write_all(report.as_bytes()))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The most ranks of a graph that is checked: beyond, the memory for it could not be relied on.
const MOST: u32 = 1 << 27;

/// Numbers of ranks, at least one of them, and none 0 or above [`MOST`].
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sizes(RangeInclusive<u32>);

impl Sizes {
    fn check(&self) -> Result<Peaks, Breach> {
        let progress = progress_bar(self.schedules(), "{human_len} schedules");
        let both = |one: Peaks, other| Ok(one.or(other));
        let peaks = if self.is_many() {
            let check = |p| conditions::check(p).inspect(|_| progress.inc(u64::from(p)));
            self.0.clone().into_par_iter().map(check).try_reduce(Peaks::default, both)
        } else {
            let check = |p| conditions::check_divided(p, |ranks| progress.inc(ranks));
            self.0.clone().map(check).try_fold(Peaks::default(), |one, other| both(one, other?))
        };
        progress.finish_and_clear();
        peaks
    }

    /// Whether each core has a graph of its own; else all cores divide one after the other.
    fn is_many(&self) -> bool {
        (self.0.end() - self.0.start()) as usize >= rayon::current_num_threads()
    }

    fn prove_plans(&self) -> Result<Vec<plans::Proved>, Box<dyn std::error::Error>> {
        if let Some(refusal) = plans::refuse(&self.0) {
            return Err(refusal.into());
        }
        let progress = progress_bar(self.0.clone().map(plans::work).sum(), "all plans");
        let proved = plans::prove(&self.0, &progress);
        progress.finish_and_clear();
        Ok(proved?)
    }

    fn report(&self, peaks: Peaks, seconds: f64) -> String {
        format!(
            "{}..={}: all conditions hold for every rank\n\
             {} schedules of {} graphs in {seconds:.1} s\n\
             recursive calls: {}\n\
             violations: {}\n",
            self.0.start(),
            self.0.end(),
            self.schedules(),
            u64::from(self.0.end() - self.0.start()) + 1,
            said(peaks.recursive_calls),
            said(peaks.violations),
        )
    }

    /// How many schedules there are: the sum of all `p`.
    fn schedules(&self) -> u64 {
        let (low, high) = (u64::from(*self.0.start()), u64::from(*self.0.end()));
        (low + high) * (high - low + 1) / 2
    }
}

fn said(Peak { count, processes, rank }: Peak) -> String {
    match count {
        0 => "none".into(),
        _ => format!("at most {count}, first at p = {processes}, rank {rank}"),
    }
}

/// On standard error, and only where that is a terminal.
fn progress_bar(work: u64, all: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(&format!("{{bar:40}} {{percent:>3}} % of {all}, {{eta}} left"));
    ProgressBar::new(work).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (low, high) = match text.split_once("..") {
            None => (number(text)?, number(text)?),
            Some((low, high)) => match high.strip_prefix('=') {
                Some(high) => (number(low)?, number(high)?),
                None => (number(low)?, number(high)?.saturating_sub(1)),
            },
        };
        match (low, high) {
            (0, _) => Err("a graph has at least one rank; begin with 1".into()),
            _ if high > MOST => {
                Err(format!("a check takes about 100 bytes a rank; give numbers of ranks up to {MOST}"))
            }
            _ if low > high => {
                Err("the range is empty; give the smaller number first, as in 1..=9000".into())
            }
            _ => Ok(Sizes(low..=high)),
        }
    }
}

fn number(text: &str) -> Result<u32, String> {
    let cure = "give numbers of ranks as 1..=9000, 1..9001 or 9000";
    text.parse().map_err(|error| format!("`{text}` is no number of ranks ({error}); {cure}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_in_three_ways() {
        assert_eq!("3..=9".parse(), Ok(Sizes(3..=9)));
        assert_eq!("3..9".parse(), Ok(Sizes(3..=8)));
        assert_eq!("9".parse(), Ok(Sizes(9..=9)));
        assert_eq!("1..=134217728".parse(), Ok(Sizes(1..=MOST)));
    }

    #[test]
    fn a_malformed_range_is_answered_with_its_cure() {
        for text in ["", "x", "1..", "..=4", "1...4", "1..==4", "-1..4", "1..=4294967296", "1-4", " 1..=4"] {
            let said = text.parse::<Sizes>().unwrap_err();
            assert!(said.contains("1..=9000"), "{text}: {said}");
        }
        assert!("134217729".parse::<Sizes>().unwrap_err().contains("up to 134217728"));
        assert!("0..=4".parse::<Sizes>().unwrap_err().contains("begin with 1"));
        for text in ["9..=3", "3..3", "1..0"] {
            assert!(text.parse::<Sizes>().unwrap_err().contains("smaller number first"), "{text}");
        }
    }

    #[test]
    fn the_report_says_range_schedules_time_and_peaks() {
        let peaks = Peaks { violations: Peak { count: 4, processes: 2049, rank: 1536 }, ..Peaks::default() };
        let report = Sizes(1..=9000).report(peaks, 2.5);
        assert!(report.starts_with("1..=9000: all conditions hold"));
        assert!(report.contains("40504500 schedules of 9000 graphs in 2.5 s"));
        assert!(report.contains("recursive calls: none"));
        assert!(report.contains("violations: at most 4, first at p = 2049, rank 1536"));
    }

    #[test]
    fn a_range_of_graphs_is_checked() {
        let peaks = Sizes(1..=60).check().unwrap();
        assert!(peaks.recursive_calls.count < 6);
        assert_eq!(Sizes(5..=5).schedules(), 5);
        assert_eq!(Sizes(2049..=2049).check(), conditions::check(2049), "of one graph the ranks are divided");
    }
}
