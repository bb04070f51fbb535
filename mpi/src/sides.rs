//! The memory of a call: where a side's values lie by MPI's words, and what the collective is given for it.
//!
//! Values of plain types are given where they are. Others, with gaps or in another order, are packed by the library
//! into bytes beside, and taken out of them: what travels is the same bytes whatever type a rank calls them by,
//! which is all that MPI promises of the ranks' types.

use std::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError};

use circulant::boot::mpi::abi::Handle;
use circulant::comm::raw::Span;
use circulant::error::{Error, Result};
use circulant::rank::Place;

use super::own;
use super::types::Datatype;
use super::world;

/// Counts or displacements, in an array of the program's.
#[derive(Clone, Copy)]
pub enum Numbers {
    /// Of the usual functions.
    Int(*const c_int),
    /// Of those whose names end in `_c`.
    Long(*const i64),
}

impl Numbers {
    /// The first `n` of them.
    ///
    /// # Safety
    /// - The array has so many.
    pub unsafe fn first(self, n: usize) -> Vec<i64> {
        // SAFETY: - the array has `n` numbers (the caller)
        let at = |i| unsafe {
            match self {
                Numbers::Int(start) => i64::from(*start.add(i)),
                Numbers::Long(start) => *start.add(i),
            }
        };
        (0..n).map(at).collect()
    }
}

/// How many values there are.
#[derive(Clone, Copy)]
pub enum Values {
    /// So many.
    Whole(i64),
    /// So many for each rank, one part after the other.
    Equal(i64),
    /// For each rank as many as the first array says, at the place that the second one says.
    Each(Numbers, Numbers),
}

/// One of a call's two buffers, as MPI describes it.
#[derive(Clone, Copy)]
pub struct Side {
    pub buffer: *mut c_void,
    pub values: Values,
    pub datatype: Handle,
}

/// A run of values of one buffer.
#[derive(Clone, Copy)]
struct Chunk {
    address: *mut u8,
    values: usize,
    /// Where its bytes are among those that travel.
    at: usize,
}

/// A buffer as a call takes it.
pub struct Buffer {
    pub span: Span,
    packed: Option<Packed>,
    copied: Option<Copied>,
    /// Why it cannot be taken: it is shorter than the call, by what others say of it.
    short: Option<Error>,
}

/// Values beside a buffer in which they would be overwritten.
struct Copied {
    from: *const u8,
    bytes: Vec<u8>,
}

/// Values that travel as bytes beside the buffer.
struct Packed {
    bytes: Vec<u8>,
    chunks: Vec<Chunk>,
    /// Those that this rank has to give, in place.
    own: Option<Chunk>,
    datatype: Datatype,
    /// Whether the type is a duplicate, and ours to free.
    kept: bool,
    comm: Handle,
}

/// Parts of one side, in bytes: their lengths, and where they are from the buffer on.
pub struct Parts {
    pub lengths: Vec<usize>,
    offsets: Vec<isize>,
}

impl Side {
    /// The side of a call that has none.
    pub const NONE: Side = Side { buffer: std::ptr::null_mut(), values: Values::Whole(0), datatype: 0 };

    /// As it is given, of one vector or part of `bytes` bytes, or of as many from each rank.
    pub fn buffer(
        &self,
        datatype: Datatype,
        bytes: usize,
        place: Place,
        comm: Handle,
        unit: usize,
    ) -> Buffer {
        let short = self.short(datatype, bytes, place);
        let ranks = if matches!(self.values, Values::Equal(_)) { place.size as usize } else { 1 };
        let total = bytes * ranks;
        if datatype.is_plain() || total == 0 {
            return Buffer { short, ..Buffer::plain(Span::new(self.buffer.cast(), total / unit)) };
        }
        let values = bytes / datatype.size.max(1);
        let whole = Chunk { address: self.buffer.cast(), values: values * ranks, at: 0 };
        let own = Chunk {
            address: shifted(self.buffer, place.rank as isize * values as isize * datatype.extent),
            values,
            at: place.rank as usize * bytes,
        };
        let own = if ranks > 1 { own } else { whole };
        Buffer { short, ..Packed::new(total, vec![whole], Some(own), datatype, comm).buffer(unit) }
    }

