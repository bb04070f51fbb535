//! A rank's output, line by line, each with its rank before it.
//!
//! It never mixes two ranks within a line, never loses a last line without newline, and never waits.
#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, ioctl_fionbio, read};

use crate::rank::Rank;

/// A line that is longer is passed on in parts, each with its label.
const LINE_BYTES: usize = 64 * 1024;

/// How much is read at once: all that a pipe holds, so that one read empties it when its rank has died.
const PIPE_BYTES: usize = 64 * 1024;

/// Where the lines go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Out,
    Err,
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
    pub(super) fn pass_on(&mut self) -> bool {
        let mut buffer = [0; PIPE_BYTES];
        let (open, text) = match read(&self.pipe, &mut buffer) {
            Ok(0) => (false, self.lines.take_all()),
            Ok(count) => {
                self.lines.push(&buffer[..count]);
                (true, self.lines.take_whole())
            }
            Err(error) => (matches!(error, Errno::AGAIN | Errno::INTR), vec![]),
        };
        // An error means that our own reader has gone; closing our end lets the rank feel it.
        self.write(&text).is_ok() && open
    }

    fn write(&self, text: &[u8]) -> io::Result<()> {
        match self.stream {
            Stream::Out => {
                let mut out = io::stdout().lock();
                out.write_all(text)?;
                out.flush()
            }
            Stream::Err => io::stderr().write_all(text),
        }
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
