//! A rank's output, line by line, each with its rank before it.
//!
//! It never mixes two ranks within a line, never loses a last line without newline, and never waits: while nobody takes
//! the lines, ranks are not read, and wait themselves, as they do without labels.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::{Errno, ioctl_fionbio, read, write};
use rustix::net::{SendFlags, send};

use crate::rank::Rank;

/// A line that is longer is passed on in parts, each with its label.
const LINE_BYTES: usize = 64 * 1024;

/// How much is read at once: all that a pipe holds, so that one read empties it when its rank has died.
const PIPE_BYTES: usize = 64 * 1024;

/// How much is written at once: what a pipe takes without a wait that may be written to.
const PIECE: usize = 4096;

/// How often an output is read at the end that something keeps open, at most.
const LAST_READS: usize = 64;

/// How much may wait to be written before ranks are not read any more.
const WAITING: usize = 256 * 1024;

/// Where the lines go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Out,
    Err,
}

/// This process's own stdout and stderr; one where they are the same file, so that lines stay whole and in order.
pub(super) struct Sinks {
    out: Sink,
    err: Option<Sink>,
}

impl Sinks {
    pub(super) fn new() -> Self {
        Sinks::to(io::stdout(), io::stderr())
    }

    fn to(out: impl AsFd + 'static, err: impl AsFd + 'static) -> Self {
        let file = |handle: BorrowedFd<'_>| fstat(handle).map(|file| (file.st_dev, file.st_ino)).ok();
        let is_one = file(out.as_fd()).is_some_and(|out| file(err.as_fd()) == Some(out));
        Sinks { out: Sink::new(out), err: (!is_one).then(|| Sink::new(err)) }
    }

    /// The one of a stream.
    pub(super) fn of(&mut self, stream: Stream) -> &mut Sink {
        match (stream, &mut self.err) {
            (Stream::Err, Some(err)) => err,
            _ => &mut self.out,
        }
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Sink> {
        std::iter::once(&mut self.out).chain(&mut self.err)
    }

    /// Those that have something to write.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Sink> {
        std::iter::once(&self.out).chain(&self.err).filter(|sink| !sink.text.is_empty())
    }

    /// Whether an output would find room in its own.
    pub(super) fn have_room(&self, output: &Output) -> bool {
        let sink = match (output.stream, &self.err) {
            (Stream::Err, Some(err)) => err,
            _ => &self.out,
        };
        sink.text.len() < WAITING
    }

    /// Writes what can be written without a wait.
    pub(super) fn pour(&mut self) {
        self.all().for_each(Sink::pour);
    }

    /// Why something could not be written, if that is so.
    pub(super) fn failure(&self) -> Option<Errno> {
        self.out.failure.or_else(|| self.err.as_ref()?.failure)
    }

    /// Forgets what nobody takes.
    pub(super) fn give_up(&mut self) {
        self.all().for_each(Sink::close);
    }
}

/// Where text goes as soon as it is taken there.
pub(super) struct Sink {
    handle: Box<dyn AsFd>,
    is_socket: bool,
    is_terminal: bool,
    text: VecDeque<u8>,
    /// Nobody reads it any more, or it cannot be written.
    closed: bool,
    /// Why it cannot.
    failure: Option<Errno>,
}

impl Sink {
    fn new(handle: impl AsFd + 'static) -> Self {
        let kind = fstat(&handle).map(|file| FileType::from_raw_mode(file.st_mode));
        let (is_socket, is_terminal) = (kind == Ok(FileType::Socket), kind == Ok(FileType::CharacterDevice));
        let handle: Box<dyn AsFd> = match kind {
            Ok(FileType::Fifo | FileType::CharacterDevice) => match never_waits(&handle) {
                Ok(own) => Box::new(own),
                Err(_) => Box::new(handle),
            },
            _ => Box::new(handle),
        };
        Sink { handle, is_socket, is_terminal, text: VecDeque::new(), closed: false, failure: None }
    }

    /// Takes text over, behind what waits already.
    pub(super) fn push(&mut self, text: &[u8]) {
        if !self.closed {
            self.text.extend(text);
        }
        self.pour();
    }

    fn pour(&mut self) {
        while !self.text.is_empty() && self.would_take() {
            let (front, _) = self.text.as_slices();
            let piece = &front[..front.len().min(PIECE)];
            let written = match self.is_socket {
                true => send(&self.handle, piece, SendFlags::DONTWAIT | SendFlags::NOSIGNAL),
                false => write(&self.handle, piece),
            };
            match written {
                Ok(count) => drop(self.text.drain(..count)),
                Err(Errno::AGAIN | Errno::INTR) => return,
                Err(error) => {
                    self.failure = Some(error).filter(|&error| !self.is_unread(error));
                    self.close();
                }
            }
        }
    }

    /// Whether an error says that nobody reads it; of a terminal that has hung up it is another one.
    fn is_unread(&self, error: Errno) -> bool {
        [Errno::PIPE, Errno::CONNRESET].contains(&error) || self.is_terminal && error == Errno::IO
    }

    /// Also where a write would fail.
    fn would_take(&self) -> bool {
        let mut fds = [PollFd::new(self, PollFlags::OUT)];
        poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    fn close(&mut self) {
        self.closed = true;
        self.text.clear();
    }
}

/// The same pipe or terminal, opened once more: that a write there does not wait is nobody else's concern then. Some
/// terminals wait else until they have taken all, though they say that they take some.
fn never_waits(handle: &impl AsFd) -> rustix::io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", handle.as_fd().as_raw_fd());
    open(path, OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())
}

