//! A call that a script asks for: what goes in, how it is made, and whether the right thing has come out.
//!
//! A word such as `allgatherv:kind=irregular:count=70001:tense=window`:
//!
//! | key | values | without it |
//! |---|---|---|
//! | `count` | elements of a vector, or of a regular part | 1 |
//! | `kind` | of parts: `regular`, `irregular` ((i mod 3) times the count), `degenerate` (one has all), `ragged` (anything from 0 to twice the count) | `regular` |
//! | `counts` | the parts themselves, as `5+0+7` | by `kind` |
//! | `tense` | `slice`, `named` (of two slices), `window`, `started`, `prepared`, `pending` (started, and done at `finish`) | `slice` |
//! | `type`, `op` | by their names in `fold`, with `_` for a blank; those of `sample` | `i32`, `sum` |
//! | `root`, `algorithm`, `blocks` | | 0, as selected |
//! | `room` | the elements of the buffer, whatever fits: nothing is verified | what fits |

use std::collections::HashMap;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use circulant::collective::Collective::{self, *};
use circulant::collective::Numbering;
use circulant::comm::{Call, Communicator};
use circulant::error::Result;
use circulant::fold::{Located, Operator};
use half::{bf16, f16};
use num_complex::Complex;

use crate::sample::{Extent, Matrix, Sample};

/// The ranks' data repeat themselves after so many elements, so that a serial result of so many tells all
/// of it; a prime, as no part or block then begins where another does.
const PERIOD: usize = 1021;

/// What is left to do of a call: to wait, and to verify.
pub type Rest = Box<dyn FnOnce() -> Result<()>>;

/// A call as a script has it.
#[derive(Clone)]
pub struct Wanted {
    word: String,
    collective: Collective,
    values: HashMap<String, String>,
}

impl Wanted {
    /// By its word; `None` if that is not a call's.
    pub fn parse(word: &str) -> Option<Wanted> {
        let (name, values) = word.split_once(':').unwrap_or((word, ""));
        let collective = Collective::named(name).filter(|&one| one != Barrier)?;
        let pair = |text: &str| {
            let (key, value) = text.split_once('=').unwrap_or_else(|| panic!("no value in {word}"));
            (key.to_owned(), value.to_owned())
        };
        let values = values.split(':').filter(|text| !text.is_empty()).map(pair).collect();
        Some(Wanted { word: word.to_owned(), collective, values })
    }

    fn text<'w>(&'w self, key: &str, otherwise: &'w str) -> &'w str {
        self.values.get(key).map_or(otherwise, String::as_str)
    }

    fn number<N: FromStr>(&self, key: &str) -> Option<N> {
        let read = |text: &String| text.parse().ok().unwrap_or_else(|| panic!("{key} in {}", self.word));
        self.values.get(key).map(read)
    }

    /// Makes the call; whoever makes several with one `salt` sends the same data again.
    pub fn perform(&self, comm: &Communicator, salt: u64) -> Result<Option<Rest>> {
        match self.text("type", "i32") {
            "i8" => self.perform_on::<i8>(comm, salt),
            "i16" => self.perform_on::<i16>(comm, salt),
            "i32" => self.perform_on::<i32>(comm, salt),
            "i64" => self.perform_on::<i64>(comm, salt),
            "i128" => self.perform_on::<i128>(comm, salt),
            "isize" => self.perform_on::<isize>(comm, salt),
            "u8" => self.perform_on::<u8>(comm, salt),
            "u16" => self.perform_on::<u16>(comm, salt),
            "u32" => self.perform_on::<u32>(comm, salt),
            "u64" => self.perform_on::<u64>(comm, salt),
            "u128" => self.perform_on::<u128>(comm, salt),
            "usize" => self.perform_on::<usize>(comm, salt),
            "f16" => self.perform_on::<f16>(comm, salt),
            "bf16" => self.perform_on::<bf16>(comm, salt),
            "f32" => self.perform_on::<f32>(comm, salt),
            "f64" => self.perform_on::<f64>(comm, salt),
            "complex_f32" => self.perform_on::<Complex<f32>>(comm, salt),
            "complex_f64" => self.perform_on::<Complex<f64>>(comm, salt),
            "bool" => self.perform_on::<bool>(comm, salt),
            "f32_with_i32_place" => self.perform_on::<Located<f32, i32>>(comm, salt),
            "f32_with_u32_place" => self.perform_on::<Located<f32, u32>>(comm, salt),
            "f64_with_i64_place" => self.perform_on::<Located<f64, i64>>(comm, salt),
            "f64_with_u64_place" => self.perform_on::<Located<f64, u64>>(comm, salt),
            "i32_with_i32_place" => self.perform_on::<Located<i32, i32>>(comm, salt),
            "i64_with_i64_place" => self.perform_on::<Located<i64, i64>>(comm, salt),
            "u32_with_u32_place" => self.perform_on::<Located<u32, u32>>(comm, salt),
            "u64_with_u64_place" => self.perform_on::<Located<u64, u64>>(comm, salt),
            "matrix" => self.perform_on::<Matrix>(comm, salt),
            "extent" => self.perform_on::<Extent>(comm, salt),
            other => panic!("no type {other}"),
        }
    }

