//! PMI-1: the text protocol that launchers speak with the processes they start.
//!
//! One request, one answer, a line each: `cmd=put kvsname=K key=A value=B`. [`mod@line`] reads and checks
//! lines, [`client`] is the side of a rank, [`server`] that of a launcher; neither knows the other.
//! PMI-1 and not PMI-2 or PMIx, because MPICH's, Intel's, Slurm's and Flux's launchers all understand
//! it and it needs no library.

mod cards;
pub mod client;
pub mod line;
pub mod server;
