//! A collective of MPI's as one of circulant's: whether it is taken, and what is made of it.
//!
//! Whether a call is taken follows from what all ranks of a correct program have alike, and from nothing else, or some
//! would wait in one library and some in the other: the collective, the communicator and what was called on it
//! before, the bytes of a vector or part, and, in a reduction, operator and type. The types of what is only moved
//! may differ from rank to rank, so they are not asked.

use std::ffi::{c_int, c_void};

use circulant::boot::mpi::abi::{Abi, Handle};
use circulant::collective::Collective;
use circulant::comm::call::RawCall;
use circulant::comm::raw::Span;
use circulant::error::{Error, Result};
use circulant::fold::AnyFold;

use super::communicators::{self, Found, Unserved};
use super::own;
use super::sides::{Buffer, Parts, Side, Values};
use super::types::Datatype;
use super::world::World;

/// A call as the program made it.
pub struct Args {
    pub collective: Collective,
    pub comm: Handle,
    pub root: c_int,
    pub operator: Handle,
    pub send: Side,
    pub recv: Side,
}

impl Args {
    /// The bytes of a vector, where a call by itself tells how many they are: those of parts depend on the ranks.
    pub fn vector(&self) -> Option<usize> {
        match self.collective {
            Collective::Broadcast | Collective::Reduce | Collective::Allreduce => {
                let datatype = Datatype::of(own::abi()?.flavour.handle(self.recv.datatype))?;
                bytes_of(&self.recv, datatype).ok()
            }
            _ => None,
        }
    }
}

/// When a call is to be done.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Tense {
    /// Before it returns.
    AtOnce,
    /// Later, and nothing may be waited for now.
    Started,
    /// When it is started, as often as that is.
    Prepared,
}

/// Why a call is passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Why {
    /// The user does not want this collective taken.
    NotChosen,
    /// Nor calls of so few bytes.
    Less,
    /// Nor calls of so many.
    More,
    /// The program waits for calls in the background elsewhere.
    Waits,
    /// Of one rank.
    Alone,
    /// Between two groups, with ranks of elsewhere; or not known yet, and there is no time to meet.
    Communicator,
    /// An operator of the user's, or one that does not go with the type.
    Operator,
    /// A type that there are no operators for.
    Type,
    /// There is nothing to be moved.
    Nothing,
    /// The counts are the root's alone, and nobody can be asked now.
    Counts,
    /// An argument that MPI does not allow.
    Argument,
    /// To see how long the library's own takes.
    Sample,
}

impl Why {
    /// As the report says it.
    pub fn words(self) -> &'static str {
        match self {
            Why::NotChosen => "not in CIRCULANT_MPI_COLLECTIVES",
            Why::Less => "below CIRCULANT_MPI_LEAST",
            Why::More => "above CIRCULANT_MPI_MOST",
            Why::Waits => "another library waits",
            Why::Alone => "one rank only",
            Why::Communicator => "communicator not served",
            Why::Operator => "operator",
            Why::Type => "type",
            Why::Nothing => "no bytes",
            Why::Counts => "counts known at the root only",
            Why::Argument => "argument",
            Why::Sample => "timed for comparison",
        }
    }
}

impl From<Unserved> for Why {
    fn from(why: Unserved) -> Self {
        match why {
            Unserved::Alone => Why::Alone,
            Unserved::Other => Why::Communicator,
        }
    }
}

/// A call that is passed on.
pub struct PassedOn {
    pub why: Why,
    /// The size of the call, as far as it was asked for.
    pub bytes: Option<usize>,
}

impl From<Why> for PassedOn {
    fn from(why: Why) -> Self {
        PassedOn { why, bytes: None }
    }
}

