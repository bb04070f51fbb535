//! What a rank is about to do, as it tells the ranks that it has to do with: two that do not mean the
//! same find out.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::fmt;

use crate::algorithm;
use crate::collective::Collective;
use crate::fold;
use crate::plan::Landing;
use crate::rank::Rank;
use crate::transport::RemoteKey;

/// What must be the same on all ranks of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signature {
    /// What is done.
    pub collective: Collective,
    /// By which plan: its number in the catalogue.
    pub algorithm: u8,
    /// The numbers of operator and element type, where it combines data.
    pub fold: Option<(u8, u8)>,
    /// From or to which rank; 0 where there is none.
    pub root: Rank,
    /// How many bytes there are in all.
    pub bytes: u64,
    /// In how many blocks.
    pub blocks: u32,
    /// What stands for the ranks' counts where they may differ; 0 elsewhere.
    pub counts: u32,
    /// Whether it is prepared, to be started many times.
    pub prepared: bool,
}

impl Signature {
    /// Of a call that moves nothing.
    pub fn bare(collective: Collective) -> Self {
        Signature {
            collective,
            algorithm: 0,
            fold: None,
            root: 0,
            bytes: 0,
            blocks: 0,
            counts: 0,
            prepared: false,
        }
    }

    /// What its algorithm is called, or its number where there is none such here.
    fn way(&self) -> Cow<'static, str> {
        match algorithm::name_of(self.collective, self.algorithm) {
            Some(name) => name.into(),
            None => format!("plan {}", self.algorithm).into(),
        }
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prepared = if self.prepared { "prepared " } else { "" };
        write!(f, "{prepared}{}", self.collective.name())?;
        match self.collective {
            Collective::Finalize => return Ok(()),
            // In full, to tell two of them apart.
            Collective::Barrier if f.alternate() => return write!(f, "(by {})", self.way()),
            Collective::Barrier => return Ok(()),
            _ => {}
        }
        write!(f, "(")?;
        if self.collective.has_root() {
            write!(f, "root {}, ", self.root)?;
        }
        if let Some(numbers) = self.fold {
            write!(f, "{}, ", fold::words(numbers))?;
        }
        let blocks = if self.blocks == 1 { "block" } else { "blocks" };
        write!(f, "{} bytes in {} {blocks}", self.bytes, self.blocks)?;
        if self.counts != 0 {
            write!(f, ", counts {:08x}", self.counts)?;
        }
        match self.collective {
            // Which knows one way only.
            Collective::Probe => write!(f, ")"),
            _ => write!(f, ", by {})", self.way()),
        }
    }
}

/// A call: the n-th on its communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Which communicator; all its ranks know it by the same number.
    pub communicator: u32,
    /// From 1, in the order in which calls are made on the communicator.
    pub number: u32,
    /// What is done.
    pub signature: Signature,
}

impl Call {
    /// One number for it among the calls of all communicators, as the lifeline takes it.
    pub fn name(&self) -> u64 {
        u64::from(self.communicator) << 32 | u64::from(self.number)
    }
}

/// What a message in a slot is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// "Put into this memory, and name this operation": the sender is ready.
    Ready {
        /// The memory.
        target: RemoteKey,
        /// The receiver's staging slots in the sender's memory, where the call stages.
        staging: RemoteKey,
        /// The sender's number of the operation.
        operation: u16,
        /// The receiver's number among the sender's sources.
        source: u32,
        /// How the receiver may fold the first leg that it has for the sender to fold, in that memory: nothing comes
        /// before it.
        opens: Option<Landing>,
        /// Bytes of the part between the two, where nobody else knows (see
        /// [`Layout::between`](crate::plan::layout::Layout::between)).
        bytes: u64,
    },
    /// The same memory and operation again, for the next start of a prepared call.
    Again,
    /// The blocks of a round follow.
    Data {
        /// Of which round.
        round: u32,
        /// How many bytes they are.
        bytes: u64,
    },
    /// So many of the receiver's staged pieces have been taken: as many more may come.
    Taken {
        /// How many.
        pieces: u32,
    },
    /// The blocks of a round lie where the data of this message say, and can be read there.
    Shown {
        /// Of which round.
        round: u32,
        /// How many bytes they are.
        bytes: u64,
        /// In how many runs.
        runs: u16,
        /// Whether the sender folds the first run itself, if the receiver says that it [may](Kind::Ready::opens).
        offers: bool,
    },
    /// What was shown for a round has been read.
    Loaded {
        /// Which.
        round: u32,
    },
    /// It is the turn of the receiver's put of a round.
    Turn {
        /// Of which.
        round: u32,
    },
}

