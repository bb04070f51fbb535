//! Collectives of an unmodified MPI program by circulant: `LD_PRELOAD=libcirculant_mpi.so mpirun ... ./program`.
//!
//! One library serves MPICH, Intel MPI, Open MPI and the standard interface: it is built without any of them, and finds
//! out at run time which one it is in. It takes over the functions of the collectives, of requests, and of the job's
//! beginning and end; what it cannot serve it passes on to the library below, on all ranks alike.
//!
//! | file | what |
//! |---|---|
//! | `entries` | the collectives' functions, in C and Fortran |
//! | `requests`, `fortran_requests` | the functions of requests |
//! | `job` | the functions of the beginning and the end |
//! | `call` | whether a call is taken, and what is made of it |
//! | `sides`, `types`, `pairs` | the memory of a call, the types in it, and pairs with places |
//! | `names` | the function that gives types other names |
//! | `communicators` | the program's communicators, and ours of the same ranks |
//! | `background` | calls under way, behind requests of MPI's |
//! | `world`, `settings` | joining and leaving; what a user may set |
//! | `report` | what was taken and what not, and how long it took |
//! | `own`, `narrow`, `fortran` | the library's own functions; large counts where it has none; Fortran's handles |

mod background;
mod call;
mod communicators;
mod entries;
mod fortran;
mod fortran_requests;
mod job;
mod names;
mod narrow;
mod own;
mod pairs;
mod report;
mod requests;
mod settings;
mod sides;
mod types;
mod world;
