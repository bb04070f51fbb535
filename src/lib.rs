//! Collectives by zero-copy one-sided puts on Träff's round-optimal circulant schedules.

pub mod algorithm;
pub mod boot;
pub mod comm;
pub mod engine;
pub mod error;
pub mod lifeline;
pub mod plan;
pub mod rank;
pub mod schedule;
pub mod select;
pub mod transport;
