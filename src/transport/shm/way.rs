//! How bytes get into private memory, and how that is found out.

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::card::Card;
use super::home::Home;
use super::{Run, remote};

/// How bytes get into a peer's private memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    /// The kernel copies them, for both ends at the same time.
    Joint,
    /// The kernel copies them, for the source.
    Writev,
    /// They go through a ring, and the target copies them.
    Ring,
}

impl Way {
    /// All of them.
    pub const ALL: [Way; 3] = [Way::Joint, Way::Writev, Way::Ring];

    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Way::Joint => "joint",
            Way::Writev => "writev",
            Way::Ring => "ring",
        }
    }
}

impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Way::Joint => "by process_vm_writev and process_vm_readv",
            Way::Writev => "by process_vm_writev",
            Way::Ring => "through a ring",
        })
    }
}

/// What a rank found out about its peers, to be told to all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Findings {
    /// Why a peer cannot be reached, if so.
    pub unreachable: Option<String>,
    /// Why its private memory is not to be written by the kernel, if so.
    pub unwritable: Option<String>,
    /// Nor read.
    pub unreadable: Option<String>,
}

/// Why this process may not write the private memory of another one, and why it may not read it, if so: neither where it
/// cannot tell whether it is still that one.
pub(super) fn reach_into(card: &Card) -> [Option<String>; 2] {
    match card.home.life(card.board) {
        Ok(_) => tread_on_doormat(card),
        Err(missing) => [(); 2].map(|()| Some(missing.to_string())),
    }
}

/// The same of one that it is.
fn tread_on_doormat(card: &Card) -> [Option<String>; 2] {
    let Card { home: Home { pid, .. }, doormat, .. } = *card;
    let mut word = [0_u8; 8];
    let all = [Run { offset: 0, len: word.len() }];
    // SAFETY: - the segment is the array
    let written = unsafe { remote::write(pid, word.as_ptr(), &all, doormat) };
    // SAFETY: - the array has room for it
    let read = unsafe { remote::read(pid, doormat, word.as_mut_ptr(), word.len()) };
    let why = |call| move |error: Errno| format!("{call}: {error}");
    [written.err().map(why("process_vm_writev")), read.err().map(why("process_vm_readv"))]
}

/// The first rank that has found something.
pub(super) fn first(
    findings: &[Findings],
    of: impl Fn(&Findings) -> Option<&String>,
) -> Option<(usize, &String)> {
    findings.iter().enumerate().find_map(|(rank, found)| Some((rank, of(found)?)))
}
