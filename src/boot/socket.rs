//! A connected stream socket on which nothing waits past a deadline.
//!
//! It never interprets what it carries. Deadlines are kept with poll and never with the socket's own
//! timeout options: an inherited socket is shared with whoever else holds it.
#![forbid(unsafe_code)]

use std::io::{Error, ErrorKind, Result};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::set_tcp_nodelay;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, connect, getsockname, recv, send,
    shutdown, socket_with,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::addresses::Scope;

/// A moment after which one waits no more.
#[derive(Clone, Copy)]
pub(super) struct Deadline(Instant);

/// Longer than anybody waits, and less than a clock can say.
const FOR_EVER: Duration = Duration::from_secs(u32::MAX as u64);

impl Deadline {
    pub(super) fn after(limit: Duration) -> Self {
        Deadline(Instant::now() + limit.min(FOR_EVER))
    }

    /// This one, or the moment after so long if that is sooner.
    pub(super) fn or_after(self, pause: Duration) -> Self {
        Deadline(self.0.min(Instant::now() + pause))
    }

    /// What is left, or nothing once it has passed.
    pub(super) fn remaining(self) -> Option<Duration> {
        self.0.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }
}

/// Waits until one of `fds` is ready; [`ErrorKind::TimedOut`] when the deadline passes first.
pub(super) fn wait(fds: &mut [PollFd<'_>], deadline: Deadline) -> Result<()> {
    loop {
        let left = deadline.remaining().ok_or(ErrorKind::TimedOut)?;
        match poll(fds, Some(&timespec(left))) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// A duration as the kernel takes it.
pub(super) fn timespec(duration: Duration) -> Timespec {
    let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    Timespec { tv_sec: seconds, tv_nsec: duration.subsec_nanos().into() }
}

/// A connected stream socket, and what has arrived on it and was not taken yet.
pub(super) struct Socket {
    fd: OwnedFd,
    received: Vec<u8>,
}

impl Socket {
    pub(super) fn new(fd: impl Into<OwnedFd>) -> Self {
        Socket { fd: fd.into(), received: Vec::new() }
    }

    /// A TCP connection that has been begun. Until it stands nothing is sent or received; if it cannot, the
    /// next [`receive`](Self::receive) says so.
    pub(super) fn begin(to: SocketAddr) -> Result<Self> {
        let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = socket_with(family, SocketType::STREAM, flags, None)?;
        // Frames are small and awaited. If the option cannot be set they are only later.
        let _ = set_tcp_nodelay(&fd, true);
        match connect(&fd, &to) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(Socket::new(fd)),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends all of `bytes`, in one write where the kernel has room for them.
    pub(super) fn send(&self, mut bytes: &[u8], deadline: Deadline) -> Result<()> {
        loop {
            bytes = &bytes[self.send_some(bytes)?..];
            if bytes.is_empty() {
                return Ok(());
            }
            wait(&mut [PollFd::new(&self.fd, PollFlags::OUT)], deadline)?;
        }
    }

    /// Sends as many of `bytes` as the kernel takes at once, and gives their number.
    pub(super) fn send_some(&self, bytes: &[u8]) -> Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        match send(&self.fd, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            sent => Ok(sent?),
        }
    }

    /// The next line without its newline; a longer one than `most` bytes is [`ErrorKind::InvalidData`].
    pub(super) fn line(&mut self, most: usize, deadline: Deadline) -> Result<Vec<u8>> {
        loop {
            if let Some(end) = self.received.iter().position(|&byte| byte == b'\n') {
                let mut line = self.take(end + 1);
                line.pop();
                return Ok(line);
            }
            if self.received.len() > most {
                return Err(Error::new(ErrorKind::InvalidData, format!("a line of over {most} bytes")));
            }
            self.wait_for_more(deadline)?;
        }
    }

    /// Takes in what the kernel holds, without waiting; [`ErrorKind::UnexpectedEof`] when the other side
    /// has closed.
    pub(super) fn receive(&mut self) -> Result<()> {
        let mut buffer = [0; 16 * 1024];
        match recv(&self.fd, &mut buffer[..], RecvFlags::DONTWAIT) {
            Ok((0, _)) => Err(ErrorKind::UnexpectedEof.into()),
            Ok((count, _)) => {
                self.received.extend_from_slice(&buffer[..count]);
                Ok(())
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Where the ranks are that meet on such connections: both ends of this one may be on one machine.
    pub(super) fn scope(&self) -> Scope {
        let local = getsockname(&self.fd).ok().and_then(|end| SocketAddr::try_from(end).ok());
        match local.is_some_and(|end| end.ip().to_canonical().is_loopback()) {
            true => Scope::Loopback,
            false => Scope::Network,
        }
    }

    /// What has arrived and was not taken.
    pub(super) fn received(&self) -> &[u8] {
        &self.received
    }

    /// Takes the first `count` of the bytes that have arrived.
    pub(super) fn take(&mut self, count: usize) -> Vec<u8> {
        self.received.drain(..count).collect()
    }

    /// Says that nothing more is sent. If it cannot be said, the connection has ended anyway.
    pub(super) fn send_no_more(&self) {
        let _ = shutdown(&self.fd, Shutdown::Write);
    }

    /// Drops what has arrived and was not taken.
    pub(super) fn forget(&mut self) {
        self.received.clear();
    }

    fn wait_for_more(&mut self, deadline: Deadline) -> Result<()> {
        wait(&mut [PollFd::new(&self.fd, PollFlags::IN)], deadline)?;
        self.receive()
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Raises this process's own limit to files it may have open to so many, as far as it may; the limit before. If it is refused
/// whoever opens one too many will say what is wrong.
pub(super) fn raise_files(needed: u64) -> Rlimit {
    let before = getrlimit(Resource::Nofile);
    if before.current.is_some_and(|current| current < needed) {
        let current = before.maximum.map_or(needed, |most| most.min(needed));
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(current), ..before });
    }
    before
}

/// Whether this process may have so many files open.
pub(super) fn may_have_open(files: u64) -> bool {
    getrlimit(Resource::Nofile).current.is_none_or(|current| current >= files)
}
