//! What `bench put` prints, by rank 0: a table with ratios and verdicts, or a line for each measurement.

use std::io;

use circulant::comm::meeting::Meeting;
use serde::Serialize;

use super::super::rows::{self, Format};
use crate::output;

/// Seconds a message, batch by batch.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    pub puts: Vec<f64>,
    /// Empty without a baseline.
    pub raw: Vec<f64>,
}

impl Measured {
    /// How many times as long as the baseline a put takes: the median over the pairs of batches that
    /// were measured one after the other, as what else a machine does comes and goes.
    fn ratio(&self) -> Option<f64> {
        let mut ratios: Vec<f64> = self.puts.iter().zip(&self.raw).map(|(put, raw)| put / raw).collect();
        ratios.sort_by(f64::total_cmp);
        ratios.get(ratios.len() / 2).copied()
    }
}

/// One size.
pub struct Row {
    pub bytes: usize,
    pub latency: Measured,
    pub stream: Measured,
}

/// Where rows go.
pub struct Report {
    /// `None` on the rank that prints nothing.
    format: Option<Format>,
    baseline: bool,
    /// Both ranks share a core: what is measured is how they take turns.
    crowded: bool,
    transport: String,
    rows: Vec<Row>,
}

/// A line of csv or JSON.
#[derive(Serialize)]
struct Line<'a> {
    library: &'static str,
    kind: &'static str,
    bytes: usize,
    min_us: f64,
    median_us: f64,
    max_us: f64,
    mb_per_s: f64,
    messages_per_s: f64,
    transport: &'a str,
}

impl Line<'_> {
    fn new<'a>(
        (library, transport): (&'static str, &'a str),
        kind: &'static str,
        bytes: usize,
        seconds: &[f64],
    ) -> Line<'a> {
        let (min_us, median_us, max_us) = rows::summary(seconds.to_vec());
        let per_s = 1e6 / median_us.max(1e-3);
        let mb_per_s = (bytes as f64 * per_s / 1e4).round() / 1e2;
        let messages_per_s = per_s.round();
        Line { library, kind, bytes, min_us, median_us, max_us, mb_per_s, messages_per_s, transport }
    }
}

/// From here on a message is large: its bandwidth counts.
const LARGE: usize = 1 << 20;
/// The goals for native TCP: how many times raw TCP's latency at 8 bytes, and bandwidth from [`LARGE`] on.
const MOST_LATENCY: f64 = 1.35;
const LEAST_BANDWIDTH: f64 = 0.9;

impl Report {
    /// Prints what stands above the rows.
    pub fn new(format: Format, meeting: &Meeting, transport: &str, baseline: bool) -> io::Result<Report> {
        let format = (meeting.place().rank == 0).then_some(format);
        let crowded = meeting.ranks_per_core() > 1.0;
        match format {
            Some(Format::Osu) => output::print(|out| {
                let nodes = if meeting.nodes() == 1 { "1 node" } else { "2 nodes" };
                writeln!(out, "# circulant {} put", env!("CARGO_PKG_VERSION"))?;
                writeln!(out, "# 2 ranks on {nodes}, {transport}, by {}", meeting.boot())?;
                writeln!(out, "# half a round trip, both spinning; a stream of puts in flight")?;
                if crowded {
                    writeln!(out, "# both ranks share a core, so times are those of taking turns")?;
                }
                write!(
                    out,
                    "{:>10} {:>10} {:>10} {:>10} {:>10}",
                    "bytes", "min us", "median us", "MB/s", "puts/s"
                )?;
                if baseline {
                    write!(out, "  | {:>10} {:>10} {:>10}", "raw min", "raw median", "raw MB/s")?;
                    write!(out, "  | {:>7} {:>9}", "latency", "bandwidth")?;
                }
                writeln!(out)
            })?,
            Some(Format::Csv) => output::print(|out| {
                writeln!(out, "library,kind,bytes,min_us,median_us,max_us,mb_per_s,messages_per_s,transport")
            })?,
            _ => {}
        }
        Ok(Report { format, baseline, crowded, transport: transport.to_owned(), rows: Vec::new() })
    }

