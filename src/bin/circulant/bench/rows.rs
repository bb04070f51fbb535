//! What benchmarks print: a table for people, csv or JSON lines for programs.

use std::io;

use circulant::rank::Rank;
use serde::Serialize;

use crate::output;

/// How rows are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// An aligned table, with a head that says what ran where
    Osu,
    /// Comma-separated values with a header line
    Csv,
    /// One JSON object a line
    Json,
}

/// One measurement. An iteration's time is the largest over the ranks.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    pub library: &'static str,
    pub collective: &'static str,
    pub kind: &'static str,
    pub algorithm: &'static str,
    pub ranks: u32,
    pub nodes: u32,
    pub bytes: usize,
    pub blocks: u32,
    pub min_us: f64,
    pub median_us: f64,
    pub max_us: f64,
    pub tense: String,
    /// None where there is none.
    pub root: Option<Rank>,
    /// How long links have rested before each call.
    pub rest_s: f64,
    pub transport: String,
    /// Whether to write the input and to read what comes out is in the time.
    pub fresh: bool,
    /// What the call alone, and the computation beside it alone, take; and how much of the shorter one they save together.
    pub call_us: Option<f64>,
    pub compute_us: Option<f64>,
    pub overlap_percent: Option<f64>,
}

impl Row {
    /// The names of the columns, for csv. Scripts go by their places: what is new stands behind.
    pub const HEAD: &str = "library,collective,kind,algorithm,ranks,nodes,bytes,blocks,min_us,median_us,max_us,tense,root,rest_s,transport,fresh,call_us,compute_us,overlap_percent";
}

/// Least, median and largest of some times, in microseconds to the nanosecond.
pub fn summary(mut seconds: Vec<f64>) -> (f64, f64, f64) {
    seconds.sort_by(f64::total_cmp);
    let us = |seconds: f64| (seconds * 1e9).round() / 1e3;
    match seconds.as_slice() {
        [] => (0.0, 0.0, 0.0),
        all => (us(all[0]), us(median(all)), us(all[all.len() - 1])),
    }
}

/// Of values in their order, at least one.
pub fn median(sorted: &[f64]) -> f64 {
    sorted[(sorted.len() - 1) / 2].midpoint(sorted[sorted.len() / 2])
}

/// A line for programs: JSON if that is the format, else csv.
pub fn print_line(format: Format, line: &impl Serialize) -> io::Result<()> {
    output::print(|out| {
        if format == Format::Json {
            serde_json::to_writer(&mut *out, line)?;
            return writeln!(out);
        }
        let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(out);
        writer.serialize(line).map_err(io::Error::other)?;
        writer.flush()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        assert_eq!(summary(vec![4e-6, 1e-6, 9e-6, 2e-6]), (1.0, 3.0, 9.0));
        assert_eq!(summary(vec![4e-6, 1e-6, 9e-6]), (1.0, 4.0, 9.0));
        assert_eq!(summary(vec![]), (0.0, 0.0, 0.0));
    }
}
