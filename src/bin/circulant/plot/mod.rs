//! `circulant plot`: draws what `circulant bench` has measured.

mod figure;
mod measured;
mod svg;

use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufReader, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use circulant::error::{Error, Result};
use rustix::fs::{Access, access};

use crate::Outcome;
use crate::output::print;
use figure::{Column, Figure, Quantity};
use measured::Measured;
use svg::Unit;

/// Draw what `circulant bench` has measured, as an SVG.
///
/// It takes rows as `circulant bench COLLECTIVE --format csv` or `json` prints them, of one run or of many one after the
/// other; those of `bench copy`; and those that the lab keeps (ci/lab), where MPI libraries stand beside circulant. Each
/// collective, and each kind of one with counts, has a panel. A point is the median of all rows that belong to it. Curves are
/// told apart by library, and by whatever else differs: ranks, nodes, tense, root, rest, transport, --fresh, --overlap; and by
/// the algorithm, where several were measured. Both axes are logarithmic.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  circulant bench allreduce -n 8 --algorithm all --format csv | circulant plot -o allreduce.svg
  circulant plot monday.csv friday.csv --by tense,ranks --title 'two days' -o days.svg
  circulant plot ~/.cache/circulant/lab/shm-2.csv --relative-to impi -o shm.svg     what ci/lab/shm 2 has measured")]
pub struct Arguments {
    /// Files of rows; - is the standard input [default: -]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// The SVG to write, which stays as it was if something is wrong with the rows; - is the standard output
    #[arg(short = 'o', long, value_name = "FILE.svg")]
    output: PathBuf,

    /// What tells curves apart beside the library, in place of whatever differs; rows that differ otherwise are of one curve
    #[arg(long, value_name = "COLUMN,...", value_delimiter = ',')]
    by: Option<Vec<Column>>,

    /// What is drawn over the size
    #[arg(long, value_name = "QUANTITY", default_value = "time")]
    y: Quantity,

    /// Draw multiples of what this curve has at the same size, by its name in the legend; what it lacks is left out
    #[arg(long, value_name = "CURVE")]
    relative_to: Option<String>,

    /// What stands above all panels [default: the number of ranks, if it is the same for all rows, and what is drawn]
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
}

/// The cure where there are none.
const ROWS: &str = "give rows, as `circulant bench COLLECTIVE --format csv` prints them";

impl Arguments {
    pub fn run(self) -> Outcome {
        // Before rows are waited for, which somebody may be measuring for an hour.
        let place = Place::of(&self.output)?;
        let rows = self.read(&place)?;
        let figure = self.figure(&rows)?;
        let unit = if self.relative_to.is_some() { Unit::Multiple } else { self.y.into() };
        let title = self.title.clone().unwrap_or_else(|| self.subject(&rows));
        place.write(&svg::draw(&figure, unit, &title)?)?;
        Ok(ExitCode::SUCCESS)
    }

    fn figure(&self, rows: &[Measured]) -> Result<Figure> {
        if rows.is_empty() {
            return Err(Error::argument("plot", "there are no rows", ROWS));
        }
        let mut figure = Figure::new(rows, self.by.as_deref(), self.y);
        if figure.panels.is_empty() {
            let cure = "a barrier has no bandwidth, and what took less than a nanosecond no place: give --y time, or other rows";
            return Err(Error::argument("plot", "no row has a place on these axes", cure));
        }
        if let Some(name) = &self.relative_to {
            let names = figure.names.join(", ");
            figure = figure.relative_to(name).ok_or_else(|| {
                Error::argument("plot", format!("there is no curve `{name}`"), format!("there are: {names}"))
            })?;
        }
        match figure.names.len() {
            ..=svg::MOST_CURVES => Ok(figure),
            many => {
                let what = format!("{many} curves cannot be told apart, {} can", svg::MOST_CURVES);
                Err(Error::argument("plot", what, "give fewer rows, or fewer columns by --by"))
            }
        }
    }

