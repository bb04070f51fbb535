//! Collectives by zero-copy one-sided puts on Träff's round-optimal circulant schedules.

pub mod error;
pub mod rank;
pub mod schedule;
pub mod transport;
