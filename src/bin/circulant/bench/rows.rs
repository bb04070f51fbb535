//! What a benchmark prints: a table for people, csv or JSON lines for programs.

use std::io;

use circulant::comm::Communicator;
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
#[derive(Debug, Serialize)]
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
}

/// Least, median and largest of some times, in microseconds to the nanosecond.
pub fn summary(mut seconds: Vec<f64>) -> (f64, f64, f64) {
    seconds.sort_by(f64::total_cmp);
    let us = |seconds: f64| (seconds * 1e9).round() / 1e3;
    match seconds.as_slice() {
        [] => (0.0, 0.0, 0.0),
        all => (us(all[0]), us(all[all.len() / 2]), us(all[all.len() - 1])),
    }
}

/// What stands above the rows.
pub fn head(format: Format, what: &str, comm: &Communicator) -> io::Result<()> {
    let about = comm.about();
    let costs = comm.costs();
    match format {
        Format::Osu => output::print(|out| {
            let nodes = if about.nodes == 1 { "node" } else { "nodes" };
            writeln!(out, "# circulant {} {what}", env!("CARGO_PKG_VERSION"))?;
            writeln!(
                out,
                "# {} ranks on {} {nodes}, {}, by {}{}",
                comm.size(),
                about.nodes,
                comm.transport(),
                about.boot,
                if about.crowded { "; more ranks than cores, so waiting ranks give up theirs" } else { "" }
            )?;
            writeln!(out, "# a put costs {:.1} us, a byte {:.3} ns", costs.latency * 1e6, costs.byte * 1e9)?;
            writeln!(
                out,
                "{:>10} {:>7} {:>12} {:>12} {:>12} {:>10}",
                "bytes", "blocks", "min us", "median us", "max us", "MB/s"
            )
        }),
        Format::Csv => output::print(|out| {
            writeln!(
                out,
                "library,collective,kind,algorithm,ranks,nodes,bytes,blocks,min_us,median_us,max_us"
            )
        }),
        Format::Json => Ok(()),
    }
}

/// A row.
pub fn print(format: Format, row: &Row) -> io::Result<()> {
    if format != Format::Osu {
        return print_line(format, row);
    }
    output::print(|out| {
        let rate = row.bytes as f64 / row.median_us.max(1e-3);
        writeln!(
            out,
            "{:>10} {:>7} {:>12.2} {:>12.2} {:>12.2} {:>10.1}",
            row.bytes, row.blocks, row.min_us, row.median_us, row.max_us, rate
        )
    })
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
