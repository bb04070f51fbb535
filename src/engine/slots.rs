//! Slots: registered places for small messages, so that these need no handshake and no registration.
//!
//! Between two ranks there is a *channel*: slots in each one's inbox, which the other puts into, and as
//! many in its outbox, which it puts from where the transport does not take messages as they lie. A slot
//! is the sender's again when the receiver gives it back (a credit). So no queue grows, and what a rank holds is at most
//! `2 · channels · SLOTS ·` the slot's size, whatever is sent; over a network 2 KiB more for each wide channel.
//! Messages go round the slots that are free, so that the receiver knows where the next one is to be expected, and may
//! see it there before it is told of. Channels come in
//! *banks*, each one registered memory: wide ones, whose slots carry data, to the neighbours on a communicator's
//! circulant graph; narrow ones, for words about memory only, to everybody else.
//!
//! Where messages are put from the outbox, a head's [beginning](super::beginnings) that has gone there before does not go again.
//!
//! A slot may have an *area* that is larger than it: it moves on there behind each long message, and begins anew at the
//! end, where the transport [wants that](Transport::span). Both ends know where it is by the messages that went by it.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use super::beginnings::{Known, Mark};
use super::call::{BEGINNING, HEAD, HEADER, Head, Header, give_back, mark_of, set_mark};
use super::notice::{MAX_CHANNELS, Notice};
use super::tokens::{Tokens, Use};
use crate::error::{Error, Result};
use crate::rank::Rank;
use crate::transport::memory::{LINE, Memory};
use crate::transport::{
    Gait, Message, Posted, Put, Region, RemoteKey, RemoteKeys, Report, Segment, Transport,
};

/// Slots of a channel, each way.
pub const SLOTS: usize = 8;
/// Slots of one whose slots have areas: an odd number, so that every second message, or fourth, comes to all of them. Where calls
/// that are made again have their long ones in half of the slots, these move in half of the bytes, which stay in their reader's own
/// cache. Two ranks on EPYC, started by the clock: two messages of 8 KiB and two short ones a call took 3.1 µs, other numbers 1.6.
const ROAMERS: usize = 7;
/// The most bytes of data in a wide slot.
pub const PAYLOAD: usize = 16384;
/// Bytes of a wide slot.
pub const WIDE: usize = (HEAD + PAYLOAD).next_multiple_of(LINE);
/// Bytes of a narrow slot.
pub const NARROW: usize = HEADER;

/// The most bytes that the processor is told to fetch: of more its lines are fetched one after the other anyway.
const AT_ONCE: usize = 1024;
/// The most messages that are seen before they are told of: their notices take up room.
const AHEAD: u8 = 64;
/// A slot moves on behind a message with so many bytes of data: it takes 0.9 of the time with 4 KiB, half of it with 16
/// (reduce, two ranks on EPYC 9004); with 2 KiB 1.1.
const LONG: usize = 4096;
/// The most channels whose slots have areas: of more, one that is in use would have too small ones.
const ROAMING: usize = 8;

/// A message that has landed in a slot and has not been given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Landed {
    /// Who sent it.
    pub channel: usize,
    /// Where it lies.
    pub slot: usize,
}

/// A message that is about to land.
#[derive(Debug, Clone, Copy)]
pub struct Expected {
    landed: Landed,
    bank: usize,
    /// Where its seal will be.
    at: usize,
    seal: u8,
}

/// What ranks must know of one another's bank, to be told to all of its peers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Card {
    /// The inbox.
    pub inbox: RemoteKeys,
    /// Bytes of a slot's area there.
    pub area: u32,
    /// The number of the bank's first channel.
    pub first: u32,
    /// The ranks that the bank's channels go to, in their order.
    pub peers: Vec<Rank>,
}

/// A channel at its other end: the inbox and the first channel of its bank, and its place among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct There {
    /// The bank's inbox.
    pub inbox: RemoteKeys,
    /// Bytes of a slot's area there.
    pub area: u32,
    /// The number of the bank's first channel.
    pub first: u32,
    /// Which of the bank's channels it is.
    pub place: usize,
}

impl Card {
    /// Where the bank has its channel to a rank.
    pub fn there(&self, rank: Rank) -> Option<There> {
        let place = self.peers.iter().position(|&peer| peer == rank)?;
        Some(There { inbox: self.inbox, area: self.area, first: self.first, place })
    }
}

/// All slots of a rank.
#[derive(Default)]
pub struct Slots {
    banks: Vec<Bank>,
    channels: Vec<Channel>,
    wide: HashMap<Rank, usize>,
    narrow: HashMap<Rank, usize>,
    /// Slots of each channel that are not for the operation that is being pumped.
    spare: usize,
    /// Channels whose peers lack many slots, each once: what is to be paid is found without a look at all.
    due: Vec<usize>,
    /// How many messages have been seen that have not been told of yet.
    ahead: u8,
}

struct Bank {
    inbox: Region,
    /// Made when a message is first put from it: where all are posted, never.
    outbox: Option<Region>,
    /// Bytes of a slot, and of the area in which it moves.
    slot: usize,
    area: usize,
    /// The number of its first channel, and how many it has.
    first: usize,
    channels: usize,
}

struct Channel {
    rank: Rank,
    bank: usize,
    /// What it is called there.
    number_there: u32,
    /// Where its slots begin there, and what area each has.
    inbox_there: RemoteKey,
    area_there: usize,
    /// The same as memory that messages are posted into.
    posted: Inbox,
    /// Slots there, a bit each, and those that we may put into; none before it is connected.
    all: u8,
    free: u8,
    /// What has been sent, and what has come.
    there: Round,
    here: Round,
    /// The beginnings of heads that its ends have told each other; made with the first one.
    known: Option<Box<Known>>,
    /// Whether its peer posts: then what it sends can be [seen](Slots::see) before it is told of.
    posts: bool,
    /// How many messages in each slot have been seen and not been told of yet.
    untold: [u8; SLOTS],
    connected: bool,
    /// Slots here whose message waits in them for its call.
    held: u8,
    /// Slots here that are to be given back.
    owed: u8,
    /// Whether it stands among those that are due.
    listed: bool,
}