    /// What is wrong where one vector or part has fewer than `bytes` bytes, as the other side or the root have it.
    fn short(&self, datatype: Datatype, bytes: usize, place: Place) -> Option<Error> {
        let (Values::Whole(values) | Values::Equal(values)) = self.values else { return None };
        let given = usize::try_from(values).unwrap_or(0).saturating_mul(datatype.size);
        (given < bytes).then(|| {
            let what = format!("rank {} gives a buffer of {given} bytes where {bytes} belong", place.rank);
            Error::argument("MPI", what, "give counts and types of as many bytes on all ranks")
        })
    }

    /// As it is given, in parts.
    pub fn parts_buffer(&self, datatype: Datatype, parts: &Parts, place: Place, comm: Handle) -> Buffer {
        if datatype.is_plain() {
            let (least, places) = parts.places();
            let start = shifted(self.buffer, least);
            return Buffer::plain(Span::placed(start, &parts.lengths, &places));
        }
        let mut at = 0;
        let chunks = parts.lengths.iter().zip(&parts.offsets).map(|(&bytes, &offset)| {
            let values = bytes / datatype.size.max(1);
            let chunk = Chunk { address: shifted(self.buffer, offset), values, at };
            at += bytes;
            chunk
        });
        let chunks: Vec<_> = chunks.collect();
        let own = chunks.get(place.rank as usize).copied();
        Packed::new(at, chunks, own, datatype, comm).buffer(1)
    }

    /// What the arrays say, in bytes; `None` where they say what cannot be, of which the library shall complain.
    ///
    /// # Safety
    /// - The arrays have a number for each of `ranks` ranks.
    pub unsafe fn parts(&self, datatype: Datatype, ranks: usize) -> Option<Parts> {
        let Values::Each(counts, places) = self.values else { return None };
        // SAFETY: - as many as ranks (the caller)
        let (counts, places) = unsafe { (counts.first(ranks), places.first(ranks)) };
        let length = |count: &i64| usize::try_from(*count).ok()?.checked_mul(datatype.size);
        let lengths: Vec<usize> = counts.iter().map(length).collect::<Option<_>>()?;
        let offset = |(place, length): (&i64, &usize)| match length {
            // Where nothing is, nobody looks, and the number may be anything.
            0 => Some(0),
            _ => (*place as isize).checked_mul(datatype.extent),
        };
        let offsets = places.iter().zip(&lengths).map(offset).collect::<Option<_>>()?;
        Some(Parts { lengths, offsets })
    }
}

impl Parts {
    /// The first place, from the buffer on, and where the parts are from there on. Those that are empty are nowhere:
    /// with `MPI_BOTTOM` a place at the buffer would be far from all others.
    fn places(&self) -> (isize, Vec<usize>) {
        let parts = || self.lengths.iter().zip(&self.offsets);
        let least = parts().filter(|(length, _)| **length > 0).map(|(_, offset)| *offset).min().unwrap_or(0);
        let place = |(length, offset): (&usize, &isize)| match length {
            0 => 0,
            _ => offset.wrapping_sub(least) as usize,
        };
        (least, parts().map(place).collect())
    }
}

fn shifted(buffer: *mut c_void, bytes: isize) -> *mut u8 {
    buffer.cast::<u8>().wrapping_offset(bytes)
}

impl Buffer {
    /// Values that are given where they are.
    pub fn plain(span: Span) -> Buffer {
        Buffer { span, packed: None, copied: None, short: None }
    }

    /// Values of `unit` bytes that are copied from where they are before each call.
    pub fn copied(from: *mut c_void, elements: usize, unit: usize) -> Buffer {
        let mut bytes = vec![0; elements * unit];
        let span = Span::new(bytes.as_mut_ptr(), elements);
        Buffer { copied: Some(Copied { from: from.cast(), bytes }), ..Buffer::plain(span) }
    }

    /// Fails where it is shorter than the call: nothing may be read or written beyond it.
    pub fn check(&self) -> Result<()> {
        self.short.clone().map_or(Ok(()), Err)
    }

    /// Before the call, where it takes all values from here.
    pub fn pack(&mut self) -> Result<()> {
        if let Some(Copied { from, bytes }) = &mut self.copied {
            // SAFETY: - the program's buffer has so many bytes, as it said in its call, and is not written meanwhile
            //         - the copy is beside it
            unsafe { std::ptr::copy_nonoverlapping(*from, bytes.as_mut_ptr(), bytes.len()) };
        }
        let Some(packed) = &mut self.packed else { return Ok(()) };
        let Packed { bytes, chunks, datatype, comm, .. } = packed;
        chunks.iter().try_for_each(|chunk| pack(bytes, chunk, datatype, *comm))
    }

