//! What one rank may fail in while others do not: all hear of it, one tells it, and they end together.
//!
//! Else the others would go on to a call that this rank never makes, and tell that; or all would tell the same.

use circulant::comm::{Call, Communicator};
use circulant::error::Result;
use circulant::fold::Min;

use crate::{Failure, ToldByAnother, exit_code};

/// No rank's word is as large.
const ALL_IS_WELL: u64 = u64::MAX;

/// What this rank has got, where every rank has got something. Else an error on all ranks, which the first that failed
/// tells, as its own. All ranks must call it.
pub fn agreed<T>(comm: &Communicator, own: Result<T>) -> std::result::Result<T, Failure> {
    let word = |error| u64::from(comm.rank()) << 8 | u64::from(exit_code(error));
    let mut first = [own.as_ref().err().map_or(ALL_IS_WELL, word)];
    let asked = comm.run(&mut first, Call::allreduce(Min));
    match (asked, first) {
        (Ok(()), [first]) if first != ALL_IS_WELL && first >> 8 != u64::from(comm.rank()) => {
            Err(ToldByAnother { code: first as u8 }.into())
        }
        (asked, _) => {
            let own = own?;
            asked?;
            Ok(own)
        }
    }
}
