//! How a collective is called: the tense, and with it the memory.

use std::hint::black_box;

use circulant::collective::Collective;
use circulant::comm::request::Prepared;
use circulant::comm::window::Window;
use circulant::comm::{Call, Communicator};
use circulant::error::{Error, Result};
use circulant::fold::Sum;
use clap::ValueEnum;

use super::CALL;
use super::overlap::Meanwhile;
use super::subject::Subject;

/// In which form the collective is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Tense {
    /// At once, in place on a slice, which is registered for each call where it is long
    Slice,
    /// At once, in place on a registered window
    Window,
    /// Started and waited for, in place on a window
    Started,
    /// Prepared once, in place on a window, then started again and again
    Prepared,
    /// At once, from one slice into another, by the library's own choice of algorithm: the counterpart of
    /// MPI's calls, which keep their input
    Kept,
}

impl Tense {
    /// As users write it.
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// What a tense needs beside the call.
pub enum Memory {
    Slice(Vec<i32>),
    Window(Window<i32>),
    Kept { input: Vec<i32>, output: Vec<i32> },
}

impl Memory {
    /// How many bytes a rank takes for it.
    pub fn bytes(tense: Tense, subject: &Subject) -> u64 {
        let elements = match tense {
            Tense::Kept if subject.collective != Collective::Broadcast => {
                subject.input().len().saturating_add(subject.output().len())
            }
            _ => subject.len(),
        };
        (elements as u64).saturating_mul(size_of::<i32>() as u64)
    }

    /// Fails where there is not enough; then other ranks may have enough.
    pub fn new(comm: &Communicator, tense: Tense, subject: &Subject) -> Result<Self> {
        Ok(match tense {
            // A broadcast has one buffer in MPI too.
            Tense::Kept if subject.collective != Collective::Broadcast => {
                Memory::Kept { input: zeros(subject.input().len())?, output: zeros(subject.output().len())? }
            }
            Tense::Slice | Tense::Kept => Memory::Slice(zeros(subject.len())?),
            Tense::Window | Tense::Started | Tense::Prepared => Memory::Window(comm.window(subject.len())?),
        })
    }
}

/// As many elements, or an error: a size is the user's word.
fn zeros(elements: usize) -> Result<Vec<i32>> {
    let mut zeros = Vec::new();
    zeros.try_reserve_exact(elements).map_err(|_| {
        Error::argument(CALL, format!("no memory for {elements} elements"), "ask for less with -m")
    })?;
    zeros.resize(elements, 0);
    Ok(zeros)
}

/// A call that can be made again and again.
pub enum Caller {
    /// By which algorithm.
    Barrier(&'static str),
    Slice(Vec<i32>, Call<i32>),
    Window(Window<i32>, Call<i32>),
    /// `None` only after an error.
    Started(Option<Window<i32>>, Call<i32>),
    Prepared(Prepared<i32>),
    Kept {
        input: Vec<i32>,
        output: Vec<i32>,
    },
}

impl Caller {
    pub fn new(comm: &Communicator, tense: Tense, memory: Memory, call: Call<i32>) -> Result<Self> {
        Ok(match memory {
            Memory::Slice(data) => Caller::Slice(data, call),
            Memory::Window(window) if tense == Tense::Started => Caller::Started(Some(window), call),
            Memory::Window(window) if tense == Tense::Prepared => {
                Caller::Prepared(comm.prepare(window, call)?)
            }
            Memory::Window(window) => Caller::Window(window, call),
            Memory::Kept { input, output } => Caller::Kept { input, output },
        })
    }

