//! What every function returns: a code, and beside it a sentence that says what, who and how to mend it.
//!
//! No panic leaves from here: [`guard`] is the one door to C.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use circulant::error::Error;

/// Done.
pub const CIRCULANT_OK: c_int = 0;
/// Arguments that do not fit; nothing was sent, and the communicator is as good as before.
pub const CIRCULANT_ERR_ARGUMENT: c_int = 1;
/// A null pointer or null handle where there must be one; nothing was sent.
pub const CIRCULANT_ERR_NULL: c_int = 2;
/// A handle that was freed, of another kind, or never given out; nothing was sent.
pub const CIRCULANT_ERR_HANDLE: c_int = 3;
/// A number that is no type, or an operator that does not fit the type; nothing was sent.
pub const CIRCULANT_ERR_TYPE: c_int = 4;
/// Counts, sizes or displacements that exceed all memory; nothing was sent.
pub const CIRCULANT_ERR_OVERFLOW: c_int = 5;
/// The header that the program was compiled with does not go with the library that it runs with.
pub const CIRCULANT_ERR_VERSION: c_int = 6;
/// Ranks make calls that do not go together; the sentence names two of them.
pub const CIRCULANT_ERR_DISAGREEMENT: c_int = 7;
/// An operator of the caller's failed at this rank; the others get CIRCULANT_ERR_ABORTED, with its words.
pub const CIRCULANT_ERR_OPERATOR: c_int = 8;
/// A rank is lost.
pub const CIRCULANT_ERR_LOST: c_int = 9;
/// The deadline of CIRCULANT_TIMEOUT has passed.
pub const CIRCULANT_ERR_STALLED: c_int = 10;
/// Another rank found an error and told the others.
pub const CIRCULANT_ERR_ABORTED: c_int = 11;
/// The ranks did not find each other.
pub const CIRCULANT_ERR_BOOT: c_int = 12;
/// There is no transport, or it failed.
pub const CIRCULANT_ERR_TRANSPORT: c_int = 13;
/// A mistake of the library's own; please report it with the sentence.
pub const CIRCULANT_ERR_INTERNAL: c_int = 14;

/// The codes' names, in their order.
const NAMES: [&CStr; 15] = [
    c"CIRCULANT_OK",
    c"CIRCULANT_ERR_ARGUMENT",
    c"CIRCULANT_ERR_NULL",
    c"CIRCULANT_ERR_HANDLE",
    c"CIRCULANT_ERR_TYPE",
    c"CIRCULANT_ERR_OVERFLOW",
    c"CIRCULANT_ERR_VERSION",
    c"CIRCULANT_ERR_DISAGREEMENT",
    c"CIRCULANT_ERR_OPERATOR",
    c"CIRCULANT_ERR_LOST",
    c"CIRCULANT_ERR_STALLED",
    c"CIRCULANT_ERR_ABORTED",
    c"CIRCULANT_ERR_BOOT",
    c"CIRCULANT_ERR_TRANSPORT",
    c"CIRCULANT_ERR_INTERNAL",
];

/// Why a function fails.
#[derive(Debug, Clone)]
pub struct Failure {
    pub code: c_int,
    pub sentence: String,
    /// Whether the sentence says which call it is about.
    names_call: bool,
}

pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// Found at the border; the function's name is put before it.
    pub fn new(code: c_int, what: impl std::fmt::Display, cure: impl std::fmt::Display) -> Failure {
        Failure { code, sentence: format!("{what}; {cure}"), names_call: false }
    }

    pub fn null(name: &str, cure: &str) -> Failure {
        Failure::new(CIRCULANT_ERR_NULL, format!("`{name}` is null"), cure)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure { code: code(&error), sentence: error.to_string(), names_call: true }
    }
}

fn code(error: &Error) -> c_int {
    match error {
        Error::Argument { .. } => CIRCULANT_ERR_ARGUMENT,
        Error::Disagreement { .. } => CIRCULANT_ERR_DISAGREEMENT,
        Error::Operator { .. } => CIRCULANT_ERR_OPERATOR,
        Error::Lost { .. } => CIRCULANT_ERR_LOST,
        Error::Stalled(_) => CIRCULANT_ERR_STALLED,
        Error::Aborted { .. } => CIRCULANT_ERR_ABORTED,
        Error::Boot { .. } => CIRCULANT_ERR_BOOT,
        Error::NoTransport(_) | Error::Transport { .. } => CIRCULANT_ERR_TRANSPORT,
        _ => CIRCULANT_ERR_INTERNAL,
    }
}

