//! What was taken and what was passed on, and how long both took: the table of `CIRCULANT_MPI=report`.
//!
//! To have the library's own time beside ours, under the program's own conditions, every eighth call of a collective
//! on a communicator is passed on, from the second on. The table is rank 0's.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use circulant::collective::Collective;

use super::call::{Args, Taken, Tense, Why};
use super::settings;
use super::world::{self, World};

/// Of so many calls one is passed on to be timed.
const SAMPLE: u32 = 8;

/// Of so many calls of both kinds a ratio says something.
const ENOUGH: u64 = 5;

/// Calls of one collective and size.
#[derive(Default)]
struct Line {
    taken: Times,
    passed_on: Times,
    samples: Times,
    why: BTreeMap<Why, u64>,
}

#[derive(Default, Clone, Copy)]
struct Times {
    calls: u64,
    /// Of the first one, which also makes what the others find.
    first: f64,
    /// Of the others, together.
    others: f64,
}

impl Line {
    /// Whether there are enough of both kinds for a ratio.
    fn are_enough(&self) -> bool {
        self.taken.calls.min(self.samples.calls) >= ENOUGH
    }
}

impl Times {
    fn add(&mut self, seconds: f64) {
        match self.calls {
            0 => self.first = seconds,
            _ => self.others += seconds,
        }
        self.calls += 1;
    }

    /// Of all but the first one, if there are others.
    fn mean(self) -> Option<f64> {
        match self.calls {
            0 => None,
            1 => Some(self.first),
            calls => Some(self.others / (calls - 1) as f64),
        }
    }
}

/// A collective, whether in the background, and the size's power of two.
type Key = (Collective, &'static str, Option<u32>);

static LINES: Mutex<Option<BTreeMap<Key, Line>>> = Mutex::new(None);

/// From now on calls are counted.
pub fn begin() {
    *LINES.lock().unwrap_or_else(PoisonError::into_inner) = Some(BTreeMap::new());
}

/// Whether a call that would be taken is passed on to be timed.
pub fn is_sample(world: &World, collective: Collective, taken: &Taken) -> bool {
    world.settings.report && taken.found.next_call(collective as u8) % SAMPLE == 1
}

/// A clock, where calls are counted.
pub fn clock(world: &World) -> Option<Instant> {
    world.settings.report.then(Instant::now)
}

/// Counts a call, whose arguments may be asked for its bytes where it succeeded: of a handle that is none the library would
/// complain on the world's behalf, and end the program.
pub fn count(
    args: &Args,
    tense: Tense,
    (code, bytes): (c_int, Option<usize>),
    why: Option<Why>,
    since: Option<Instant>,
) {
    let Some(since) = since else { return };
    let seconds = since.elapsed().as_secs_f64();
    let class = bytes
        .or_else(|| if code == 0 { args.vector() } else { None })
        .map(|bytes| bytes.checked_next_power_of_two().map_or(64, usize::ilog2));
    let key = (args.collective, tense.words(), class);
    let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(lines) = lines.as_mut() else { return };
    let line = lines.entry(key).or_default();
    match why {
        None => line.taken.add(seconds),
        Some(Why::Sample) => line.samples.add(seconds),
        Some(why) => {
            line.passed_on.add(seconds);
            *line.why.entry(why).or_default() += 1;
        }
    }
}

impl Tense {
    fn words(self) -> &'static str {
        match self {
            Tense::AtOnce => "",
            Tense::Started => "I",
            Tense::Prepared => "init",
        }
    }
}

/// Prints the table, on rank 0.
pub fn print() {
    let lines = LINES.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let (Some(lines), true) = (lines, world::is_first()) {
        // Nobody listens: no reason to end.
        let _ = std::io::Write::write_all(&mut std::io::stderr(), table(&lines).as_bytes());
    }
}

fn table(lines: &BTreeMap<Key, Line>) -> String {
    let head = ["collective", "bytes up to", "taken", "us", "own, timed", "us", "ratio", "passed on", "why"];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(lines.iter().map(|(key, line)| row(key, line)));
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<_> = (0..head.len()).map(width).collect();
    let mut text = format!(
        "circulant: MPI calls of rank 0, means of all but the first; of calls at once each {SAMPLE}th is the library's own; \
         ratios are of {ENOUGH} calls or more of both\n"
    );
    for row in &rows {
        let mut line = format!("{:<width$}", row[0], width = widths[0]);
        for (cell, width) in row.iter().zip(&widths).skip(1).take(head.len() - 2) {
            // Writing to a string does not fail.
            let _ = write!(line, "  {cell:>width$}");
        }
        let _ = write!(line, "  {}", row[head.len() - 1]);
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn row(&(collective, tense, class): &Key, line: &Line) -> [String; 9] {
    let micros = |times: Times| times.mean().map_or("-".into(), |mean| format!("{:.1}", mean * 1e6));
    let ratio = match (line.taken.mean(), line.samples.mean()) {
        (Some(ours), Some(own)) if tense.is_empty() && own > 0.0 && line.are_enough() => {
            format!("{:.2}", ours / own)
        }
        _ => "-".into(),
    };
    let why: Vec<_> = line.why.iter().map(|(why, calls)| format!("{} ({calls})", why.words())).collect();
    [
        format!("{}{}{}", settings::name(collective), if tense.is_empty() { "" } else { " " }, tense),
        class.map_or("-".into(), size),
        line.taken.calls.to_string(),
        micros(line.taken),
        line.samples.calls.to_string(),
        micros(line.samples),
        ratio,
        line.passed_on.calls.to_string(),
        why.join(", "),
    ]
}

/// Of two to the power of `class` bytes.
fn size(class: u32) -> String {
    let (number, unit) = match class {
        0..10 => (class, ""),
        10..20 => (class - 10, " KiB"),
        20..30 => (class - 20, " MiB"),
        _ => (class - 30, " GiB"),
    };
    format!("{}{unit}", 1u128 << number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_aligned_and_says_why() {
        let mut lines = BTreeMap::new();
        let mut line = Line::default();
        line.taken.add(500e-6);
        (1..ENOUGH).for_each(|_| line.taken.add(2e-6));
        (0..ENOUGH).for_each(|_| line.samples.add(4e-6));
        lines.insert((Collective::Broadcast, "", Some(16)), line);
        let mut line = Line::default();
        (0..ENOUGH).for_each(|_| line.taken.add(2e-6));
        line.samples.add(4e-6);
        lines.insert((Collective::Broadcast, "", Some(17)), line);
        let mut line = Line::default();
        line.passed_on.add(1e-6);
        line.why.insert(Why::Operator, 1);
        lines.insert((Collective::Allreduce, "I", Some(3)), line);
        let text = table(&lines);
        assert!(
            text.contains("bcast             64 KiB      5  2.0           5  4.0   0.50          0\n"),
            "{text}"
        );
        assert!(
            text.contains("bcast            128 KiB      5  2.0           1  4.0      -          0\n"),
            "{text}"
        );
        assert!(text.contains("allreduce I "), "{text}");
        assert!(text.ends_with("operator (1)\n"), "{text}");
    }
}
