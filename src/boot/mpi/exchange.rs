//! Cards exchanged by `MPI_Allgather`, on a duplicate of MPI_COMM_WORLD, so that nothing mixes with the program's.
//!
//! An allgather of MPI has no deadline, and a rank that has failed would be waited for for ever. So each exchange
//! begins with a word of every rank, which may be that it gives up: a rank that fails says so in its next one,
//! whatever the others are about, and all have heard it at the same place.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::abi::Handle;
use super::library::{Mpi, check};
use crate::boot::{Exchange, check_card};
use crate::error::{Error, Result};
use crate::rank::Place;

type Allgather = unsafe extern "C" fn(*const c_void, i32, Handle, *mut c_void, i32, Handle, Handle) -> i32;

/// Of a rank's trouble so many bytes are told to the others.
const TROUBLE: usize = 512;

/// Instead of a card's length: this rank gives up.
const GIVES_UP: u32 = u32::MAX;

/// An exchange over the MPI library of this process, which has been initialised.
#[derive(Clone)]
pub struct MpiExchange {
    place: Place,
    name: String,
    comm: Handle,
    byte: Handle,
    allgather: Allgather,
    /// A rank has given up, and all ranks have heard it.
    over: Arc<AtomicBool>,
}

impl MpiExchange {
    /// All ranks of MPI_COMM_WORLD make one. The duplicate is MPI's until its end.
    pub fn new(mpi: &Mpi) -> Result<Self> {
        let (world, byte) = (mpi.abi.comm_world, mpi.abi.byte);
        // SAFETY: - MPI_Comm_dup has this type
        let dup =
            unsafe { mpi.function::<unsafe extern "C" fn(Handle, *mut Handle) -> i32>("PMPI_Comm_dup")? };
        let mut comm = 0;
        // SAFETY: - MPI runs, as who made this has found out
        //         - `comm` has room for a handle of any library
        check("PMPI_Comm_dup", unsafe { dup(world, &mut comm) })?;
        // SAFETY: - MPI_Allgather has this type
        let allgather = unsafe { mpi.function::<Allgather>("PMPI_Allgather")? };
        let name = format!("MPI ({})", mpi.file.display());
        Ok(MpiExchange { place: mpi.place(comm)?, name, comm, byte, allgather, over: Arc::default() })
    }

    /// The communicator that is exchanged on.
    pub fn comm(&self) -> Handle {
        self.comm
    }

    /// The first rank's trouble, if any has some. To be asked by all ranks, once, and last: by those whose exchange has
    /// failed, too.
    pub fn agree(&self, trouble: Option<&str>) -> Result<Option<String>> {
        if !self.over.load(Relaxed) && !self.words(trouble.map_or(0, |_| GIVES_UP))?.contains(&GIVES_UP) {
            return Ok(None);
        }
        let mut own = trouble.unwrap_or_default().as_bytes().to_vec();
        own.resize(TROUBLE, 0);
        let all = self.gather(&own)?;
        let texts =
            all.chunks(TROUBLE).map(|text| String::from_utf8_lossy(text).trim_end_matches('\0').to_owned());
        Ok(texts.into_iter().find(|text| !text.is_empty()).or_else(|| Some("a rank has given up".into())))
    }

    fn words(&self, own: u32) -> Result<Vec<u32>> {
        let all = self.gather(&own.to_ne_bytes())?;
        let words: Vec<_> = all.as_chunks().0.iter().map(|&bytes| u32::from_ne_bytes(bytes)).collect();
        if words.contains(&GIVES_UP) {
            self.over.store(true, Relaxed);
        }
        Ok(words)
    }

    /// As many bytes of each rank.
    fn gather(&self, own: &[u8]) -> Result<Vec<u8>> {
        let mut all = vec![0; own.len() * self.place.size as usize];
        let (bytes, from, to) = (own.len() as i32, own.as_ptr().cast(), all.as_mut_ptr().cast());
        // SAFETY: - MPI runs, and the communicator is ours until its end
        //         - `all` has room for as many bytes of each rank, and all give as many
        let code = unsafe { (self.allgather)(from, bytes, self.byte, to, bytes, self.byte, self.comm) };
        check("PMPI_Allgather", code)?;
        Ok(all)
    }
}

impl Exchange for MpiExchange {
    fn place(&self) -> Place {
        self.place
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn allgather(&mut self, card: &[u8]) -> Result<Vec<Vec<u8>>> {
        check_card(card)?;
        let lengths = self.words(card.len() as u32)?;
        if let Some(rank) = lengths.iter().position(|&length| length == GIVES_UP) {
            return Err(Error::boot(format!("rank {rank} has given up"), "its own words say why"));
        }
        let longest = lengths.iter().copied().max().unwrap_or_default() as usize;
        if longest == 0 {
            return Ok(vec![Vec::new(); lengths.len()]);
        }
        let mut own = card.to_vec();
        own.resize(longest, 0);
        let all = self.gather(&own)?;
        Ok(all
            .chunks(longest)
            .zip(&lengths)
            .map(|(card, &length)| card[..length as usize].to_vec())
            .collect())
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}