    /// Before a call in place, which takes this rank's part from here.
    pub fn pack_own(&mut self) -> Result<()> {
        let Some(packed) = &mut self.packed else { return Ok(()) };
        let Packed { bytes, own, datatype, comm, .. } = packed;
        own.iter().try_for_each(|chunk| pack(bytes, chunk, datatype, *comm))
    }

    /// After the call, which has put values here.
    pub fn unpack(&self) -> Result<()> {
        let Some(Packed { bytes, chunks, datatype, comm, .. }) = &self.packed else { return Ok(()) };
        chunks.iter().try_for_each(|chunk| unpack(bytes, chunk, datatype, *comm))
    }

    /// Lets go of a type that was kept. By the program's thread: no other may call MPI.
    pub fn release_type(&mut self) {
        if let Some(Packed { datatype, kept: kept @ true, .. }) = &mut self.packed {
            // SAFETY: - the type is ours (`keep_type`), and not used any more
            unsafe { own::type_free(&mut datatype.handle) };
            *kept = false;
        }
    }

    /// Keeps the type until it is released: the program may free its own, and the communicator, as soon as a call is
    /// started. From then on bytes are packed on MPI_COMM_WORLD, which stays; they are the same on every communicator.
    pub fn keep_type(&mut self) {
        let (Some(packed), Some(abi)) = (&mut self.packed, own::abi()) else { return };
        packed.comm = abi.comm_world;
        let mut kept = 0;
        // SAFETY: - the type is the program's, valid as long as the call that it gave it to
        //         - `kept` has room for a handle
        if unsafe { own::type_dup(packed.datatype.handle, &mut kept) } == 0 {
            packed.datatype = Datatype { handle: kept, ..packed.datatype };
            packed.kept = true;
        }
    }
}

impl Packed {
    fn new(total: usize, chunks: Vec<Chunk>, own: Option<Chunk>, datatype: Datatype, comm: Handle) -> Self {
        Packed { bytes: vec![0; total], chunks, own, datatype, comm, kept: false }
    }

    fn buffer(mut self, unit: usize) -> Buffer {
        let span = Span::new(self.bytes.as_mut_ptr(), self.bytes.len() / unit);
        Buffer { packed: Some(self), ..Buffer::plain(span) }
    }
}

/// MPI counts packed bytes in ints; so many are packed at a time.
const STEP: usize = 1 << 30;

/// The chunk in pieces of which each fits into an int: their addresses, values and bytes.
fn pieces(
    chunk: &Chunk,
    datatype: &Datatype,
) -> impl Iterator<Item = (*mut u8, usize, std::ops::Range<usize>)> {
    let (size, extent, Chunk { address, values, at }) = (datatype.size.max(1), datatype.extent, *chunk);
    let step = (STEP / size).max(1);
    (0..values).step_by(step).map(move |first| {
        let values = step.min(values - first);
        let start = at + first * size;
        (address.wrapping_offset(first as isize * extent), values, start..start + values * size)
    })
}

fn pack(bytes: &mut [u8], chunk: &Chunk, datatype: &Datatype, comm: Handle) -> Result<()> {
    for (address, values, range) in pieces(chunk, datatype) {
        let (to, mut at) = (&mut bytes[range], 0);
        let Some((room, values)) = packs(address, to.len(), values) else {
            let lump = Lump::new(to.len())?;
            carry((address, values, datatype.handle), (to.as_mut_ptr(), 1, lump.handle))?;
            continue;
        };
        let (from, to) = (address.cast(), to.as_mut_ptr().cast());
        // SAFETY: - the buffer has these values, as the program said in its call
        //         - their bytes fit `room`: a value has `size` of them
        let code = unsafe { own::pack(from, values, datatype.handle, to, room, &mut at, comm) };
        check("MPI_Pack", code, at == room)?;
    }
    Ok(())
}