    /// What the figure shows.
    fn subject(&self, rows: &[Measured]) -> String {
        let quantity = match self.y {
            Quantity::Time => "median time of a call",
            Quantity::Bandwidth => "bytes in all by the median time of a call",
        };
        let of_what =
            self.relative_to.as_ref().map_or(String::new(), |name| format!(", as a multiple of {name}'s"));
        let common = figure::in_common(rows);
        let colon = if common.is_empty() { "" } else { ": " };
        format!("{common}{colon}{quantity}{of_what}, by bytes in all")
    }

    fn read(&self, output: &Place) -> Result<Vec<Measured>> {
        if self.files.is_empty() && io::stdin().is_terminal() {
            return Err(Error::argument("plot", "there are no rows on the standard input", ROWS));
        }
        let input = [PathBuf::from("-")];
        let files = if self.files.is_empty() { &input[..] } else { &self.files };
        let each = files.iter().map(|file| match file.to_str() {
            Some("-") => measured::read(io::stdin().lock(), "the standard input"),
            _ => {
                let name = file.display();
                output.check_other_than(file)?;
                let rows = File::open(file)
                    .map_err(|e| Error::argument("plot", format!("{name} cannot be read: {e}"), ROWS))?;
                measured::read(BufReader::new(rows), &name.to_string())
            }
        });
        each.collect::<Result<Vec<_>>>().map(|rows| rows.concat())
    }
}

/// Where the figure goes.
enum Place {
    StandardOutput,
    /// A device or a pipe.
    Stream(PathBuf),
    /// A file, which is there or not.
    File(PathBuf),
}

impl Place {
    /// Fails where nothing can be written there.
    fn of(output: &Path) -> Result<Place> {
        let refusal = |why: &dyn Display| {
            let what = format!("{} cannot be written: {why}", output.display());
            Error::argument("plot", what, "give -o a file in a folder that you may write to")
        };
        if output == Path::new("-") {
            return Ok(Place::StandardOutput);
        }
        let Ok(target) = output.canonicalize() else {
            let folder =
                output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            access(folder, Access::WRITE_OK | Access::EXEC_OK).map_err(|e| refusal(&e))?;
            return Ok(Place::File(output.to_owned()));
        };
        access(&target, Access::WRITE_OK).map_err(|e| refusal(&e))?;
        match target.metadata() {
            Ok(about) if about.is_file() => Ok(Place::File(target)),
            Ok(about) if about.is_dir() => Err(refusal(&"it is a folder")),
            _ => Ok(Place::Stream(target)),
        }
    }

    /// A measurement must not be lost to its figure.
    fn check_other_than(&self, input: &Path) -> Result<()> {
        match (self, input.canonicalize()) {
            (Place::File(file), Ok(input)) if *file == input => {
                let what = format!("{} is to be read, and to be written", input.display());
                Err(Error::argument("plot", what, "give -o another file"))
            }
            _ => Ok(()),
        }
    }

    /// What a file had before is there until all is written.
    fn write(&self, svg: &str) -> io::Result<()> {
        let (file, written) = match self {
            Place::StandardOutput => return print(|out| out.write_all(svg.as_bytes())),
            Place::Stream(stream) => {
                let opened = File::options().write(true).open(stream);
                (stream, opened.and_then(|mut opened| opened.write_all(svg.as_bytes())))
            }
            Place::File(file) => {
                let part = file.with_extension(format!("svg.{}", std::process::id()));
                let written = std::fs::write(&part, svg).and_then(|()| std::fs::rename(&part, file));
                if written.is_err() {
                    let _ = std::fs::remove_file(&part);
                }
                (file, written)
            }
        };
        // The kernel's words do not say what they are about.
        written.map_err(|e| io::Error::new(e.kind(), format!("{} cannot be written: {e}", file.display())))
    }
}