impl Kind {
    /// Whether it is about one start of a prepared call only; other words may be told before it or after it.
    pub fn is_of_a_start(self) -> bool {
        matches!(self, Kind::Data { .. } | Kind::Shown { .. } | Kind::Turn { .. })
    }
}

/// Whether one number, of a call or of a start, comes before another: they begin anew when all have been used.
pub fn is_before(one: u32, other: u32) -> bool {
    one.wrapping_sub(other) > u32::MAX / 2
}

/// The head of every message in a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// What it is for.
    pub kind: Kind,
    /// The sender's call.
    pub call: Call,
    /// Which start of a prepared call, from 0.
    pub iteration: u32,
}

/// Bytes of the longest [`Header`], that of a word that a rank is ready.
pub const HEADER: usize = HEAD + 32;
/// Bytes of all other headers: data begin behind them, so that a few share their cache line.
pub const HEAD: usize = 56;
/// Bytes of a head's beginning: what calls that are made again have in common.
pub const BEGINNING: usize = 48;

/// Bytes of a key in a message's data, and of the place and length of a run of bytes.
pub const PAIR: usize = 16;

/// Bytes of a message's data that say where so many runs of bytes are: a key and each run's place and length.
pub fn shown_bytes(runs: u16) -> usize {
    PAIR * (1 + usize::from(runs))
}

/// Where a message says which slots it gives back, which is not its sender's call's.
const CREDITS: usize = 52;

/// Where a word that a rank is ready says how its first leg is folded, and one of what is shown that some of it may be.
const OPENS: usize = 53;

/// Where a head says what it is for. Its first byte is 0, and in a slot the message's
/// [seal](crate::transport::Message::seal).
const KIND: usize = 54;

/// Where a message says what is to be done with its [beginning](super::beginnings), which is not its sender's call's either.
const MARK: usize = 55;

/// The words of a head: that with its round, that with its bytes, and the last one.
const WORD: usize = 4;
const LONG: usize = 5;
const LAST: usize = BEGINNING / 8;
/// Where in the last one what is given back, its kind and its mark are.
const CREDITS_AT: usize = 8 * (CREDITS % 8);
const KIND_AT: usize = 8 * (KIND % 8);
const MARK_AT: usize = 8 * (MARK % 8);

/// The first bytes of a message, as words, by which they are compared where they lie: a processor that reads across several
/// stores of its own what it has just written, as a copy, waits until all of it is in its cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head([u64; HEAD / 8]);

impl Head {
    /// As they lie, little-endian.
    pub fn of(words: [u64; HEAD / 8]) -> Head {
        Head(words.map(u64::from_le))
    }

    fn of_bytes(bytes: &[u8; HEAD]) -> Head {
        Head::of(bytemuck::cast(*bytes))
    }

    /// As they are to lie.
    pub fn bytes(&self) -> [u8; HEAD] {
        bytemuck::cast(self.0.map(u64::to_le))
    }

    /// Which slots it gives back.
    pub fn credits(&self) -> u8 {
        (self.0[LAST] >> CREDITS_AT) as u8
    }

    /// How many bytes of data the message has; of other messages than data none are counted.
    pub fn data_bytes(&self) -> u64 {
        if (self.0[LAST] >> KIND_AT) as u8 == DATA { self.0[LONG] } else { 0 }
    }
}

