//! The contract of everything that carries puts, and the memory that puts read and write.
//!
//! A transport writes bytes of a local [`Region`] into a peer's region and, after these bytes, gives
//! the peer 32 bits of notice. It promises nothing else:
//! - A notice comes after its own data. Notices and data of different puts come in any order.
//! - Nothing need land while the target does not [`poll`](Transport::poll).
//! - [`Event::Sent`] says that the source bytes may be reused, not that they have arrived.
//! - A put to a peer that has died may be [`Posted::Busy`] for ever: liveness is somebody else's
//!   business (see [`crate::lifeline`]).
//!
//! A transport knows ranks and bytes; it never knows blocks, rounds or collectives.

#[doc(hidden)]
pub mod conformance;
mod copy;
pub mod fabric;
pub mod faulty;
mod heats;
pub mod loopback;
pub mod memory;
pub mod mixed;
#[cfg(not(miri))]
pub mod room;
mod segment;
pub mod shm;
mod sight;
mod wait;

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::rank::{Place, Rank};
pub use copy::Gait;
pub(crate) use heats::Heats;
use memory::Memory;
pub use sight::Sight;

/// The 32 bits that travel with a put.
pub type Notice = u32;

/// The caller's name for a put whose source is still needed.
pub type Token = u32;

/// What a peer must know to put into a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RemoteKey {
    /// The address of the region's first byte as the peer must give it (0 where offsets are used).
    pub base: u64,
    /// The protection key.
    pub key: u64,
}

/// What all peers together must know of a region: each needs one of the keys (see [`Transport::key`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RemoteKeys {
    /// For those that are reached by a network, or in the one way that there is.
    pub far: RemoteKey,
    /// For those of the own node, where they are reached otherwise.
    pub near: RemoteKey,
}

impl From<RemoteKey> for RemoteKeys {
    /// All peers are told the same.
    fn from(key: RemoteKey) -> Self {
        RemoteKeys { far: key, near: key }
    }
}

/// Memory that peers may put into and that puts may read from, until the last clone is dropped.
#[derive(Clone)]
pub struct Region {
    /// The bytes.
    pub memory: Memory,
    /// What to tell peers.
    pub remote: RemoteKeys,
    /// Whether this rank itself writes there for each call, whatever it is.
    pub is_rewritten: bool,
    /// The transport's own word for the region (libfabric's descriptor), passed back in each put.
    /// Nobody else can make one up: it is a pointer to the transport.
    pub(in crate::transport) descriptor: usize,
    /// Undoes the registration when it is dropped.
    pub(in crate::transport) registration: Arc<dyn Send + Sync>,
}

/// A run of bytes in a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Where it begins, in bytes.
    pub offset: usize,
    /// How many bytes.
    pub len: usize,
}

/// Bytes of the caches that this rank and its peers move bytes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Caches {
    /// Of its core's own; none where it has no core for itself, or moves none.
    pub own: Option<u64>,
    /// This rank's share of the one that cores share, if that is known.
    pub share: Option<u64>,
    /// Whether copies that touch about as much as a core's own has had better go two pages abreast.
    pub abreast: bool,
}

/// One put: the segments of `from`, gathered in their order into one run at `to_offset` of the peer's region `to`.
#[derive(Clone, Copy)]
pub struct Put<'a> {
    /// Whose memory is written.
    pub peer: Rank,
    /// The source region; it must stay registered until the put is sent.
    pub from: &'a Region,
    /// What of the source, at most [`Limits::segments`]; each must lie in the region, and they may overlap.
    /// No bytes at all make a put that is a notice only (it needs a valid key all the same).
    pub segments: &'a [Segment],
    /// The target region.
    pub to: RemoteKey,
    /// Where in the target, in bytes.
    pub to_offset: u64,
    /// What the peer is told when the bytes are there.
    pub notice: Notice,
    /// When the sender wants to hear of it.
    pub report: Report,
    /// What [`Event::Sent`] will say; at most [`Limits::in_flight`] tokens, `0..in_flight`, may be out at once.
    pub token: Token,
    /// Whether the peer is about to poll again and again, so that its part of the work will not have to wait.
    pub attended: bool,
    /// Whether it goes to where its peer's user has its data, all of a leg, and not into memory that serves many calls.
    pub for_user: bool,
    /// How it is copied, where a core does that.
    pub gait: Gait,
}