/// A call that is taken: what is made of it.
pub struct Taken {
    pub found: Found,
    pub call: RawCall,
    pub input: Option<Buffer>,
    pub output: Option<Buffer>,
    /// What of the output goes in.
    in_place: InPlace,
    /// Whether values come into the output.
    fills: bool,
    /// The size of the call, where it has one that all ranks know.
    pub bytes: Option<usize>,
    /// What went wrong while it was made, by which it ends: other ranks may be in it, and nobody may be left to pass it on with.
    failed: Option<Error>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum InPlace {
    No,
    /// This rank's part.
    Own,
    Whole,
}

impl Taken {
    /// Fails where it has to before it begins.
    pub fn well(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Packs what goes in, where it has to be. Fails where a buffer cannot be taken.
    pub fn pack(&mut self) -> Result<()> {
        self.well()?;
        self.input.iter().chain(&self.output).try_for_each(Buffer::check)?;
        if let Some(input) = &mut self.input {
            input.pack()?;
        }
        match (&mut self.output, self.in_place) {
            (Some(output), InPlace::Own) => output.pack_own(),
            (Some(output), InPlace::Whole) => output.pack(),
            _ => Ok(()),
        }
    }

    /// Unpacks what has come in, where it has to be.
    pub fn unpack(&self) -> Result<()> {
        match &self.output {
            Some(output) if self.fills => output.unpack(),
            _ => Ok(()),
        }
    }

    /// Where the call's memory is.
    pub fn spans(&self) -> (Option<Span>, Option<Span>) {
        let span = |buffer: &Option<Buffer>| buffer.as_ref().map(|buffer| buffer.span.clone());
        (span(&self.input), span(&self.output))
    }

    /// Keeps the program's types, which it may free before the call is done.
    pub fn keep_types(&mut self) {
        self.input.iter_mut().chain(&mut self.output).for_each(Buffer::keep_type);
    }

    /// Lets go of them.
    pub fn release_types(&mut self) {
        self.input.iter_mut().chain(&mut self.output).for_each(Buffer::release_type);
    }
}

/// What is made of a call, or why it is passed on.
pub type Decided<T> = std::result::Result<T, Why>;

/// Whether a call is taken, and what is made of it.
pub fn decide(world: &World, args: &Args, tense: Tense) -> std::result::Result<Taken, PassedOn> {
    if !world.settings.takes(args.collective) {
        return Err(Why::NotChosen.into());
    }
    if tense != Tense::AtOnce && !world.background {
        return Err(Why::Waits.into());
    }
    let abi = own::abi().ok_or(Why::Communicator)?;
    let comm = abi.flavour.handle(args.comm);
    let found = communicators::find(comm, tense != Tense::Started).map_err(Why::from)?;
    let taken = Maker { args, abi, found, tense }.make()?;
    let why = match taken.bytes {
        Some(bytes) if bytes < world.settings.least => Why::Less,
        Some(bytes) if bytes > world.settings.most => Why::More,
        Some(0) => Why::Nothing,
        _ => return Ok(taken),
    };
    Err(PassedOn { why, bytes: taken.bytes })
}

/// Makes of a call what circulant takes.
struct Maker<'a> {
    args: &'a Args,
    abi: &'a Abi,
    found: Found,
    tense: Tense,
}

/// What a call is made of.
struct Made {
    call: RawCall,
    input: Option<Buffer>,
    output: Option<Buffer>,
    in_place: InPlace,
    bytes: Option<usize>,
}

impl Made {
    /// A barrier.
    fn nothing() -> Made {
        let call = RawCall::new(Collective::Barrier, 1);
        Made { call, input: None, output: None, in_place: InPlace::No, bytes: None }
    }
}

impl Maker<'_> {
    fn make(self) -> Decided<Taken> {
        let made = match self.args.collective {
            Collective::Scatterv => self.scatterv()?,
            Collective::Gatherv => self.gatherv()?,
            _ => Ok(self.make_alone()?),
        };
        let (made, failed) = made.map_or_else(|error| (Made::nothing(), Some(error)), |made| (made, None));
        let fills = self.args.collective != Collective::Broadcast || !self.is_root();
        let Made { call, input, output, in_place, bytes } = made;
        Ok(Taken { found: self.found, call, input, output, in_place, fills, bytes, failed })
    }

    /// One for which no other rank has to be asked.
    fn make_alone(&self) -> Decided<Made> {
        match self.args.collective {
            Collective::Broadcast => self.broadcast(),
            Collective::Reduce | Collective::Allreduce => self.reduction(),
            Collective::ReduceScatter => self.reduce_scatter(),
            Collective::ReduceScatterBlock => self.reduce_scatter_block(),
            Collective::Allgather => self.allgather(),
            Collective::Allgatherv => self.allgatherv(),
            Collective::Scatter => self.scatter(),
            Collective::Gather => self.gather(),
            Collective::Alltoall => self.alltoall(),
            Collective::Alltoallv => self.alltoallv(),
            _ => Ok(Made::nothing()),
        }
    }

