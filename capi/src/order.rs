//! From C's arguments to a call of the library: one description for all three tenses, checked as it is made.

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::slice;
use std::sync::Arc;

use circulant::collective::Collective;
use circulant::comm::call::RawCall;
use circulant::comm::raw::{RawRequest, Span};

use crate::communicator::{self, Comm, CommunicatorHandle};
use crate::element::{Element, TypeNumber};
use crate::operator::{self, OperatorHandle};
use crate::status::{CIRCULANT_ERR_ARGUMENT, CIRCULANT_ERR_NULL, CIRCULANT_ERR_OVERFLOW, Failure, Result};
use crate::window::{self, Win};

/// The address that says CIRCULANT_IN_PLACE.
const IN_PLACE: usize = 1;

/// A collective call with its memory.
pub struct Order {
    pub comm: Arc<Comm>,
    element: Element,
    call: RawCall,
    input: Option<Side>,
    output: Option<Side>,
}

/// A buffer, and which bytes it has.
struct Side {
    span: Span,
    /// From its first to its last.
    all: Range<usize>,
    /// The parts that have any, from the lowest on, where they are not one after the other.
    placed: Vec<Range<usize>>,
}

/// How many elements a buffer has.
#[derive(Clone, Copy)]
pub enum Extent<'a> {
    Elements(usize),
    /// Parts for each rank: their lengths, and where they begin, if not one after the other.
    Parts(&'a [usize], Option<&'a [usize]>),
}

/// Where a buffer may be given as CIRCULANT_IN_PLACE.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum InPlace {
    Allowed,
    Refused,
}

impl InPlace {
    /// At the root only.
    pub fn at(is_root: bool) -> InPlace {
        if is_root { InPlace::Allowed } else { InPlace::Refused }
    }
}

/// Whether a buffer is given as CIRCULANT_IN_PLACE.
pub fn is_in_place(start: *const c_void) -> bool {
    start.addr() == IN_PLACE
}

impl Order {
    pub fn new(collective: Collective, r#type: TypeNumber, comm: CommunicatorHandle) -> Result<Order> {
        let comm = communicator::get(comm)?;
        let element = Element::numbered(r#type)?;
        let call = RawCall::new(collective, element.unit);
        Ok(Order { comm, element, call, input: None, output: None })
    }

    pub fn size(&self) -> usize {
        self.comm.communicator.size() as usize
    }

    pub fn rank(&self) -> usize {
        self.comm.communicator.rank() as usize
    }

    /// Sets the root, and says whether this rank is it.
    pub fn root(self, root: c_int) -> Result<(Order, bool)> {
        let root = self.comm.rank("root", root)?;
        let is_here = self.comm.communicator.rank() == root;
        Ok((Order { call: self.call.root(root), ..self }, is_here))
    }

    pub fn fold(self, op: OperatorHandle) -> Result<Order> {
        let fold = operator::fold(op, self.element)?;
        Ok(Order { call: self.call.fold(fold), ..self })
    }

    /// The bytes of all parts together fit an address space, also where this rank has one of them only.
    pub fn counts(self, counts: &[usize]) -> Result<Order> {
        self.bytes("counts", &Extent::Parts(counts, None))?;
        Ok(Order { call: self.call.counts(counts), ..self })
    }

    pub fn pairs(self, sent: &[usize], received: &[usize]) -> Result<Order> {
        self.fits_twice("counts", &Extent::Parts(sent, None), &Extent::Parts(received, None))?;
        Ok(Order { call: self.call.pairs(sent, received), ..self })
    }

    /// What goes out and what comes in fit an address space together, as they are one buffer to the library.
    pub fn fits_twice(&self, name: &str, sent: &Extent, received: &Extent) -> Result<()> {
        let both = self.bytes(name, sent)?.saturating_add(self.bytes(name, received)?);
        if isize::try_from(both).is_ok() { Ok(()) } else { Err(too_large(name)) }
    }

    /// Equal parts for all ranks.
    pub fn parts(&self, count: usize) -> Result<Extent<'static>> {
        count.checked_mul(self.size()).map(Extent::Elements).ok_or_else(|| too_large("count"))
    }

    /// # Safety
    /// Unless it is refused, null or in place, `start` is memory of this extent, valid for reads until the
    /// call is done.
    pub unsafe fn input(self, start: *const c_void, extent: Extent, in_place: InPlace) -> Result<Order> {
        let input = self.side("input", start.cast_mut(), extent, in_place)?;
        Ok(Order { input, ..self })
    }