impl Put<'_> {
    /// The bytes of all segments together; [`usize::MAX`] where they are more than that.
    pub fn len(&self) -> usize {
        self.segments.iter().fold(0, |sum, segment| sum.saturating_add(segment.len))
    }

    /// Whether it is a notice only.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A put of bytes that need not be registered: a seal, a head, and what is behind it.
#[derive(Clone, Copy)]
pub struct Message<'a> {
    /// The rank that is put to.
    pub peer: Rank,
    /// The first byte, which is written after all others: who sees it there sees the whole message,
    /// perhaps before its notice.
    pub seal: u8,
    /// What comes next.
    pub head: &'a [u8],
    /// What follows: these segments of a memory, in which each must lie.
    pub data: Option<(&'a Memory, &'a [Segment])>,
    /// The peer's [inbox](Transport::inbox).
    pub to: &'a Memory,
    /// Where in it, in bytes.
    pub to_offset: usize,
    /// What the peer is told when the bytes are there.
    pub notice: Notice,
}

/// When a sender wants to hear of a put. A transport that cannot tell may report sooner, or all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// When the source may be reused.
    Sent,
    /// When the bytes have landed: so the sender learns how fast its puts go.
    Landed,
    /// Never: it leaves the source alone until it learns from its peer that the bytes have landed. Each
    /// report saved is an event less to wake up for.
    Never,
}

/// What became of a put that was handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Posted {
    /// The source may be reused at once; no [`Event::Sent`] will come.
    Done,
    /// [`Event::Sent`] with the put's token will come exactly once.
    Pending,
    /// Not taken: poll, then try again.
    Busy,
}

/// What [`Transport::poll`] has to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The source of the put with this token may be reused.
    Sent(Token),
    /// A peer's put has landed here.
    Notice(Notice),
    /// A long put, from here or to here, has come further.
    Moved,
}

/// What a transport can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Puts of at most this many bytes are taken over at once ([`Posted::Done`]).
    pub inject: usize,
    /// The most bytes in one put.
    pub max_put: usize,
    /// The most segments in one put, at least 1; those without bytes count too.
    pub segments: usize,
    /// The most puts whose [`Event::Sent`] is outstanding.
    pub in_flight: usize,
}

/// Carries puts between the ranks of one job.
pub trait Transport: Send {
    /// Who and how many we are.
    fn place(&self) -> Place;

    /// A name for tables and errors, with the version: `net (libfabric 1.17)`.
    fn name(&self) -> String;

    /// What it can take.
    fn limits(&self) -> Limits;

    /// `len` zeroed bytes, page-aligned, of the kind that puts reach best; as yet unregistered.
    ///
    /// Fails with the size, the limit that was hit and its cure.
    fn allocate(&mut self, len: usize) -> Result<Memory> {
        Memory::zeroed(len)
    }

    /// In how many bytes small and staged messages to a rank should go round: so many that the cores' own caches have
    /// let go of a line when it is written again, as to take it away from a core that has read it takes several times
    /// as long as to fetch it from a cache that is shared. 0 where it is not a core that writes, there are too many, or
    /// the processor had better not.
    fn span(&self) -> usize {
        0
    }

    /// The caches that it and its peers move bytes through.
    fn caches(&self) -> Caches {
        Caches::default()
    }

    /// Makes memory ready for puts from it and into it, of whatever kind it is.
    ///
    /// Fails with the size, the limit that was hit and its cure.
    fn register(&mut self, memory: Memory) -> Result<Region>;

    /// The same of memory that is put from and never into: it may be read-only (constants, a file that is mapped so), which
    /// a card must not be asked to write.
    fn register_source(&mut self, memory: Memory) -> Result<Region> {
        self.register(memory)
    }

    /// Which of a region's keys is for puts between this rank and a peer, whichever of them has the region.
    fn key(&self, keys: RemoteKeys, _peer: Rank) -> RemoteKey {
        keys.far
    }

    /// Whether a peer can [view](Self::view) a region of this rank.
    fn shows(&self, _region: &Region, _peer: Rank) -> bool {
        false
    }

    /// Whether it is worth while to show a peer what it is to read, as far as that is known, where so many bytes would else be put
    /// to its user, while it waits for them; 0 where they go another way. Of what may rest from call to call it is told what
    /// there is to see, and has a look where that matters.
    fn is_worth_showing(&mut self, _peer: Rank, _put: usize, _sight: Option<Sight<'_>>) -> bool {
        true
    }