    fn broadcast(&self) -> Decided<Made> {
        let (datatype, bytes) = self.agreed(&self.args.recv)?;
        let unit = unit(bytes);
        let output = Some(self.args.recv.buffer(datatype, bytes, self.found.place, self.args.comm, unit));
        let in_place = if self.is_root() { InPlace::Whole } else { InPlace::No };
        let call = RawCall::new(Collective::Broadcast, unit).root(self.root()?);
        Ok(Made { call, input: None, output, in_place, bytes: Some(bytes) })
    }

    fn reduction(&self) -> Decided<Made> {
        let (datatype, fold) = self.fold()?;
        let bytes = bytes_of(&self.args.recv, datatype)?;
        let unit = fold.unit();
        let is_reduce = self.args.collective == Collective::Reduce;
        let call = RawCall::new(self.args.collective, unit).fold(fold.clone());
        let call = if is_reduce { call.root(self.root()?) } else { call };
        // Of pairs with gaps MPI counts fewer bytes than they take.
        let elements = bytes / datatype.size.max(1);
        let input = (!self.in_place()).then(|| plain(self.args.send.buffer, elements));
        let output = (!is_reduce || self.is_root()).then(|| plain(self.args.recv.buffer, elements));
        Ok(Made { call, input, output, in_place: InPlace::No, bytes: Some(bytes) })
    }

    fn reduce_scatter(&self) -> Decided<Made> {
        let (datatype, fold) = self.fold()?;
        let Values::Each(counts, _) = self.args.recv.values else { return Err(Why::Argument) };
        // SAFETY: - MPI has the program give a count for each rank
        let counts = unsafe { counts.first(self.found.place.size as usize) };
        let counts: Option<Vec<usize>> = counts.into_iter().map(|count| count.try_into().ok()).collect();
        let counts = counts.ok_or(Why::Argument)?;
        let (total, own) = (counts.iter().sum::<usize>(), counts[self.found.place.rank as usize]);
        let call = RawCall::new(Collective::ReduceScatter, fold.unit()).counts(&counts).fold(fold.clone());
        Ok(self.scattered(call, fold.unit(), total, own, datatype))
    }

    fn reduce_scatter_block(&self) -> Decided<Made> {
        let (datatype, fold) = self.fold()?;
        let Values::Whole(own) = self.args.recv.values else { return Err(Why::Argument) };
        let own = usize::try_from(own).map_err(|_| Why::Argument)?;
        let total = own.checked_mul(self.found.place.size as usize).ok_or(Why::Argument)?;
        let call = RawCall::new(Collective::ReduceScatterBlock, fold.unit()).fold(fold.clone());
        Ok(self.scattered(call, fold.unit(), total, own, datatype))
    }

    /// What is in place is copied: programs expect what lies behind the result to stay as it is, which MPI libraries leave so.
    fn scattered(&self, call: RawCall, unit: usize, total: usize, own: usize, datatype: Datatype) -> Made {
        let Args { send, recv, .. } = self.args;
        let input = match self.in_place() {
            true => Buffer::copied(recv.buffer, total, unit),
            false => plain(send.buffer, total),
        };
        let output = Some(plain(recv.buffer, own));
        let bytes = Some(total * datatype.size);
        Made { call, input: Some(input), output, in_place: InPlace::No, bytes }
    }

    fn allgather(&self) -> Decided<Made> {
        let (datatype, part) = self.agreed(&self.args.recv)?;
        let unit = unit(part);
        let output = Some(self.args.recv.buffer(datatype, part, self.found.place, self.args.comm, unit));
        let input = self.input(part, unit)?;
        let in_place = if input.is_none() { InPlace::Own } else { InPlace::No };
        let call = RawCall::new(Collective::Allgather, unit);
        Ok(Made { call, input, output, in_place, bytes: Some(self.of_all(part)?) })
    }

    fn allgatherv(&self) -> Decided<Made> {
        let (datatype, parts) = self.parts(&self.args.recv)?;
        let input = self.input(parts.lengths[self.found.place.rank as usize], 1)?;
        let in_place = if input.is_none() { InPlace::Own } else { InPlace::No };
        let output = Some(self.args.recv.parts_buffer(datatype, &parts, self.found.place, self.args.comm));
        let call = RawCall::new(Collective::Allgatherv, 1).counts(&parts.lengths);
        Ok(Made { call, input, output, in_place, bytes: Some(parts.lengths.iter().sum()) })
    }

