//! MPI's types: how many bytes a value has, whether values lie side by side, and what they are in a reduction.
//!
//! Types that come with MPI are known by their names, which all libraries give alike, and are looked up once, before
//! the program gives them others (`names`): their handles are never used again for another. Of a type that the program
//! has made nothing is kept.

use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use circulant::boot::mpi::abi::{Handle, OPERATORS};
use circulant::fold::{self, AnyFold, Op, Type};

use super::own;
use super::pairs;

/// A type, as far as moving its values goes.
#[derive(Clone, Copy)]
pub struct Datatype {
    pub handle: Handle,
    /// Bytes of a value, without gaps.
    pub size: usize,
    /// From one value to the next.
    pub extent: isize,
    /// What it is, if it comes with MPI.
    pub predefined: Option<&'static Predefined>,
}

impl Datatype {
    /// Whether its values are plain bytes, one after the other, in the order in which MPI sends them.
    pub fn is_plain(&self) -> bool {
        self.predefined.is_some_and(|known| known.plain)
    }

    /// By its handle; `None` for one that the library knows nothing of, which it says itself, on the world's communicator.
    pub fn of(handle: Handle) -> Option<Datatype> {
        match known(handle) {
            Some(known) => Some(known.of(handle)),
            None => look_up(handle),
        }
    }
}

/// A type that comes with MPI.
pub struct Predefined {
    size: usize,
    extent: isize,
    plain: bool,
    class: Option<Class>,
    name: String,
    /// By operator, made when they are first asked for.
    folds: [OnceLock<Option<AnyFold>>; OPERATORS.len()],
}

impl Predefined {
    fn of(&'static self, handle: Handle) -> Datatype {
        Datatype { handle, size: self.size, extent: self.extent, predefined: Some(self) }
    }

    /// The operator of this number (in [`OPERATORS`]) on values of this type.
    pub fn fold(&self, operator: usize) -> Option<&AnyFold> {
        self.folds[operator].get_or_init(|| self.make(OPERATIONS[operator])).as_ref()
    }

    fn make(&self, op: Op) -> Option<AnyFold> {
        let class = self.class?;
        if class == Class::Pair {
            return pairs::fold(&self.name, op, self.extent as usize);
        }
        let fold = class.takes(op).then(|| fold::builtin(op, class.element(self.size)?).ok()).flatten()?;
        (fold.unit() as isize == self.extent).then_some(fold)
    }
}

/// As [`OPERATORS`].
const OPERATIONS: [Op; OPERATORS.len()] = [
    Op::Sum,
    Op::Product,
    Op::Min,
    Op::Max,
    Op::LogicalAnd,
    Op::LogicalOr,
    Op::LogicalXor,
    Op::BitAnd,
    Op::BitOr,
    Op::BitXor,
    Op::MinLoc,
    Op::MaxLoc,
];

/// What MPI lets be done with values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Signed,
    Unsigned,
    Real,
    Complex,
    Truth,
    Bytes,
    Pair,
}

impl Class {
    /// That of a type that reductions know; the size says which it is.
    fn named(name: &str) -> Option<Class> {
        Some(match name.strip_prefix("MPI_")? {
            "SIGNED_CHAR" | "SHORT" | "INT" | "LONG" | "LONG_LONG" | "LONG_LONG_INT" => Class::Signed,
            "INT8_T" | "INT16_T" | "INT32_T" | "INT64_T" | "AINT" | "OFFSET" | "COUNT" => Class::Signed,
            "INTEGER" | "INTEGER1" | "INTEGER2" | "INTEGER4" | "INTEGER8" | "INTEGER16" => Class::Signed,
            "UNSIGNED_CHAR" | "UNSIGNED_SHORT" | "UNSIGNED" | "UNSIGNED_INT" => Class::Unsigned,
            "UNSIGNED_LONG" | "UNSIGNED_LONG_LONG" | "UNSIGNED_LONG_LONG_INT" => Class::Unsigned,
            "UINT8_T" | "UINT16_T" | "UINT32_T" | "UINT64_T" => Class::Unsigned,
            "FLOAT" | "DOUBLE" | "REAL" | "REAL4" | "REAL8" | "DOUBLE_PRECISION" => Class::Real,
            "C_COMPLEX" | "C_FLOAT_COMPLEX" | "C_DOUBLE_COMPLEX" | "CXX_COMPLEX" => Class::Complex,
            "CXX_FLOAT_COMPLEX" | "CXX_DOUBLE_COMPLEX" => Class::Complex,
            "COMPLEX" | "DOUBLE_COMPLEX" | "COMPLEX8" | "COMPLEX16" => Class::Complex,
            "C_BOOL" | "CXX_BOOL" | "BOOL" | "LOGICAL" => Class::Truth,
            "LOGICAL1" | "LOGICAL2" | "LOGICAL4" | "LOGICAL8" => Class::Truth,
            "BYTE" => Class::Bytes,
            "FLOAT_INT" | "DOUBLE_INT" | "LONG_INT" | "SHORT_INT" | "2INT" => Class::Pair,
            "2REAL" | "2DOUBLE_PRECISION" | "2INTEGER" => Class::Pair,
            _ => return None,
        })
    }

