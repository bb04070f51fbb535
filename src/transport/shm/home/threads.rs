//! Ranks as threads of one process, which has no /proc: under miri.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::OnceLock;

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use super::{Home, Missing, Pipe, State};
use crate::transport::segment::{Label, Mapping};

impl Home {
    /// Maps a segment of the process.
    pub fn map(&self, label: Label) -> std::result::Result<Mapping, Missing> {
        Mapping::of(label).ok_or(Missing::Another)
    }

    /// One pipe for all: as nobody sleeps on his (see `wait::doze`), it need not be the right one.
    pub fn pipe(&self, _: Pipe) -> std::result::Result<OwnedFd, Missing> {
        static PIPE: OnceLock<std::result::Result<(OwnedFd, OwnedFd), Errno>> = OnceLock::new();
        let refused = |error| Missing::Refused("pipe", error);
        let made = PIPE.get_or_init(|| pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK));
        let (_, writer) = made.as_ref().map_err(|error| refused(*error))?;
        rustix::io::fcntl_dupfd_cloexec(writer, 0).map_err(refused)
    }

    /// Only for who lets the kernel write.
    pub fn life(&self, _: Label) -> std::result::Result<OwnedFd, Missing> {
        Err(Missing::Refused("pidfd_open", Errno::NOSYS))
    }

    /// A rank lives as long as its board.
    pub fn state(&self, board: Label) -> State {
        if Mapping::of(board).is_some() { State::Lives } else { State::Ended }
    }
}

impl Pipe {
    /// One of this process.
    pub fn of(end: &OwnedFd) -> std::result::Result<Pipe, Errno> {
        Ok(Pipe { descriptor: end.as_raw_fd() as u32, inode: 0 })
    }
}

/// Not asked, as nobody has a [life](Home::life).
pub fn has_ended(_: impl AsFd) -> bool {
    false
}

/// There is no kernel to be told.
pub struct LetWrite(());

impl LetWrite {
    /// From now on.
    pub fn begin() -> LetWrite {
        LetWrite(())
    }
}
