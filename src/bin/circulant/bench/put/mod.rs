//! `circulant bench put`: what a notified put costs between two ranks, without engine or collective.
//!
//! Raw TCP, where it is asked for, is measured in turns with the puts (A B A B ...) between the same two
//! processes, as only such figures compare: whatever else the machine does moves both.

mod puts;
mod raw;
mod report;

use std::process::ExitCode;

use circulant::comm::carrier::Carrier;
use circulant::comm::meeting::Meeting;
use circulant::comm::settings::Settings;
use circulant::error::{Error, Result};

use super::World;
use super::rows::Format;
use super::sizes::Sizes;
use crate::Outcome;
use puts::{Puts, window};
use raw::Raw;
use report::{Measured, Report, Row};

/// Measure a notified put between two ranks: latency, rate, bandwidth.
///
/// Latency is half a round trip, both ranks spinning: a put, and a put back on its notice. A stream is
/// many puts one way, so many in flight that the pipe is full; the receiver answers from time to time,
/// and a rank with nothing to do sleeps. All are measured in short batches, of which least and median
/// are given: what else runs on a machine only adds.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  circulant bench put -n 2 --provider tcp --baseline   beside raw TCP, with the ratios
  circulant bench put -n 2 --provider shm -m 8   one size, over shared memory
  mpiexec -n 2 circulant bench put --format csv  under MPICH or Intel MPI's launcher")]
pub struct Arguments {
    #[command(flatten)]
    world: World,

    /// Sizes in bytes, from MIN to MAX (K, M, G for powers of 1024); one number: that size only
    #[arg(short = 'm', long, value_name = "MIN:MAX", default_value = "8:4M")]
    sizes: Sizes,

    /// Each size is this many times the one before
    #[arg(short = 'x', long, value_name = "FACTOR", default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..))]
    factor: u32,

    /// Aim at this many seconds a size
    #[arg(short = 't', long, value_name = "SECONDS", default_value_t = 1.0, allow_negative_numbers = true, value_parser = super::duration)]
    seconds: f64,

    /// Measure raw TCP in turns with the puts, and print the ratios
    #[arg(long)]
    baseline: bool,

    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Osu)]
    format: Format,
}

/// Two connected ends that are driven in step: both ranks make the same calls.
trait Ends {
    /// Sends there and back so many times; seconds of half a round trip.
    fn ping_pong(&mut self, bytes: usize, rounds: u32) -> Result<f64>;

    /// Sends from rank 0 so many times; seconds a message.
    fn stream(&mut self, bytes: usize, messages: u32) -> Result<f64>;
}

/// What is measured of [`Ends`].
type Trial = fn(&mut dyn Ends, usize, u32) -> Result<f64>;

/// A batch lasts about so long: longer than a clock's error, shorter than a scheduler's slice.
const BATCH: f64 = 2e-3;
/// At least so many batches of each, whatever time that takes.
const LEAST_BATCHES: f64 = 5.0;

impl Arguments {
    pub fn run(self) -> Outcome {
        if let Some(ranks) = self.world.ranks {
            two_ranks(ranks)?;
        }
        if let Some(code) = self.world.start()? {
            return Ok(code);
        }
        let settings = self.world.settings()?;
        let mut meeting = Meeting::attend(&settings)?;
        two_ranks(meeting.place().size)?;
        let done = self.measure(&mut meeting, &settings);
        let told = meeting.into_exchange().finish();
        done?;
        told?;
        Ok(ExitCode::SUCCESS)
    }

    fn measure(
        &self,
        meeting: &mut Meeting,
        settings: &Settings,
    ) -> std::result::Result<(), Box<dyn std::error::Error>> {
        let sizes = self.sizes.each(self.factor as usize);
        let most = sizes.last().copied().unwrap_or(0);
        let (mut puts, raw) = connect(meeting, settings, most, self.baseline)?;
        let mut raw: Vec<_> = raw.into_iter().collect();
        let mut report = Report::new(self.format, meeting, &puts.name(), self.baseline)?;
        for bytes in sizes {
            let row = Row {
                bytes,
                latency: self.in_turns(&mut puts, &mut raw, bytes, 1, |ends, b, n| ends.ping_pong(b, n))?,
                // Of fewer the pipe would mostly be being filled.
                stream: self.in_turns(&mut puts, &mut raw, bytes, 4 * window(bytes).0, |ends, b, n| {
                    ends.stream(b, n)
                })?,
            };
            report.row(row)?;
        }
        Ok(report.verdict()?)
    }

    /// Batches of puts, of so many at least, and, where there is one, of the baseline, in turns.
    fn in_turns(
        &self,
        puts: &mut Puts,
        raw: &mut [Raw],
        bytes: usize,
        least: u32,
        trial: Trial,
    ) -> Result<Measured> {
        // The first makes connections and touches pages.
        trial(puts, bytes, 2)?;
        let once = trial(puts, bytes, 8)?;
        let count = puts.agree((BATCH / once).clamp(f64::from(least), 1e5) as u32)?;
        let share = self.seconds / 2.0 / (1 + raw.len()) as f64;
        let batches = puts.agree((share / (once * f64::from(count))).clamp(LEAST_BATCHES, 1e4) as u32)?;
        let mut measured = Measured::default();
        for _ in 0..batches {
            measured.puts.push(trial(puts, bytes, count)?);
            for raw in &mut *raw {
                measured.raw.push(trial(raw, bytes, count)?);
            }
        }
        Ok(measured)
    }
}

fn two_ranks(p: u32) -> Result<()> {
    match p {
        2 => Ok(()),
        _ => Err(Error::argument("bench put", format!("{p} in place of 2 ranks"), "start it with -n 2")),
    }
}

/// Both ways between the two ranks, the raw one over the same interface.
fn connect(
    meeting: &mut Meeting,
    settings: &Settings,
    bytes: usize,
    baseline: bool,
) -> Result<(Puts, Option<Raw>)> {
    let carrier = Carrier::open(meeting, settings)?;
    if baseline && matches!(carrier, Carrier::Shm(_)) {
        let what = "puts through shared memory are not to be measured by raw TCP";
        return Err(Error::argument(
            "--baseline",
            what,
            "name a provider that goes over TCP: --provider tcp",
        ));
    }
    let door = if baseline { Some(raw::Door::open(meeting.place(), carrier.ip())?) } else { None };
    let address = door.as_ref().and_then(raw::Door::address);
    let (puts, address) = Puts::connect(meeting, carrier, bytes, address)?;
    let raw = door.map(|door| door.connect(address, bytes)).transpose()?;
    Ok((puts, raw))
}
