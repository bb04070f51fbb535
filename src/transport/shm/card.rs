//! What a rank tells the others, by which they reach it.

use rustix::process::Pid;

use super::home::{Home, Pipe};
use crate::error::{Error, Result};
use crate::rank::Rank;
use crate::transport::segment::Label;

/// A rank's card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Card {
    /// Its process.
    pub home: Home,
    /// The segment of its board.
    pub board: Label,
    /// A byte in it wakes the rank.
    pub bell: Pipe,
    /// A word in its private memory, which anybody may write.
    pub doormat: u64,
}

/// A card's words.
const WORDS: usize = 6;

impl Card {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let words: [u64; WORDS] = [
            self.home.pid.as_raw_pid() as u64,
            self.home.nonce,
            self.board.number(),
            self.bell.descriptor.into(),
            self.bell.inode,
            self.doormat,
        ];
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// The card of a rank.
    pub fn decode(rank: Rank, bytes: &[u8]) -> Result<Card> {
        let nonsense = || {
            let what = format!("rank {rank} sent a card of shared memory that makes no sense");
            Error::boot(what, "start the same version on all ranks")
        };
        let (chunks, rest) = bytes.as_chunks::<8>();
        let words: Vec<_> = chunks.iter().map(|&word| u64::from_le_bytes(word)).collect();
        let &[pid, nonce, board, descriptor, inode, doormat] = words.as_slice() else {
            return Err(nonsense());
        };
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(nonsense)?;
        let descriptor = u32::try_from(descriptor).map_err(|_| nonsense())?;
        if !rest.is_empty() {
            return Err(nonsense());
        }
        Ok(Card {
            home: Home { pid, nonce },
            board: Label::from_number(board),
            bell: Pipe { descriptor, inode },
            doormat,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_is_read_as_it_was_written_and_half_a_card_is_refused() {
        let home = Home { pid: Pid::INIT, nonce: 77 };
        let bell = Pipe { descriptor: 5, inode: 1 << 40 };
        let card = Card { home, board: Label::from_number(12345), bell, doormat: u64::MAX };
        let bytes = card.encode();
        assert_eq!(Card::decode(0, &bytes), Ok(card));
        for bad in [&bytes[1..], &bytes[..8], &[0; 8 * WORDS]] {
            assert!(Card::decode(3, bad).unwrap_err().to_string().contains("rank 3 sent a card"));
        }
    }
}