    /// # Safety
    /// As [`input`](Self::input), and for writes.
    pub unsafe fn output(self, start: *mut c_void, extent: Extent, in_place: InPlace) -> Result<Order> {
        let output = self.side("output", start, extent, in_place)?;
        Ok(Order { output, ..self })
    }

    /// What a broadcast sends at one rank, and the others receive.
    ///
    /// # Safety
    /// As [`output`](Self::output).
    pub unsafe fn buffer(self, start: *mut c_void, extent: Extent) -> Result<Order> {
        let output = self.side("buffer", start, extent, InPlace::Refused)?;
        Ok(Order { output, ..self })
    }

    /// A vector that is combined, and this rank's part of it, which comes to the front of the vector in place.
    ///
    /// # Safety
    /// As [`input`](Self::input) and [`output`](Self::output).
    pub unsafe fn reduced(
        self,
        input: *const c_void,
        output: *mut c_void,
        all: Extent,
        own: Extent,
    ) -> Result<Order> {
        let result = if is_in_place(input) { all } else { own };
        // SAFETY: the caller's promise
        unsafe { self.input(input, all, InPlace::Allowed)?.output(output, result, InPlace::Refused) }
    }

    /// The bytes from the start of the memory to the extent's end.
    fn bytes(&self, name: &str, extent: &Extent) -> Result<usize> {
        let bytes = extent.end(name)?.checked_mul(self.element.unit);
        bytes.filter(|&bytes| isize::try_from(bytes).is_ok()).ok_or_else(|| too_large(name))
    }

    fn side(
        &self,
        name: &str,
        start: *mut c_void,
        extent: Extent,
        in_place: InPlace,
    ) -> Result<Option<Side>> {
        let bytes = self.bytes(name, &extent)?;
        if is_in_place(start) {
            return match in_place {
                InPlace::Allowed => Ok(None),
                InPlace::Refused => Err(Failure::new(
                    CIRCULANT_ERR_ARGUMENT,
                    format!("CIRCULANT_IN_PLACE as `{name}` at rank {}", self.rank()),
                    "give memory, or look up where this call works in place",
                )),
            };
        }
        if bytes > 0 && start.is_null() {
            let what = format!("`{name}` is null, for {bytes} bytes");
            return Err(Failure::new(CIRCULANT_ERR_NULL, what, "give memory of that size"));
        }
        let from = start.addr();
        let all = from..from.checked_add(bytes).ok_or_else(|| too_large(name))?;
        let span = extent.at(start.cast());
        let placed = if span.places.is_some() { extent.bytes(from, self.element.unit) } else { Vec::new() };
        Ok(Some(Side { span, all, placed }))
    }

    /// What is written is apart from what is read, and from what else is written.
    fn check_apart(&self) -> Result<()> {
        let Some(output) = &self.output else { return Ok(()) };
        if output.parts().windows(2).any(|two| two[1].start < two[0].end) {
            return Err(Failure::new(
                CIRCULANT_ERR_ARGUMENT,
                "parts of `output` overlap",
                "give counts and displacements of parts that are apart",
            ));
        }
        match &self.input {
            Some(input) if input.overlaps(output) => Err(Failure::new(
                CIRCULANT_ERR_ARGUMENT,
                "`input` and `output` overlap",
                "give memory that is apart, or CIRCULANT_IN_PLACE",
            )),
            _ => Ok(()),
        }
    }

    /// Makes the call, from beginning to end.
    pub fn run(self) -> Result<()> {
        self.check_apart()?;
        let call = self.comm.as_wished(self.call);
        let (input, output) = (self.input.map(Side::span), self.output.map(Side::span));
        // SAFETY: - the spans are valid for this call (`input`, `output`)
        //         - they do not overlap (check_apart)
        unsafe { self.comm.communicator.run_raw(&call, input, output)? };
        Ok(())
    }

    /// Starts the call.
    pub fn start(self) -> Result<RawRequest> {
        self.check_apart()?;
        let call = self.comm.as_wished(self.call);
        let (input, output) = (self.input.map(Side::span), self.output.map(Side::span));
        // SAFETY: as in `run`, until the request is done
        Ok(unsafe { self.comm.communicator.start_raw(&call, input, output)? })
    }

