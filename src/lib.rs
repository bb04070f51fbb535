//! Collectives by zero-copy one-sided puts on Träff's round-optimal circulant schedules.
//!
//! Start at [`comm::Communicator`]: all ranks of a job hold one, and call the collectives on it.
//!
//! ```
//! use circulant::comm::{Call, Communicator};
//! use circulant::fold::Sum;
//!
//! # fn main() -> circulant::error::Result<()> {
//! let comm = &Communicator::loopback(1, 0)?[0]; // `Communicator::world()` in a job
//! let mut data = [1, 2, 3];
//! comm.broadcast(&mut data, 0)?;
//! comm.run(&mut data, Call::allreduce(Sum))?;
//! comm.barrier()?;
//! # Ok(())
//! # }
//! ```
//!
//! # One idea
//!
//! An algorithm is a [`plan::Plan`]: a pure function from a round's number to what one rank does in that
//! round. The engine carries it out; the lockstep check proves it for all ranks; the program prints it.
//! Read backwards a broadcast is a reduction, and an allgather a reduce-scatter, so nothing is written twice.
//!
//! # Map, from what users hold to what nobody sees
//!
//! | module | concept | never names |
//! |---|---|---|
//! | [`comm`] | communicators, windows, the collectives in three tenses and by name; joins a job | |
//! | [`select`] | which algorithm, how many blocks, which path | memory, transports |
//! | [`algorithm`] | one file a family of algorithms, and the catalogue of all | bytes, networks |
//! | [`plan`] | rounds, legs, blocks; composition; proof; table | bytes (but [`plan::partition`], [`plan::layout`]), time, memory |
//! | [`schedule`] | the circulant graph's mathematics | anything but ranks |
//! | [`engine`] | the one loop: slots, legs, staging, turns, credits, progress | a concrete transport, an algorithm (but in the words of errors) |
//! | [`fold`] | element types, operators, and the loops over them | ranks, networks |
//! | [`transport`] | the contract of puts; shm, fabric, mixed, loopback, faulty | blocks, rounds, collectives |
//! | [`lifeline`] | who is alive, who waits for whom | data |
//! | [`locality`] | who shares a node, a NUMA domain, a cache; which rank runs where | networks |
//! | [`boot`] | how ranks find each other; the launcher | the fabric |
//! | [`rank`], [`collective`], [`error`], [`addresses`], [`threads`], `abreast` | what everybody needs | |
//!
//! # Walls
//!
//! - A module imports from those to its right in `comm → select → engine → transport, plan, fold → rank`,
//!   `comm, select → algorithm → plan → schedule → rank` and `comm → boot, lifeline`, never from the left; the
//!   engine also asks the lifeline, and the catalogue for what an error calls an algorithm. `comm` and the launcher in `boot` ask [`locality`], which asks nobody. Only `comm` knows concrete transports. All may use [`collective`]; and
//!   [`error`], but for what is pure.
//! - What is safe says `#![forbid(unsafe_code)]` at its head, for all below it: rank, collective, schedule, plan,
//!   algorithm, select, lifeline, locality, and the engine. `unsafe` lives where raw memory does: [`transport::memory`],
//!   [`transport::shm`], `transport::fabric`, bytes as elements ([`fold::element`], [`fold::Located`]), and the windows
//!   and lent slices of `comm`; in the four places of [`boot`] where a launcher's processes and descriptors are
//!   taken over, libpmix is called, and the MPI library of the process ([`boot::mpi`]); in `forks`, of what a child
//!   is not to keep; and in [`threads`], of the signals that a thread takes.
//! - Nothing but [`transport::fabric`] names libfabric, and it goes through the package in `sys/`; nothing but one
//!   file of [`locality`] names hwloc.

mod abreast;
pub mod addresses;
pub mod algorithm;
pub mod boot;
pub mod collective;
pub mod comm;
mod digest;
pub mod engine;
pub mod error;
pub mod fold;
mod forks;
pub mod lifeline;
pub mod locality;
pub mod plan;
mod processor;
pub mod rank;
pub mod schedule;
pub mod select;
pub mod threads;
pub mod transport;

/// The README's example, compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
