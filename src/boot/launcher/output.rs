//! A rank's output, line by line, each with its rank before it.
//!
//! It never mixes two ranks within a line, never loses a last line without newline, and never waits: while nobody takes
//! the lines, ranks are not read, and wait themselves, as they do without labels.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio, read, write};

use crate::rank::Rank;

/// A line that is longer is passed on in parts, each with its label.
const LINE_BYTES: usize = 64 * 1024;

/// How much is read at once: all that a pipe holds, so that one read empties it when its rank has died.
const PIPE_BYTES: usize = 64 * 1024;

/// How much is written at once: what a pipe or a terminal that may be written to takes without a wait.
const PIECE: usize = 4096;

/// How much may wait to be written before ranks are not read any more.
const WAITING: usize = 256 * 1024;

/// Where the lines go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Out,
    Err,
}

/// This process's own stdout and stderr.
pub(super) struct Sinks([Sink; 2]);

impl Sinks {
    pub(super) fn new() -> Self {
        Sinks([Sink::new(io::stdout()), Sink::new(io::stderr())])
    }

    /// The one of a stream.
    pub(super) fn of(&mut self, stream: Stream) -> &mut Sink {
        &mut self.0[stream as usize]
    }

    /// Those that have something to write.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Sink> {
        self.0.iter().filter(|sink| !sink.text.is_empty())
    }

    /// Whether an output would find room in its own.
    pub(super) fn have_room(&self, output: &Output) -> bool {
        self.0[output.stream as usize].text.len() < WAITING
    }

    /// Writes what can be written without a wait.
    pub(super) fn pour(&mut self) {
        self.0.iter_mut().for_each(Sink::pour);
    }

    /// Forgets what nobody takes.
    pub(super) fn give_up(&mut self) {
        self.0.iter_mut().for_each(Sink::close);
    }
}

/// Where text goes as soon as it is taken there.
pub(super) struct Sink {
    handle: Box<dyn AsFd>,
    text: VecDeque<u8>,
    /// Nobody reads it any more.
    closed: bool,
}

impl Sink {
    fn new(handle: impl AsFd + 'static) -> Self {
        Sink { handle: Box::new(handle), text: VecDeque::new(), closed: false }
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
            match write(&self.handle, &front[..front.len().min(PIECE)]) {
                Ok(count) => drop(self.text.drain(..count)),
                Err(Errno::AGAIN | Errno::INTR) => return,
                Err(_) => self.close(),
            }
        }
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

    #[test]
    fn what_nobody_takes_waits_without_a_wait_and_goes_on_whole() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        ioctl_fionbio(&reader, true).unwrap();
        let mut sink = Sink::new(writer);
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
        sink.push(b"in vain");
        assert!(sink.closed && sink.text.is_empty());
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