/// The messages of one direction: they go round the slots, past those that are not free, so that both ends know where
/// the next one is to be expected.
#[derive(Default)]
struct Round {
    /// The slot behind that of the last one.
    next: usize,
    /// The seal of the last one in each slot.
    seals: [u8; SLOTS],
    /// Where in its area each slot's last one lies, and its next one will.
    at: [u32; SLOTS],
    next_at: [u32; SLOTS],
}

impl Round {
    /// The slot of the next one, where these are free, and its seal.
    fn next(&self, free: u8) -> Option<(usize, u8)> {
        if free == 0 {
            return None;
        }
        let slot = (self.next + free.rotate_right(self.next as u32).trailing_zeros() as usize) % SLOTS;
        Some((slot, self.next_seal(slot)))
    }

    /// Another one than that of the one before, and never 0, which is what lies there at first and what a put writes.
    fn next_seal(&self, slot: usize) -> u8 {
        self.seals[slot].checked_add(1).unwrap_or(1)
    }

    /// Where the next message lies in its area.
    fn next_at(&self, slot: usize) -> usize {
        self.next_at[slot] as usize
    }

    /// A message with so many bytes of data has gone, or come, by this slot, whose area has room for so many bytes beside
    /// it. Tells where the next one will be, if that is elsewhere.
    fn pass(&mut self, slot: usize, bytes: u64, room: usize) -> Option<usize> {
        self.seals[slot] = self.next_seal(slot);
        self.next = (slot + 1) % SLOTS;
        self.at[slot] = self.next_at[slot];
        if bytes < LONG as u64 || bytes > PAYLOAD as u64 {
            return None;
        }
        let behind = self.next_at(slot) + (HEAD + bytes as usize).next_multiple_of(LINE);
        self.next_at[slot] = if behind <= room { behind as u32 } else { 0 };
        Some(self.next_at(slot)).filter(|&next| next != self.at[slot] as usize)
    }
}

/// Where a channel's next message goes.
struct Next {
    slot: usize,
    seal: u8,
    /// From where the channel's slots there begin.
    offset: usize,
}

/// A peer's inbox, as far as it is known.
enum Inbox {
    /// Nothing has been sent there.
    Unseen,
    /// Messages are posted into it: into this memory, from here on.
    At(Memory, usize),
    /// They are put there from the outbox.
    Far,
}

impl Slots {
    /// Adds channels to `peers` (each once), with slots of `size` bytes, whose areas have `span` bytes more together.
    /// [`connect`](Self::connect) comes next. No peers take no memory.
    pub fn add(
        &mut self,
        transport: &mut dyn Transport,
        peers: &[Rank],
        size: usize,
        span: usize,
    ) -> Result<Card> {
        let channels = peers.len();
        if channels == 0 {
            return Ok(Card::default());
        }
        if self.channels.len().saturating_add(channels) > MAX_CHANNELS {
            let what = format!("{channels} channels beside {}, of {MAX_CHANNELS}", self.channels.len());
            return Err(Error::argument("communicator", what, "make fewer communicators"));
        }
        let span = if channels <= ROAMING && size > HEADER { span } else { 0 };
        let area = size + (span / (channels * ROAMERS)).next_multiple_of(LINE);
        let bytes = channels * slots_of(size, area) * area;
        let inbox = transport.allocate(bytes)?;
        let inbox = transport.register(inbox)?;
        let first = self.channels.len();
        let card =
            Card { inbox: inbox.remote, area: area as u32, first: first as u32, peers: peers.to_vec() };
        for &rank in peers {
            self.channels.push(Channel {
                rank,
                bank: self.banks.len(),
                number_there: 0,
                inbox_there: RemoteKey::default(),
                area_there: 0,
                posted: Inbox::Unseen,
                connected: false,
                all: 0,
                free: 0,
                there: Round::default(),
                here: Round::default(),
                known: None,
                posts: transport.shows(&inbox, rank),
                untold: [0; SLOTS],
                held: 0,
                owed: 0,
                listed: false,
            });
        }
        self.banks.push(Bank { inbox, outbox: None, slot: size, area, first, channels });
        Ok(card)
    }

    /// Connects the bank of which `own` is the card, given where each peer has its channel to this rank. Fails
    /// where one has none.
    pub fn connect(
        &mut self,
        transport: &dyn Transport,
        own: &Card,
        there: impl Fn(Rank) -> Option<There>,
    ) -> Result<()> {
        let me = transport.place().rank;
        let first = own.first as usize;
        let channels = &mut self.channels[first..first + own.peers.len()];
        for (number, channel) in (first..).zip(channels) {
            let There { inbox, area, first, place } = there(channel.rank).ok_or_else(|| {
                let what = format!("rank {} has no channel to rank {me}", channel.rank);
                Error::boot(what, "start the same version on all ranks")
            })?;
            let slots = slots_of(self.banks[channel.bank].slot, area as usize);
            let bytes = (place * slots * area as usize) as u64;
            channel.area_there = area as usize;
            channel.number_there = first + place as u32;
            let inbox = transport.key(inbox, channel.rank);
            channel.inbox_there = RemoteKey { base: inbox.base.wrapping_add(bytes), ..inbox };
            channel.posted = Inbox::Unseen;
            (channel.connected, channel.all, channel.free) = (true, all(slots), all(slots));
            // Not before: messages that connect it go by the channel that there was.
            let numbers =
                if self.banks[channel.bank].slot > HEADER { &mut self.wide } else { &mut self.narrow };
            numbers.insert(channel.rank, number);
        }
        Ok(())
    }

