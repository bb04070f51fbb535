//! One process alone: its own card is all there is.
//!
//! It never fails for want of a peer; it keeps the card limit, so that a program which works alone
//! also works in company.
#![forbid(unsafe_code)]

use super::{Exchange, check_card};
use crate::error::Result;
use crate::rank::Place;

pub(super) struct Single;

impl Exchange for Single {
    fn place(&self) -> Place {
        Place { rank: 0, size: 1 }
    }

    fn name(&self) -> String {
        "a single process".into()
    }

    fn allgather(&mut self, card: &[u8]) -> Result<Vec<Vec<u8>>> {
        check_card(card)?;
        Ok(vec![card.to_vec()])
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_alone_gathers_its_own_card() {
        let mut alone = Single;
        assert_eq!(alone.place(), Place { rank: 0, size: 1 });
        assert_eq!(alone.allgather(b"card").unwrap(), [b"card"]);
        assert!(alone.allgather(&[0; super::super::CARD_BYTES + 1]).is_err());
        alone.finish().unwrap();
    }
}
