//! What loading a library does to this process's signals, undone.
//!
//! The initialisers of libpsm2 and libinfinipath, which Debian's libfabric brings along, take over the
//! signals of crashes: a crash would then write a file into the current folder and end with exit code 1,
//! and Rust's own word on an overflown stack would be lost.

use std::mem::MaybeUninit;

/// Those that they take over.
const TAKEN: [libc::c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGABRT, libc::SIGINT, libc::SIGTERM];

/// Does something, and puts the handlers of signals back as they were.
pub fn kept<T>(act: impl FnOnce() -> T) -> T {
    let before = TAKEN.map(|signal| (signal, handler(signal)));
    let done = act();
    for (signal, handler) in before {
        if let Some(handler) = handler {
            // SAFETY: - `handler` was in force for this signal before
            unsafe { libc::sigaction(signal, &handler, std::ptr::null_mut()) };
        }
    }
    done
}

fn handler(signal: libc::c_int) -> Option<libc::sigaction> {
    let mut handler = MaybeUninit::uninit();
    // SAFETY: - changes nothing, and writes a whole `sigaction` where it succeeds
    unsafe {
        (libc::sigaction(signal, std::ptr::null(), handler.as_mut_ptr()) == 0).then(|| handler.assume_init())
    }
}