    fn perform_on<T: Sample>(&self, comm: &Communicator, salt: u64) -> Result<Option<Rest>> {
        let name = self.text("op", "sum").replace('_', " ");
        let operator = self
            .collective
            .reduces()
            .then(|| T::operator(&name).unwrap_or_else(|| panic!("no operator in {}", self.word)));
        let (p, rank) = (comm.size(), comm.rank());
        let trial = Trial { parts: self.parts(p), wanted: self.clone(), p, rank, operator };
        trial.perform(comm, salt)
    }

    fn parts(&self, p: u32) -> Vec<usize> {
        let counts = self.values.get("counts");
        let read = |text: &String| text.split('+').map(|one| one.parse().unwrap()).collect();
        counts.map_or_else(|| (0..p).map(|rank| self.part(rank, p / 2, p)).collect(), read)
    }

    /// The elements of the part of number `i`; `all` is the one that has all, where one has.
    fn part(&self, i: u32, all: u32, p: u32) -> usize {
        let count = self.number("count").unwrap_or(1usize);
        match self.text("kind", "regular") {
            "regular" => count,
            "irregular" => (i % 3) as usize * count,
            "degenerate" => {
                if i == all {
                    p as usize * count
                } else {
                    0
                }
            }
            "ragged" if i % 4 == 1 => 0,
            "ragged" => mix(u64::from(i)) as usize % (2 * count + 1),
            other => panic!("no kind {other}"),
        }
    }

    /// The elements that go from one rank to another.
    fn pair(&self, from: u32, to: u32, p: u32) -> usize {
        self.part(from * p + to, p / 2 * p + p - 1, p)
    }
}

/// A call on one rank, with all that there is to know of the others.
#[derive(Clone)]
struct Trial<T: Sample> {
    wanted: Wanted,
    p: u32,
    rank: u32,
    parts: Vec<usize>,
    operator: Option<Arc<dyn Operator<T>>>,
}

/// What comes out is all ranks' data combined, or one rank's from an element on.
#[derive(Debug, Clone, Copy)]
enum From {
    All(usize),
    One(u32, usize),
}

impl<T: Sample> Trial<T> {
    fn perform(self, comm: &Communicator, salt: u64) -> Result<Option<Rest>> {
        if let Some(room) = self.wanted.number("room") {
            return comm.run(&mut vec![T::sample(0); room], self.call()).map(|()| None);
        }
        let elements = self.elements();
        let window = || comm.window::<T>(elements);
        let tense = self.wanted.text("tense", "slice").to_owned();
        match tense.as_str() {
            "slice" => {
                let mut data = self.before(salt);
                comm.run(&mut data, self.call())?;
                self.verify(&data, salt);
            }
            "named" => self.by_name(comm, salt)?,
            "window" => {
                let mut data = window()?;
                data.copy_from_slice(&self.before(salt));
                comm.run_window(&mut data, self.call())?;
                self.verify(&data, salt);
            }
            "prepared" => {
                let mut prepared = comm.prepare(window()?, self.call())?;
                for salt in salt..salt + 3 {
                    prepared.window()?.copy_from_slice(&self.before(salt));
                    prepared.run()?;
                    self.verify(prepared.window()?, salt);
                }
            }
            tense => {
                let mut data = window()?;
                data.copy_from_slice(&self.before(salt));
                let mut request = comm.start(data, self.call())?;
                request.test()?;
                let rest = move || request.wait().map(|data| self.verify(&data, salt));
                match tense {
                    "started" => rest()?,
                    "pending" => return Ok(Some(Box::new(rest))),
                    other => panic!("no tense {other}"),
                }
            }
        }
        Ok(None)
    }

