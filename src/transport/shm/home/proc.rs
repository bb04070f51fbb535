//! What /proc shows of another process.

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, fstat, open, readlink};
use rustix::io::Errno;
use rustix::process::{PTracer, PidfdFlags, pidfd_open, set_ptracer, test_kill_process};

use super::{Home, Missing, Pipe, State};
use crate::transport::segment::{Label, Mapping};

impl Home {
    /// Maps a segment of the process.
    pub fn map(&self, label: Label) -> std::result::Result<Mapping, Missing> {
        let found = self.find(label)?;
        let segment = reopen(&found)?;
        Mapping::of(&segment).map_err(|e| Missing::Refused("mmap", e))
    }

    /// Opens a pipe of the process. It is its reader, too, so that to write into it is never an error.
    pub fn pipe(&self, pipe: Pipe) -> std::result::Result<OwnedFd, Missing> {
        let found = self.look(pipe.descriptor)?;
        let inode = fstat(&found).map_err(|e| Missing::Refused("fstat", e))?.st_ino;
        if inode == pipe.inode { reopen(&found) } else { Err(Missing::Another) }
    }

    /// A descriptor that tells whether the process [has ended](has_ended), whatever its number is given to
    /// then; `board` is a segment that it has as long as it lives.
    pub fn life(&self, board: Label) -> std::result::Result<OwnedFd, Missing> {
        let life = pidfd_open(self.pid, PidfdFlags::empty()).map_err(|e| missing("pidfd_open", e))?;
        self.find(board)?;
        Ok(life)
    }

    /// What has become of it; `board` is a segment that it has as long as it lives.
    ///
    /// A process has ended when its last thread has. Its files are no sign of that: they go with the first
    /// thread, and nobody but root sees those of a process that is not yet waited for.
    pub fn state(&self, board: Label) -> State {
        match pidfd_open(self.pid, PidfdFlags::empty()) {
            Ok(life) if has_ended(&life) => return State::Ended,
            Ok(_) => {}
            Err(Errno::SRCH) => return State::Ended,
            // An old kernel, or a filter, has none: then one that nobody has waited for yet is not told from one that ends.
            Err(_) if test_kill_process(self.pid) == Err(Errno::SRCH) => return State::Ended,
            Err(_) => {}
        }
        match self.find(board) {
            Ok(_) => State::Lives,
            Err(Missing::Another) => State::Ended,
            Err(Missing::Gone(_) | Missing::Refused(..)) => State::Unclear,
        }
    }

    /// A descriptor that names a segment, and does nothing to it.
    fn find(&self, label: Label) -> std::result::Result<OwnedFd, Missing> {
        let found = self.look(label.descriptor)?;
        let link = readlink(own_path(&found), Vec::new()).map_err(|e| Missing::Refused("readlink", e))?;
        let is_it = link.as_bytes() == label.link(self.nonce).as_bytes();
        is_it.then_some(found).ok_or(Missing::Another)
    }

    fn look(&self, descriptor: u32) -> std::result::Result<OwnedFd, Missing> {
        let path = format!("/proc/{}/fd/{descriptor}", self.pid.as_raw_nonzero());
        open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(|e| missing("open", e))
    }
}

/// Whether the process of a [life](Home::life) is at its end.
pub fn has_ended(life: impl AsFd) -> bool {
    let mut fds = [PollFd::new(&life, PollFlags::IN)];
    // No time at all: an error is a want of memory, and says nothing of the process.
    matches!(poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(1))
}

impl Pipe {
    /// One of this process.
    pub fn of(end: &OwnedFd) -> std::result::Result<Pipe, Errno> {
        Ok(Pipe { descriptor: end.as_raw_fd() as u32, inode: fstat(end)?.st_ino })
    }
}

/// Any process of this user's may write the memory of this one, where it may at all, until the last of these is dropped:
/// Yama lets only a process's parents, unless told; a kernel without it says EINVAL.
pub struct LetWrite(());

/// How many there are: a process may be in several worlds, and has one word for all.
static LETTING: Mutex<usize> = Mutex::new(0);

impl LetWrite {
    /// From now on.
    pub fn begin() -> LetWrite {
        let mut letting = LETTING.lock().unwrap_or_else(PoisonError::into_inner);
        *letting += 1;
        let _ = set_ptracer(PTracer::Any);
        LetWrite(())
    }
}

impl Drop for LetWrite {
    fn drop(&mut self) {
        let mut letting = LETTING.lock().unwrap_or_else(PoisonError::into_inner);
        *letting -= 1;
        if *letting == 0 {
            let _ = set_ptracer(PTracer::None);
        }
    }
}

/// Opens what a descriptor names, for reading and writing.
fn reopen(found: &OwnedFd) -> std::result::Result<OwnedFd, Missing> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    open(own_path(found), flags, Mode::empty()).map_err(|e| missing("open", e))
}

fn own_path(descriptor: &OwnedFd) -> CString {
    // A number has no zero byte.
    CString::new(format!("/proc/self/fd/{}", descriptor.as_raw_fd())).unwrap_or_default()
}

fn missing(call: &'static str, error: Errno) -> Missing {
    match error {
        Errno::NOENT | Errno::SRCH => Missing::Gone(error),
        error => Missing::Refused(call, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::segment::{Segment, nonce};

    fn own() -> Home {
        Home { pid: rustix::process::getpid(), nonce: nonce() }
    }

    #[test]
    fn a_segment_is_found_by_its_label_and_nothing_else_is_taken_for_it() {
        let segment = Segment::create(4096).unwrap();
        let label = segment.label();
        assert_eq!(own().map(label).map(|mapping| mapping.len()), Ok(4096));
        assert_eq!(own().state(label), State::Lives);
        let stranger = Home { nonce: !nonce(), ..own() };
        assert_eq!(stranger.map(label).err(), Some(Missing::Another));
        assert_eq!(stranger.state(label), State::Ended);
        drop(segment);
        // Its number may be that of what another test has just opened.
        let dropped = || Segment::create(4096).unwrap().label();
        let is_unclear = |_| own().state(dropped()) == State::Unclear;
        assert!((0..1000).any(is_unclear), "this process is there, and its segment is not");
    }

    #[test]
    fn a_process_that_has_ended_is_known_by_its_life() {
        use rustix::process::Pid;
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let life = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
        let segment = Segment::create(1).unwrap();
        let home = Home { pid: Pid::from_child(&child), nonce: nonce() };
        while !has_ended(&life) {
            std::thread::yield_now();
        }
        assert_eq!(home.state(segment.label()), State::Ended, "nobody has waited for it yet");
        child.wait().unwrap();
        assert_eq!(home.state(segment.label()), State::Ended);
        assert!(!has_ended(own().life(segment.label()).unwrap()));
    }
}
