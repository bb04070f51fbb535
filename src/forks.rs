//! What the children that a process forks do not keep: some descriptors, and the right to make calls.
//!
//! A connection ends when the last descriptor of it is closed. One that a forked child has inherited keeps it open, and
//! would hide its parent's end from the other side as long as the child lives (to be closed on exec helps only where
//! there is one). So in a child, before fork returns there, each descriptor that is [`Parents`]' becomes one of /dev/null.

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering::Relaxed};

/// Enough for the neighbours of a rank in a world of any size, and of some more ranks of this process. What is beyond is
/// left to the child.
const MOST: usize = 256;
/// No descriptor.
const NONE: RawFd = -1;

/// How often fork has come back in a child, from the process that this one descends from on.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// What is the same in a process, and another number in its children.
pub fn generation() -> u32 {
    FORKS.load(Relaxed)
}

/// The same, for what begins here: from now on children are counted.
pub fn here() -> u32 {
    static AT_FORK: Once = Once::new();
    AT_FORK.call_once(|| {
        // SAFETY: the handler does what is allowed in the child of a process with threads, see there. It fails only
        // where there is no memory for it.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(let_go)) };
    });
    generation()
}

static PARENTS: [AtomicI32; MOST] = [const { AtomicI32::new(NONE) }; MOST];

/// A descriptor is its process's alone, until this is dropped; which must be before the descriptor is closed, as its number
/// may be another's then.
#[derive(Debug)]
pub struct Parents(Option<(&'static AtomicI32, RawFd)>);

impl Parents {
    /// From now on children do not keep this one.
    pub fn alone(descriptor: BorrowedFd<'_>) -> Parents {
        here();
        let fd = descriptor.as_raw_fd();
        let is_taken = |place: &&AtomicI32| place.compare_exchange(NONE, fd, Relaxed, Relaxed).is_ok();
        Parents(PARENTS.iter().find(is_taken).map(|place| (place, fd)))
    }
}

impl Drop for Parents {
    fn drop(&mut self) {
        if let Some((place, fd)) = self.0 {
            // In a child the place may be another's by now, and this does nothing; the number may not, as it is taken.
            let _ = place.compare_exchange(fd, NONE, Relaxed, Relaxed);
        }
    }
}

/// In the child, which has this thread only: it makes system calls that are allowed after fork, reads memory that is there
/// from the start, and takes no lock. The numbers stay taken, as the child may close them.
unsafe extern "C" fn let_go() {
    FORKS.fetch_add(1, Relaxed);
    // SAFETY: an open of a path that ends with a zero
    let null = unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    // Once: what has these numbers later is the child's, and is its children's, too.
    for fd in PARENTS.iter().map(|place| place.swap(NONE, Relaxed)).filter(|&fd| fd != NONE) {
        // SAFETY: the number is of a descriptor of the parent's, and so of this process's, which has done nothing yet.
        // Where /dev/null is missing it is left free.
        unsafe {
            if libc::dup3(null, fd, libc::O_CLOEXEC) == -1 {
                libc::close(fd);
            }
        }
    }
    // SAFETY: opened above; where that has failed, this fails, too
    unsafe { libc::close(null) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::time::Duration;

    /// Both ends of a connection.
    fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (one, listener.accept().unwrap().0)
    }

    #[test]
    #[cfg_attr(miri, ignore = "it has no fork")]
    fn a_child_that_lives_does_not_hide_that_its_parent_closes_a_connection() {
        let ((own, mut there), (other, mut beyond)) = (connection(), connection());
        let alone = Parents::alone(own.as_fd());
        drop(Parents::alone(other.as_fd()));
        let (wait, go) = rustix::pipe::pipe().unwrap();
        // SAFETY: the child makes nothing but system calls: it waits for its parent, or its end, and is gone
        let child = unsafe { libc::fork() };
        if child == 0 {
            let mut byte = 0u8;
            // SAFETY: a byte into a byte; and an end without destructors
            unsafe {
                libc::close(go.as_raw_fd());
                libc::read(wait.as_raw_fd(), (&raw mut byte).cast(), 1);
                libc::_exit(0);
            }
        }
        drop(alone);
        drop((own, other));
        there.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        beyond.set_nonblocking(true).unwrap();
        let mut byte = [0];
        assert_eq!(there.read(&mut byte).unwrap(), 0, "its end is seen");
        assert!(beyond.read(&mut byte).is_err(), "of what is not the parent's alone the child keeps its own");
        drop(go);
        // SAFETY: a child of this process that nobody else waits for
        assert_eq!(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }, child);
        assert_eq!(beyond.set_nonblocking(false).and_then(|()| beyond.read(&mut byte)).unwrap(), 0);
    }
}
