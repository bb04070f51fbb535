//! `circulant check --plans`: proves the whole catalogue, each algorithm for each number of ranks.

use std::fmt::Write;
use std::ops::RangeInclusive;

use circulant::algorithm::{self, CATALOGUE, Entry};
use circulant::collective::Collective;
use circulant::error::Error;
use indicatif::ProgressBar;
use rayon::prelude::*;

/// The most ranks: of more, the p² blocks of an allgather take gigabytes.
pub const MOST: u32 = 1024;

/// How much was proved of an algorithm.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Proved {
    /// Numbers of ranks.
    graphs: u64,
    /// Plans of single ranks.
    plans: u64,
}

impl Proved {
    fn and(self, other: Proved) -> Proved {
        Proved { graphs: self.graphs + other.graphs, plans: self.plans + other.plans }
    }
}

/// What was proved of each entry of the catalogue, or the first breach.
pub fn prove(range: &RangeInclusive<u32>, progress: &ProgressBar) -> Result<Vec<Proved>, String> {
    let none = || vec![Proved::default(); CATALOGUE.len()];
    // The largest first, so that no core is left with them at the end.
    let proofs = range.clone().rev().par_bridge().map(|p| {
        let all = CATALOGUE.iter().map(|entry| prove_one(entry, p)).collect();
        progress.inc(work(p));
        all
    });
    proofs.try_reduce(none, |one: Vec<_>, other| {
        Ok(one.into_iter().zip(other).map(|(one, other): (Proved, Proved)| one.and(other)).collect())
    })
}

/// What a number of ranks counts for in the progress.
pub fn work(p: u32) -> u64 {
    u64::from(p) * u64::from(p)
}

fn prove_one(entry: &Entry, p: u32) -> Result<Proved, String> {
    if !entry.fits(p) {
        return Ok(Proved::default());
    }
    let shapes = entry.shapes(p);
    for shape in &shapes {
        entry.check(shape).map_err(|breach| {
            let (collective, name, n, root) = (entry.collective.name(), entry.name, shape.blocks, shape.root);
            format!("{collective} by {name}, p = {p}, n = {n}, root {root}, {}: {breach}", shape.groups)
        })?;
    }
    Ok(Proved { graphs: 1, plans: shapes.len() as u64 * u64::from(p) })
}

/// An aligned table of what was proved, a line an algorithm.
pub fn report(range: &RangeInclusive<u32>, proved: &[Proved], seconds: f64) -> String {
    let head = ["collective", "algorithm", "graphs", "plans proved"].map(str::to_owned);
    let row = |entry: &Entry| {
        let Proved { graphs, plans } = proved[usize::from(entry.number())];
        [entry.collective.name().to_owned(), entry.name.to_owned(), graphs.to_string(), plans.to_string()]
    };
    let rows: Vec<_> =
        std::iter::once(head).chain(Collective::ALL.into_iter().flat_map(algorithm::of).map(row)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: [usize; 4] = std::array::from_fn(width);
    let mut text = String::new();
    for [collective, name, graphs, plans] in &rows {
        let [c, n, g, p] = widths;
        let _ = writeln!(text, "{collective:c$}  {name:n$}  {graphs:>g$}  {plans:>p$}");
    }
    let plans: u64 = proved.iter().map(|proved| proved.plans).sum();
    let (first, last) = (range.start(), range.end());
    let _ = writeln!(text, "\n{first}..={last}: all {plans} plans keep what they promise, in {seconds:.1} s");
    text
}

/// Why a range cannot be proved.
pub fn refuse(range: &RangeInclusive<u32>) -> Option<Error> {
    (*range.end() > MOST).then(|| {
        let what = format!("plans of {} ranks would take gigabytes to prove", range.end());
        Error::argument("circulant check --plans", what, format!("give numbers of ranks up to {MOST}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_report_is_an_algorithm_and_counts_the_graphs_that_it_fits() {
        let range = 1..=9;
        let text = report(&range, &prove(&range, &ProgressBar::hidden()).unwrap(), 0.5);
        let line = |words: [&str; 4]| text.lines().any(|line| line.split_whitespace().eq(words));
        assert!(line(["allgather", "ring", "9", "45"]), "{text}");
        assert!(line(["allgather", "hypercube", "4", "15"]), "{text}");
        assert_eq!(text.lines().count(), CATALOGUE.len() + 3);
    }

    #[test]
    fn more_ranks_than_memory_is_sure_of_are_refused_with_the_limit() {
        assert!(refuse(&(1..=1025)).unwrap().to_string().contains("up to 1024"));
        assert_eq!(refuse(&(1..=1024)), None);
    }
}