    /// Makes it; one in the background with something between its start and its wait, if there is something `meanwhile`.
    pub fn call(
        &mut self,
        comm: &Communicator,
        subject: &Subject,
        meanwhile: Option<Meanwhile<'_>>,
    ) -> Result<()> {
        match self {
            Caller::Barrier(algorithm) => comm.barrier_by(algorithm),
            Caller::Slice(data, call) => comm.run(data, &*call),
            Caller::Window(window, call) => comm.run_window(window, &*call),
            Caller::Started(place, call) => {
                if let Some(window) = place.take() {
                    let request = comm.start(window, &*call)?;
                    meanwhile.iter().for_each(|act| act());
                    *place = Some(request.wait()?);
                }
                Ok(())
            }
            Caller::Prepared(prepared) => match meanwhile {
                None => prepared.run(),
                Some(act) => {
                    let running = prepared.start()?;
                    act();
                    running.wait()
                }
            },
            Caller::Kept { input, output } => by_name(comm, subject, input, output),
        }
    }

    /// New input of an iteration, and everything else wrong.
    pub fn refill(&mut self, subject: &Subject, iteration: u32) -> Result<()> {
        let given = subject.input();
        if let Caller::Kept { input, output } = self {
            output.fill(WRONG);
            fill(input, given, subject, iteration);
            return Ok(());
        }
        let data = self.in_place()?;
        data.fill(WRONG);
        fill(&mut data[given.clone()], given, subject, iteration);
        Ok(())
    }

    /// Writes the input anew, as programs do, by plain stores.
    pub fn renew(&mut self, subject: &Subject, value: i32) -> Result<()> {
        match self {
            Caller::Kept { input, .. } => input.fill(value),
            _ => self.in_place()?[subject.input()].fill(value),
        }
        Ok(())
    }

    /// Reads all that has come, as programs do; which the root of a broadcast has brought.
    pub fn look(&mut self, subject: &Subject) -> Result<()> {
        if subject.collective == Collective::Broadcast && !subject.input().is_empty() {
            return Ok(());
        }
        let sum = self.output(subject)?.iter().fold(0_i32, |sum, &element| sum.wrapping_add(element));
        black_box(sum);
        Ok(())
    }

    /// What has come out.
    pub fn output(&mut self, subject: &Subject) -> Result<&[i32]> {
        match self {
            Caller::Kept { output, .. } => Ok(output),
            Caller::Barrier(_) => Ok(&[]),
            _ => Ok(&self.in_place()?[subject.output()]),
        }
    }

    fn in_place(&mut self) -> Result<&mut [i32]> {
        Ok(match self {
            Caller::Barrier(_) | Caller::Kept { .. } => &mut [],
            Caller::Slice(data, _) => data,
            Caller::Window(window, _) => window,
            Caller::Started(place, _) => place.as_deref_mut().unwrap_or_default(),
            Caller::Prepared(prepared) => prepared.window()?,
        })
    }
}

/// No rank gives it, but for one element in four thousand million.
const WRONG: i32 = 0x5a5a_a5a5;

fn fill(input: &mut [i32], places: std::ops::Range<usize>, subject: &Subject, iteration: u32) {
    input.iter_mut().zip(places).for_each(|(element, at)| *element = subject.given(iteration, at));
}

/// The call as MPI has it, from one slice into another.
fn by_name(comm: &Communicator, subject: &Subject, input: &[i32], output: &mut [i32]) -> Result<()> {
    let (root, counts) = (subject.root, &subject.counts);
    match subject.collective {
        Collective::Broadcast => comm.broadcast(output, root),
        Collective::Reduce => comm.reduce(input, output, Sum, root),
        Collective::Allreduce => comm.allreduce(input, output, Sum),
        Collective::Allgather => comm.allgather(input, output),
        Collective::Allgatherv => comm.allgatherv(input, output, counts),
        Collective::ReduceScatter => comm.reduce_scatter(input, output, counts, Sum),
        Collective::ReduceScatterBlock => comm.reduce_scatter_block(input, output, Sum),
        Collective::Scatter => comm.scatter(input, output, root),
        Collective::Scatterv => comm.scatterv(input, output, counts, root),
        Collective::Gather => comm.gather(input, output, root),
        Collective::Gatherv => comm.gatherv(input, output, counts, root),
        Collective::Alltoall => comm.alltoall(input, output),
        Collective::Alltoallv => comm.alltoallv(input, counts, output, counts),
        Collective::Barrier | Collective::Finalize | Collective::Probe => comm.barrier(),
    }
}
