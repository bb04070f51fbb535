//! Whole jobs: real processes that find each other, call collectives over real providers, and fail in earnest.
//!
//! A test starts this very executable once a rank, with or without a launcher, and gives each rank a
//! script (see `rank`). However a job goes, each of its processes must end, and leave nothing behind;
//! deadlines only end a hang.

mod boot;
mod carriers;
mod collectives;
mod deaths;
mod disagreements;
mod groups;
mod job;
mod kills;
mod operators;
mod progress;
mod rank;
mod refusals;
mod sample;
mod sequences;
mod shared;
mod wanted;
mod ways;

#[test]
#[ignore = "a rank of the other tests"]
fn a_rank() {
    rank::live();
}
