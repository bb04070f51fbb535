//! What two processes say before they are connected, and what others are told of one so that they can call it.
//!
//! Little-endian. A *door card* is knock (8), answer (8), then port and addresses. A caller greets with magic (8), version (2),
//! knock, its rank (4), the called rank (4); it is told the answer in a frame, and says in another that it stays. Both words
//! are random, and are told to those alone who are to call: who does not know them is not of this job.
#![forbid(unsafe_code)]

use std::net::SocketAddr;

use rustix::rand::{GetRandomFlags, getrandom};

use crate::addresses;
use crate::boot::frame::number;
use crate::error::{Error, Result};
use crate::rank::Rank;

pub(in crate::boot) const MAGIC: &[u8; 8] = b"circboot";
pub(in crate::boot) const VERSION: u16 = 2;
pub(in crate::boot) const GREETING_BYTES: usize = 26;

/// Called where no rank is: the place where all meet.
pub(in crate::boot) const NO_RANK: Rank = Rank::MAX;

/// What is said at a door. At one that everybody knows, zeros.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::boot) struct Words {
    /// What a caller says.
    knock: [u8; 8],
    /// What is said to it then.
    pub(in crate::boot) answer: [u8; 8],
}

impl Words {
    /// Bytes of both.
    pub(in crate::boot) const BYTES: usize = 16;

    /// New ones that nobody can guess.
    pub(in crate::boot) fn secret() -> Result<Self> {
        let mut bytes = [0; Words::BYTES];
        getrandom(&mut bytes[..], GetRandomFlags::empty())
            .map_err(|error| Error::boot(format!("getrandom: {error}"), "try again"))?;
        Ok(Words::from_bytes(bytes))
    }

    pub(in crate::boot) fn from_bytes(bytes: [u8; Words::BYTES]) -> Self {
        Words { knock: std::array::from_fn(|i| bytes[i]), answer: std::array::from_fn(|i| bytes[8 + i]) }
    }

    pub(in crate::boot) fn to_bytes(self) -> [u8; Words::BYTES] {
        std::array::from_fn(|i| if i < 8 { self.knock[i] } else { self.answer[i - 8] })
    }

    pub(super) fn greeting(self, from: Rank, to: Rank) -> Vec<u8> {
        [&MAGIC[..], &VERSION.to_le_bytes(), &self.knock, &from.to_le_bytes(), &to.to_le_bytes()].concat()
    }
}

/// What a caller has said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::boot) struct Greeting {
    pub(in crate::boot) version: u16,
    knock: [u8; 8],
    pub(in crate::boot) from: Rank,
    pub(in crate::boot) to: Rank,
}

impl Greeting {
    /// None if these are not the bytes of one.
    pub(in crate::boot) fn read(bytes: &[u8; GREETING_BYTES]) -> Option<Self> {
        let rest = bytes.strip_prefix(MAGIC)?;
        let (version, rest) = rest.split_first_chunk()?;
        let (&knock, ranks) = rest.split_first_chunk()?;
        let version = u16::from_le_bytes(*version);
        Some(Greeting { version, knock, from: number(ranks), to: number(&ranks[4..]) })
    }

    /// Whether the caller knows the words of this door.
    pub(in crate::boot) fn knows(&self, words: Words) -> bool {
        self.knock == words.knock
    }
}

/// What the callers of a rank must know of it.
pub(in crate::boot) fn door_card(words: Words, reach: &[u8]) -> Vec<u8> {
    [&words.to_bytes(), reach].concat()
}

/// The words of a door, and where it is; none if the card is malformed.
pub(in crate::boot) fn read_door_card(card: &[u8]) -> Option<(Words, Vec<SocketAddr>)> {
    let (words, reach) = card.split_first_chunk()?;
    Some((Words::from_bytes(*words), addresses::decode(reach)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_is_read_as_it_was_written() {
        let words = Words::secret().unwrap();
        let bytes = words.greeting(3, 7);
        let greeting = Greeting::read(bytes.as_slice().try_into().unwrap()).unwrap();
        assert_eq!((greeting.version, greeting.from, greeting.to), (VERSION, 3, 7));
        assert!(greeting.knows(words) && !greeting.knows(Words::default()));
        assert_eq!(Greeting::read(&[b'x'; GREETING_BYTES]), None);
    }

    #[test]
    fn a_door_card_is_read_as_it_was_written() {
        let words = Words::secret().unwrap();
        let at: SocketAddr = "10.1.2.3:4711".parse().unwrap();
        let card = door_card(words, &addresses::encode(at.port(), [at.ip()].into_iter()));
        assert_eq!(read_door_card(&card), Some((words, vec![at])));
        assert_eq!(read_door_card(&card[..Words::BYTES]), None);
    }
}
