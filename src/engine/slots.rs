//! Slots: registered places for small messages, so that these need no handshake and no registration.
//!
//! Every rank has for each neighbour on the circulant graph [`SLOTS`] slots in its inbox, which that
//! neighbour puts into, and as many in its outbox, which it puts from. A slot is the sender's again
//! when the receiver gives it back (a credit). So no queue grows, and what a rank holds is
//! `2 · neighbours · SLOTS · SLOT` bytes, with at most `2 ⌈log₂ p⌉` neighbours, whatever is sent.
#![forbid(unsafe_code)]

use std::ops::Range;

use super::call::{HEADER, Header};
use super::notice::Notice;
use super::tokens::{Tokens, Use};
use crate::error::{Error, Result};
use crate::rank::Rank;
use crate::transport::memory::Memory;
use crate::transport::{Posted, Put, Region, RemoteKey, Report, Segment, Transport};

/// Slots that a rank has for each neighbour, each way.
pub const SLOTS: usize = 8;
/// Bytes of a slot.
pub const SLOT: usize = 8192;
/// The most bytes of data in a slot.
pub const PAYLOAD: usize = SLOT - HEADER;

/// A message that has landed in a slot and has not been given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Landed {
    /// Who sent it.
    pub neighbour: usize,
    /// Where it lies.
    pub slot: usize,
}

/// All slots of a rank.
pub struct Slots {
    neighbours: Vec<Neighbour>,
    inbox: Region,
    outbox: Region,
    /// Slots at each neighbour that are not for the operation that is being pumped.
    spare: usize,
}

struct Neighbour {
    rank: Rank,
    /// What we are called there.
    index_there: u8,
    inbox_there: RemoteKey,
    /// Slots there that we may put into, a bit each.
    free: u8,
    /// Slots here whose message waits in them for its call.
    held: u8,
    /// Slots here that are to be given back.
    owed: u8,
}

impl Slots {
    /// Slots for `neighbours` (sorted). [`connect`](Self::connect) comes next.
    pub fn new(transport: &mut dyn Transport, neighbours: &[Rank]) -> Result<Slots> {
        let mut region = || transport.register(Memory::zeroed(neighbours.len().max(1) * SLOTS * SLOT)?);
        let neighbour = |&rank| Neighbour {
            rank,
            index_there: 0,
            inbox_there: RemoteKey::default(),
            free: u8::MAX,
            held: 0,
            owed: 0,
        };
        Ok(Slots {
            neighbours: neighbours.iter().map(neighbour).collect(),
            inbox: region()?,
            outbox: region()?,
            spare: 0,
        })
    }

    /// What neighbours must know of this rank's inbox.
    pub fn inbox(&self) -> RemoteKey {
        self.inbox.remote
    }

    /// Learns of each neighbour, by rank, its inbox and what this rank is called there.
    pub fn connect(&mut self, of: impl Fn(Rank) -> (RemoteKey, u8)) {
        for neighbour in &mut self.neighbours {
            (neighbour.inbox_there, neighbour.index_there) = of(neighbour.rank);
        }
    }

    /// The number of a neighbour.
    pub fn index_of(&self, rank: Rank) -> Option<usize> {
        self.neighbours.binary_search_by_key(&rank, |n| n.rank).ok()
    }

    /// The rank of a neighbour.
    pub fn rank_of(&self, neighbour: usize) -> Rank {
        self.neighbours[neighbour].rank
    }

    /// All neighbours.
    pub fn ranks(&self) -> impl Iterator<Item = Rank> {
        self.neighbours.iter().map(|neighbour| neighbour.rank)
    }

    /// Keeps so many slots at each neighbour from what is sent next.
    pub fn spare(&mut self, slots: usize) {
        self.spare = slots;
    }

    /// Whether a neighbour has a slot for us.
    pub fn may_send(&self, neighbour: usize) -> bool {
        self.neighbours[neighbour].free.count_ones() as usize > self.spare
    }