    /// The channel to a rank: the wide one, if there is one.
    pub fn channel(&self, rank: Rank) -> Option<usize> {
        self.wide(rank).or_else(|| self.narrow.get(&rank).copied())
    }

    /// The wide channel to a rank.
    pub fn wide(&self, rank: Rank) -> Option<usize> {
        self.wide.get(&rank).copied()
    }

    /// The rank of a channel.
    pub fn rank_of(&self, channel: usize) -> Rank {
        self.channels[channel].rank
    }

    /// Keeps so many slots of each channel from what is sent next.
    pub fn spare(&mut self, slots: usize) {
        self.spare = slots;
    }

    /// Whether a channel has a slot for us.
    pub fn may_send(&self, channel: usize) -> bool {
        let free = self.channels[channel].free;
        if self.spare == 0 { free != 0 } else { free.count_ones() as usize > self.spare }
    }

    /// Whether there may be operations that a channel has no slot for: its last one is not for all.
    pub fn is_scarce(&self, channel: usize) -> bool {
        self.channels[channel].free.count_ones() < 2
    }

    /// Puts a message with this head into a slot; false where there is none, or the transport is busy. What it
    /// carries must fit.
    pub fn send(
        &mut self,
        transport: &mut dyn Transport,
        tokens: &mut Tokens,
        to: usize,
        head: &mut [u8],
        data: Option<(&Memory, &[Segment])>,
    ) -> Result<bool> {
        if !self.may_send(to) {
            return Ok(false);
        }
        let channel = &mut self.channels[to];
        let bank = &mut self.banks[channel.bank];
        let peer = channel.rank;
        let Some(Next { slot, seal, offset: there }) = channel.next_there() else { return Ok(false) };
        let data_bytes = give_back(head, channel.owed);
        let bytes: usize = data.iter().flat_map(|(_, segments)| *segments).map(|segment| segment.len).sum();
        assert!(head.len() + bytes <= bank.slot, "a leg of {bytes} bytes is not small");
        let notice = Notice::Slot { channel: channel.number_there, slot: slot as u8 }.encode();
        let room = channel.area_there.saturating_sub(bank.slot);
        if let Inbox::Unseen = channel.posted {
            channel.find_inbox(transport, bank.slot)?;
        }
        let posted = match &channel.posted {
            Inbox::At(to, start) => {
                let to_offset = start + there;
                // Its first byte is the seal's.
                transport.post(&Message { peer, seal, head: &head[1..], data, to, to_offset, notice })?
            }
            _ => {
                let from = bank.place_out(to, slot);
                channel.put((transport, tokens), (bank, from), (slot, there), (head, data), notice)?
            }
        };
        if posted != Posted::Busy {
            channel.there.pass(slot, data_bytes, room);
            channel.free &= !(1 << slot);
            channel.owed = 0;
        }
        Ok(posted != Posted::Busy)
    }

    /// A message with so many bytes of data is about to be [sent](Self::send) to a channel: its slot is got ready, while all
    /// else is.
    pub fn anticipate(&self, transport: &mut dyn Transport, to: usize, bytes: u64) {
        let channel = &self.channels[to];
        if let (Inbox::At(memory, start), Some(next)) = (&channel.posted, channel.next_there()) {
            let len = HEAD.saturating_add(bytes as usize);
            transport.anticipate(channel.rank, memory, start + next.offset, len);
        }
    }

    /// The head of a message that has just landed; slots that it gives back are free again.
    pub fn header(&mut self, landed: Landed) -> Result<Header> {
        let mut bytes = [0; HEADER];
        let (inbox, offset) = self.place(landed);
        inbox.read(offset, &mut bytes);
        let decoded = Header::decode(&bytes).ok_or_else(|| senseless(self.rank_of(landed.channel)));
        let (header, credits) = decoded?;
        self.credit(landed.channel, credits);
        Ok(header)
    }

    /// Where a message's data lie, and how many bytes there may be.
    pub fn payload(&self, landed: Landed) -> (&Memory, usize, usize) {
        let (inbox, offset) = self.place(landed);
        (inbox, offset + HEAD, self.banks[self.channels[landed.channel].bank].slot - HEAD)
    }

    /// A message's data, at most so many bytes, copied out of its slot.
    pub fn copied(&self, landed: Landed, most: u64) -> Vec<u8> {
        let (inbox, offset, room) = self.payload(landed);
        let mut bytes = vec![0; room.min(usize::try_from(most).unwrap_or(room))];
        inbox.read(offset, &mut bytes);
        bytes
    }

    fn place(&self, landed: Landed) -> (&Memory, usize) {
        let bank = &self.banks[self.channels[landed.channel].bank];
        let at = self.channels[landed.channel].here.at[landed.slot] as usize;
        (&bank.inbox.memory, bank.place(landed.channel, landed.slot) + at)
    }

    /// Where a channel's next message can be seen before a notice is heard; `None` where it cannot, or many have been
    /// seen that have not been told of yet: then notices are to be heard. It may still come by another slot.
    #[inline(always)]
    pub fn expected(&self, number: usize) -> Option<Expected> {
        let channel = &self.channels[number];
        if !channel.posts || self.ahead == AHEAD {
            return None;
        }
        let bank = &self.banks[channel.bank];
        let (slot, seal) = channel.here.next(bank.all() & !(channel.owed | channel.held))?;
        let landed = Landed { channel: number, slot };
        let at = bank.place(number, slot) + channel.here.next_at(slot);
        Some(Expected { landed, bank: channel.bank, at, seal })
    }

    /// Whether it has come.
    pub fn has_come(&self, Expected { bank, at, seal, .. }: Expected) -> bool {
        self.banks[bank].inbox.memory.seal(at) == seal
    }

    /// Whether a channel's next message has come; `None` where that cannot be seen.
    pub fn has_next(&self, number: usize) -> Option<bool> {
        self.expected(number).map(|expected| self.has_come(expected))
    }