    fn root(&self) -> u32 {
        self.wanted.number("root").unwrap_or(0)
    }

    fn operator(&self) -> Arc<dyn Operator<T>> {
        self.operator.clone().expect("it reduces")
    }

    fn call(&self) -> Call<T> {
        let (root, parts) = (self.root(), &self.parts);
        let call = match self.wanted.collective {
            Broadcast => Call::broadcast(root),
            Reduce => Call::reduce(root, self.operator()),
            Allreduce => Call::allreduce(self.operator()),
            Allgather => Call::allgather(),
            Allgatherv => Call::allgatherv(parts),
            ReduceScatter => Call::reduce_scatter(parts, self.operator()),
            ReduceScatterBlock => Call::reduce_scatter_block(self.operator()),
            Scatter => Call::scatter(root),
            Scatterv => Call::scatterv(parts, root),
            Gather => Call::gather(root),
            Gatherv => Call::gatherv(parts, root),
            Alltoall => Call::alltoall(),
            Alltoallv => Call::alltoallv(&self.sent(self.rank), &self.received()),
            other => panic!("{} has no data", other.name()),
        };
        let call = match self.wanted.values.get("algorithm") {
            Some(name) => call.algorithm(name),
            None => call,
        };
        match self.wanted.number("blocks") {
            Some(blocks) => call.blocks(blocks),
            None => call,
        }
    }

    /// The call of two slices, which keeps the first.
    fn by_name(&self, comm: &Communicator, salt: u64) -> Result<()> {
        let before = self.before(salt);
        let (root, parts, ends) = (self.root(), &self.parts, self.outcome());
        let output = extent(ends.iter().map(|(range, _)| range));
        let (input, mut out) = (&before[self.input()], self.junk(output.len(), salt));
        match self.wanted.collective {
            Broadcast => {
                out = before.clone();
                comm.broadcast(&mut out, root)?;
            }
            Reduce => comm.reduce(input, &mut out, self.operator(), root)?,
            Allreduce => comm.allreduce(input, &mut out, self.operator())?,
            Allgather => comm.allgather(input, &mut out)?,
            Allgatherv => comm.allgatherv(input, &mut out, parts)?,
            ReduceScatter => comm.reduce_scatter(input, &mut out, parts, self.operator())?,
            ReduceScatterBlock => comm.reduce_scatter_block(input, &mut out, self.operator())?,
            Scatter => comm.scatter(input, &mut out, root)?,
            Scatterv => comm.scatterv(input, &mut out, parts, root)?,
            Gather => comm.gather(input, &mut out, root)?,
            Gatherv => comm.gatherv(input, &mut out, parts, root)?,
            Alltoall => comm.alltoall(input, &mut out)?,
            Alltoallv => {
                comm.alltoallv(input, &self.sent(self.rank), &mut out, &self.received())?;
            }
            other => panic!("{} has no data", other.name()),
        }
        self.verify_runs(&out, output.start, &ends, salt);
        Ok(())
    }

    fn sent(&self, by: u32) -> Vec<usize> {
        (0..self.p).map(|to| self.wanted.pair(by, to, self.p)).collect()
    }

    fn received(&self) -> Vec<usize> {
        (0..self.p).map(|from| self.wanted.pair(from, self.rank, self.p)).collect()
    }

    /// All elements of the buffer in place.
    fn elements(&self) -> usize {
        match self.wanted.collective.numbering() {
            Numbering::Whole => self.wanted.number("count").unwrap_or(1),
            Numbering::Parts => self.parts.iter().sum(),
            Numbering::Pairs => self.sent(self.rank).iter().chain(&self.received()).sum(),
        }
    }

    fn part(&self, rank: u32) -> Range<usize> {
        let start = self.parts[..rank as usize].iter().sum();
        start..start + self.parts[rank as usize]
    }

    /// Which elements of the buffer this rank gives.
    fn input(&self) -> Range<usize> {
        match self.wanted.collective {
            Broadcast | Scatter | Scatterv if self.rank != self.root() => 0..0,
            Allgather | Allgatherv | Gather | Gatherv => self.part(self.rank),
            Alltoall | Alltoallv => 0..self.sent(self.rank).iter().sum(),
            _ => 0..self.elements(),
        }
    }