    fn scatter(&self) -> Decided<Made> {
        let args = self.args;
        let (datatype, part) = self.agreed(if self.is_root() { &args.send } else { &args.recv })?;
        let unit = unit(part);
        let here = |side: &Side, datatype| side.buffer(datatype, part, self.found.place, args.comm, unit);
        let input = self.is_root().then(|| here(&args.send, datatype));
        let output = match self.is(args.recv.buffer) && self.is_root() {
            true => None,
            false => Some(here(&args.recv, self.datatype(&args.recv)?)),
        };
        let call = RawCall::new(Collective::Scatter, unit).root(self.root()?);
        Ok(Made { call, input, output, in_place: InPlace::No, bytes: Some(self.of_all(part)?) })
    }

    fn gather(&self) -> Decided<Made> {
        let args = self.args;
        let (datatype, part) = self.agreed(if self.is_root() { &args.recv } else { &args.send })?;
        let unit = unit(part);
        let input = match self.is_root() {
            true => self.input(part, unit)?,
            false => Some(args.send.buffer(datatype, part, self.found.place, args.comm, unit)),
        };
        let in_place = if input.is_none() { InPlace::Own } else { InPlace::No };
        let output =
            self.is_root().then(|| args.recv.buffer(datatype, part, self.found.place, args.comm, unit));
        let call = RawCall::new(Collective::Gather, unit).root(self.root()?);
        Ok(Made { call, input, output, in_place, bytes: Some(self.of_all(part)?) })
    }

    fn scatterv(&self) -> Decided<Result<Made>> {
        let args = self.args;
        let parts = self.is_root().then(|| self.parts(&args.send).ok()).flatten();
        let lengths = match self.lengths_of_root(parts.as_ref().map(|(_, parts)| &parts.lengths))? {
            Ok(lengths) => lengths,
            Err(error) => return Ok(Err(error)),
        };
        let input = parts
            .map(|(datatype, parts)| args.send.parts_buffer(datatype, &parts, self.found.place, args.comm));
        let own = lengths[self.found.place.rank as usize];
        let output = match self.is(args.recv.buffer) && self.is_root() {
            true => None,
            false => Some(args.recv.buffer(self.datatype(&args.recv)?, own, self.found.place, args.comm, 1)),
        };
        let call = RawCall::new(Collective::Scatterv, 1).counts(&lengths).root(self.root()?);
        let bytes = Some(lengths.iter().sum());
        Ok(Ok(Made { call, input, output, in_place: InPlace::No, bytes }))
    }

    fn gatherv(&self) -> Decided<Result<Made>> {
        let args = self.args;
        let parts = self.is_root().then(|| self.parts(&args.recv).ok()).flatten();
        let lengths = match self.lengths_of_root(parts.as_ref().map(|(_, parts)| &parts.lengths))? {
            Ok(lengths) => lengths,
            Err(error) => return Ok(Err(error)),
        };
        let output = parts
            .map(|(datatype, parts)| args.recv.parts_buffer(datatype, &parts, self.found.place, args.comm));
        let input = self.input(lengths[self.found.place.rank as usize], 1)?;
        let in_place = if input.is_none() { InPlace::Own } else { InPlace::No };
        let call = RawCall::new(Collective::Gatherv, 1).counts(&lengths).root(self.root()?);
        let bytes = Some(lengths.iter().sum());
        Ok(Ok(Made { call, input, output, in_place, bytes }))
    }

    fn alltoall(&self) -> Decided<Made> {
        let (datatype, part) = self.agreed(&self.args.recv)?;
        let unit = unit(part);
        let output = Some(self.args.recv.buffer(datatype, part, self.found.place, self.args.comm, unit));
        let input = self.input(part, unit)?;
        let in_place = if input.is_none() { InPlace::Whole } else { InPlace::No };
        let call = RawCall::new(Collective::Alltoall, unit);
        Ok(Made { call, input, output, in_place, bytes: Some(self.of_all(part)?) })
    }

    fn alltoallv(&self) -> Decided<Made> {
        let args = self.args;
        let (datatype, received) = self.parts(&args.recv)?;
        let output = Some(args.recv.parts_buffer(datatype, &received, self.found.place, args.comm));
        let (input, call) = match self.in_place() {
            true => {
                (None, RawCall::new(Collective::Alltoallv, 1).pairs(&received.lengths, &received.lengths))
            }
            false => {
                let (datatype, sent) = self.parts(&args.send)?;
                let input = args.send.parts_buffer(datatype, &sent, self.found.place, args.comm);
                (Some(input), RawCall::new(Collective::Alltoallv, 1).pairs(&sent.lengths, &received.lengths))
            }
        };
        let in_place = if input.is_none() { InPlace::Whole } else { InPlace::No };
        Ok(Made { call, input, output, in_place, bytes: None })
    }

