//! The files in /dev/shm by which endpoints of the shm provider are found: those of the dead are removed.
//!
//! The provider removes an endpoint's file when that is closed, or when a signal that can be caught ends
//! its process; a killed one's would stay, with the memory of its queues. So whoever shuts down
//! removes the files of all: by then every peer that it needed has been found, and who has found a
//! file has it mapped.

use std::path::{Path, PathBuf};

/// What the provider's addresses begin with; the file's name follows.
const PREFIX: &[u8] = b"fi_shm://";
const FOLDER: &str = "/dev/shm";

/// The files of these addresses, as far as they are the shm provider's.
pub(super) fn files(addresses: &[Vec<u8>]) -> Vec<PathBuf> {
    addresses.iter().filter_map(|address| file(address)).collect()
}

/// Removes files; those that are gone already are what is wanted.
pub(super) fn remove(files: &[PathBuf]) {
    for file in files {
        let _ = std::fs::remove_file(file);
    }
}

fn file(address: &[u8]) -> Option<PathBuf> {
    let name = address.strip_prefix(PREFIX)?.split(|&byte| byte == 0).next()?;
    let name = str::from_utf8(name).ok().filter(|name| !name.is_empty() && !name.contains('/'))?;
    Some(Path::new(FOLDER).join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_the_shm_provider_are_files() {
        assert_eq!(file(b"fi_shm://2400:0:0\0\0"), Some("/dev/shm/2400:0:0".into()));
        for other in [&b"fi_shm://"[..], b"fi_shm://\0x", b"fi_shm://../etc/x", b"\x02\x00\x1f\x90", b""] {
            assert_eq!(file(other), None);
        }
    }
}