/// Carries a function out: its result as a code, and its sentence kept for this thread. A panic becomes
/// an error, as C could not take it.
pub fn guard(call: &str, act: impl FnOnce() -> Result<()>) -> c_int {
    let act = || if IN_OPERATOR.get() { Err(in_operator()) } else { act() };
    // Nothing is left half-done where a panic shows: the library breaks its engine, the tables are whole.
    match catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| Err(panicked(&*panic))) {
        Ok(()) => CIRCULANT_OK,
        Err(failure) => {
            remember(call, &failure);
            failure.code
        }
    }
}

/// Runs an operator of the caller's. Who has the engine calls it, so a call from it would wait for itself: until
/// it returns, this thread's calls are refused.
pub fn outside<R>(operator: impl FnOnce() -> R) -> R {
    let before = IN_OPERATOR.replace(true);
    let result = operator();
    IN_OPERATOR.set(before);
    result
}

fn in_operator() -> Failure {
    let what = "a call from within an operator";
    Failure::new(CIRCULANT_ERR_ARGUMENT, what, "make it when the collective is done")
}

fn panicked(panic: &(dyn Any + Send)) -> Failure {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let what = format!("a panic: {}", text.unwrap_or("without a word"));
    Failure::new(CIRCULANT_ERR_INTERNAL, what, "please report it")
}

thread_local! {
    static IN_OPERATOR: Cell<bool> = const { Cell::new(false) };
    static LAST: RefCell<CString> = RefCell::default();
}

fn remember(call: &str, failure: &Failure) {
    let sentence = match failure.names_call {
        true => failure.sentence.clone(),
        false => format!("{call}: {}", failure.sentence),
    };
    let sentence = CString::new(sentence.replace('\0', " ")).unwrap_or_default();
    // A thread that ends has nobody left to read it.
    let _ = LAST.try_with(|last| last.replace(sentence));
}

/// The sentence of the last call that failed on this thread: what went wrong, at which rank, and what to
/// do about it. Empty where none has failed. Never null; good until the next call of this library on
/// this thread.
#[unsafe(no_mangle)]
pub extern "C" fn circulant_error_message() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// A code's name, such as "CIRCULANT_ERR_LOST"; never null, good for ever.
#[unsafe(no_mangle)]
pub extern "C" fn circulant_error_name(code: c_int) -> *const c_char {
    let name = usize::try_from(code).ok().and_then(|code| NAMES.get(code));
    name.copied().unwrap_or(c"no code of circulant's").as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> String {
        // SAFETY: the function promises a string that is good until this thread's next call
        unsafe { CStr::from_ptr(circulant_error_message()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_panic_becomes_a_code_and_a_sentence() {
        let code = guard("circulant_x", || panic!("out of cheese"));
        assert_eq!(code, CIRCULANT_ERR_INTERNAL);
        assert_eq!(message(), "circulant_x: a panic: out of cheese; please report it");
    }

    #[test]
    fn an_operator_may_not_call() {
        let code = outside(|| guard("circulant_x", || Ok(())));
        assert_eq!(code, CIRCULANT_ERR_ARGUMENT);
        assert_eq!(
            message(),
            "circulant_x: a call from within an operator; make it when the collective is done"
        );
        assert_eq!(guard("circulant_x", || Ok(())), CIRCULANT_OK);
    }

    #[test]
    fn sentences_belong_to_threads() {
        guard("circulant_x", || Err(Failure::null("output", "give memory")));
        assert_eq!(message(), "circulant_x: `output` is null; give memory");
        let other = std::thread::spawn(message).join().unwrap();
        assert_eq!(other, "");
    }

    #[test]
    fn what_the_library_says_is_not_named_twice() {
        let code = guard("circulant_x", || Err(Error::argument("reduce", "root 9", "take 0").into()));
        assert_eq!((code, message().as_str()), (CIRCULANT_ERR_ARGUMENT, "reduce: root 9; take 0"));
    }

    #[test]
    fn codes_have_names() {
        let name = |code| {
            // SAFETY: the function promises a string that is good for ever
            unsafe { CStr::from_ptr(circulant_error_name(code)) }.to_str().unwrap()
        };
        assert_eq!(name(CIRCULANT_ERR_TRANSPORT), "CIRCULANT_ERR_TRANSPORT");
        assert_eq!(name(CIRCULANT_ERR_INTERNAL), "CIRCULANT_ERR_INTERNAL");
        assert_eq!(name(-1), "no code of circulant's");
        assert_eq!(name(15), "no code of circulant's");
    }
}