    /// Has the processor fetch the lines behind its first one, if there are some, while that is looked at.
    pub fn prefetch(&self, Expected { bank, at, .. }: Expected, bytes: usize) {
        if HEAD + bytes <= LINE {
            return;
        }
        self.banks[bank].inbox.memory.prefetch(at + LINE, (HEAD + bytes - LINE).min(AT_ONCE));
    }

    /// It [has come](Self::has_come), and is no news any more when a notice [tells](Self::news) of it. Its first bytes,
    /// as they lie there.
    #[inline(always)]
    pub fn see(&mut self, Expected { landed, .. }: Expected) -> (Landed, Head) {
        let head = self.pass(landed);
        self.channels[landed.channel].untold[landed.slot] += 1;
        self.ahead += 1;
        (landed, head)
    }

    /// A message has come: its first bytes. Where the slot moves on, what lies there must not be taken for the next one's
    /// seal.
    #[inline(always)]
    fn pass(&mut self, Landed { channel: number, slot }: Landed) -> Head {
        let channel = &mut self.channels[number];
        let bank = &self.banks[channel.bank];
        let (place, memory) = (bank.place(number, slot), &bank.inbox.memory);
        let head = Head::of(memory.words(place + channel.here.next_at(slot)));
        if let Some(next) = channel.here.pass(slot, head.data_bytes(), bank.room()) {
            memory.unseal(place + next);
        }
        head
    }

    /// A notice tells of a message: its first bytes, where it was not [seen](Self::see) before.
    pub fn news(&mut self, landed: Landed) -> Result<Option<Head>> {
        if self.strike_off(landed) {
            return Ok(None);
        }
        self.begin(landed)?;
        Ok(Some(self.pass(landed)))
    }

    /// Remembers the beginning of a message's head, or fills it in.
    fn begin(&mut self, Landed { channel: number, slot }: Landed) -> Result<()> {
        let channel = &mut self.channels[number];
        let bank = &self.banks[channel.bank];
        let (at, memory) = (bank.place(number, slot) + channel.here.next_at(slot), &bank.inbox.memory);
        let [last] = memory.words(at + BEGINNING);
        let known = match Mark::decode(mark_of(u64::from_le(last))) {
            Mark::Plain => true,
            Mark::Remember(beginning) => {
                let mut bytes = [0; BEGINNING];
                memory.read(at, &mut bytes);
                channel.known.get_or_insert_default().heard.remember(beginning, bytes)
            }
            Mark::Recall(beginning) => {
                let bytes = channel.known.as_ref().and_then(|known| known.heard.recall(beginning));
                bytes.map(|bytes| memory.write(at, bytes)).is_some()
            }
        };
        if known { Ok(()) } else { Err(senseless(channel.rank)) }
    }

    /// Passes over a notice of a message that was seen before; false where it tells of something else.
    pub fn pass_over(&mut self, notice: u32) -> bool {
        match Notice::decode(notice) {
            Notice::Slot { channel, slot } if self.has_slot(channel, slot) => {
                self.strike_off(Landed { channel: channel as usize, slot: slot.into() })
            }
            _ => false,
        }
    }

    /// Strikes a message that is told of off those that were seen before; false where it was not.
    fn strike_off(&mut self, landed: Landed) -> bool {
        let untold = &mut self.channels[landed.channel].untold[landed.slot];
        let seen = u8::from(*untold > 0);
        *untold -= seen;
        self.ahead -= seen;
        seen > 0
    }

    /// Whether a notice names a channel that there is.
    pub fn has(&self, channel: u32) -> bool {
        (channel as usize) < self.channels.len()
    }

    /// Whether a notice names a slot that there is.
    pub fn has_slot(&self, channel: u32, slot: u8) -> bool {
        let channel = self.channels.get(channel as usize);
        channel.is_some_and(|channel| self.banks[channel.bank].all() >> slot & 1 == 1)
    }

    /// A message stays in its slot for now.
    pub fn hold(&mut self, landed: Landed) {
        self.channels[landed.channel].held |= 1 << landed.slot;
        self.list(landed.channel);
    }

    /// A message has been taken: its slot can go back.
    pub fn release(&mut self, landed: Landed) {
        let channel = &mut self.channels[landed.channel];
        channel.held &= !(1 << landed.slot);
        channel.owed |= 1 << landed.slot;
        self.list(landed.channel);
    }

    fn list(&mut self, number: usize) {
        let channel = &mut self.channels[number];
        if channel.is_due() && !std::mem::replace(&mut channel.listed, true) {
            self.due.push(number);
        }
    }

    /// A peer has given slots back.
    pub fn credit(&mut self, channel: usize, slots: u8) {
        let channel = &mut self.channels[channel];
        channel.free |= slots & channel.all;
        if let Some(known) = &mut channel.known {
            known.told.given_back(slots);
        }
    }

    /// Whether there is something to [pay](Self::pay).
    pub fn owes(&self) -> bool {
        !self.due.is_empty()
    }

    /// Gives slots back to those who lack half of theirs and have not been sent a message since, which takes
    /// them along: a notice wakes its receiver, so there is one for several slots, while the peer still has
    /// some. False where the transport was busy: pay again, as no event may come that would tell.
    pub fn pay(&mut self, transport: &mut dyn Transport, tokens: &mut Tokens) -> Result<bool> {
        let mut paid = true;
        for number in std::mem::take(&mut self.due) {
            let channel = &mut self.channels[number];
            channel.listed = false;
            if !channel.is_due() {
                continue;
            }
            // A peer that was connected first may have filled slots already: they are owed until this side is.
            if !channel.connected {
                self.list(number);
                continue;
            }
            let put = Put {
                peer: channel.rank,
                // Any region will do for no bytes.
                from: &self.banks[channel.bank].inbox,
                segments: &[],
                to: channel.inbox_there,
                to_offset: 0,
                notice: Notice::Credit { channel: channel.number_there, slots: channel.owed }.encode(),
                report: Report::Never,
                token: 0,
                attended: true,
                for_user: false,
                gait: Gait::Straight,
            };
            match tokens.put(transport, Use::Slot, put)? {
                Posted::Busy => {
                    paid = false;
                    self.list(number);
                }
                Posted::Done | Posted::Pending => channel.owed = 0,
            }
        }
        Ok(paid)
    }
}