impl AsFd for Sink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

/// The reading end of a rank's stdout or stderr.
pub(super) struct Output {
    pipe: OwnedFd,
    stream: Stream,
    lines: Lines,
}

impl Output {
    pub(super) fn new(pipe: OwnedFd, stream: Stream, rank: Rank) -> io::Result<Self> {
        ioctl_fionbio(&pipe, true)?;
        Ok(Output { pipe, stream, lines: Lines::new(rank) })
    }

    /// Passes on what is there. False when the rank has closed it, or nobody reads it any more.
    pub(super) fn pass_on(&mut self, sinks: &mut Sinks) -> bool {
        let mut buffer = [0; PIPE_BYTES];
        let (open, text) = match read(&self.pipe, &mut buffer) {
            Ok(0) => (false, self.lines.take_all()),
            Ok(count) => {
                self.lines.push(&buffer[..count]);
                (true, self.lines.take_whole())
            }
            Err(error) => (matches!(error, Errno::AGAIN | Errno::INTR), vec![]),
        };
        let sink = sinks.of(self.stream);
        sink.push(&text);
        // Where our own reader has gone, closing our end lets the rank feel it.
        open && !sink.closed
    }

    /// Passes on all that is there by now, and takes a partial line for the last one.
    pub(super) fn end(mut self, sinks: &mut Sinks) {
        let mut buffer = [0; PIPE_BYTES];
        for _ in 0..LAST_READS {
            match read(&self.pipe, &mut buffer) {
                Ok(count @ 1..) => self.lines.push(&buffer[..count]),
                _ => break,
            }
        }
        sinks.of(self.stream).push(&self.lines.take_all());
    }
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

/// Bytes in any pieces, made into labelled lines.
struct Lines {
    label: String,
    ready: Vec<u8>,
    partial: Vec<u8>,
}

impl Lines {
    fn new(rank: Rank) -> Self {
        Lines { label: format!("[{rank}] "), ready: vec![], partial: vec![] }
    }

    fn push(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.partial.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.partial.len() >= LINE_BYTES {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        self.ready.extend_from_slice(self.label.as_bytes());
        self.ready.append(&mut self.partial);
        if !self.ready.ends_with(b"\n") {
            self.ready.push(b'\n');
        }
    }

    /// The whole lines.
    fn take_whole(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.ready)
    }

    /// Everything, at the end: a partial line is made whole.
    fn take_all(&mut self) -> Vec<u8> {
        if !self.partial.is_empty() {
            self.end_line();
        }
        self.take_whole()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labelled(pieces: &[&[u8]]) -> String {
        let mut lines = Lines::new(3);
        let mut text = Vec::new();
        for piece in pieces {
            lines.push(piece);
            text.extend(lines.take_whole());
        }
        text.extend(lines.take_all());
        String::from_utf8(text).unwrap()
    }

    fn pipe() -> (OwnedFd, OwnedFd) {
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap()
    }

    #[test]
    fn what_nobody_takes_waits_without_a_wait_and_goes_on_whole() {
        let (reader, writer) = pipe();
        ioctl_fionbio(&reader, true).unwrap();
        let mut sink = Sink::new(writer);
        assert!(!sink.is_socket);
        let text: Vec<u8> = (0..3 * PIPE_BYTES + 5).map(|i| i as u8).collect();
        sink.push(&text[..7]);
        sink.push(&text[7..]);
        assert!(!sink.text.is_empty(), "a pipe does not hold so much");
        let (mut taken, mut buffer) = (Vec::new(), [0; PIPE_BYTES]);
        while let Ok(count) = read(&reader, &mut buffer) {
            taken.extend_from_slice(&buffer[..count]);
            sink.pour();
        }
        assert!(sink.text.is_empty() && taken == text);
        drop(reader);
        // Other tests' children have it, too, until they are programs of their own.
        while !sink.closed {
            sink.push(b"in vain");
            std::thread::yield_now();
        }
        assert!(sink.text.is_empty());
    }

    #[test]
    fn streams_that_are_one_file_have_one_sink() {
        let ((_one, out), (_other, err)) = (pipe(), pipe());
        let mut one = Sinks::to(out.try_clone().unwrap(), out);
        assert!(one.err.is_none());
        one.of(Stream::Err).push(b"text");
        assert!(Sinks::to(err, pipe().1).err.is_some());
    }

    #[test]
    fn each_line_is_labelled_once_however_it_comes() {
        assert_eq!(labelled(&[b"one\ntwo\n"]), "[3] one\n[3] two\n");
        assert_eq!(labelled(&[b"o", b"ne\nt", b"wo", b"\n"]), "[3] one\n[3] two\n");
        assert_eq!(labelled(&[b"\n\n"]), "[3] \n[3] \n");
    }

    #[test]
    fn a_last_line_without_newline_is_not_lost() {
        assert_eq!(labelled(&[b"one\ntw", b"o"]), "[3] one\n[3] two\n");
        assert_eq!(labelled(&[]), "");
    }

    #[test]
    fn an_endless_line_is_passed_on_in_parts() {
        let text = labelled(&[&[b'x'; LINE_BYTES], b"y\n"]);
        assert_eq!(text, format!("[3] {}\n[3] y\n", "x".repeat(LINE_BYTES)));
    }
}