    fn takes(self, op: Op) -> bool {
        match self {
            Class::Truth => matches!(op, Op::LogicalAnd | Op::LogicalOr | Op::LogicalXor),
            Class::Bytes => matches!(op, Op::BitAnd | Op::BitOr | Op::BitXor),
            _ => true,
        }
    }

    fn element(self, size: usize) -> Option<Type> {
        Some(match (self, size) {
            (Class::Signed | Class::Truth, 2) => Type::I16,
            (Class::Signed | Class::Truth, 4) => Type::I32,
            (Class::Signed | Class::Truth, 8) => Type::I64,
            (Class::Signed, 1) => Type::I8,
            (Class::Signed, 16) => Type::I128,
            (Class::Unsigned | Class::Truth | Class::Bytes, 1) => Type::U8,
            (Class::Unsigned, 2) => Type::U16,
            (Class::Unsigned, 4) => Type::U32,
            (Class::Unsigned, 8) => Type::U64,
            (Class::Real, 4) => Type::F32,
            (Class::Real, 8) => Type::F64,
            (Class::Complex, 8) => Type::ComplexF32,
            (Class::Complex, 16) => Type::ComplexF64,
            _ => return None,
        })
    }
}

/// A place for a type that comes with MPI; there are some hundred of them.
struct Place {
    handle: AtomicUsize,
    known: OnceLock<Predefined>,
}

const PLACES: usize = 512;
/// More than these are looked up at each call.
const MOST: usize = 384;
static KNOWN: [Place; PLACES] =
    [const { Place { handle: AtomicUsize::new(0), known: OnceLock::new() } }; PLACES];
/// How many there are; held while one more is put down.
static COUNT: Mutex<usize> = Mutex::new(0);

/// The places where a handle may be, in order.
fn places(handle: Handle) -> impl Iterator<Item = &'static Place> {
    let start = handle.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - PLACES.ilog2());
    (start..start + PLACES).map(|at| &KNOWN[at % PLACES])
}

fn known(handle: Handle) -> Option<&'static Predefined> {
    for place in places(handle) {
        match place.handle.load(Ordering::Acquire) {
            0 => return None,
            there if there == handle => return place.known.get(),
            _ => {}
        }
    }
    None
}

#[cold]
fn look_up(handle: Handle) -> Option<Datatype> {
    let (size, extent, least) = measures(handle)?;
    if !is_named(handle)? {
        return Some(Datatype { handle, size, extent, predefined: None });
    }
    let name = name(handle)?;
    let class = Class::named(&name);
    let plain = least == 0 && extent == size as isize;
    let folds = [const { OnceLock::new() }; OPERATORS.len()];
    let predefined = keep(handle, Predefined { size, extent, plain, class, name, folds });
    Some(Datatype { handle, size, extent, predefined })
}

fn keep(handle: Handle, predefined: Predefined) -> Option<&'static Predefined> {
    let mut count = COUNT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = known(handle) {
        return Some(known);
    }
    let free = places(handle).find(|place| place.handle.load(Ordering::Relaxed) == 0);
    let place = free.filter(|_| *count < MOST)?;
    *count += 1;
    let known = place.known.get_or_init(|| predefined);
    place.handle.store(handle, Ordering::Release);
    Some(known)
}

/// Size, extent and lower bound.
fn measures(handle: Handle) -> Option<(usize, isize, isize)> {
    let (size, mut least, mut extent) = (size(handle)?, 0, 0);
    // SAFETY: - the handle is the program's, who gave it for a type
    //         - the numbers are of the types that MPI writes
    let code = unsafe { own::type_extent(handle, &mut least, &mut extent) };
    (code == 0).then_some((size, extent, least))
}

/// Bytes of a value. One rank may have a single value of more bytes than an int counts, where others have the same in
/// smaller ones; so the number is asked for that is wide enough, where the library is of MPI 3 or later.
fn size(handle: Handle) -> Option<usize> {
    let (mut wide, mut usual) = (0, 0);
    // SAFETY: - as in `measures`
    if unsafe { own::type_size_wide(handle, &mut wide) } != 0 {
        // SAFETY: - as in `measures`
        let code = unsafe { own::type_size(handle, &mut usual) };
        wide = (code == 0).then_some(i64::from(usual))?;
    }
    wide.try_into().ok()
}

fn is_named(handle: Handle) -> Option<bool> {
    let mut numbers: [c_int; 4] = [0; 4];
    let [integers, addresses, types, combiner] = &mut numbers;
    // SAFETY: - as in `measures`
    let code = unsafe { own::type_envelope(handle, integers, addresses, types, combiner) };
    (code == 0).then_some(numbers[3] == own::abi()?.combiner_named)
}

fn name(handle: Handle) -> Option<String> {
    // No library has longer names (MPI_MAX_OBJECT_NAME is 64 to 256).
    let (mut name, mut length) = ([0u8; 512], 0);
    // SAFETY: - as in `measures`
    //         - `name` is longer than any name
    let code = unsafe { own::type_name(handle, name.as_mut_ptr().cast::<c_char>(), &mut length) };
    let name = name.get(..length as usize)?;
    (code == 0).then(|| String::from_utf8_lossy(name).into_owned())
}