impl Channel {
    /// Finds the memory that messages are posted into, or that they are put from the outbox. Slots that move about in it would
    /// come to new pages for hundreds of messages, whose copies take as long as to a core that shares no cache: two ranks on
    /// EPYC that are taken for such, windows that rest, a broadcast of 4 KiB takes 1.4 times as long, of 32 KiB 1.25 times.
    #[cold]
    fn find_inbox(&mut self, transport: &mut dyn Transport, slot: usize) -> Result<()> {
        let Some(memory) = transport.inbox(self.rank, self.inbox_there)? else {
            self.posted = Inbox::Far;
            return Ok(());
        };
        // Where its own slots begin, as the key says.
        let start = self.inbox_there.base as usize;
        if self.area_there > slot {
            let _ = memory.map_pages(start, slots_of(slot, self.area_there) * self.area_there);
        }
        self.posted = Inbox::At(memory, start);
        Ok(())
    }

    /// Puts a message from its place in the outbox into a slot, which is `there` from where the channel's slots begin; of its
    /// head only what is not known there. Not inlined, so that messages that are posted do not carry it along.
    #[inline(never)]
    fn put(
        &mut self,
        (transport, tokens): (&mut dyn Transport, &mut Tokens),
        (bank, from): (&mut Bank, usize),
        (slot, there): (usize, usize),
        (head, data): (&mut [u8], Option<(&Memory, &[Segment])>),
        notice: u32,
    ) -> Result<Posted> {
        let mark = if bank.slot > HEADER { self.mark(head) } else { Mark::Plain };
        set_mark(head, mark.encode());
        let skipped = if let Mark::Recall(_) = mark { BEGINNING } else { 0 };
        let outbox = bank.outbox(transport)?;
        let put = Put {
            peer: self.rank,
            from: outbox,
            segments: &[write(&outbox.memory, from + skipped, &head[skipped..], data)],
            to: self.inbox_there,
            to_offset: (there + skipped) as u64,
            notice,
            report: Report::Never,
            token: 0,
            attended: true,
            for_user: false,
            gait: Gait::Straight,
        };
        let posted = tokens.put(transport, Use::Slot, put)?;
        if posted != Posted::Busy {
            self.has_gone(mark, head, slot);
        }
        Ok(posted)
    }

    /// What is done with the beginning of a head that is put there. Longer ones, of words that have keys behind them, go in full.
    fn mark(&mut self, head: &[u8]) -> Mark {
        match head.first_chunk() {
            Some(beginning) if head.len() == HEAD => self.known.get_or_insert_default().told.mark(beginning),
            _ => Mark::Plain,
        }
    }

    /// It was put so, into this slot.
    fn has_gone(&mut self, mark: Mark, head: &[u8], slot: usize) {
        if let (Some(known), Some(beginning)) = (&mut self.known, head.first_chunk()) {
            known.told.sent(mark, beginning, slot);
        }
    }

    /// Where the next message goes, if there is a slot for it.
    fn next_there(&self) -> Option<Next> {
        let (slot, seal) = self.there.next(self.free)?;
        Some(Next { slot, seal, offset: slot * self.area_there + self.there.next_at(slot) })
    }

    /// Whether its peer lacks half of its slots or more, and some can be given back.
    fn is_due(&self) -> bool {
        self.owed != 0 && (self.owed | self.held).count_ones() as usize >= SLOTS / 2
    }
}

impl Bank {
    /// As large as the inbox is without areas. Nobody puts into it.
    fn outbox(&mut self, transport: &mut dyn Transport) -> Result<&Region> {
        match &mut self.outbox {
            Some(outbox) => Ok(outbox),
            none => {
                let memory = Memory::zeroed(self.channels * SLOTS * self.slot)?;
                Ok(none.insert(transport.register(memory)?))
            }
        }
    }

    /// Where a slot begins in the outbox, whatever slots its peer has.
    fn place_out(&self, channel: usize, slot: usize) -> usize {
        ((channel - self.first) * SLOTS + slot) * self.slot
    }

    /// Where a slot's area begins in the inbox.
    fn place(&self, channel: usize, slot: usize) -> usize {
        ((channel - self.first) * slots_of(self.slot, self.area) + slot) * self.area
    }

    /// The slots of a channel, a bit each.
    fn all(&self) -> u8 {
        all(slots_of(self.slot, self.area))
    }

    /// How far a slot may move.
    fn room(&self) -> usize {
        self.area - self.slot
    }
}

fn senseless(peer: Rank) -> Error {
    let what = format!("rank {peer} sent a message that makes no sense");
    Error::transport("slot", what, "is it the same version?")
}

/// How many slots of such a size, with such areas, a channel has.
fn slots_of(size: usize, area: usize) -> usize {
    if area > size { ROAMERS } else { SLOTS }
}

/// So many, a bit each.
fn all(slots: usize) -> u8 {
    u8::MAX >> (SLOTS - slots)
}