    /// Prepares the call.
    pub fn prepare(self) -> Result<RawRequest> {
        self.check_apart()?;
        let call = self.comm.as_wished(self.call);
        let (input, output) = (self.input.map(Side::span), self.output.map(Side::span));
        // SAFETY: as in `run`, until the request is freed
        Ok(unsafe { self.comm.communicator.prepare_raw(&call, input, output)? })
    }

    /// The windows that its memory is in, which must outlive it.
    pub fn windows(&self) -> Vec<Arc<Win>> {
        let sides = self.input.iter().chain(&self.output).map(|side| side.all.clone());
        window::holding(&sides.collect::<Vec<_>>())
    }
}

impl Side {
    fn span(self) -> Span {
        self.span
    }

    fn parts(&self) -> &[Range<usize>] {
        if self.placed.is_empty() { slice::from_ref(&self.all) } else { &self.placed }
    }

    /// Parts of the one may lie between parts of the other.
    fn overlaps(&self, other: &Side) -> bool {
        let are_apart = |one: &Range<usize>, two: &Range<usize>| one.end <= two.start || two.end <= one.start;
        if self.all.is_empty() || other.all.is_empty() || are_apart(&self.all, &other.all) {
            return false;
        }
        // The parts of both are in the order of their beginnings: who ends before the other's next has met all it can.
        let (mut ours, mut theirs) = (self.parts(), other.parts());
        while let (Some((one, more)), Some((two, others))) = (ours.split_first(), theirs.split_first()) {
            if one.end <= two.start {
                ours = more;
            } else if two.end <= one.start {
                theirs = others;
            } else {
                return true;
            }
        }
        false
    }
}

/// Parts for each rank as C gives them: their start, their lengths, and where they begin or null.
pub struct Parts<S> {
    pub start: S,
    pub counts: *const usize,
    pub places: *const usize,
}

impl Extent<'_> {
    /// How many elements from the first to the end of the last.
    fn end(&self, name: &str) -> Result<usize> {
        match self {
            Extent::Elements(elements) => Some(*elements),
            Extent::Parts(counts, None) => {
                counts.iter().try_fold(0usize, |sum, &count| sum.checked_add(count))
            }
            Extent::Parts(counts, Some(places)) => counts
                .iter()
                .zip(*places)
                .filter(|(count, _)| **count > 0)
                .try_fold(0, |end, (count, place)| Some(place.checked_add(*count)?.max(end))),
        }
        .ok_or_else(|| too_large(name))
    }

    /// The bytes of parts that are placed and not empty, from the lowest on.
    fn bytes(&self, from: usize, unit: usize) -> Vec<Range<usize>> {
        let Extent::Parts(counts, Some(places)) = self else { return Vec::new() };
        let parts = counts.iter().zip(*places).filter(|(count, _)| **count > 0);
        let mut bytes: Vec<_> =
            parts.map(|(count, place)| from + place * unit..from + (place + count) * unit).collect();
        bytes.sort_unstable_by_key(|part| part.start);
        bytes
    }

    fn at(&self, start: *mut u8) -> Span {
        match self {
            Extent::Elements(elements) => Span::new(start, *elements),
            Extent::Parts(counts, None) => Span::new(start, counts.iter().sum()),
            Extent::Parts(counts, Some(places)) => Span::placed(start, counts, places),
        }
    }
}

fn too_large(name: &str) -> Failure {
    let what = format!("`{name}` would exceed all memory");
    Failure::new(CIRCULANT_ERR_OVERFLOW, what, "give smaller counts and displacements")
}

/// One word for each rank, such as counts.
///
/// # Safety
/// `words` is null, or has `len` words that nobody writes meanwhile.
pub unsafe fn words<'a>(words: *const usize, len: usize, name: &str) -> Result<&'a [usize]> {
    if words.is_null() {
        return Err(Failure::null(name, "give one for each rank"));
    }
    if !words.is_aligned() {
        let what = format!("`{name}` is {words:p}, no address of a size_t");
        return Err(Failure::new(CIRCULANT_ERR_ARGUMENT, what, "give an array of size_t"));
    }
    // SAFETY: - not null (checked), and aligned (checked)
    //         - so many words, and nobody writes them (the caller's promise)
    Ok(unsafe { std::slice::from_raw_parts(words, len) })
}

/// The same, where null stands for parts one after the other.
///
/// # Safety
/// As [`words`].
pub unsafe fn places_of<'a>(places: *const usize, len: usize) -> Result<Option<&'a [usize]>> {
    if places.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise
    unsafe { words(places, len, "places") }.map(Some)
}
