//! What rank 0 says: rows of one algorithm, or a table with a column for each.

use std::io::{self, Write};

use circulant::collective::Collective;
use circulant::comm::Communicator;
use indicatif::{ProgressBar, ProgressStyle};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::super::rows::{self, Format, Row};
use super::subject::Subject;
use crate::fit::counted;
use crate::output;

/// What came of a measurement.
#[derive(Debug)]
pub enum Cell {
    Measured(Row),
    /// The algorithm does not serve the call, and why.
    Refused(String),
}

impl Cell {
    fn row(&self) -> Option<&Row> {
        match self {
            Cell::Measured(row) => Some(row),
            Cell::Refused(_) => None,
        }
    }
}

/// Prints what is measured as it comes in.
pub struct Report {
    format: Format,
    /// The algorithms, where several are compared.
    columns: Option<Vec<String>>,
    /// Why there are gaps in the table, and since which size: one for an algorithm.
    gaps: Vec<Gap>,
    /// Whether ranks compute beside their calls.
    overlaps: bool,
    bar: ProgressBar,
}

#[derive(Debug, PartialEq)]
struct Gap {
    algorithm: String,
    bytes: usize,
    why: String,
}

impl Report {
    pub fn new(format: Format, columns: Option<Vec<&str>>, overlaps: bool) -> Self {
        let columns = columns.map(|names| names.into_iter().map(str::to_owned).collect());
        Report { format, columns, gaps: Vec::new(), overlaps, bar: ProgressBar::hidden() }
    }

    /// What stands above everything; so many measurements will follow.
    pub fn head(
        &mut self,
        comm: &Communicator,
        collective: Collective,
        measurements: usize,
    ) -> io::Result<()> {
        self.bar = progress_bar(measurements);
        match self.format {
            Format::Osu => self.print(|out| {
                world(out, comm, collective)?;
                if self.overlaps { beside(out, comm) } else { Ok(()) }
            }),
            Format::Csv => self.print(|out| writeln!(out, "{}", Row::HEAD)),
            Format::Json => Ok(()),
        }
    }

    /// What stands above the rows of one kind.
    pub fn open(&self, subject: &Subject) -> io::Result<()> {
        if self.format != Format::Osu {
            return Ok(());
        }
        self.print(|out| {
            if subject.collective.has_counts() {
                writeln!(out, "\n# {} parts", subject.kind.name())?;
            }
            match &self.columns {
                Some(names) => writeln!(out, "{}", matrix_head(names)),
                None if self.overlaps => writeln!(
                    out,
                    "{:>10} {:>18} {:>7} {:>12} {:>12} {:>12} {:>10}",
                    "bytes", "algorithm", "blocks", "call us", "compute us", "both us", "overlap"
                ),
                None => writeln!(
                    out,
                    "{:>10} {:>18} {:>7} {:>12} {:>12} {:>12} {:>10}",
                    "bytes", "algorithm", "blocks", "min us", "median us", "max us", "MB/s"
                ),
            }
        })
    }

    /// Whether somebody reads what is printed: the reader of a pipe may have seen enough.
    pub fn is_read(&self) -> bool {
        let out = io::stdout();
        let mut fds = [PollFd::new(&out, PollFlags::empty())];
        poll(&mut fds, Some(&Timespec::default())).is_err() || !fds[0].revents().contains(PollFlags::ERR)
    }

    /// What is measured next.
    pub fn progress(&self, subject: &Subject, algorithm: Option<&str>) {
        self.bar.set_message(format!("{} bytes {}", subject.bytes(), algorithm.unwrap_or_default()));
        self.bar.inc(1);
    }

