//! An id that one process makes and the caller passes on: all who have it find each other.
//!
//! It never reads the environment. The id says where its maker listens, and two secret words, so that whoever does not have
//! it is not let in.
#![forbid(unsafe_code)]

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use super::graph::{Words, door_card, read_door_card};
use super::rendezvous::{self, Rendezvous};
use super::{Exchange, check_place};
use crate::addresses::{self, Listener};
use crate::error::{Error, Result};
use crate::rank::Place;

/// What an id begins with: name and version.
const MAGIC: &[u8; 8] = b"circ-id\x01";
/// Magic, and the length of what follows: the maker's door card.
const HEAD_BYTES: usize = MAGIC.len() + 1;

/// The most bytes of a door card.
const DOOR_BYTES: usize = UniqueId::BYTES - HEAD_BYTES;

/// How long a rank waits for the others.
const LIMIT: Duration = Duration::from_secs(60);

/// What it is, for errors.
const AT: &str = "the maker of the unique id";

/// Where the ranks of a job meet: made on one process, passed on to all by the caller, used once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct UniqueId([u8; UniqueId::BYTES]);

impl UniqueId {
    /// Bytes of an id.
    pub const BYTES: usize = 128;

    /// A new id. From now on this process listens, at all addresses of its host, until all ranks have joined. It may be a
    /// rank itself, of any number, or none; but it is to live until then.
    ///
    /// # Errors
    /// [`Error::Boot`] where this machine gives no port, thread or random number.
    pub fn new() -> Result<Self> {
        let listener = Listener::anywhere()?;
        let words = Words::secret()?;
        let id = UniqueId::of(words, &listener.card_within(DOOR_BYTES - Words::BYTES));
        rendezvous::serve(listener.socket, words, AT.into())?;
        Ok(id)
    }

    fn of(words: Words, reach: &[u8]) -> Self {
        let door = door_card(words, reach);
        let mut bytes = [0; UniqueId::BYTES];
        let whole = [&MAGIC[..], &[door.len() as u8], &door].concat();
        bytes[..whole.len()].copy_from_slice(&whole);
        UniqueId(bytes)
    }

    /// The bytes, to be passed on.
    pub fn to_bytes(&self) -> [u8; UniqueId::BYTES] {
        self.0
    }

    /// The id of which these are the bytes.
    ///
    /// # Errors
    /// [`Error::Argument`] where they are not those of an id, or of another version's.
    pub fn from_bytes(bytes: &[u8; UniqueId::BYTES]) -> Result<Self> {
        let id = UniqueId(*bytes);
        id.door().map(|_| id)
    }

    /// Joins the others, all of whom call it with a rank of their own, and waits a minute for them.
    ///
    /// # Errors
    /// [`Error::Argument`] for a place that is none; [`Error::Boot`], naming ranks that are missing, or that two
    /// processes claim.
    pub fn join(&self, place: Place) -> Result<Box<dyn Exchange>> {
        self.join_within(place, LIMIT)
    }

    /// [`join`](Self::join) that waits for at most so long.
    pub fn join_within(&self, place: Place, limit: Duration) -> Result<Box<dyn Exchange>> {
        check_place("join by unique id", place)?;
        let (words, mut theirs) = self.door()?;
        addresses::sort(&mut theirs, &addresses::of_this_host());
        let maker = rendezvous::call(place.rank, words, theirs, AT, limit)?;
        Ok(Box::new(Rendezvous::visit(maker, AT.into(), "the process", place, limit)?))
    }

    /// The words of the maker's door, and where it is.
    fn door(&self) -> Result<(Words, Vec<SocketAddr>)> {
        let door = self.0.strip_prefix(MAGIC).and_then(|rest| {
            let (&length, rest) = rest.split_first()?;
            read_door_card(rest.get(..length.into())?)
        });
        door.ok_or_else(|| malformed("the bytes are not those of an id"))
    }

    /// The bytes without the zeros at their end.
    fn significant(&self) -> &[u8] {
        let length = HEAD_BYTES + usize::from(self.0[HEAD_BYTES - 1]);
        &self.0[..length.min(UniqueId::BYTES)]
    }
}

fn malformed(what: &str) -> Error {
    Error::argument("unique id", what, "pass on what `UniqueId::new` gave, whole; same version on all ranks")
}

/// As text of letters, digits, `-` and `_`.
impl fmt::Display for UniqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE64_URL_SAFE_NO_PAD.encode(self.significant()))
    }
}

impl fmt::Debug for UniqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not its words: they are not for everybody who reads a log.
        let addresses = self.door().map(|(_, addresses)| addresses).unwrap_or_default();
        write!(f, "UniqueId(at {addresses:?})")
    }
}

