//! The mathematics of the circulant graph: who puts which block to whom in which round.
//!
//! `p` ranks, root 0, `q = ⌈log₂ p⌉` rounds a phase; in round `k` rank `r` puts to `r + skip[k]` and is put
//! to by `r - skip[k]`, around the circle. A [`Schedule`] tells one rank its blocks without a word to any
//! other; a [`Table`] tells those of all ranks, and a [`Graph`] keeps it for all plans of a communicator. J. L. Träff, doi:10.1145/3735139.
//!
//! Nothing here knows of bytes, time, memory windows or networks, and nothing here can fail on good ranks.
//!
//! The decision: the source finds a receive schedule by a search. Here most of it is read off from the rank's
//! own digits (see `receive`), and the search is kept for the few ranks for which that is not enough. What
//! this rests on is proved for any range of `p` by [`conditions`], and held against [`literal`] in the tests.
#![forbid(unsafe_code)]

pub mod conditions;
mod graph;
#[doc(hidden)]
pub mod literal;
mod observer;
mod part;
mod receive;
mod search;
mod send;
mod single;
mod skips;
mod table;

pub use graph::Graph;
pub use single::Schedule;
pub use skips::{MAX_ROUNDS, Skips};
pub use table::Table;
