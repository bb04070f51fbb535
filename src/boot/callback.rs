//! An allgather that the caller has: MPI's, a scheduler's, a key-value store's.
//!
//! It never talks to anybody by itself, and so keeps no deadline: the caller's allgather does. Cards differ in
//! length and the caller's blocks do not, so each exchange calls twice: lengths first, then blocks of the longest.
#![forbid(unsafe_code)]

use super::{CARD_BYTES, Exchange, check_card, check_place};
use crate::error::{Error, Result};
use crate::rank::Place;

/// Bytes of a card's length, the block of the first of two calls.
const LENGTH_BYTES: usize = 4;

/// An exchange by a function of the caller's.
pub struct Callback<F> {
    place: Place,
    gather: F,
}

impl<F> Callback<F>
where
    F: FnMut(&[u8], &mut [u8]) -> Result<()> + Send,
{
    /// A rank at `place`, and an allgather among all ranks: `gather(own, all)` fills `all` with every rank's `own`
    /// in rank order, its own too. All of a call's blocks have one length, the same on all ranks; 4 to [`CARD_BYTES`] bytes.
    ///
    /// Each [`allgather`](Exchange::allgather) calls it twice, on the thread that joins; a world takes at most five of these.
    ///
    /// # Errors
    /// [`Error::Argument`] where the place is none.
    ///
    /// ```
    /// # use circulant::boot::callback::Callback;
    /// # use circulant::{comm::Communicator, comm::settings::Settings, rank::Place};
    /// # fn main() -> circulant::error::Result<()> {
    /// let alone = Callback::new(Place { rank: 0, size: 1 }, |own, all| {
    ///     all.copy_from_slice(own); // `MPI_Allgather`, say
    ///     Ok(())
    /// })?;
    /// let comm = Communicator::world_by(Box::new(alone), &Settings::default())?;
    /// # assert_eq!(comm.size(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(place: Place, gather: F) -> Result<Self> {
        check_place("boot by callback", place)?;
        Ok(Callback { place, gather })
    }

    /// Every rank's block, one after the other.
    fn blocks(&mut self, own: &[u8]) -> Result<Vec<u8>> {
        let mut all = vec![0; own.len() * self.place.size as usize];
        (self.gather)(own, &mut all)?;
        Ok(all)
    }

    /// The length of every rank's card.
    fn lengths(&mut self, own: usize) -> Result<Vec<usize>> {
        let all = self.blocks(&(own as u32).to_le_bytes())?;
        let (blocks, _) = all.as_chunks::<LENGTH_BYTES>();
        let lengths: Vec<_> = blocks.iter().map(|&block| u32::from_le_bytes(block) as usize).collect();
        match lengths.iter().position(|&length| length > CARD_BYTES) {
            None if lengths[self.place.rank as usize] == own => Ok(lengths),
            None => {
                Err(self.wrong(&format!("does not have rank {}'s own block in its place", self.place.rank)))
            }
            Some(rank) => Err(self.wrong(&format!("has {} bytes of rank {rank}'s card", lengths[rank]))),
        }
    }

    fn wrong(&self, what: &str) -> Error {
        Error::boot(
            format!("what the caller's allgather gave rank {} {what}", self.place.rank),
            "let it give every rank's block in rank order, and start the same version on all ranks",
        )
    }
}

impl<F> Exchange for Callback<F>
where
    F: FnMut(&[u8], &mut [u8]) -> Result<()> + Send,
{
    fn place(&self) -> Place {
        self.place
    }

    fn name(&self) -> String {
        "the caller's allgather".into()
    }

    fn allgather(&mut self, card: &[u8]) -> Result<Vec<Vec<u8>>> {
        check_card(card)?;
        let lengths = self.lengths(card.len())?;
        let longest = lengths.iter().copied().max().unwrap_or(0).max(LENGTH_BYTES);
        let mut own = card.to_vec();
        own.resize(longest, 0);
        let all = self.blocks(&own)?;
        Ok(all.chunks_exact(longest).zip(lengths).map(|(block, length)| block[..length].to_vec()).collect())
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Barrier, Mutex};

    #[test]
    fn cards_of_any_lengths_come_through_blocks_of_one_length() {
        let size = 5;
        let (board, barrier) = (Mutex::new(vec![vec![]; size]), Barrier::new(size));
        let gather = |rank: usize, own: &[u8], all: &mut [u8]| {
            board.lock().unwrap()[rank] = own.to_vec();
            barrier.wait();
            all.copy_from_slice(&board.lock().unwrap().concat());
            barrier.wait();
        };
        let card = |rank: usize, len: usize| vec![rank as u8 + 1; rank * len];
        std::thread::scope(|scope| {
            for rank in 0..size {
                let gather = &gather;
                scope.spawn(move || {
                    let place = Place { rank: rank as u32, size: size as u32 };
                    let by = |own: &[u8], all: &mut [u8]| {
                        gather(rank, own, all);
                        Ok(())
                    };
                    let mut exchange = Callback::new(place, by).unwrap();
                    for len in [0, 1, 1000] {
                        let all = exchange.allgather(&card(rank, len)).unwrap();
                        assert_eq!(all, (0..size).map(|rank| card(rank, len)).collect::<Vec<_>>());
                    }
                });
            }
        });
    }

    fn error_of(gather: impl FnMut(&[u8], &mut [u8]) -> Result<()> + Send) -> String {
        let mut exchange = Callback::new(Place { rank: 1, size: 2 }, gather).unwrap();
        exchange.allgather(b"card").unwrap_err().to_string()
    }

    #[test]
    fn an_allgather_that_fails_or_lies_is_an_error() {
        assert!(error_of(|_, _| Err(Error::boot("no luck", "try again"))).contains("no luck; try again"));
        assert!(error_of(|_, _| Ok(())).contains("does not have rank 1's own block in its place"));
        let huge = |own: &[u8], all: &mut [u8]| {
            all.fill(0xff);
            all[own.len()..].copy_from_slice(own);
            Ok(())
        };
        assert!(error_of(huge).contains("has 4294967295 bytes of rank 0's card"));
    }

    #[test]
    fn a_place_that_is_none_is_refused() {
        for (rank, size) in [(0, 0), (2, 2)] {
            let error = Callback::new(Place { rank, size }, |_, _| Ok(())).err().unwrap().to_string();
            assert!(error.contains(&format!("boot by callback: rank {rank} of {size}")), "{error}");
        }
    }
}