/// What a message that lies here, from its head's last word on, says of its beginning.
pub fn mark_of(last: u64) -> u8 {
    last.to_le_bytes()[MARK - BEGINNING]
}

/// Has a head that is about to be sent say what is to be done with its beginning, of which it says nothing so far.
pub fn set_mark(head: &mut [u8], mark: u8) {
    change_last(head, |last| last | u64::from(mark) << MARK_AT);
}

/// Changes a head's last word, in one store: a copy that reads across single bytes that have just been stored waits until they are in
/// the cache.
fn change_last(head: &mut [u8], change: impl FnOnce(u64) -> u64) {
    let last = &mut head[BEGINNING..HEAD];
    let word = last.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    last.copy_from_slice(&change(word).to_le_bytes());
}

/// A call's number and its start, the one that changes from call to call behind the other.
fn by_change(prepared: bool, number: u32, iteration: u32) -> [u32; 2] {
    if prepared { [number, iteration] } else { [iteration, number] }
}

/// Has a head that is about to be sent give back these slots and no others, and say nothing of its beginning; how many bytes of
/// data its message has, as of a [`Head`]: what both ends count.
pub fn give_back(head: &mut [u8], slots: u8) -> u64 {
    change_last(head, |last| last & !(0xff << CREDITS_AT | 0xff << MARK_AT) | u64::from(slots) << CREDITS_AT);
    head.first_chunk().map_or(0, |head| Head::of_bytes(head).data_bytes())
}

/// The kind of a head that is followed by data, of one that says where they are shown, and of one that they have been read.
const DATA: u8 = 3;
const SHOWN: u8 = 6;
const LOADED: u8 = 7;

/// In a header without operator: numbers of operators begin with 1.
const NO_FOLD: (u8, u8) = (0, 0);

impl Header {
    /// How many bytes of it travel.
    pub fn size(&self) -> usize {
        if matches!(self.kind, Kind::Ready { .. }) { HEADER } else { HEAD }
    }

    /// How many bytes of data follow.
    pub fn data(&self) -> u64 {
        match self.kind {
            Kind::Data { bytes, .. } => bytes,
            Kind::Shown { runs, .. } => shown_bytes(runs) as u64,
            _ => 0,
        }
    }

    /// As it lies in a slot, but for the slots that are given back on the way: little-endian, fixed places.
    pub fn encode(&self) -> [u8; HEADER] {
        let none = RemoteKey::default();
        let (kind, target, staging, operation, word, long) = match self.kind {
            Kind::Ready { target, staging, operation, source, bytes, .. } => {
                (1, target, staging, operation, source, bytes)
            }
            Kind::Again => (2, none, none, 0, 0, 0),
            Kind::Data { round, bytes } => (DATA, none, none, 0, round, bytes),
            Kind::Taken { pieces } => (4, none, none, 0, pieces, 0),
            Kind::Turn { round } => (5, none, none, 0, round, 0),
            Kind::Shown { round, bytes, runs, .. } => (SHOWN, none, none, runs, round, bytes),
            Kind::Loaded { round } => (LOADED, none, none, 0, round, 0),
        };
        let signature = self.call.signature;
        let fold = signature.fold.unwrap_or(NO_FOLD);
        let [still, serial] = by_change(signature.prepared, self.call.number, self.iteration);
        let mut bytes = [0; HEADER];
        bytes[KIND] = kind;
        bytes[1] = signature.collective as u8;
        bytes[2] = signature.algorithm;
        bytes[3] = signature.prepared.into();
        bytes[4..8].copy_from_slice(&signature.root.to_le_bytes());
        bytes[8..16].copy_from_slice(&signature.bytes.to_le_bytes());
        bytes[16..20].copy_from_slice(&signature.blocks.to_le_bytes());
        bytes[20..22].copy_from_slice(&operation.to_le_bytes());
        bytes[22..24].copy_from_slice(&[fold.0, fold.1]);
        bytes[24..28].copy_from_slice(&self.call.communicator.to_le_bytes());
        bytes[28..32].copy_from_slice(&signature.counts.to_le_bytes());
        bytes[32..36].copy_from_slice(&word.to_le_bytes());
        bytes[36..40].copy_from_slice(&still.to_le_bytes());
        bytes[40..48].copy_from_slice(&long.to_le_bytes());
        bytes[48..52].copy_from_slice(&serial.to_le_bytes());
        bytes[56..64].copy_from_slice(&target.base.to_le_bytes());
        bytes[64..72].copy_from_slice(&target.key.to_le_bytes());
        bytes[72..80].copy_from_slice(&staging.base.to_le_bytes());
        bytes[80..88].copy_from_slice(&staging.key.to_le_bytes());
        bytes[OPENS] = match self.kind {
            Kind::Ready { opens: Some(Landing::Fold), .. } => 1,
            Kind::Ready { opens: Some(Landing::FoldBefore), .. } => 2,
            Kind::Shown { offers, .. } => offers.into(),
            _ => 0,
        };
        bytes
    }

