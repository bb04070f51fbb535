//! What lifelines say to each other, as bytes.
//!
//! Pure: it reads and writes no socket. Everything that comes in is bounded and checked; what does not
//! fit is `None`, never a panic. A connection begins with one [`Hello`] each way, whose layout stays the
//! same in all versions, so that builds that differ can say so; after it come frames: the length of
//! the body in two bytes, then the body, which begins with its kind. Integers are little-endian.
#![forbid(unsafe_code)]

use super::news::News;
use super::status::{Awaited, Awaiting, Report};
use crate::rank::Rank;

/// The version of the frames; ranks of one job must have the same.
pub const VERSION: u16 = 3;

/// The longest body of a frame, in bytes.
pub const MAX_BODY: usize = 1024;

/// The longest text in a frame, in bytes; longer ones are cut.
const MAX_TEXT: usize = 900;

const MAGIC: [u8; 8] = *b"circlife";

/// Who connects, and to whom; the answer is the same with both exchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    pub version: u16,
    pub job: u64,
    pub from: Rank,
    pub to: Rank,
}

impl Hello {
    /// Its length in bytes.
    pub const LEN: usize = 26;

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.version.to_le_bytes());
        bytes.extend(self.job.to_le_bytes());
        bytes.extend(self.from.to_le_bytes());
        bytes.extend(self.to.to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Option<Hello> {
        let mut reader = Reader(bytes.strip_prefix(&MAGIC)?);
        let hello =
            Hello { version: reader.u16()?, job: reader.u64()?, from: reader.u32()?, to: reader.u32()? };
        reader.end(hello)
    }

    /// What the other side must say.
    pub fn reply(&self) -> Hello {
        Hello { version: VERSION, job: self.job, from: self.to, to: self.from }
    }
}

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// To all.
    Fatal(News),
    /// To neighbours: the sender leaves in good order.
    Goodbye,
    /// From rank to rank: what are you doing, above all on this communicator?
    Question { from: Rank, to: Rank, id: u32, communicator: u32 },
    /// What `from` is doing, to the rank that asked.
    Reply { from: Rank, to: Rank, id: u32, report: Report },
}

const LOST: u8 = 1;
const ABORTED: u8 = 2;
const GOODBYE: u8 = 3;
const QUESTION: u8 = 4;
const REPLY: u8 = 5;

const IDLE: u8 = 1;
const BUSY: u8 = 2;
const LEFT: u8 = 3;
const UNREACHABLE: u8 = 4;
const AWAY: u8 = 5;

const NOTHING: u8 = 0;
const BLOCK: u8 = 1;
const READINESS: u8 = 2;

impl Message {
    /// The whole frame.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer(vec![0, 0]);
        match self {
            Message::Fatal(News::Lost { rank, how }) => writer.u8(LOST).u32(*rank).text(how),
            Message::Fatal(News::Aborted { by, why }) => writer.u8(ABORTED).u32(*by).text(why),
            Message::Goodbye => writer.u8(GOODBYE),
            Message::Question { from, to, id, communicator } => {
                writer.u8(QUESTION).u32(*from).u32(*to).u32(*id).u32(*communicator)
            }
            Message::Reply { from, to, id, report } => {
                writer.u8(REPLY).u32(*from).u32(*to).u32(*id).report(report)
            }
        };
        let body = (writer.0.len() - 2) as u16; // MAX_TEXT keeps every body below MAX_BODY
        writer.0[..2].copy_from_slice(&body.to_le_bytes());
        writer.0
    }

    /// The message with this body, among `size` ranks.
    pub fn decode(body: &[u8], size: u32) -> Option<Message> {
        let mut reader = Reader(body);
        let message = match reader.u8()? {
            LOST => Message::Fatal(News::Lost { rank: reader.rank(size)?, how: reader.text()? }),
            ABORTED => Message::Fatal(News::Aborted { by: reader.rank(size)?, why: reader.text()? }),
            GOODBYE => Message::Goodbye,
            QUESTION => Message::Question {
                from: reader.rank(size)?,
                to: reader.rank(size)?,
                id: reader.u32()?,
                communicator: reader.u32()?,
            },
            REPLY => Message::Reply {
                from: reader.rank(size)?,
                to: reader.rank(size)?,
                id: reader.u32()?,
                report: reader.report(size)?,
            },
            _ => return None,
        };
        reader.end(message)
    }
}