    /// What this rank gets, and where in the buffer.
    fn outcome(&self) -> Vec<(Range<usize>, From)> {
        let (all, own, root) = (0..self.elements(), self.part(self.rank), self.root());
        let each_part = || (0..self.p).map(|j| (self.part(j), From::One(j, self.part(j).start))).collect();
        match self.wanted.collective {
            Broadcast => vec![(all, From::One(root, 0))],
            Reduce if self.rank == root => vec![(all, From::All(0))],
            Allreduce => vec![(all, From::All(0))],
            Allgather | Allgatherv => each_part(),
            Gather | Gatherv if self.rank == root => each_part(),
            ReduceScatter | ReduceScatterBlock => vec![(own.clone(), From::All(own.start))],
            Scatter | Scatterv => vec![(own.clone(), From::One(root, own.start))],
            Alltoall | Alltoallv => self.exchanged(),
            _ => Vec::new(),
        }
    }

    fn exchanged(&self) -> Vec<(Range<usize>, From)> {
        let mut at = self.sent(self.rank).iter().sum();
        let from = |(rank, count)| {
            let theirs = self.sent(rank)[..self.rank as usize].iter().sum();
            let range = at..at + count;
            at += count;
            (range, From::One(rank, theirs))
        };
        (0..self.p).zip(self.received()).map(from).collect()
    }

    fn element(rank: u32, index: usize, salt: u64) -> T {
        T::sample(mix(salt << 32 ^ u64::from(rank) << 16 ^ (index % PERIOD) as u64))
    }

    /// So many of a rank's elements, from the first on.
    fn elements_of(rank: u32, first: usize, len: usize, salt: u64) -> Vec<T> {
        repeated(len, |i| Self::element(rank, first + i, salt))
    }

    /// What is nobody's.
    fn junk(&self, len: usize, salt: u64) -> Vec<T> {
        Self::elements_of(self.p + self.rank, 0, len, salt)
    }

    /// The buffer before the call: what this rank gives, and junk.
    fn before(&self, salt: u64) -> Vec<T> {
        let (mut data, input) = (self.junk(self.elements(), salt), self.input());
        let given = Self::elements_of(self.rank, input.start, input.len(), salt);
        data[input].copy_from_slice(&given);
        data
    }

    /// All ranks' elements of one index combined one by one, from rank 0 on.
    fn combined(&self, index: usize, salt: u64) -> T {
        let operator = self.operator();
        (1..self.p).fold(Self::element(0, index, salt), |left, rank| {
            let mut left = [left];
            operator.fold(&mut left, &[Self::element(rank, index, salt)], false).unwrap();
            left[0]
        })
    }

    fn verify(&self, data: &[T], salt: u64) {
        self.verify_runs(data, 0, &self.outcome(), salt);
    }

    /// `data` begins at element `start` of the buffer.
    fn verify_runs(&self, data: &[T], start: usize, runs: &[(Range<usize>, From)], salt: u64) {
        for (range, from) in runs {
            let expected = match *from {
                From::All(first) => repeated(range.len(), |i| self.combined(first + i, salt)),
                From::One(rank, first) => Self::elements_of(rank, first, range.len(), salt),
            };
            let found = &data[range.start - start..range.end - start];
            if found != expected {
                let wrong = (0..found.len()).find(|&i| found[i] != expected[i]).unwrap_or_default();
                let (word, index) = (&self.wanted.word, range.start + wrong);
                let (found, expected) = (&found[wrong], &expected[wrong]);
                let (rank, p) = (self.rank, self.p);
                panic!("element {index} of {word} at rank {rank} of {p} is {found:?}, not {expected:?}");
            }
        }
    }
}

/// So many elements that repeat themselves, each made once: what copies and compares whole slices is fast also in a
/// test that is not optimised.
fn repeated<T: Copy>(len: usize, one: impl Fn(usize) -> T) -> Vec<T> {
    let once: Vec<T> = (0..len.min(PERIOD)).map(one).collect();
    let mut all = once.repeat(len.div_ceil(PERIOD));
    all.truncate(len);
    all
}

fn extent<'r>(mut ranges: impl Iterator<Item = &'r Range<usize>>) -> Range<usize> {
    let first = ranges.next().cloned().unwrap_or(0..0);
    first.start..ranges.last().map_or(first.end, |last| last.end)
}

/// A number that looks like chance.
fn mix(number: u64) -> u64 {
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ mixed >> 29
}