    /// Its first bytes.
    fn head(&self) -> Head {
        self.encode().first_chunk().map_or(Head([0; HEAD / 8]), Head::of_bytes)
    }

    /// From a slot, with the slots that are given back; `None` for what no rank of this version writes.
    pub fn decode(bytes: &[u8; HEADER]) -> Option<(Header, u8)> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let key = |at: usize| RemoteKey { base: long(at), key: long(at + 8) };
        let operation = u16::from_le_bytes([bytes[20], bytes[21]]);
        let kind = match bytes[KIND] {
            1 => {
                let (target, staging) = (key(56), key(72));
                let opens = match bytes[OPENS] {
                    1 => Some(Landing::Fold),
                    2 => Some(Landing::FoldBefore),
                    _ => None,
                };
                Kind::Ready { target, staging, operation, source: word(32), opens, bytes: long(40) }
            }
            2 => Kind::Again,
            DATA => Kind::Data { round: word(32), bytes: long(40) },
            4 => Kind::Taken { pieces: word(32) },
            5 => Kind::Turn { round: word(32) },
            SHOWN => {
                let offers = bytes[OPENS] != 0;
                Kind::Shown { round: word(32), bytes: long(40), runs: operation, offers }
            }
            LOADED => Kind::Loaded { round: word(32) },
            _ => return None,
        };
        let fold = (bytes[22], bytes[23]);
        let signature = Signature {
            collective: Collective::numbered(bytes[1])?,
            algorithm: bytes[2],
            fold: (fold != NO_FOLD).then_some(fold),
            root: word(4),
            bytes: long(8),
            blocks: word(16),
            counts: word(28),
            prepared: bytes[3] != 0,
        };
        let [number, iteration] = if signature.prepared { [36, 48] } else { [48, 36] }.map(word);
        let call = Call { communicator: word(24), number, signature };
        Some((Header { kind, call, iteration }, bytes[CREDITS]))
    }
}

/// Which call of those that are made again it is, and which start of it.
#[derive(Debug, Clone, Copy)]
pub struct Start {
    /// The call's number.
    pub number: u32,
    /// From 0.
    pub iteration: u32,
}

/// The heads of the data of a call that is made again, which differ in its number, start, round and length only: made once,
/// and then filled in.
#[derive(Debug, Clone)]
pub struct DataHead(Head);

/// The lower half of a word: the fourth one's is the communicator, the fifth one's the round, the last one's the number or the start.
const LOW: u64 = u32::MAX as u64;

impl DataHead {
    /// Of all calls of this one's signature on its communicator.
    pub fn new(call: Call) -> Self {
        let call = Call { number: 0, ..call };
        let header = Header { kind: Kind::Data { round: 0, bytes: 0 }, call, iteration: 0 };
        DataHead(header.head())
    }

