//! `circulant plot`: draws what `circulant bench` has measured.

mod figure;
mod measured;
mod svg;

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use circulant::error::{Error, Result};

use crate::Outcome;
use figure::{Column, Figure, Quantity};
use measured::Measured;
use svg::Unit;

/// Draw what `circulant bench` has measured, as an SVG.
///
/// It takes rows as `circulant bench COLLECTIVE --format csv` or `json` prints them, of one run or of many one after the
/// other, also those that the lab keeps (ci/lab), where MPI libraries stand beside circulant. Each collective, and each kind
/// of one with counts, has a panel. A point is the median of all rows that belong to it. Curves are told apart by the library;
/// by numbers of ranks and nodes, tenses and transports where a library has several; and, if there is one library only, by the
/// algorithm where several were measured.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  circulant bench allreduce -n 8 --algorithm all --format csv | circulant plot -o allreduce.svg
  circulant plot monday.csv friday.csv --by tense,ranks --title 'two days' -o days.svg
  circulant plot ~/.cache/circulant/lab/shm-2.csv --relative-to impi -o shm.svg     what ci/lab/shm 2 has measured")]
pub struct Arguments {
    /// Files of rows; - is the standard input [default: -]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// The file that is written; what it has stays where something is wrong with the rows
    #[arg(short = 'o', long, value_name = "FILE.svg")]
    output: PathBuf,

    /// What tells curves apart; rows that differ in anything else are of one curve
    #[arg(long, value_name = "COLUMN,...", value_delimiter = ',')]
    by: Option<Vec<Column>>,

    /// What is drawn over the size
    #[arg(long, value_name = "QUANTITY", default_value = "time")]
    y: Quantity,

    /// Draw multiples of what this curve has at the same size, by its name in the legend
    #[arg(long, value_name = "CURVE")]
    relative_to: Option<String>,

    /// What stands above all panels [default: how many ranks and nodes, if all rows have as many]
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
}

/// The cure where there are none.
const ROWS: &str = "give rows, as `circulant bench COLLECTIVE --format csv` prints them";

impl Arguments {
    pub fn run(self) -> Outcome {
        // Before rows are waited for, which somebody may be measuring for an hour.
        let is_new = !self.output.exists();
        let file = open(File::options().write(true).create(true).truncate(false), &self.output)?;
        let drawn = self.draw();
        if drawn.is_err() && is_new {
            let _ = std::fs::remove_file(&self.output);
        }
        write(file, &self.output, &drawn?)?;
        Ok(ExitCode::SUCCESS)
    }

    fn draw(&self) -> Result<String> {
        let rows = self.read()?;
        let figure = self.figure(&rows)?;
        if figure.panels.is_empty() {
            return Err(Error::argument("plot", "there is nothing to draw", ROWS));
        }
        let title = self.title.clone().unwrap_or_else(|| figure::in_common(&rows));
        let unit = if self.relative_to.is_some() { Unit::Multiple } else { self.y.into() };
        svg::draw(&figure, unit, &title)
    }

    fn figure(&self, rows: &[Measured]) -> Result<Figure> {
        let figure = Figure::new(rows, self.by.as_deref(), self.y);
        let Some(name) = &self.relative_to else { return Ok(figure) };
        let names = figure.names.join(", ");
        figure.relative_to(name).ok_or_else(|| {
            Error::argument("plot", format!("there is no curve `{name}`"), format!("there are: {names}"))
        })
    }

    fn read(&self) -> Result<Vec<Measured>> {
        if self.files.is_empty() && io::stdin().is_terminal() {
            return Err(Error::argument("plot", "there are no rows on the standard input", ROWS));
        }
        let input = [PathBuf::from("-")];
        let files = if self.files.is_empty() { &input[..] } else { &self.files };
        let each = files.iter().map(|file| match file.to_str() {
            Some("-") => measured::read(io::stdin().lock(), "the standard input"),
            _ => {
                let rows = open(File::options().read(true), file)?;
                measured::read(BufReader::new(rows), &file.display().to_string())
            }
        });
        each.collect::<Result<Vec<_>>>().map(|rows| rows.concat())
    }
}

fn open(how: &OpenOptions, file: &Path) -> Result<File> {
    how.open(file).map_err(|e| {
        let what = format!("{} cannot be opened: {e}", file.display());
        Error::argument(
            "plot",
            what,
            "give files of rows that there are, and with -o one that may be written",
        )
    })
}

/// In place of what the file had before.
fn write(mut file: File, name: &Path, svg: &str) -> io::Result<()> {
    // A device or a pipe has nothing before.
    let emptied = file.metadata().and_then(|about| if about.is_file() { file.set_len(0) } else { Ok(()) });
    let written = emptied.and_then(|()| file.write_all(svg.as_bytes()));
    // The kernel's words do not say what they are about.
    written.map_err(|e| io::Error::new(e.kind(), format!("{} cannot be written: {e}", name.display())))
}