/// What the first bytes of a stream of frames are.
#[derive(Debug, PartialEq, Eq)]
pub enum First {
    /// A frame's body has `len` bytes, from byte 2 on.
    Body { len: usize },
    /// More must come first.
    Half,
    /// No frame.
    TooLong,
}

/// Looks for a frame at the start of `bytes`.
pub fn first_frame(bytes: &[u8]) -> First {
    let Some((prefix, rest)) = bytes.split_first_chunk::<2>() else { return First::Half };
    let len = usize::from(u16::from_le_bytes(*prefix));
    match len {
        len if len > MAX_BODY => First::TooLong,
        len if len > rest.len() => First::Half,
        len => First::Body { len },
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn u8(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn text(&mut self, text: &str) -> &mut Self {
        let text = cut(text);
        self.0.extend((text.len() as u16).to_le_bytes());
        self.0.extend(text.as_bytes());
        self
    }

    fn report(&mut self, report: &Report) -> &mut Self {
        match report {
            Report::Idle { made, elsewhere } => {
                self.u8(IDLE).u64(*made).text(elsewhere.as_deref().unwrap_or_default())
            }
            Report::Busy { name, number, awaited } => self.u8(BUSY).text(name).u64(*number).awaited(awaited),
            Report::Away { name, number, seconds } => self.u8(AWAY).text(name).u64(*number).u32(*seconds),
            Report::Left => self.u8(LEFT),
            Report::Unreachable => self.u8(UNREACHABLE),
        }
    }

    fn awaited(&mut self, awaited: &Option<Awaited>) -> &mut Self {
        let Some(Awaited { peer, what, round, rounds }) = awaited else { return self.u8(NOTHING) };
        match what {
            Awaiting::Block(block) => self.u8(BLOCK).u32(*block),
            Awaiting::Readiness => self.u8(READINESS),
        };
        self.u32(*peer).u32(*round).u32(*rounds)
    }
}

/// The start of a text, cut between letters.
fn cut(text: &str) -> &str {
    let end = (0..=text.len().min(MAX_TEXT)).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*array)
    }

    fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn rank(&mut self, size: u32) -> Option<Rank> {
        self.u32().filter(|rank| *rank < size)
    }

    fn text(&mut self) -> Option<String> {
        let len = usize::from(self.u16()?);
        let (text, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(std::str::from_utf8(text).ok()?.to_owned())
    }

    fn report(&mut self, size: u32) -> Option<Report> {
        match self.u8()? {
            IDLE => {
                let (made, elsewhere) = (self.u64()?, self.text()?);
                Some(Report::Idle { made, elsewhere: Some(elsewhere).filter(|call| !call.is_empty()) })
            }
            BUSY => {
                Some(Report::Busy { name: self.text()?, number: self.u64()?, awaited: self.awaited(size)? })
            }
            AWAY => Some(Report::Away { name: self.text()?, number: self.u64()?, seconds: self.u32()? }),
            LEFT => Some(Report::Left),
            UNREACHABLE => Some(Report::Unreachable),
            _ => None,
        }
    }

    fn awaited(&mut self, size: u32) -> Option<Option<Awaited>> {
        let what = match self.u8()? {
            NOTHING => return Some(None),
            BLOCK => Awaiting::Block(self.u32()?),
            READINESS => Awaiting::Readiness,
            _ => return None,
        };
        Some(Some(Awaited { peer: self.rank(size)?, what, round: self.u32()?, rounds: self.u32()? }))
    }

    /// `value`, if nothing is left over.
    fn end<T>(self, value: T) -> Option<T> {
        self.0.is_empty().then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages() -> Vec<Message> {
        let busy = |what| Report::Busy {
            name: "broadcast".into(),
            number: 6,
            awaited: Some(Awaited { peer: 2, what, round: 4, rounds: 9 }),
        };
        let reports = [
            Report::Idle { made: 5, elsewhere: None },
            Report::Idle { made: 5, elsewhere: Some("another library's barrier".into()) },
            Report::Busy { name: "barrier".into(), number: 1, awaited: None },
            busy(Awaiting::Block(3)),
            busy(Awaiting::Readiness),
            Report::Away { name: "reduce".into(), number: 1 << 40, seconds: 7 },
            Report::Left,
            Report::Unreachable,
        ];
        let mut messages = vec![
            Message::Fatal(News::Lost { rank: 2, how: "its connection to rank 1 closed".into() }),
            Message::Fatal(News::Aborted { by: 1, why: "größer".into() }),
            Message::Goodbye,
            Message::Question { from: 1, to: 2, id: 9, communicator: 3 },
        ];
        messages.extend(reports.map(|report| Message::Reply { from: 2, to: 1, id: 9, report }));
        messages
    }

    #[test]
    fn what_is_said_is_understood() {
        for message in messages() {
            assert_eq!(Message::decode(&message.encode()[2..], 3), Some(message));
        }
        let hello = Hello { version: 7, job: u64::MAX, from: 1, to: 2 };
        assert_eq!(hello.encode().len(), Hello::LEN);
        assert_eq!(Hello::decode(&hello.encode()), Some(hello));
    }

    #[test]
    fn no_half_body_and_no_body_with_a_tail_is_understood() {
        for message in messages() {
            let mut body = message.encode()[2..].to_vec();
            (0..body.len()).for_each(|len| assert_eq!(Message::decode(&body[..len], 3), None));
            body.push(0);
            assert_eq!(Message::decode(&body, 3), None);
        }
    }

    #[test]
    fn ranks_that_do_not_exist_are_refused() {
        for message in messages().into_iter().filter(|m| *m != Message::Goodbye) {
            assert_eq!(Message::decode(&message.encode()[2..], 1), None);
        }
    }

    #[test]
    fn garbage_is_refused_and_never_panics() {
        let mut seeded = fastrand::Rng::with_seed(2);
        for _ in 0..100_000 {
            let bytes: Vec<u8> = (0..seeded.usize(..40)).map(|_| seeded.u8(..7)).collect();
            if let Some(message) = Message::decode(&bytes, 8) {
                assert_eq!(message.encode()[2..], bytes, "what is understood was said so");
            }
            assert_eq!(Hello::decode(&bytes), None);
        }
    }

    #[test]
    fn a_long_text_is_cut_between_letters() {
        let why = "ü".repeat(MAX_BODY);
        let frame = Message::Fatal(News::Aborted { by: 0, why: why.clone() }).encode();
        assert_eq!(first_frame(&frame), First::Body { len: frame.len() - 2 });
        let Some(Message::Fatal(News::Aborted { why: cut, .. })) = Message::decode(&frame[2..], 1) else {
            panic!("not understood")
        };
        assert!(cut.len() == MAX_TEXT && why.starts_with(&cut));
    }

    #[test]
    fn a_frame_is_found_when_it_is_whole() {
        let frame = Message::Goodbye.encode();
        assert_eq!(first_frame(&frame[..2]), First::Half);
        assert_eq!(first_frame(&[]), First::Half);
        assert_eq!(first_frame(&[frame.clone(), frame].concat()), First::Body { len: 1 });
        assert_eq!(first_frame(&[0xff, 0xff]), First::TooLong);
    }
}
