//! A peer: what of it this rank has mapped and opened so far, each when it is first needed.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

use super::board::{Board, Chunks};
use super::card::Card;
use super::distance::Distance;
use super::home::{self, Missing};
use crate::error::Result;
use crate::rank::Rank;
use crate::transport::Heats;
use crate::transport::memory::Memory;
use crate::transport::segment::Label;

/// The most segments of a peer that stay mapped, beside its board: more than an engine has in use.
const MAPPED: usize = 16;

/// A peer.
pub struct Peer {
    /// What errors call it.
    pub name: Rank,
    /// How it is reached.
    pub card: Card,
    /// Its board, once it was needed.
    pub board: Once<Board>,
    /// Where chunks for it go, likewise.
    pub chunks: Once<Chunks>,
    /// How long these take to be written again.
    pub distance: Distance,
    /// Of copies of what it shows.
    pub reads: Heats,
    /// What puts to it write into, and what of it is viewed.
    pub windows: Windows,
}

impl Peer {
    /// One that has not been reached.
    pub fn new(name: Rank, card: Card) -> Peer {
        let (distance, reads, windows) = Default::default();
        Peer { name, card, board: Once(None), chunks: Once(None), distance, reads, windows }
    }
}

/// What a rank reaches its peers by.
pub struct Reach<'a> {
    /// Its number.
    pub own: Rank,
    /// How many there are.
    pub ranks: usize,
    /// All of them.
    pub peers: &'a mut [Peer],
    /// Their bells.
    pub bells: &'a mut Handles,
    /// Their processes.
    pub lives: &'a mut Handles,
}

/// Something that is made when it is first needed.
pub struct Once<T>(Option<T>);

impl<T> Once<T> {
    /// Short puts go through it, each: what they mostly find is made.
    #[inline(always)]
    fn get<E>(&mut self, make: impl FnOnce() -> std::result::Result<T, E>) -> std::result::Result<&T, E> {
        match &mut self.0 {
            Some(made) => Ok(made),
            none => Ok(none.insert(make()?)),
        }
    }

    /// What was made.
    pub fn made(&self) -> Option<&T> {
        self.0.as_ref()
    }
}

impl Once<Board> {
    /// The board of one among so many ranks.
    #[inline(always)]
    pub fn of(&mut self, card: &Card, ranks: usize) -> std::result::Result<&Board, Missing> {
        self.get(|| Board::over(card.home.map(card.board)?, ranks).ok_or(Missing::Another))
    }
}

impl Once<Chunks> {
    /// Those in this segment of its process.
    pub fn of(&mut self, card: &Card, label: Label) -> std::result::Result<&Chunks, Missing> {
        self.get(|| Chunks::over(card.home.map(label)?).ok_or(Missing::Another))
    }
}

/// Segments of a peer that are mapped here.
#[derive(Default)]
pub struct Windows {
    mapped: Vec<Mapped>,
    /// How often one was asked for.
    uses: u64,
}

struct Mapped {
    label: Label,
    memory: Memory,
    used: u64,
}

impl Windows {
    /// The segment with this label. The one that was not used for longest is unmapped for a new one, as a peer
    /// does not tell when it drops one.
    pub fn of(&mut self, card: &Card, label: Label) -> std::result::Result<&Memory, Missing> {
        self.uses += 1;
        let at = match self.mapped.iter().position(|mapped| mapped.label == label) {
            Some(at) => at,
            None => self.map(card, label)?,
        };
        let mapped = &mut self.mapped[at];
        mapped.used = self.uses;
        Ok(&mapped.memory)
    }

    fn map(&mut self, card: &Card, label: Label) -> std::result::Result<usize, Missing> {
        let memory = Memory::mapped(card.home.map(label)?);
        let oldest = (0..self.mapped.len()).min_by_key(|&i| self.mapped[i].used);
        if let Some(oldest) = oldest.filter(|_| self.mapped.len() == MAPPED) {
            self.mapped.swap_remove(oldest);
        }
        self.mapped.push(Mapped { label, memory, used: 0 });
        Ok(self.mapped.len() - 1)
    }
}

/// Descriptors of peers, a bounded number of them: the oldest is closed for a new one.
#[derive(Default)]
pub struct Handles {
    /// Mostly a few, so that a look at all is quicker than to hash a number.
    open: VecDeque<(Rank, OwnedFd)>,
}

/// So few that a thousand ranks do not need more descriptors than a process has by default.
const OPEN: usize = 128;

impl Handles {
    /// That of a peer, which is opened at first.
    pub fn of<E>(
        &mut self,
        rank: Rank,
        open: impl FnOnce() -> std::result::Result<OwnedFd, E>,
    ) -> std::result::Result<BorrowedFd<'_>, E> {
        let at = match self.open.iter().position(|&(of, _)| of == rank) {
            Some(at) => at,
            None => self.add(rank, open()?),
        };
        Ok(self.open[at].1.as_fd())
    }

    /// A further one; where it is.
    fn add(&mut self, rank: Rank, handle: OwnedFd) -> usize {
        if self.open.len() == OPEN {
            self.open.pop_front();
        }
        self.open.push_back((rank, handle));
        self.open.len() - 1
    }

    /// Closes all.
    pub fn clear(&mut self) {
        self.open.clear();
    }
}

/// That a process is who it was: its number may be somebody else's by now.
pub fn check_life(name: Rank, card: &Card, lives: &mut Handles) -> Result<()> {
    let life = lives.of(name, || card.home.life(card.board).map_err(|e| e.of(name, "process")))?;
    if home::has_ended(life) { Err(Missing::Gone(Errno::SRCH).of(name, "process")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn of_many_handles_only_the_latest_stay_open() {
        let mut handles = Handles::default();
        let open = || -> Result<OwnedFd> { Ok(rustix::pipe::pipe().unwrap().0) };
        for rank in 0..OPEN as Rank + 3 {
            handles.of(rank, open).unwrap();
        }
        assert_eq!(handles.open.len(), OPEN);
        handles.of(5, || -> Result<OwnedFd> { unreachable!() }).unwrap();
        let again = handles.of(2, || Err(Error::argument("open", "once more", "")));
        assert!(again.is_err());
    }
}
