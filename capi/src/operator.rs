//! Operators: the library's by number, and the caller's by a function.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use circulant::fold::{self, AnyFold, Fold, Op};

use crate::element::{self, Element, TypeNumber};
use crate::handle::{self, Object, Table};
use crate::memory;
use crate::status::{CIRCULANT_ERR_TYPE, Failure, Result, guard, outside};

/// What an operator's handle points to: nothing that anybody can see.
pub enum OperatorObject {}

/// An operator: one of the library's, such as CIRCULANT_SUM, or of circulant_op_create.
pub type OperatorHandle = *mut OperatorObject;

/// Combines `count` elements: `result[i] = left[i] o right[i]`.
///
/// `result` is `left` or `right` or apart from both, so element i may be written once both of its
/// arguments have been read. Pointers are aligned as a type of that size can be, to 64 bytes at most. An
/// operator must be associative, return 0, or another number for an error, which this rank
/// then gets as CIRCULANT_ERR_OPERATOR, and all others as CIRCULANT_ERR_ABORTED; it must not throw, and calls of this library from it are refused
/// (CIRCULANT_ERR_ARGUMENT). It may be called on any thread that is in a call of this library, at one time on
/// several.
pub type OperatorFunction = Option<
    unsafe extern "C" fn(
        left: *const c_void,
        right: *const c_void,
        result: *mut c_void,
        count: usize,
        r#type: TypeNumber,
        context: *mut c_void,
    ) -> c_int,
>;

type Function =
    unsafe extern "C" fn(*const c_void, *const c_void, *mut c_void, usize, TypeNumber, *mut c_void) -> c_int;

/// An operator of the caller's.
#[derive(Clone, Copy)]
pub struct Users {
    function: Function,
    commutes: bool,
    context: *mut c_void,
}

// SAFETY: - the context is handed to the caller's function and otherwise not touched
//         - that it may be used on several threads is what circulant_op_create asks for
unsafe impl Send for Users {}
// SAFETY: as for Send
unsafe impl Sync for Users {}

static OPERATORS: Table<Users> = Table::new();

impl Object for Users {
    type Opaque = OperatorObject;
    const KIND: usize = 4;

    fn table() -> &'static Table<Users> {
        &OPERATORS
    }
}

/// The operator of a handle on elements of a type, as the library takes it.
pub fn fold(operator: OperatorHandle, element: Element) -> Result<AnyFold> {
    match built_in(operator) {
        Some((op, name)) => fold::builtin(op, element.known).map_err(|_| {
            let cure = format!("it fits {}", element::that_fit(op));
            Failure::new(CIRCULANT_ERR_TYPE, format!("{name} does not fit {element}"), cure)
        }),
        None => {
            let users = handle::get::<Users>(operator)?;
            Ok(Arc::new(Typed { users: *users, element }).into())
        }
    }
}

/// As the header names them, in the order of [`Op::ALL`].
const NAMES: [&str; Op::ALL.len()] = [
    "CIRCULANT_SUM",
    "CIRCULANT_PRODUCT",
    "CIRCULANT_MIN",
    "CIRCULANT_MAX",
    "CIRCULANT_LOGICAL_AND",
    "CIRCULANT_LOGICAL_OR",
    "CIRCULANT_LOGICAL_XOR",
    "CIRCULANT_BIT_AND",
    "CIRCULANT_BIT_OR",
    "CIRCULANT_BIT_XOR",
    "CIRCULANT_MIN_PLACE",
    "CIRCULANT_MAX_PLACE",
];

fn built_in(operator: OperatorHandle) -> Option<(Op, &'static str)> {
    let mut known = Op::ALL.iter().copied().zip(NAMES);
    known.find(|(op, _)| usize::from(op.number()) == operator.addr())
}

/// The caller's operator on elements of one type.
struct Typed {
    users: Users,
    element: Element,
}

impl Fold for Typed {
    fn unit(&self) -> usize {
        self.element.unit
    }

    fn numbers(&self) -> (u8, u8) {
        let op = if self.users.commutes { Op::Commutative } else { Op::Ordered };
        (op.number(), self.element.known.number())
    }

    fn commutes(&self) -> bool {
        self.users.commutes
    }

