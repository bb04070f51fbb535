//! Threads of the library's own, and of libraries that it uses, which leave the program's signals to the program.

use std::io;
use std::mem::MaybeUninit;
use std::thread::{Builder, JoinHandle};

/// What a thread gets for what it has done itself: blocked or not, it would end the process, and without its handler.
const FAULTS: [i32; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGABRT];

/// Starts a thread to which no signal of the program's is delivered: handlers run on the program's threads, and what these
/// block stays blocked for the process, as a program wants it that takes its signals by `sigwait` or by a descriptor.
///
/// # Errors
/// The system has no thread to give.
pub fn start<T: Send + 'static>(
    name: String,
    run: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    quietly(|| Builder::new().name(name).spawn(run))
}

/// The same for whatever threads are started by `act`, which is not interrupted by signals meanwhile.
pub fn quietly<R>(act: impl FnOnce() -> R) -> R {
    // A thread begins with its maker's mask.
    let before = change(libc::SIG_BLOCK, &all_but_faults());
    let done = act();
    if let Some(before) = before {
        change(libc::SIG_SETMASK, &before);
    }
    done
}

/// Has this thread take a signal that it may have been started with blocked.
pub fn hear(signal: i32) {
    let mut one = MaybeUninit::uninit();
    // SAFETY: - the first call fills the set
    //         - the second one changes it, where there is such a signal
    let one = unsafe {
        libc::sigemptyset(one.as_mut_ptr());
        let mut one = one.assume_init();
        libc::sigaddset(&mut one, signal);
        one
    };
    change(libc::SIG_UNBLOCK, &one);
}

fn all_but_faults() -> libc::sigset_t {
    let mut signals = MaybeUninit::uninit();
    // SAFETY: - the first call fills the set, and fails for no valid pointer
    //         - the others change one that is filled
    unsafe {
        libc::sigfillset(signals.as_mut_ptr());
        let mut signals = signals.assume_init();
        for fault in FAULTS {
            libc::sigdelset(&mut signals, fault);
        }
        signals
    }
}

/// Changes which signals this thread blocks; those that were blocked before, if that has worked.
fn change(how: i32, signals: &libc::sigset_t) -> Option<libc::sigset_t> {
    let mut before = MaybeUninit::uninit();
    // SAFETY: - the set that is read is the caller's, whole
    //         - the other one is filled where the call succeeds, and not looked at otherwise
    unsafe {
        let failed = libc::pthread_sigmask(how, signals, before.as_mut_ptr()) != 0;
        if failed { None } else { Some(before.assume_init()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether this thread blocks a signal.
    fn blocks(signal: i32) -> bool {
        let mut none = MaybeUninit::uninit();
        // SAFETY: the first call fills the set; the other one reads one that is filled
        unsafe {
            libc::sigemptyset(none.as_mut_ptr());
            let blocked = change(libc::SIG_BLOCK, &none.assume_init()).unwrap();
            libc::sigismember(&blocked, signal) == 1
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "it has no signal masks")]
    fn a_thread_of_the_library_leaves_signals_alone_and_its_maker_takes_them_as_before() {
        let look = || [libc::SIGUSR1, libc::SIGTERM, libc::SIGINT, libc::SIGSEGV].map(blocks);
        let before = look();
        let there = start("quiet".to_owned(), look).unwrap().join().unwrap();
        assert_eq!(there, [true, true, true, false]);
        assert_eq!(look(), before);
        let heard = start("hearing".to_owned(), || {
            hear(libc::SIGUSR1);
            [libc::SIGUSR1, libc::SIGUSR2].map(blocks)
        });
        assert_eq!(heard.unwrap().join().unwrap(), [false, true]);
    }
}
