//! What operations send through.
#![forbid(unsafe_code)]

use smallvec::SmallVec;

use crate::engine::call::Header;
use crate::engine::leg::Stretch;
use crate::engine::slots::Slots;
use crate::engine::staging::{Pool, Staging};
use crate::engine::tokens::{Tokens, Use};
use crate::error::Result;
use crate::rank::Rank;
use crate::transport::memory::Memory;
use crate::transport::{Posted, Put, Region, Segment, Sight, Transport};

/// Where a leg's bytes lie in this rank's memory; most have one run.
pub type Segments = SmallVec<[Segment; 2]>;

/// What all operations of a rank share.
pub struct Io {
    /// Carries the puts.
    pub transport: Box<dyn Transport>,
    /// Carries what is small.
    pub slots: Slots,
    /// Names the puts under way.
    pub tokens: Tokens,
    /// Memory for pieces.
    pub pool: Pool,
}

impl Io {
    /// Sends a message, with data of these stretches; false where it was not taken.
    pub(super) fn send(
        &mut self,
        channel: usize,
        header: &Header,
        payload: Option<(&Memory, &[Stretch])>,
    ) -> Result<bool> {
        let data = payload.map(|(memory, stretches)| (memory, segments(stretches)));
        let data = data.as_ref().map(|(memory, segments)| (*memory, &segments[..]));
        self.send_head(channel, &mut header.encode()[..header.size()], data)
    }

    /// The same with a head that is made.
    pub fn send_head(
        &mut self,
        channel: usize,
        head: &mut [u8],
        data: Option<(&Memory, &[Segment])>,
    ) -> Result<bool> {
        self.slots.send(&mut *self.transport, &mut self.tokens, channel, head, data)
    }

    /// Such a message with so many bytes of data is about to be sent.
    pub(super) fn anticipate(&mut self, channel: usize, bytes: u64) {
        self.slots.anticipate(&mut *self.transport, channel, bytes);
    }

    /// Whether a peer can read a region of this rank, and what lies there may rest: what this rank writes in each call does not.
    pub fn may_show(&self, region: &Region, peer: Rank) -> bool {
        !region.is_rewritten && self.transport.shows(region, peer)
    }

    /// Whether a peer had better read these bytes of such a region where they lie than get them in a slot.
    pub fn rests(&mut self, call: (u64, u32), region: &Region, segments: &[Segment], peer: Rank) -> bool {
        self.transport.rests(peer, Sight { call, memory: &region.memory, segments })
    }

    /// Whether it is worth while to show these bytes of such a region to a peer, which folds them.
    pub fn is_worth_showing(
        &mut self,
        call: (u64, u32),
        region: &Region,
        segments: &[Segment],
        peer: Rank,
    ) -> bool {
        self.transport.is_worth_showing(peer, 0, Some(Sight { call, memory: &region.memory, segments }))
    }

    /// Hands over a put of an operation's data, under a token of its own.
    pub(super) fn put(&mut self, operation: u16, put: Put<'_>) -> Result<Posted> {
        self.tokens.put(&mut *self.transport, Use::Block(operation.into()), put)
    }

    /// Staging slots for so many peers; for long, if they are `kept`, so that they need not go round.
    pub(super) fn stage(&mut self, peers: usize, piece: usize, kept: bool) -> Result<Staging> {
        let span = if kept { 0 } else { self.transport.span() };
        self.pool.take(&mut *self.transport, peers, piece, span)
    }
}

/// Where stretches lie.
pub fn segments(stretches: &[Stretch]) -> Segments {
    stretches.iter().map(|stretch| Segment { offset: stretch.at, len: stretch.len }).collect()
}