    /// All measurements of one size, in the order of the columns; `own` is the library's choice.
    pub fn row(&mut self, subject: &Subject, own: Option<&str>, cells: Vec<Cell>) -> io::Result<()> {
        self.note_gaps(subject.bytes(), &cells);
        self.print(|out| match (&self.columns, self.format) {
            (Some(names), Format::Osu) => {
                writeln!(out, "{}", matrix_row(names, subject.bytes(), own, &cells))
            }
            (None, Format::Osu) => cells.iter().filter_map(Cell::row).try_for_each(|row| line(out, row)),
            _ => Ok(()),
        })?;
        if self.format == Format::Osu {
            return Ok(());
        }
        let mut measured = cells.iter().filter_map(Cell::row);
        self.bar.suspend(|| measured.try_for_each(|row| rows::print_line(self.format, row)))
    }

    fn note_gaps(&mut self, bytes: usize, cells: &[Cell]) {
        for (algorithm, cell) in self.columns.iter().flatten().zip(cells) {
            let known = self.gaps.iter().any(|gap| gap.algorithm == *algorithm);
            if let (Cell::Refused(why), false) = (cell, known) {
                self.gaps.push(Gap { algorithm: algorithm.clone(), bytes, why: why.clone() });
            }
        }
    }

    /// What stands below the rows of one kind: in a table, what its signs mean. Programs read the rows, and
    /// people the gaps, from different streams.
    pub fn close(&mut self) -> io::Result<()> {
        let gaps: String = std::mem::take(&mut self.gaps).iter().map(Gap::sentence).collect();
        match (&self.columns, self.format) {
            (Some(_), Format::Osu) => self.print(|out| {
                writeln!(out, "# median us; * the fastest, < the library's choice")?;
                write!(out, "{gaps}")
            }),
            _ => self.bar.suspend(|| io::stderr().write_all(gaps.as_bytes())),
        }
    }

    /// What stands below everything, where each measurement was checked.
    pub fn verified(&self, comm: &Communicator, collective: Collective) -> io::Result<()> {
        if self.format != Format::Osu {
            return Ok(());
        }
        let what = match collective {
            Collective::Barrier => "no rank left early",
            _ => "every element verified",
        };
        self.print(|out| writeln!(out, "# {what}, on {}", counted(comm.size(), "rank")))
    }