    /// The lengths that only the root knows, by a broadcast, or its error; nobody can wait for it in a call that is but started.
    fn lengths_of_root(&self, own: Option<&Vec<usize>>) -> Decided<Result<Vec<usize>>> {
        const UNKNOWN: u64 = u64::MAX;
        if self.tense == Tense::Started {
            return Err(Why::Counts);
        }
        let mut words = vec![UNKNOWN; self.found.place.size as usize];
        if let Some(own) = own {
            words.iter_mut().zip(own).for_each(|(word, &length)| *word = length as u64);
        }
        let span = Span::new(words.as_mut_ptr().cast(), words.len());
        let call = RawCall::new(Collective::Broadcast, size_of::<u64>()).root(self.root()?);
        // SAFETY: - the words are ours until the call is done
        let told = unsafe { self.found.comm.run_raw(&call, None, Some(span)) };
        match told {
            Ok(()) if words[0] == UNKNOWN => Err(Why::Argument),
            told => Ok(told.map(|()| words.into_iter().map(|word| word as usize).collect())),
        }
    }

    /// This rank's part of what goes in, of so many bytes; none where it is in its place already.
    fn input(&self, bytes: usize, unit: usize) -> Decided<Option<Buffer>> {
        if self.in_place() {
            return Ok(None);
        }
        let send = &self.args.send;
        Ok(Some(send.buffer(self.datatype(send)?, bytes, self.found.place, self.args.comm, unit)))
    }

    /// The type of a side of which all ranks know the bytes, and these.
    fn agreed(&self, side: &Side) -> Decided<(Datatype, usize)> {
        let datatype = self.datatype(side)?;
        Ok((datatype, bytes_of(side, datatype)?))
    }

    fn parts(&self, side: &Side) -> Decided<(Datatype, Parts)> {
        let datatype = self.datatype(side)?;
        // SAFETY: - MPI has the program give a count and a displacement for each rank
        let parts = unsafe { side.parts(datatype, self.found.place.size as usize) };
        Ok((datatype, parts.ok_or(Why::Argument)?))
    }

    fn datatype(&self, side: &Side) -> Decided<Datatype> {
        Datatype::of(self.abi.flavour.handle(side.datatype)).ok_or(Why::Argument)
    }

    /// Type and operator of a reduction.
    fn fold(&self) -> Decided<(Datatype, &'static AnyFold)> {
        let operator = self.abi.flavour.handle(self.args.operator);
        let number = self.abi.operators.iter().position(|&one| one == operator).ok_or(Why::Operator)?;
        let datatype = self.datatype(&self.args.recv)?;
        let known = datatype.predefined.ok_or(Why::Type)?;
        Ok((datatype, known.fold(number).ok_or(Why::Type)?))
    }

    fn of_all(&self, part: usize) -> Decided<usize> {
        part.checked_mul(self.found.place.size as usize).ok_or(Why::Argument)
    }

    fn root(&self) -> Decided<u32> {
        let root = u32::try_from(self.args.root).ok();
        root.filter(|&root| root < self.found.place.size).ok_or(Why::Argument)
    }

    fn is_root(&self) -> bool {
        self.args.root == self.found.place.rank as c_int
    }

    fn in_place(&self) -> bool {
        self.is(self.args.send.buffer)
    }

    fn is(&self, buffer: *mut c_void) -> bool {
        buffer as usize == self.abi.in_place
    }
}

fn bytes_of(side: &Side, datatype: Datatype) -> Decided<usize> {
    let (Values::Whole(values) | Values::Equal(values)) = side.values else { return Err(Why::Argument) };
    usize::try_from(values).ok().and_then(|n| n.checked_mul(datatype.size)).ok_or(Why::Argument)
}

fn plain(buffer: *mut c_void, elements: usize) -> Buffer {
    Buffer::plain(Span::new(buffer.cast(), elements))
}

/// The unit in which `bytes` bytes are moved, alike on all ranks: a line of the cache, if they are whole ones.
fn unit(bytes: usize) -> usize {
    1 << bytes.trailing_zeros().min(6)
}