    /// The words of a start's messages, before round and length are filled in.
    fn at(&self, Start { number, iteration }: Start) -> [u64; HEAD / 8] {
        let Head(mut words) = self.0;
        let [still, serial] = by_change(is_prepared(&words), number, iteration);
        words[WORD] |= u64::from(still) << 32;
        words[LAST] |= u64::from(serial);
        words
    }

    /// Of the data of a round.
    pub fn of(&self, start: Start, round: u32, bytes: u64) -> Head {
        let mut words = self.at(start);
        words[WORD] |= u64::from(round);
        words[LONG] = bytes;
        Head(words)
    }

    /// Of the word where the data of a round are shown, in so many runs.
    pub fn of_shown(&self, start: Start, round: u32, bytes: u64, runs: u16) -> Head {
        let Head(mut words) = self.of_kind(SHOWN, start, round, bytes);
        words[2] |= u64::from(runs) << 32;
        Head(words)
    }

    /// Of the word that what was shown for a round has been read.
    pub fn of_loaded(&self, start: Start, round: u32) -> Head {
        self.of_kind(LOADED, start, round, 0)
    }

    fn of_kind(&self, kind: u8, start: Start, round: u32, bytes: u64) -> Head {
        let Head(mut words) = self.of(start, round, bytes);
        words[LAST] ^= u64::from(DATA ^ kind) << KIND_AT;
        Head(words)
    }

    /// The round of a message of this start whose head this is, and how many bytes it says there are; `None` for any other.
    pub fn read(&self, start: Start, head: &Head) -> Option<(u32, u64)> {
        let (mine, Head(theirs)) = (self.at(start), head);
        let differ = |at: usize| mine[at] ^ theirs[at];
        // All but the seal, the round and the length, what is given back, and what is nothing of a data head's.
        let differs = differ(0) >> 8
            | differ(1)
            | differ(2)
            | differ(3)
            | differ(WORD) & !LOW
            | differ(LAST) & (LOW | 0xff << KIND_AT);
        (differs == 0).then_some((theirs[WORD] as u32, theirs[LONG]))
    }

    /// Whether a message is of this start of a call of this number on this communicator, whatever it is for.
    pub fn is_of(&self, start: Start, head: &Head) -> bool {
        let (Head(mine), Head(theirs)) = (&self.0, head);
        let theirs_of = [(theirs[WORD] >> 32) as u32, theirs[LAST] as u32];
        (mine[3] ^ theirs[3]) & LOW == 0
            && by_change(is_prepared(theirs), start.number, start.iteration) == theirs_of
    }
}

