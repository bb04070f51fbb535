//! Collectives on bare memory whose type is known at run time only: what callers from C, Fortran and MPI have.
//!
//! | call | input | output |
//! |---|---|---|
//! | broadcast | none | the vector, at all ranks |
//! | reduce | the vector; none at the root: it is in the output | the vector, at the root |
//! | allreduce | the vector; none: it is in the output | the vector |
//! | allgather(v) | this rank's part; none: it is in its place in the output | all parts |
//! | reduce_scatter(_block) | the vector; none (at all ranks): it is in the output | this rank's part, at the front |
//! | scatter(v) | all parts, at the root | this rank's part; none at the root: it stays where it is |
//! | gather(v) | this rank's part; none at the root: it is in its place in the output | all parts, at the root |
//! | alltoall(v) | a part for each rank; none (at all ranks): they are in the output | a part from each rank |
//! | barrier | none | none |
//!
//! A side that has no meaning at a rank is not looked at. Displacements may be given where a side has all
//! parts; all-to-all takes parts from where they are, the other calls copy them.

use std::ptr::NonNull;
use std::sync::Arc;

use super::Communicator;
use super::call::RawCall;
use super::request::Held;
use super::sides::Given;
use super::world::World;
use crate::collective::Collective;
use crate::engine::Source;
use crate::error::Result;
use crate::transport::memory::Memory;

/// A buffer of a caller's: `elements` elements from `start` on.
#[derive(Debug, Clone)]
pub struct Span {
    /// The first byte; any address where there are no elements.
    pub start: *mut u8,
    /// How many elements, up to the end of the last one.
    pub elements: usize,
    /// Where each rank's part begins, in elements, if not one after the other.
    pub places: Option<Arc<[usize]>>,
}

impl Span {
    /// Parts one after the other.
    pub fn new(start: *mut u8, elements: usize) -> Self {
        Span { start, elements, places: None }
    }

    /// Parts of these lengths at these places, all in elements.
    pub fn placed(start: *mut u8, counts: &[usize], places: &[usize]) -> Self {
        let ends = counts.iter().zip(places).filter(|(count, _)| **count > 0);
        let elements = ends.map(|(count, place)| count.saturating_add(*place)).max().unwrap_or(0);
        let mut next = 0;
        let adjacent = counts.iter().zip(places).all(|(&count, &place)| {
            let fits = count == 0 || place == next;
            next = next.saturating_add(count);
            fits
        });
        Span { start, elements, places: (!adjacent).then(|| places.into()) }
    }
}

impl Communicator {
    /// Makes a call at once.
    ///
    /// # Errors
    /// As [`run`](Self::run); and a call that is not said in full (no fold, no counts).
    ///
    /// # Safety
    /// Each span that has a meaning at this rank must be valid memory of its elements, for reads as an input and for reads
    /// and writes as an output, which nobody else touches before this returns; and an output may not overlap an input.
    /// Values that the elements' type does not have are left as they came.
    pub unsafe fn run_raw(&self, call: &RawCall, input: Option<Span>, output: Option<Span>) -> Result<()> {
        if call.collective() == Collective::Barrier {
            return self.barrier_as(call.algorithm.as_deref());
        }
        // SAFETY: the caller's promise, for as long as this call
        let (input, output) = unsafe { (self.given(call, input)?, self.given(call, output)?) };
        self.between(call, input, output)
    }

    /// Starts a call that goes on in this process's calls.
    ///
    /// # Errors
    /// As [`run_raw`](Self::run_raw).
    ///
    /// # Safety
    /// As [`run_raw`](Self::run_raw), until the request is done or dropped.
    pub unsafe fn start_raw(
        &self,
        call: &RawCall,
        input: Option<Span>,
        output: Option<Span>,
    ) -> Result<RawRequest> {
        // SAFETY: the caller's promise
        let mut request = unsafe { self.in_background_raw(call, input, output, false)? };
        request.start()?;
        Ok(request)
    }