fn unpack(bytes: &[u8], chunk: &Chunk, datatype: &Datatype, comm: Handle) -> Result<()> {
    for (address, values, range) in pieces(chunk, datatype) {
        let (from, mut at) = (&bytes[range], 0);
        let Some((room, values)) = packs(address, from.len(), values) else {
            let lump = Lump::new(from.len())?;
            carry((from.as_ptr(), 1, lump.handle), (address, values, datatype.handle))?;
            continue;
        };
        let (from, to) = (from.as_ptr().cast(), address.cast());
        // SAFETY: - the buffer has room for these values, as the program said in its call
        //         - there are `room` bytes: a value has `size` of them
        let code = unsafe { own::unpack(from, room, &mut at, to, values, datatype.handle, comm) };
        check("MPI_Unpack", code, at == room)?;
    }
    Ok(())
}

/// Bytes and values as MPI_Pack and MPI_Unpack count them; `None` of a single value with more bytes than that, and of
/// values at MPI_BOTTOM, which MPICH and Intel MPI refuse there.
fn packs(address: *const u8, bytes: usize, values: usize) -> Option<(c_int, c_int)> {
    if address.is_null() { None } else { Some((bytes.try_into().ok()?, values.try_into().ok()?)) }
}

/// The bytes of what is not to be packed, as a type of MPI's.
struct Lump {
    handle: Handle,
}

impl Lump {
    fn new(bytes: usize) -> Result<Lump> {
        let byte = own::abi().map_or(0, |abi| abi.byte);
        let places: Vec<isize> = (0..bytes).step_by(STEP).map(|place| place as isize).collect();
        let lengths = places.iter().map(|&place| STEP.min(bytes - place as usize) as c_int);
        let (lengths, mut handle) = (lengths.collect::<Vec<_>>(), 0);
        let runs = lengths.len() as c_int;
        // SAFETY: - there are as many lengths as places
        //         - `handle` has room for a handle
        let code = unsafe { own::type_runs(runs, lengths.as_ptr(), places.as_ptr(), byte, &mut handle) };
        check("MPI_Type_create_hindexed", code, true)?;
        let mut lump = Lump { handle };
        // SAFETY: - the type is the one just made
        check("MPI_Type_commit", unsafe { own::type_commit(&mut lump.handle) }, true)?;
        Ok(lump)
    }
}

impl Drop for Lump {
    fn drop(&mut self) {
        // SAFETY: - the type is ours, and not used any more
        unsafe { own::type_free(&mut self.handle) };
    }
}

/// Values to where others of the same bytes belong, by a message to this rank itself: of packed bytes libraries count
/// no more than an int does, of a message's they do. There are so few of them that an int counts them ([`pieces`]).
fn carry(from: (*const u8, usize, Handle), to: (*mut u8, usize, Handle)) -> Result<()> {
    // Values of two threads would take each other's place.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let ((me, comm), tag) = (world::me(), world::COPIED);
    let status = own::abi().map_or(0, |abi| abi.status_ignore) as *mut c_void;
    let (n, m) = (from.1 as c_int, to.1 as c_int);
    // SAFETY: - one side is the buffer, with values of its type, as the program said in its call; the other one is
    //           bytes beside it, as many as these have
    //         - the communicator is ours, and nobody else sends with this tag
    let code = unsafe {
        own::send_receive(from.0.cast(), n, from.2, me, tag, to.0.cast(), m, to.2, me, tag, comm, status)
    };
    check("MPI_Sendrecv", code, true)
}

fn check(function: &str, code: c_int, complete: bool) -> Result<()> {
    match (code, complete) {
        (0, true) => Ok(()),
        (0, false) => {
            Err(Error::argument(function, "other bytes than the type has", "take a type of plain bytes"))
        }
        (code, _) => {
            Err(Error::argument(function, format!("error {code}"), "the MPI library's own words say why"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_is_empty_does_not_stretch_the_others() {
        let parts = Parts { lengths: vec![8, 0, 16], offsets: vec![1 << 40, 0, (1 << 40) + 8] };
        assert_eq!(parts.places(), (1 << 40, vec![0, 0, 8]));
        let before = Parts { lengths: vec![4, 4, 0], offsets: vec![-4, -12, 0] };
        assert_eq!(before.places(), (-12, vec![8, 0, 0]));
        assert_eq!(Parts { lengths: vec![0; 2], offsets: vec![0; 2] }.places(), (0, vec![0; 2]));
    }
}