/// Whether a head is of a prepared call.
fn is_prepared(words: &[u64; HEAD / 8]) -> bool {
    words[0].to_le_bytes()[3] != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(base: u64, key: u64, operation: u16, root: u32, bytes: u64, blocks: u32, number: u32, iteration: u32, communicator: u32, prepared: bool, counts: u32) {
            for fold in [None, Some((3, 200))] {
                let signature = Signature { collective: Collective::Reduce, algorithm: 200, fold, root, bytes, blocks, counts, prepared };
                let call = Call { communicator, number, signature };
                let (target, staging) = (RemoteKey { base, key }, RemoteKey { base: key, key: base });
                for kind in [
                    Kind::Ready { target, staging, operation, source: root, opens: None, bytes },
                    Kind::Ready { target, staging, operation, source: root, opens: Some(Landing::Fold), bytes },
                    Kind::Ready { target, staging, operation, source: root, opens: Some(Landing::FoldBefore), bytes },
                    Kind::Again,
                    Kind::Data { round: blocks, bytes },
                    Kind::Taken { pieces: root },
                    Kind::Turn { round: root },
                    Kind::Shown { round: root, bytes, runs: operation, offers: prepared },
                    Kind::Loaded { round: root },
                ] {
                    let header = Header { kind, call, iteration };
                    let mut encoded = header.encode();
                    encoded[CREDITS] = operation as u8;
                    prop_assert_eq!(Header::decode(&encoded), Some((header, operation as u8)));
                }
            }
        }

        #[test]
        fn heads_of_data_are_those_of_their_call_and_of_no_other(communicator: u32, number: u32, root: u32, bytes: u64, round: u32, credits: u8, other: u32) {
            let signature = Signature { root, bytes, ..Signature::bare(Collective::Reduce) };
            let header = |number, kind| Header { kind, call: Call { communicator, number, signature }, iteration: 0 };
            let first = |header: Header| header.head();
            let heads = DataHead::new(Call { communicator, number: other, signature });
            let [start, next] = [0, 1].map(|iteration| Start { number, iteration });
            let head = heads.of(start, round, bytes);
            prop_assert_eq!(head, first(header(number, Kind::Data { round, bytes })));
            let shown = first(header(number, Kind::Shown { round, bytes, runs: 3, offers: false }));
            prop_assert_eq!(heads.of_shown(start, round, bytes, 3), shown);
            prop_assert_eq!(heads.of_loaded(start, round), first(header(number, Kind::Loaded { round })));
            prop_assert_eq!([head.data_bytes(), shown.data_bytes()], [bytes, 0]);
            let mut lying = head.bytes();
            prop_assert_eq!([other as u8, credits].map(|credits| give_back(&mut lying, credits)), [bytes; 2]);
            prop_assert_eq!(give_back(&mut shown.bytes(), credits), 0);
            let head = Head::of_bytes(&lying);
            prop_assert_eq!((head.credits(), lying[CREDITS]), (credits, credits));
            prop_assert_eq!(heads.read(start, &head), Some((round, bytes)));
            set_mark(&mut lying, 0x81);
            let marked = Head::of_bytes(&lying);
            prop_assert_eq!((mark_of(marked.0[LAST]), marked.credits()), (0x81, credits));
            prop_assert_eq!(heads.read(start, &marked), Some((round, bytes)));
            prop_assert_eq!(give_back(&mut lying, credits), bytes);
            prop_assert_eq!(lying, head.bytes(), "what is sent again has no mark any more");
            let data = header(number, Kind::Data { round, bytes });
            let of = |signature| Header { call: Call { signature, ..data.call }, ..data };
            let elsewhere = Header { call: Call { communicator: !communicator, ..data.call }, ..data };
            for (stranger, is_of_start) in [
                (header(number, Kind::Turn { round }), true),
                (header(number ^ 1, data.kind), false),
                (elsewhere, false),
                (of(Signature { collective: Collective::Broadcast, ..signature }), true),
                (of(Signature { algorithm: !signature.algorithm, ..signature }), true),
                (of(Signature { root: !root, ..signature }), true),
                (of(Signature { bytes: !bytes, ..signature }), true),
                (of(Signature { blocks: !signature.blocks, ..signature }), true),
                (of(Signature { fold: Some((9, 9)), ..signature }), true),
                (of(Signature { counts: !signature.counts, ..signature }), true),
                (of(Signature { prepared: true, ..signature }), true),
            ] {
                let theirs = first(stranger);
                prop_assert_eq!(heads.read(start, &theirs), None, "{:?}", stranger);
                prop_assert_eq!(heads.is_of(start, &theirs), is_of_start, "{:?}", stranger);
            }
            prop_assert_eq!([shown, heads.of_loaded(start, round)].map(|word| heads.read(start, &word)), [None; 2]);
            prop_assert_eq!(heads.read(next, &head), None);
            prop_assert!(!heads.is_of(next, &head), "it is of the start before");
        }

        #[test]
        fn garbage_does_no_harm(bytes: [u8; 32], more: [u8; 32], rest: [u8; 24]) {
            let all: Vec<u8> = [&bytes[..], &more, &rest].concat();
            let _ = Header::decode(&all.try_into().unwrap());
        }
    }
}
