//! Worlds of processes that nothing has started in a way that is known: by an id that they pass on, by an allgather of
//! their own.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use circulant::boot::UniqueId;
use circulant::boot::callback::Callback;
use circulant::comm::Communicator;
use circulant::comm::settings::Settings;
use circulant::error::Result;
use circulant::rank::Place;

use crate::job::Job;

const CALLS: &str = "broadcast:root=2:count=100 allreduce:count=30000 barrier";

/// All ranks of a job whose scripts begin with this word, and a folder, come to their end.
#[track_caller]
fn joined(word: &str) {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("{word} {} {CALLS}", folder.path().display());
    for end in Job::new(5, &script).meet().end() {
        assert!(end.status.success(), "{end:?}");
    }
}

#[test]
fn an_id_of_one_rank_that_the_others_read() {
    joined("by-id");
}

#[test]
fn an_allgather_through_files() {
    joined("by-files");
}

/// Joins by an id that rank 1 makes and leaves in a file.
pub fn world_by_id(folder: &str) -> Result<Communicator> {
    let (place, file) = (own_place(), Path::new(folder).join("id"));
    if place.rank == 1 {
        leave(&file, UniqueId::new()?.to_string().as_bytes());
    }
    let id: UniqueId = String::from_utf8(find(&file)).expect("an id is text").parse()?;
    Communicator::world_by(id.join(place)?, &Settings::from_environment()?)
}

/// Joins by an allgather in which each rank leaves its block in a file.
pub fn world_by_files(folder: &str) -> Result<Communicator> {
    let (place, folder) = (own_place(), PathBuf::from(folder));
    let mut calls = 0;
    let gather = move |own: &[u8], all: &mut [u8]| {
        calls += 1;
        let of = |rank| folder.join(format!("{calls}-{rank}"));
        leave(&of(place.rank), own);
        let blocks = all.chunks_exact_mut(own.len());
        (0..).zip(blocks).for_each(|(rank, block)| block.copy_from_slice(&find(&of(rank))));
        Ok(())
    };
    Communicator::world_by(Box::new(Callback::new(place, gather)?), &Settings::from_environment()?)
}

fn own_place() -> Place {
    let number = |name| std::env::var(name).unwrap().parse().unwrap();
    Place { rank: number("CIRCULANT_RANK"), size: number("CIRCULANT_SIZE") }
}

/// Leaves a file that is whole as soon as it is there.
pub fn leave(file: &Path, bytes: &[u8]) {
    let unfinished = file.with_extension("unfinished");
    fs::write(&unfinished, bytes).unwrap();
    fs::rename(unfinished, file).unwrap();
}

/// What is in a file, once it is there.
pub fn find(file: &Path) -> Vec<u8> {
    loop {
        match fs::read(file) {
            Err(error) if error.kind() == ErrorKind::NotFound => thread::sleep(Duration::from_millis(1)),
            read => return read.unwrap(),
        }
    }
}
