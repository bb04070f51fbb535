//! `circulant plot`: draws what `circulant bench` has measured.

mod figure;
mod measured;
mod place;
mod svg;

use std::fs::File;
use std::io::{self, BufReader, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use circulant::error::{Error, Result};

use crate::{Outcome, say};
use figure::{Column, Figure, Level, Quantity};
use measured::Measured;
use place::Place;
use svg::Unit;

/// Draw what `circulant bench` has measured, as an SVG.
///
/// It takes rows as `circulant bench COLLECTIVE --format csv` or `json` prints them, of one run or of many one after the
/// other; those of `bench copy`; and those that the lab keeps (ci/lab), where MPI libraries stand beside circulant. Each
/// collective, and each kind of one with counts, has a panel. A point is the median of all rows that belong to it, or what --of says.
/// Curves are told apart by library, and by whatever else differs: ranks, nodes, tense, root, rest, transport, --fresh, --overlap; and by
/// the algorithm, where several were measured. Both axes are logarithmic.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  circulant bench allreduce -n 8 --algorithm all --format csv | circulant plot -o allreduce.svg
  circulant plot monday.csv friday.csv --by tense,ranks --title 'two days' -o days.svg
  circulant plot ~/.cache/circulant/lab/collectives-8-100.csv --relative-to circulant -o cluster.svg")]
pub struct Arguments {
    /// Files of rows; - is the standard input [default: -]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// The SVG to write, which stays as it was if something is wrong with the rows; - is the standard output
    #[arg(short = 'o', long, value_name = "FILE.svg")]
    output: PathBuf,

    /// What tells curves apart beside the library, in place of whatever differs; rows that differ otherwise are one curve's
    #[arg(long, value_name = "COLUMN,...", value_delimiter = ',')]
    by: Option<Vec<Column>>,

    /// What is drawn over the size
    #[arg(long, value_name = "QUANTITY", default_value = "time")]
    y: Quantity,

    /// What the times of the rows that belong to a point come to
    #[arg(long, value_name = "LEVEL", default_value = "median")]
    of: Level,

    /// Draw multiples of what this curve has at the same size, by its name in the legend (of another name all are told);
    /// what it lacks is left out
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
        let mut figure = Figure::new(rows, self.by.as_deref(), self.y, self.of);
        if figure.mixes_algorithms {
            say("plot: some points are of several algorithms; --by algorithm tells them apart\n");
        }
        if figure.panels.is_empty() {
            let cure =
                "a barrier has no bandwidth, and what took no time no place: give --y time, or other rows";
            return Err(Error::argument("plot", "no row has a place on these axes", cure));
        }
        if let Some(name) = &self.relative_to {
            let (names, titles) = (figure.names.join(", "), figure.titles());
            figure = figure.relative_to(name).ok_or_else(|| {
                Error::argument("plot", format!("there is no curve `{name}`"), format!("there are: {names}"))
            })?;
            let left = figure.titles();
            let gone: Vec<_> = titles.into_iter().filter(|title| !left.contains(title)).collect();
            if !gone.is_empty() {
                say(&format!("plot: left out, as `{name}` has none of it: {}\n", gone.join("; ")));
            }
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
        let time = match self.of {
            Level::Median => "median time",
            Level::LowerQuartile => "lower quartile of median times",
        };
        let quantity = match self.y {
            Quantity::Time => time.to_owned(),
            Quantity::Bandwidth => format!("bytes in all divided by the {time}"),
        };
        let of_what =
            self.relative_to.as_ref().map_or(String::new(), |name| format!(", as a multiple of {name}'s"));
        let common = figure::in_common(rows);
        let colon = if common.is_empty() { "" } else { ": " };
        format!("{common}{colon}{quantity}{of_what}, over bytes in all")
    }

    fn read(&self, output: &Place) -> Result<Vec<Measured>> {
        if self.files.is_empty() && io::stdin().is_terminal() {
            return Err(Error::argument("plot", "there are no rows on the standard input", ROWS));
        }
        let input = [PathBuf::from("-")];
        let files = if self.files.is_empty() { &input[..] } else { &self.files };
        let each = files.iter().map(|file| match file.to_str() {
            Some("-") => {
                output.check_other_than(io::stdin(), "the standard input")?;
                measured::read(io::stdin().lock(), "the standard input")
            }
            _ => {
                let name = file.display().to_string();
                let rows = File::open(file).map_err(|e| measured::unreadable(&name, &e))?;
                output.check_other_than(&rows, &name)?;
                measured::read(BufReader::new(rows), &name)
            }
        });
        each.collect::<Result<Vec<_>>>().map(|rows| rows.concat())
    }
}