    /// Whether a peer had better read where they lie bytes that would fit a slot, or a leg of an exchange: where a look tells
    /// that nobody has written there since the last call, and this rank has a core to itself.
    fn rests(&mut self, _peer: Rank, _sight: Sight<'_>) -> bool {
        false
    }

    /// Gets ready for puts into a region for many calls.
    fn prepare_for_puts(&mut self, _region: &Region) {}

    /// A peer's region as memory that is read here where it lies, given the key of it that is for puts between the
    /// two; the peer's end must [show](Self::shows) it to this rank. What the peer has written there before a put of
    /// its is seen when that put's notice is. Where the peer has said that it does not touch some bytes, they may be
    /// written as well. It may be held for as long as one likes; once the peer has given the
    /// region up, its bytes are anything, so it is used only [while it is shown](Self::while_shown).
    fn view(&mut self, peer: Rank, _key: RemoteKey) -> Result<Memory> {
        let what = format!("memory of rank {peer}, which {} does not show", self.name());
        Err(Error::transport("view", what, "are all ranks of one version and one job?"))
    }

    /// Calls `act`, which reads what a peer shows, or writes there: a peer that shuts down meanwhile waits for its end. False, and `act`
    /// is not called, where the peer has shut down before: what it has shown is its user's again.
    fn while_shown(&mut self, _peer: Rank, _act: &mut dyn FnMut()) -> Result<bool> {
        Ok(false)
    }

    /// The same, where `act` copies so many bytes from there in one run, in the gait that it is given: mostly the one that took less
    /// lately.
    fn while_shown_to_copy(&mut self, peer: Rank, _bytes: usize, act: &mut dyn FnMut(Gait)) -> Result<bool> {
        self.while_shown(peer, &mut || act(Gait::Straight))
    }

    /// Hands over a put. An error is for good: the transport is of no use after it. But for
    /// [`Error::Argument`]: the caller has asked for what is not allowed, as
    /// more than [`Limits::segments`], and nothing has happened.
    fn put(&mut self, put: &Put<'_>) -> Result<Posted>;

    /// A peer's region as memory that messages are [posted](Self::post) into, given the key of it that is for puts
    /// between the two; that key's base is where the region begins in it. `None` where they are to be put from a region,
    /// or the peer has shut down.
    fn inbox(&mut self, _peer: Rank, _key: RemoteKey) -> Result<Option<Memory>> {
        Ok(None)
    }

    /// Copies a message into a peer's inbox at once: never [`Posted::Pending`]. Where it is [`Posted::Busy`], all but the
    /// seal may have been written. Errors as for [`put`](Self::put).
    fn post(&mut self, message: &Message<'_>) -> Result<Posted> {
        let what = format!("a message to rank {}, where {} has no inbox", message.peer, self.name());
        Err(Error::argument("put", what, "put it from a region"))
    }

    /// A message of so many bytes, seal and head included, is about to be [posted](Self::post) to a peer: a hint, to get ready
    /// what is written then.
    fn anticipate(&mut self, _peer: Rank, _to: &Memory, _to_offset: usize, _len: usize) {}

    /// Makes progress and appends what has happened since the last call to `events`, without waiting.
    fn poll(&mut self, events: &mut Vec<Event>) -> Result<()>;

    /// The next notice, where a look at memory finds it: what the next poll would begin with.
    fn next_notice(&mut self) -> Option<Notice> {
        None
    }

    /// Whether a poll that finds nothing is a look at memory, without a system call.
    fn polls_memory(&self) -> bool {
        false
    }

    /// Whether a poll would find nothing, where a look at memory tells; false where only a poll does.
    fn is_quiet(&self) -> bool {
        false
    }

    /// Sleeps until there may be something to poll, one of `wakes` becomes readable, or `timeout` is over. Of a put that was
    /// not taken it need not know when it would be: whoever makes it looks again soon.
    fn sleep(&mut self, wakes: &[BorrowedFd<'_>], timeout: Duration) -> Result<()>;

    /// Ends all traffic: after this no registered memory is read or written by the transport, and
    /// every other call fails.
    fn shut_down(&mut self);
}
