//! How the ranks of a job find each other: one allgather of small cards, then nothing more.
//!
//! Whatever started the processes gives rank, size and a way to exchange a few bytes; the rest is
//! done over the fabric. A launcher's word on who shares a node is not asked for: answers differ
//! between launchers and their versions, so a rank's host identity belongs in its card.
//!
//! | file | what |
//! |---|---|
//! | `detect` | reads the environment and decides, without touching a socket |
//! | `once` | a launcher's word is good for one exchange |
//! | `single` | one process alone |
//! | `pmi1` | the launchers' protocol PMI-1: line, client, server |
//! | `pmix` | PMIx, by a library that is opened at run time |
//! | `board` | an allgather by what a launcher lets ranks leave and read, without reads of all by all |
//! | `graph` | an allgather among neighbours on the circle |
//! | `frame`, `fault`, `link`, `socket` | what goes over their connections, and how nobody waits for ever |
//! | `rendezvous` | TCP to an agreed address, where there is no launcher |
//! | `mpi` | the MPI library that is in this process, and an exchange over it |
//! | `callback` | an allgather that the caller has |
//! | `unique_id` | TCP to the process that made an id, which the caller passes on |
//! | `launcher` | starts ranks on this machine and serves PMI-1 to them |

mod board;
pub mod callback;
mod detect;
mod fault;
mod frame;
mod graph;
pub mod launcher;
mod link;
pub mod mpi;
mod once;
pub mod pmi1;
mod pmix;
pub mod rendezvous;
mod single;
mod socket;
mod unique_id;

use crate::error::{Error, Result};
use crate::rank::Place;

use board::Posted;
pub use detect::{Choice, Variables};
use once::Once;
use pmi1::client::Pmi1;
use pmix::Pmix;
pub use unique_id::UniqueId;

/// The most bytes that a card may have.
pub const CARD_BYTES: usize = 4096;

/// A way to exchange small cards among all ranks, before there is a fabric.
pub trait Exchange: Send {
    /// Who and how many we are.
    fn place(&self) -> Place;

    /// What it is, for `circulant info` and errors: `PMI-1 (PMI_FD=7)`.
    fn name(&self) -> String;

    /// Every rank's card, in rank order. All ranks call it the same number of times; a card has at
    /// most [`CARD_BYTES`]. Fails (with the rank that is missing, where that can be known) and never
    /// waits for ever: each call has the deadline of `CIRCULANT_BOOT_TIMEOUT`.
    fn allgather(&mut self, card: &[u8]) -> Result<Vec<Vec<u8>>>;

    /// Tells the launcher that this process ends well. Called once, last.
    fn finish(&mut self) -> Result<()>;
}

/// Finds out from the environment what started this process, and joins the others.
///
/// A launcher is joined once in a process: what ranks left there for one world would be read for the next.
///
/// # Errors
/// [`Error::Boot`] with the variable, its value and the cure when a variable is malformed, when the
/// launcher's protocol is not spoken here, when it was joined already, or when the others cannot be
/// reached in time.
pub fn detect() -> Result<Box<dyn Exchange>> {
    static LAUNCHER: Once = Once::new();
    let variables = Variables::of_the_process();
    if let Some(exchange) = over_mpi(&variables)? {
        return Ok(exchange);
    }
    let limit = variables.timeout()?;
    Ok(match variables.choose()? {
        Choice::Single => Box::new(single::Single),
        Choice::Pmi1Socket { fd, place } => {
            let board = LAUNCHER.join(|| Pmi1::from_inherited(fd, place, limit))?;
            Box::new(Posted::new(board, limit))
        }
        Choice::Pmi1Port { address, id } => {
            let board = LAUNCHER.join(|| Pmi1::from_port(&address, id, limit))?;
            Box::new(Posted::new(board, limit))
        }
        Choice::Pmix { library } => {
            let board = LAUNCHER.join(|| Pmix::join(library, limit))?;
            Box::new(Posted::new(board, limit))
        }
        Choice::Rendezvous { address, place } => {
            Box::new(rendezvous::Rendezvous::meet(&address, place, limit)?)
        }
    })
}

/// Over MPI, where it is in this process and no variable names another way: a launcher's protocol is MPI's alone.
fn over_mpi(variables: &Variables<'_>) -> Result<Option<Box<dyn Exchange>>> {
    if !variables.leave_it_to_mpi() {
        return Ok(None);
    }
    let Some(mpi) = mpi::Mpi::find()? else { return Ok(None) };
    if mpi.is_running()? {
        return Ok(Some(Box::new(mpi::MpiExchange::new(&mpi)?)));
    }
    let what = format!("{} is in this process, and MPI is not initialised", mpi.file.display());
    Err(Error::boot(
        what,
        "call MPI_Init first, and MPI_Finalize last; CIRCULANT_BOOT=single runs this process alone",
    ))
}

/// Refuses a card that no exchange carries, before anything is sent.
fn check_card(card: &[u8]) -> Result<()> {
    if card.len() <= CARD_BYTES {
        return Ok(());
    }
    let what = format!("the card has {} bytes, at most {CARD_BYTES} are carried", card.len());
    Err(Error::argument("boot allgather", what, "send the rest over the fabric"))
}

/// Refuses a place that no rank can have, before anything is sent.
fn check_place(call: &str, place: Place) -> Result<()> {
    let Place { rank, size } = place;
    if rank < size {
        return Ok(());
    }
    Err(Error::argument(
        call,
        format!("rank {rank} of {size}"),
        "give a rank below the size, which is at least 1",
    ))
}