impl FromStr for UniqueId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let decoded = BASE64_URL_SAFE_NO_PAD
            .decode(text.trim())
            .map_err(|_| malformed("the text is not that of an id"))?;
        let mut bytes = [0; UniqueId::BYTES];
        let room =
            bytes.get_mut(..decoded.len()).ok_or_else(|| malformed("the text is too long for an id"))?;
        room.copy_from_slice(&decoded);
        UniqueId::from_bytes(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn at(rank: u32, size: u32) -> Place {
        Place { rank, size }
    }

    /// What each rank comes to.
    fn joined(id: UniqueId, places: &[Place], limit: Duration) -> Vec<Result<Vec<Vec<u8>>>> {
        let join = |place: Place| {
            let mut exchange = id.join_within(place, limit)?;
            let all = exchange.allgather(&[place.rank as u8; 3])?;
            exchange.finish()?;
            Ok(all)
        };
        thread::scope(|scope| {
            let ranks: Vec<_> = places.iter().map(|&place| scope.spawn(move || join(place))).collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        })
    }

    #[test]
    fn all_who_have_an_id_find_each_other() {
        for size in [1, 2, 3, 8, 21] {
            let id = UniqueId::new().unwrap();
            let places: Vec<_> = (0..size).map(|rank| at(rank, size)).collect();
            // However long one is ready to wait.
            let limit = if size == 3 { Duration::MAX } else { LIMIT };
            for all in joined(id, &places, limit) {
                assert_eq!(all.unwrap(), (0..size).map(|rank| vec![rank as u8; 3]).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn an_id_is_read_as_it_was_written() {
        let id = UniqueId::new().unwrap();
        assert_eq!(UniqueId::from_bytes(&id.to_bytes()), Ok(id));
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!(id.to_string().bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
        assert_ne!(UniqueId::new().unwrap(), id);
    }

    #[test]
    fn what_is_no_id_is_refused() {
        let good = UniqueId::new().unwrap();
        let bytes = |at: usize, value: u8| {
            let mut bytes = good.to_bytes();
            bytes[at] = value;
            UniqueId::from_bytes(&bytes)
        };
        for bad in [UniqueId::from_bytes(&[0; 128]), bytes(7, 9), bytes(8, 0), bytes(8, 255), bytes(8, 17)] {
            assert!(bad.unwrap_err().to_string().contains("the bytes are not those of an id; pass on"));
        }
        for bad in ["", "x", "hello world", &"A".repeat(1000), &good.to_string()[1..]] {
            assert!(bad.parse::<UniqueId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn who_does_not_know_the_words_counts_for_nothing() {
        let id = UniqueId::new().unwrap();
        let mut forged = id.to_bytes();
        forged[HEAD_BYTES] ^= 1;
        let forged = UniqueId::from_bytes(&forged).unwrap();
        let error = forged.join_within(at(0, 2), LIMIT).err().unwrap().to_string();
        assert!(error.contains("the maker of the unique id cannot be reached"), "{error}");
        assert!(joined(id, &[at(0, 2), at(1, 2)], LIMIT).iter().all(Result::is_ok));
    }

    #[test]
    fn ranks_that_do_not_go_together_are_named_on_all() {
        let short = Duration::from_secs(1);
        for (places, words) in [
            (&[at(0, 3), at(2, 3)][..], "rank 1 did not come to the maker of the unique id within 1 s"),
            (&[at(1, 3), at(1, 3)], "two processes call themselves rank 1"),
            (&[at(1, 3), at(0, 2)], " ranks, rank "),
            (&[at(0, 1 << 23)], "8388608 ranks are more than the 4194304 that there can be"),
        ] {
            for result in joined(UniqueId::new().unwrap(), places, short) {
                let error = result.unwrap_err().to_string();
                assert!(error.contains(words), "{error}");
            }
        }
    }

    #[test]
    fn an_id_is_good_for_one_meeting() {
        let id = UniqueId::new().unwrap();
        assert!(joined(id, &[at(0, 1)], LIMIT).iter().all(Result::is_ok));
        let error = joined(id, &[at(0, 1)], Duration::from_secs(5)).remove(0).unwrap_err().to_string();
        assert!(error.contains("an id serves one meeting"), "{error}");
    }

    #[test]
    fn a_place_that_is_none_is_refused() {
        let error = UniqueId::new().unwrap().join(at(2, 2)).err().unwrap().to_string();
        assert!(error.contains("join by unique id: rank 2 of 2"), "{error}");
    }
}