    /// Prints a size.
    pub fn row(&mut self, row: Row) -> io::Result<()> {
        match self.format {
            Some(Format::Osu) => self.table_row(&row)?,
            Some(format) => each_line(&row, &self.transport, |line| rows::print_line(format, line))?,
            None => {}
        }
        self.rows.push(row);
        Ok(())
    }

    fn table_row(&self, row: &Row) -> io::Result<()> {
        let line = |kind, seconds: &[f64]| Line::new(("", ""), kind, row.bytes, seconds);
        let (latency, stream) = (line("latency", &row.latency.puts), line("stream", &row.stream.puts));
        output::print(|out| {
            write!(out, "{:>10} {:>10.2} {:>10.2}", row.bytes, latency.min_us, latency.median_us)?;
            write!(out, " {:>10.1} {:>10.0}", stream.mb_per_s, stream.messages_per_s)?;
            if let (Some(slower), Some(longer)) = (row.latency.ratio(), row.stream.ratio()) {
                let (latency, stream) = (line("latency", &row.latency.raw), line("stream", &row.stream.raw));
                write!(out, "  | {:>10.2} {:>10.2}", latency.min_us, latency.median_us)?;
                write!(out, " {:>10.1}  | {slower:>7.2} {:>9.2}", stream.mb_per_s, 1.0 / longer)?;
            }
            writeln!(out)
        })
    }

    /// Says how the puts stand beside raw TCP, where that was measured.
    pub fn verdict(&self) -> io::Result<()> {
        if !(self.baseline && matches!(self.format, Some(Format::Osu))) {
            return Ok(());
        }
        if self.crowded {
            return output::print(|out| writeln!(out, "# no verdict, as both ranks share a core"));
        }
        output::print(|out| {
            if let Some(ratio) =
                self.rows.iter().find(|row| row.bytes == 8).and_then(|row| row.latency.ratio())
            {
                let met = if ratio <= MOST_LATENCY { "met" } else { "missed" };
                writeln!(
                    out,
                    "# 8 bytes: {ratio:.2} times raw TCP's latency (goal: at most {MOST_LATENCY}): {met}"
                )?;
            }
            let large = self.rows.iter().filter(|row| row.bytes >= LARGE);
            let shares = large.filter_map(|row| Some(1.0 / row.stream.ratio()?));
            if let Some(least) = shares.min_by(f64::total_cmp) {
                let met = if least >= LEAST_BANDWIDTH { "met" } else { "missed" };
                writeln!(
                    out,
                    "# 1 MiB and above: at least {least:.2} of raw TCP's bandwidth (goal: {LEAST_BANDWIDTH}): {met}"
                )?;
            }
            Ok(())
        })
    }
}

fn each_line(
    row: &Row,
    transport: &str,
    mut print: impl FnMut(&Line<'_>) -> io::Result<()>,
) -> io::Result<()> {
    for (kind, measured) in [("latency", &row.latency), ("stream", &row.stream)] {
        for (who, seconds) in [(("circulant", transport), &measured.puts), (("raw-tcp", "-"), &measured.raw)]
        {
            if !seconds.is_empty() {
                print(&Line::new(who, kind, row.bytes, seconds))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_the_median_over_neighbouring_batches() {
        let measured = Measured { puts: vec![3.0, 9.0, 2.0], raw: vec![2.0, 1.0, 4.0] };
        assert_eq!(measured.ratio(), Some(1.5));
        assert_eq!(Measured { raw: vec![], ..measured }.ratio(), None);
    }

    #[test]
    fn bandwidth_and_rate_follow_from_the_median() {
        let line = Line::new(("circulant", "shm"), "stream", 1000, &[1e-5, 2e-5, 9e-5]);
        assert_eq!((line.mb_per_s, line.messages_per_s), (50.0, 50_000.0));
    }
}