    fn fold(&self, mine: &mut [u8], theirs: &[u8], before: bool) -> std::result::Result<(), String> {
        if mine.len() != theirs.len() || !mine.len().is_multiple_of(self.element.unit) {
            let (mine, theirs, unit) = (mine.len(), theirs.len(), self.element.unit);
            return Err(format!("of {mine} and {theirs} bytes, in elements of {unit} bytes"));
        }
        if self.is_aligned(mine.as_ptr()) && self.is_aligned(theirs.as_ptr()) {
            return self.call(mine, theirs, before);
        }
        let step = (STEP / self.element.unit).max(1) * self.element.unit;
        let (mut left, mut right) = (Aligned::new(step.min(mine.len())), Aligned::new(step.min(mine.len())));
        for (mine, theirs) in mine.chunks_mut(step).zip(theirs.chunks(step)) {
            let (left, right) = (&mut left.bytes()[..mine.len()], &mut right.bytes()[..mine.len()]);
            left.copy_from_slice(mine);
            right.copy_from_slice(theirs);
            self.call(left, right, before)?;
            mine.copy_from_slice(left);
        }
        Ok(())
    }
}

/// Bytes that are copied and folded at a time, where they are not aligned: they stay in the cache.
const STEP: usize = 16 << 10;
/// No type is aligned to more.
const ALIGNMENT: usize = 64;

impl Typed {
    /// Whether any type of this size could begin there: an alignment divides a size.
    fn is_aligned(&self, start: *const u8) -> bool {
        let alignment = (1 << self.element.unit.trailing_zeros()).min(ALIGNMENT);
        start.addr().is_multiple_of(alignment)
    }

    fn call(&self, mine: &mut [u8], theirs: &[u8], before: bool) -> std::result::Result<(), String> {
        let (count, result) = (mine.len() / self.element.unit, mine.as_mut_ptr());
        let (left, right) = if before {
            (theirs.as_ptr(), result.cast_const())
        } else {
            (result.cast_const(), theirs.as_ptr())
        };
        // SAFETY: - both have `count` elements (checked in `fold`), and are apart: one is borrowed mutably
        //         - what the function does with them is its author's promise (OperatorFunction)
        let code = outside(|| unsafe {
            (self.users.function)(
                left.cast(),
                right.cast(),
                result.cast(),
                count,
                self.element.number,
                self.users.context,
            )
        });
        if code == 0 { Ok(()) } else { Err(format!("it returned {code}")) }
    }
}

/// Bytes at an address that suits every type.
struct Aligned(Vec<Line>);

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; ALIGNMENT]);

impl Aligned {
    fn new(bytes: usize) -> Aligned {
        Aligned(vec![Line([0; ALIGNMENT]); bytes.div_ceil(ALIGNMENT)])
    }

    fn bytes(&mut self) -> &mut [u8] {
        let (start, bytes) = (self.0.as_mut_ptr().cast(), size_of_val(&*self.0));
        // SAFETY: lines are bytes without padding, and borrowed mutably as long as these
        unsafe { std::slice::from_raw_parts_mut(start, bytes) }
    }
}

/// Makes an operator of a function; `context` is handed to it at each call, and may be null.
///
/// Local, and quick. `commutes` is 0 for an operator for which a o b may differ from b o a: elements are
/// then combined in the order of the ranks, which takes slower algorithms. All ranks of a call must use
/// operators that do the same. It serves every type.
///
/// Errors: CIRCULANT_ERR_NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_op_create(
    function: OperatorFunction,
    commutes: c_int,
    context: *mut c_void,
    op: *mut OperatorHandle,
) -> c_int {
    guard("circulant_op_create", || {
        memory::check(op, "op")?;
        let function =
            function.ok_or_else(|| Failure::null("function", "give the function that combines"))?;
        let made = handle::insert(Users { function, commutes: commutes != 0, context });
        // SAFETY: the caller's `op` may be written; it is not null (checked above)
        unsafe { memory::give(op, "op", made) }
    })
}

/// Gives an operator up, and sets `*op` to null. Calls that it was given to keep what they need of it, but
/// for its context, which must last as long as they do.
///
/// Errors: CIRCULANT_ERR_NULL, CIRCULANT_ERR_HANDLE (also of the library's own operators).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn circulant_op_free(op: *mut OperatorHandle) -> c_int {
    // SAFETY: the caller's `op` may be read and written, where it is not null
    guard("circulant_op_free", || unsafe { memory::take(op, "op", handle::remove::<Users>) }.map(drop))
}
