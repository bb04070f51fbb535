//! The MPI library that is in this process, if there is one: which it is, its constants, and an exchange over it.
//!
//! Nothing of MPI is needed to build: handles are words, functions are looked up in the file that holds
//! `PMPI_Init`, and the few constants that are needed follow from [which binary interface](abi) that file has. A
//! process with MPI in it never speaks a launcher's protocol by itself: MPI has done so, and a second client breaks
//! its end, or its start.

pub mod abi;
mod exchange;
mod library;

pub use exchange::MpiExchange;
pub use library::{Mpi, found_beside};