    fn print(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        self.bar.suspend(|| output::print(write))
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

impl Gap {
    fn sentence(&self) -> String {
        format!("# {} not measured from {} bytes on: {}\n", self.algorithm, self.bytes, self.why)
    }
}

/// On standard error, and only where that is a terminal.
fn progress_bar(measurements: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:24} {pos} of {len}, {eta} left: {msg}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(measurements as u64).with_style(style)
}

fn world(out: &mut dyn Write, comm: &Communicator, collective: Collective) -> io::Result<()> {
    let (about, costs) = (comm.about(), comm.costs());
    let elements = if collective == Collective::Barrier { "" } else { ", of i32" };
    writeln!(out, "# circulant {} {}{elements}", env!("CARGO_PKG_VERSION"), collective.name())?;
    writeln!(
        out,
        "# {} on {}, {}, by {} in {:.0} ms{}",
        counted(comm.size(), "rank"),
        counted(about.nodes, "node"),
        comm.transport(),
        about.boot,
        about.joined.as_secs_f64() * 1e3,
        if about.crowded { "; more ranks than cores, so waiting ranks give up theirs" } else { "" }
    )?;
    if let Some(why) = &about.without_shm {
        writeln!(out, "# ranks of one node do not share memory: {why}")?;
    }
    if comm.leaders() > 1 {
        writeln!(out, "# {} leaders a node, in algorithms where it may have several", comm.leaders())?;
    }
    if comm.groups().by_domains().is_some() {
        writeln!(out, "# nodes: {}", comm.groups())?;
    }
    let (put, byte) = (costs.latency * 1e6, costs.byte * 1e9);
    writeln!(out, "# a put costs {put:.1} us, a byte {byte:.3} ns; ranks to a core: {:.1}", costs.crowd)
}

/// What is done beside calls, and who carries these on meanwhile.
fn beside(out: &mut dyn Write, comm: &Communicator) -> io::Result<()> {
    let who = match comm.has_progress_thread() {
        true => "by a thread",
        false => "by nobody (CIRCULANT_PROGRESS=thread)",
    };
    writeln!(
        out,
        "# both: started, computed for about as long as the call takes, waited for; carried on meanwhile {who}"
    )
}

fn line(out: &mut dyn Write, row: &Row) -> io::Result<()> {
    if let (Some(call), Some(compute), Some(overlap)) = (row.call_us, row.compute_us, row.overlap_percent) {
        return writeln!(
            out,
            "{:>10} {:>18} {:>7} {call:>12.2} {compute:>12.2} {:>12.2} {overlap:>8.0} %",
            row.bytes, row.algorithm, row.blocks, row.median_us
        );
    }
    let rate = row.bytes as f64 / row.median_us.max(1e-3);
    writeln!(
        out,
        "{:>10} {:>18} {:>7} {:>12.2} {:>12.2} {:>12.2} {:>10.1}",
        row.bytes, row.algorithm, row.blocks, row.min_us, row.median_us, row.max_us, rate
    )
}

/// A column is as wide as its name, and as a quarter of an hour in microseconds.
fn width(name: &str) -> usize {
    name.len().max(12)
}

fn matrix_head(names: &[String]) -> String {
    let columns: String = names.iter().map(|name| format!(" {:>1$}  ", name, width(name))).collect();
    format!("{:>10} {columns}", "bytes").trim_end().to_owned()
}

fn matrix_row(names: &[String], bytes: usize, own: Option<&str>, cells: &[Cell]) -> String {
    let median = |cell: &Cell| cell.row().map(|row| row.median_us);
    let fastest = cells.iter().filter_map(median).fold(f64::INFINITY, f64::min);
    let column = |(name, cell): (&String, &Cell)| {
        let text = median(cell).map_or("-".to_owned(), |median| format!("{median:.2}"));
        let star = if median(cell) == Some(fastest) { "*" } else { "" };
        let choice = if own == Some(name) { "<" } else { "" };
        format!(" {text:>0$}{1:<2}", width(name), format!("{star}{choice}"))
    };
    let columns: String = names.iter().zip(cells).map(column).collect();
    format!("{bytes:>10} {columns}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(algorithm: &'static str, median_us: f64) -> Cell {
        Cell::Measured(Row {
            library: "circulant",
            collective: "allreduce",
            kind: "-",
            algorithm,
            ranks: 8,
            nodes: 1,
            bytes: 1024,
            blocks: 1,
            min_us: 1.0,
            median_us,
            max_us: 99.0,
            tense: "slice".into(),
            root: None,
            rest_s: 0.0,
            fresh: false,
            transport: "shm".into(),
            call_us: None,
            compute_us: None,
            overlap_percent: None,
        })
    }

    #[test]
    fn the_fastest_and_the_librarys_choice_are_marked() {
        let names = ["circulant", "recursive-doubling", "ring"].map(str::to_owned);
        let cells = [measured("circulant", 30.5), Cell::Refused("too long".into()), measured("ring", 25.0)];
        assert_eq!(matrix_head(&names), "     bytes     circulant   recursive-doubling           ring");
        assert_eq!(
            matrix_row(&names, 1024, Some("circulant"), &cells),
            "      1024         30.50<                   -          25.00*"
        );
    }

    #[test]
    fn a_gap_is_told_once_with_the_size_where_it_begins() {
        let mut report = Report::new(Format::Osu, Some(vec!["circulant", "mst"]), false);
        for bytes in [4, 16, 64] {
            let mst = if bytes < 16 { measured("mst", 1.0) } else { Cell::Refused("too long".into()) };
            report.note_gaps(bytes, &[measured("circulant", 1.0), mst]);
        }
        let said: Vec<_> = report.gaps.iter().map(Gap::sentence).collect();
        assert_eq!(said, ["# mst not measured from 16 bytes on: too long\n"]);
    }
}
