//! A connected stream socket on which nothing waits past a deadline.
//!
//! It never interprets what it carries. Deadlines are kept with poll and never with the socket's own
//! timeout options: an inherited socket is shared with whoever else holds it.
#![forbid(unsafe_code)]

use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};

/// A moment after which one waits no more.
#[derive(Clone, Copy)]
pub(super) struct Deadline(Instant);

impl Deadline {
    pub(super) fn after(limit: Duration) -> Self {
        Deadline(Instant::now() + limit)
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

    /// Sends all of `bytes`, in one write where the kernel has room for them.
    pub(super) fn send(&self, mut bytes: &[u8], deadline: Deadline) -> Result<()> {
        while !bytes.is_empty() {
            match send(&self.fd, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(Errno::AGAIN) => wait(&mut [PollFd::new(&self.fd, PollFlags::OUT)], deadline)?,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
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

    /// Exactly the next `count` bytes.
    pub(super) fn exactly(&mut self, count: usize, deadline: Deadline) -> Result<Vec<u8>> {
        while self.received.len() < count {
            self.wait_for_more(deadline)?;
        }
        Ok(self.take(count))
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

    /// What has arrived and was not taken.
    pub(super) fn received(&self) -> &[u8] {
        &self.received
    }

    /// Takes the first `count` of the bytes that have arrived.
    pub(super) fn take(&mut self, count: usize) -> Vec<u8> {
        self.received.drain(..count).collect()
    }

    /// Says that nothing more is sent, and waits until the other side has read everything and closed:
    /// closed over unread bytes, a TCP connection is reset and loses what is under way.
    pub(super) fn close_gently(&mut self, deadline: Deadline) {
        let mut open = shutdown(&self.fd, Shutdown::Write).is_ok();
        while open {
            self.received.clear();
            open = self.wait_for_more(deadline).is_ok();
        }
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