    /// Prepares a call that is then started many times.
    ///
    /// # Errors
    /// As [`run_raw`](Self::run_raw).
    ///
    /// # Safety
    /// As [`run_raw`](Self::run_raw), from every start until it is done; and the memory must stay mapped until the request
    /// is dropped.
    pub unsafe fn prepare_raw(
        &self,
        call: &RawCall,
        input: Option<Span>,
        output: Option<Span>,
    ) -> Result<RawRequest> {
        // SAFETY: the caller's promise
        unsafe { self.in_background_raw(call, input, output, true) }
    }

    /// # Safety
    /// As [`prepare_raw`](Self::prepare_raw).
    unsafe fn in_background_raw(
        &self,
        call: &RawCall,
        input: Option<Span>,
        output: Option<Span>,
        prepared: bool,
    ) -> Result<RawRequest> {
        if call.collective() == Collective::Barrier {
            return Ok(RawRequest {
                held: Held::new(&self.world, self.barrier_task(call.algorithm.as_deref())?, None)?,
            });
        }
        // SAFETY: the caller's promise, until the request is dropped
        let (input, output) = unsafe { (self.given(call, input)?, self.given(call, output)?) };
        Ok(RawRequest { held: self.between_later(call, input, output, prepared)? })
    }

    /// # Safety
    /// The span must be valid memory as long as what is given is in use.
    unsafe fn given(&self, call: &RawCall, span: Option<Span>) -> Result<Option<Given>> {
        let Some(Span { start, elements, places }) = span else { return Ok(None) };
        let bytes = call.bytes(elements)?;
        let source = match NonNull::new(start) {
            _ if bytes == 0 => Source::Unregistered(Memory::nothing()),
            Some(start) => match self.world.raw_window(start.as_ptr() as usize, bytes) {
                Some(region) => Source::Registered(region),
                // SAFETY: the caller's promise
                None => Source::Unregistered(unsafe { Memory::lend(start, bytes) }),
            },
            None => {
                return Err(
                    call.bad(format!("no memory for {bytes} bytes"), "give an address that is not null")
                );
            }
        };
        Ok(Some(Given { source, elements, places }))
    }

    /// A window of so many zeroed bytes whose address may be given in a [`Span`]: then nothing is registered for
    /// the call, and ranks of one node reach it directly. Local: no other rank need do the same.
    pub fn raw_window(&self, bytes: usize) -> Result<RawWindow> {
        let region = self.world.engine().window(bytes)?;
        self.world.add_raw_window(&region);
        let memory = region.memory;
        Ok(RawWindow { memory, world: Arc::clone(&self.world) })
    }
}

/// Memory from the library, for callers that know addresses only.
pub struct RawWindow {
    memory: Memory,
    world: Arc<World>,
}

impl RawWindow {
    /// The first byte; page-aligned.
    pub fn start(&self) -> *mut u8 {
        self.memory.address().as_ptr()
    }

    /// How many bytes.
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.memory.is_empty()
    }
}

impl Drop for RawWindow {
    fn drop(&mut self) {
        self.world.drop_raw_window(self.start() as usize);
    }
}

/// A call on a caller's memory, in the background. It makes progress in this process's calls, and by itself
/// with [`Progress::Thread`](super::settings::Progress::Thread).
///
/// To drop it waits until it is done, as its memory is the caller's.
#[must_use = "its memory is in use until it is waited for"]
pub struct RawRequest {
    held: Held,
}

impl RawRequest {
    /// Starts it (again): one that was prepared, and is not running.
    pub fn start(&mut self) -> Result<()> {
        self.held.start()
    }

    /// Makes progress, and says whether the call is done. Never waits.
    pub fn test(&mut self) -> Result<bool> {
        self.held.test()
    }

    /// Waits until the call is done.
    pub fn wait(&mut self) -> Result<()> {
        self.held.wait()
    }
}

impl Drop for RawRequest {
    fn drop(&mut self) {
        self.held.wait_at_the_end();
    }
}