    /// Puts a message into a neighbour's slot; false where there is no slot, or the transport is busy.
    pub fn send(
        &mut self,
        transport: &mut dyn Transport,
        tokens: &mut Tokens,
        to: usize,
        header: &Header,
        payload: Option<(&Memory, Range<usize>)>,
        round: u32,
    ) -> Result<bool> {
        if !self.may_send(to) {
            return Ok(false);
        }
        let neighbour = &self.neighbours[to];
        let slot = neighbour.free.trailing_zeros() as usize;
        let offset = place(to, slot);
        let len = HEADER + payload.as_ref().map_or(0, |(_, range)| range.len());
        self.outbox.memory.write(offset, &header.encode());
        if let Some((memory, range)) = payload {
            self.outbox.memory.copy(offset + HEADER, memory, range.start, range.len());
        }
        let put = Put {
            peer: neighbour.rank,
            from: &self.outbox,
            segments: &[Segment { offset, len }],
            to: neighbour.inbox_there,
            to_offset: place(neighbour.index_there.into(), slot) as u64,
            notice: Notice::Slot { neighbour: neighbour.index_there, slot: slot as u8, round }.encode(),
            report: Report::Never,
            token: 0,
        };
        let posted = tokens.put(transport, Use::Slot, put)?;
        if posted != Posted::Busy {
            self.neighbours[to].free &= !(1 << slot);
        }
        Ok(posted != Posted::Busy)
    }

    /// The head of a message.
    pub fn header(&self, landed: Landed) -> Result<Header> {
        let mut bytes = [0; HEADER];
        self.inbox.memory.read(place(landed.neighbour, landed.slot), &mut bytes);
        Header::decode(&bytes).ok_or_else(|| {
            let peer = self.rank_of(landed.neighbour);
            Error::transport(
                "slot",
                format!("rank {peer} sent a message that makes no sense"),
                "is it the same version?",
            )
        })
    }

    /// Copies the first bytes of a message's data to their place.
    pub fn copy_payload(&self, landed: Landed, to: &Memory, range: Range<usize>) {
        to.copy(range.start, &self.inbox.memory, place(landed.neighbour, landed.slot) + HEADER, range.len());
    }

    /// All of a message's slot but its head, copied out.
    pub fn payload(&self, landed: Landed) -> Vec<u8> {
        let mut bytes = vec![0; PAYLOAD];
        self.inbox.memory.read(place(landed.neighbour, landed.slot) + HEADER, &mut bytes);
        bytes
    }

    /// Whether a notice names slots and neighbours that there are.
    pub fn has(&self, neighbour: u8) -> bool {
        usize::from(neighbour) < self.neighbours.len()
    }

    /// A message stays in its slot for now.
    pub fn hold(&mut self, landed: Landed) {
        self.neighbours[landed.neighbour].held |= 1 << landed.slot;
    }

    /// A message has been taken: its slot can go back.
    pub fn release(&mut self, landed: Landed) {
        let neighbour = &mut self.neighbours[landed.neighbour];
        neighbour.held &= !(1 << landed.slot);
        neighbour.owed |= 1 << landed.slot;
    }

    /// A neighbour has given slots back.
    pub fn credit(&mut self, neighbour: u8, slots: u8) {
        self.neighbours[usize::from(neighbour)].free |= slots;
    }

    /// Gives slots back to those who lack three quarters of theirs: a notice wakes its receiver, so
    /// there is one for several slots, while the neighbour still has some. False where the transport
    /// was busy: pay again, as no event may come that would tell.
    pub fn pay(&mut self, transport: &mut dyn Transport, tokens: &mut Tokens) -> Result<bool> {
        let mut paid = true;
        for neighbour in &mut self.neighbours {
            let lacking = (neighbour.owed | neighbour.held).count_ones() as usize;
            if neighbour.owed == 0 || lacking < SLOTS * 3 / 4 {
                continue;
            }
            let put = Put {
                peer: neighbour.rank,
                from: &self.outbox,
                segments: &[],
                to: neighbour.inbox_there,
                to_offset: 0,
                notice: Notice::Credit { neighbour: neighbour.index_there, slots: neighbour.owed }.encode(),
                report: Report::Never,
                token: 0,
            };
            match tokens.put(transport, Use::Slot, put)? {
                Posted::Busy => paid = false,
                Posted::Done | Posted::Pending => neighbour.owed = 0,
            }
        }
        Ok(paid)
    }
}

/// Where a slot lies in an inbox or outbox.
fn place(neighbour: usize, slot: usize) -> usize {
    (neighbour * SLOTS + slot) * SLOT
}
