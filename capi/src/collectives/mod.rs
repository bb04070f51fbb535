//! The collectives, in the order of arguments that MPI has.

// In this order they are in the header.
mod vectors;

mod gathers;

mod scatters;

mod alltoalls;