/// Writes a message to its place in an outbox.
fn write(outbox: &Memory, offset: usize, head: &[u8], data: Option<(&Memory, &[Segment])>) -> Segment {
    outbox.write(offset, head);
    let mut end = offset + head.len();
    if let Some((memory, segments)) = data {
        for segment in segments {
            outbox.copy(end, memory, segment.offset, segment.len);
            end += segment.len;
        }
    }
    Segment { offset, len: end - offset }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::Collective;
    use crate::engine::call::{Call, DataHead, Kind, Signature, Start};
    use crate::rank::Place;
    use crate::transport::Event;
    use crate::transport::loopback::Loopback;
    use crate::transport::shm::Shm;

    #[test]
    fn messages_go_round_the_free_slots_and_no_seal_is_zero_or_comes_twice_in_a_row() {
        let (mut there, mut here) = (Round::default(), Round::default());
        let mut last = [0; SLOTS];
        let mut chance = fastrand::Rng::with_seed(7);
        for _ in 0..5000 {
            let free = chance.u8(..);
            assert_eq!(there.next(free), here.next(free), "both ends expect the same");
            let Some((slot, seal)) = there.next(free) else {
                assert_eq!(free, 0);
                continue;
            };
            assert!(free >> slot & 1 == 1 && seal != 0 && seal != last[slot]);
            last[slot] = seal;
            there.pass(slot, 0, 0);
            here.pass(slot, 0, 0);
        }
        let mut round = Round::default();
        let slots: Vec<_> = (0..10)
            .filter_map(|_| {
                let (slot, _) = round.next(0b1011_0110)?;
                round.pass(slot, 0, 0);
                Some(slot)
            })
            .collect();
        assert_eq!(slots, [1, 2, 4, 5, 7, 1, 2, 4, 5, 7]);
    }

    #[test]
    fn long_messages_use_all_slots_that_have_areas_unless_every_seventh_is_one() {
        for period in 1..=20 {
            let (mut round, mut used) = (Round::default(), [0; ROAMERS]);
            for number in 0..period * ROAMERS {
                let (slot, _) = round.next(all(ROAMERS)).unwrap();
                used[slot] += usize::from(number % period == 0);
                round.pass(slot, 0, 0);
            }
            assert_eq!(used == [1; ROAMERS], period % ROAMERS != 0, "every {period}th: {used:?}");
        }
    }

    #[test]
    fn a_slot_moves_on_behind_long_messages_and_stays_in_its_area() {
        let (mut round, mut chance) = (Round::default(), fastrand::Rng::with_seed(5));
        const ROOM: usize = 5 * PAYLOAD + 7;
        let mut expected = 0;
        for _ in 0..1000 {
            let bytes = chance.usize(0..=PAYLOAD);
            let at = round.next_at(3);
            assert_eq!(at, expected);
            let moved = round.pass(3, bytes as u64, ROOM);
            assert_eq!(round.at[3] as usize, at, "it lies where it was expected");
            let behind = at + if bytes < LONG { 0 } else { (HEAD + bytes).next_multiple_of(LINE) };
            expected = if behind <= ROOM { behind } else { 0 };
            assert_eq!(moved, Some(expected).filter(|_| expected != at));
        }
        assert_eq!(round.pass(3, u64::MAX, ROOM), None, "no peer moves it far");
    }

    /// Messages of all lengths, whose bytes could be taken for seals, are seen, or heard of, in their order, whole, and no
    /// other.
    #[test]
    #[cfg_attr(miri, ignore = "it has no memfd_create")]
    fn what_lies_where_a_slot_moves_to_is_not_taken_for_a_message() {
        let [(mut one, mut source, mut tokens), (mut other, mut target, mut others)] =
            two(ROAMERS * 3 * WIDE);
        let mut chance = fastrand::Rng::with_seed(3);
        let call = Call { communicator: 1, number: 2, signature: Signature::bare(Collective::Barrier) };
        let data = Memory::zeroed(PAYLOAD).unwrap();
        for number in 0..3000_u32 {
            let expected = target.expected(0).unwrap();
            assert!(!target.has_come(expected), "message {number}");
            let bytes = chance.usize(0..=PAYLOAD);
            // That of a later message, wherever it begins.
            let seal = (number / ROAMERS as u32 + chance.u32(0..12)) as u8;
            data.write(0, &vec![seal; bytes]);
            let start = Start { number: call.number, iteration: 0 };
            let head = DataHead::new(call).of(start, number, bytes as u64);
            let all = [Segment { offset: 0, len: bytes }];
            assert!(source.send(&mut one, &mut tokens, 0, &mut head.bytes(), Some((&data, &all))).unwrap());
            assert!(target.has_come(expected));
            let told = |notice| match Notice::decode(notice) {
                Notice::Slot { channel, slot } => Landed { channel: channel as usize, slot: slot.into() },
                other => panic!("{other:?}"),
            };
            let landed = if chance.bool() {
                let (landed, _) = target.see(expected);
                assert_eq!(target.news(told(other.next_notice().unwrap())).unwrap(), None);
                landed
            } else {
                let landed = told(other.next_notice().unwrap());
                assert!(target.news(landed).unwrap().is_some());
                landed
            };
            assert_eq!(
                target.header(landed).unwrap().kind,
                Kind::Data { round: number, bytes: bytes as u64 }
            );
            assert!(target.copied(landed, bytes as u64).iter().all(|&byte| byte == seal));
            target.release(landed);
            assert!(target.pay(&mut other, &mut others).unwrap());
            while let Some(Notice::Credit { channel, slots }) = one.next_notice().map(Notice::decode) {
                source.credit(channel as usize, slots);
            }
        }
    }

    /// Two ranks with a channel between them, in shared memory, whose slots have areas of so many bytes more together.
    fn two(span: usize) -> [(Shm, Slots, Tokens); 2] {
        meet(shared(2), &[span; 2]).try_into().ok().unwrap()
    }

    fn shared(size: u32) -> Vec<Shm> {
        let mut all: Vec<_> = (0..size).map(|rank| Shm::open(Place { rank, size }).unwrap()).collect();
        let cards: Vec<_> = all.iter().map(|shm| shm.card().unwrap()).collect();
        all.iter_mut().for_each(|shm| shm.connect(&cards).unwrap());
        all
    }

    /// Ranks with channels to all others, in the order of these; each one's slots have areas of so many bytes more together.
    fn meet<T: Transport>(mut all: Vec<T>, spans: &[usize]) -> Vec<(T, Slots, Tokens)> {
        let mut slots: Vec<_> = spans.iter().map(|_| Slots::default()).collect();
        let add = |(i, slots): (usize, &mut Slots)| {
            let peers: Vec<_> = (0..spans.len()).filter(|&peer| peer != i).map(|peer| peer as Rank).collect();
            slots.add(&mut all[i], &peers, WIDE, spans[i]).unwrap()
        };
        let cards: Vec<_> = slots.iter_mut().enumerate().map(add).collect();
        for (i, slots) in slots.iter_mut().enumerate() {
            slots.connect(&all[i], &cards[i], |peer| cards[peer as usize].there(i as Rank)).unwrap();
        }
        all.into_iter().zip(slots).map(|(end, slots)| (end, slots, Tokens::new(8))).collect()
    }

    /// What one rank calls its channel to another.
    fn channel(own: usize, peer: usize) -> usize {
        peer - usize::from(peer > own)
    }

    /// Everybody sends everybody else long messages, one at a time, of calls that come again, and hears of each, whole.
    fn talk<T: Transport>(ends: &mut [(T, Slots, Tokens)]) {
        let of = |number| Call { communicator: 1, number, signature: Signature::bare(Collective::Barrier) };
        let data = Memory::zeroed(PAYLOAD).unwrap();
        let pairs =
            || (0..3).flat_map(|from| (0..3).map(move |to| (from, to))).filter(|(from, to)| from != to);
        let mark = |number: u32, from: usize, to: usize| (number as usize * 9 + 3 * from + to) as u8;
        for number in 0..50 {
            for (from, to) in pairs() {
                data.write(0, &[mark(number, from, to); PAYLOAD]);
                let start = Start { number, iteration: 0 };
                let mut head = DataHead::new(of(number)).of(start, number % 3, PAYLOAD as u64).bytes();
                let all = [Segment { offset: 0, len: PAYLOAD }];
                let (end, slots, tokens) = &mut ends[from];
                assert!(slots.send(end, tokens, channel(from, to), &mut head, Some((&data, &all))).unwrap());
            }
            for (to, (end, slots, tokens)) in ends.iter_mut().enumerate() {
                let (mut events, mut heard) = (Vec::new(), 0);
                // What comes late may take several polls.
                (0..100).for_each(|_| end.poll(&mut events).unwrap());
                for event in events {
                    let Event::Notice(notice) = event else { continue };
                    match Notice::decode(notice) {
                        Notice::Slot { channel: number_here, slot } => {
                            assert!(slots.has_slot(number_here, slot));
                            let landed = Landed { channel: number_here as usize, slot: slot.into() };
                            assert!(slots.news(landed).unwrap().is_some());
                            let header = slots.header(landed).unwrap();
                            assert_eq!(header.call, of(number));
                            assert_eq!(header.kind, Kind::Data { round: number % 3, bytes: PAYLOAD as u64 });
                            let from = slots.rank_of(landed.channel) as usize;
                            assert_eq!(channel(to, from), landed.channel);
                            let bytes = slots.copied(landed, PAYLOAD as u64);
                            assert!(
                                bytes.iter().all(|&byte| byte == mark(number, from, to)),
                                "{number}: {from} to {to}"
                            );
                            slots.release(landed);
                            heard += 1;
                        }
                        Notice::Credit { channel, slots: back } => slots.credit(channel as usize, back),
                        other => panic!("{other:?}"),
                    }
                }
                assert_eq!(heard, 2, "message {number} to rank {to}");
                assert!(slots.pay(end, tokens).unwrap());
            }
        }
    }

    /// From a rank whose slots have no areas, or smaller ones, to one whose slots have, and the other way, by the inbox itself and by the
    /// outbox.
    #[test]
    #[cfg_attr(miri, ignore = "it has no memfd_create")]
    fn ranks_find_each_others_slots_whatever_areas_those_have() {
        let spans = [0, 5 * WIDE, 60 * WIDE];
        let mut ends = meet(Loopback::world(3, 1).unwrap(), &spans);
        talk(&mut ends);
        let start = Start { number: 50, iteration: 0 };
        let call = Call { communicator: 1, number: 50, signature: Signature::bare(Collective::Barrier) };
        let head = DataHead::new(call).of(start, 0, PAYLOAD as u64).bytes();
        for channel in ends.iter_mut().flat_map(|(_, slots, _)| &mut slots.channels) {
            assert!(matches!(channel.mark(&head), Mark::Recall(_)), "it need not travel again");
        }
        let mut ends = meet(shared(3), &spans);
        talk(&mut ends);
        assert!(ends.iter().flat_map(|(_, slots, _)| &slots.channels).all(|channel| channel.known.is_none()));
        for (i, (_, slots, _)) in ends.iter_mut().enumerate() {
            for channel in 0..2 {
                assert_eq!(slots.has_slot(channel, 7), spans[i] == 0);
                assert!(slots.has_slot(channel, 6) && !slots.has_slot(channel + 2, 0));
                slots.credit(channel as usize, u8::MAX);
                assert_eq!(slots.channels[channel as usize].free, slots.channels[channel as usize].all);
            }
        }
        let alls = |i: usize| ends[i].1.channels.iter().map(|channel| channel.all).collect::<Vec<_>>();
        assert_eq!([0, 1, 2].map(alls), [[0x7f, 0x7f], [0xff, 0x7f], [0xff, 0x7f]]);
    }

    /// What rank 1 hears next, in its slot, of which the beginning was overwritten before rank 0 sent.
    fn hear(ends: &mut [(Loopback, Slots, Tokens)], head: &Head) -> (Landed, bool, Result<Option<Head>>) {
        const STALE: [u8; BEGINNING] = [0xaa; BEGINNING];
        let (_, target, _) = &ends[1];
        (0..SLOTS).for_each(|slot| target.place(Landed { channel: 0, slot }).0.write(slot * WIDE, &STALE));
        let (end, source, tokens) = &mut ends[0];
        assert!(source.send(end, tokens, 0, &mut head.bytes(), None).unwrap());
        let (end, target, _) = &mut ends[1];
        let mut events = Vec::new();
        while events.is_empty() {
            end.poll(&mut events).unwrap();
        }
        let [Event::Notice(notice)] = events[..] else { panic!("{events:?}") };
        let Notice::Slot { channel: 0, slot } = Notice::decode(notice) else { panic!("{notice}") };
        let landed = Landed { channel: 0, slot: slot.into() };
        let mut lies = [0; BEGINNING];
        let (memory, at) = target.place(landed);
        memory.read(at, &mut lies);
        (landed, lies != STALE, target.news(landed))
    }

    #[test]
    fn what_a_peer_tells_before_this_side_is_connected_is_remembered() {
        let mut worlds = Loopback::world(2, 1).unwrap();
        let mut slots = [Slots::default(), Slots::default()];
        let cards = [0, 1].map(|i| slots[i].add(&mut worlds[i], &[1 - i as Rank], WIDE, 0).unwrap());
        slots[0].connect(&worlds[0], &cards[0], |_| cards[1].there(0)).unwrap();
        let mut ends: Vec<_> =
            worlds.into_iter().zip(slots).map(|(end, slots)| (end, slots, Tokens::new(8))).collect();
        let call = Call { communicator: 1, number: 0, signature: Signature::bare(Collective::Barrier) };
        let head = |number| DataHead::new(call).of(Start { number, iteration: 0 }, 0, 0);
        let (landed, travelled, heard) = hear(&mut ends, &head(0));
        assert!(travelled && heard.unwrap().is_some());
        let (end, target, _) = &mut ends[1];
        target.release(landed);
        target.connect(end, &cards[1], |_| cards[0].there(1)).unwrap();
        ends[0].1.credit(0, 1);
        let (_, travelled, heard) = hear(&mut ends, &head(1));
        assert!(!travelled && heard.unwrap().is_some());
    }

    #[test]
    fn a_beginning_that_was_put_before_is_not_put_again_and_a_peer_that_does_not_know_it_says_so() {
        let mut ends = meet(Loopback::world(2, 1).unwrap(), &[0; 2]);
        let signature = Signature::bare(Collective::Barrier);
        let calls = [1, 2].map(|communicator| Call { communicator, number: 0, signature });
        for number in 0..40 {
            let call = calls[number % 2];
            let start = Start { number: number as u32, iteration: 0 };
            let (landed, travelled, heard) = hear(&mut ends, &DataHead::new(call).of(start, 3, 0));
            assert_eq!(travelled, number < 2, "message {number}");
            heard.unwrap().unwrap();
            let (end, target, tokens) = &mut ends[1];
            let header = target.header(landed).unwrap();
            assert_eq!(header.call, Call { number: number as u32, ..call });
            assert_eq!(header.kind, Kind::Data { round: 3, bytes: 0 });
            target.release(landed);
            let owed = std::mem::take(&mut target.channels[0].owed);
            assert!(target.pay(end, tokens).unwrap());
            ends[0].1.credit(0, owed);
        }
        ends[1].1.channels[0].known = None;
        let head = DataHead::new(calls[0]).of(Start { number: 40, iteration: 0 }, 3, 0);
        let (_, travelled, heard) = hear(&mut ends, &head);
        assert!(
            !travelled
                && heard.unwrap_err().to_string().contains("rank 0 sent a message that makes no sense")
        );
    }

    #[test]
    #[cfg_attr(miri, ignore = "it has no memfd_create")]
    fn without_peers_there_is_no_bank() {
        let [(mut one, mut slots, _), _] = two(0);
        assert_eq!(slots.add(&mut one, &[], WIDE, 0).unwrap(), Card::default());
        assert_eq!(slots.banks.len(), 1);
    }

    #[test]
    #[cfg_attr(miri, ignore = "it has no memfd_create")]
    fn what_is_seen_is_no_news_when_it_is_told_of_and_not_more_is_seen_than_is_to_be_told_of() {
        let [(mut one, mut source, mut tokens), (mut other, mut target, mut others)] = two(0);
        let mut notices = 0;
        for number in 0..2 * u32::from(AHEAD) {
            let head = Head::of([0, u64::from(number).to_le(), 0, 0, 0, 0, 0]);
            assert!(source.send(&mut one, &mut tokens, 0, &mut head.bytes(), None).unwrap());
            let seen = target.expected(0).filter(|&expected| target.has_come(expected));
            assert_eq!(seen.is_some(), number < u32::from(AHEAD), "message {number}");
            let (landed, head) = match seen {
                Some(expected) => target.see(expected),
                None => loop {
                    // Those that were seen are told of first, and are no news.
                    let Notice::Slot { channel, slot } = Notice::decode(other.next_notice().unwrap()) else {
                        panic!()
                    };
                    let landed = Landed { channel: channel as usize, slot: slot.into() };
                    notices += 1;
                    if let Some(head) = target.news(landed).unwrap() {
                        break (landed, head);
                    }
                    assert!(notices <= AHEAD);
                },
            };
            assert_eq!(head.bytes()[8..12], number.to_le_bytes());
            target.release(landed);
            if notices > 0 {
                return assert_eq!(notices, AHEAD + 1);
            }
            assert!(target.pay(&mut other, &mut others).unwrap());
            while let Some(Notice::Credit { channel, slots }) = one.next_notice().map(Notice::decode) {
                source.credit(channel as usize, slots);
            }
        }
    }
}
