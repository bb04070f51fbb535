//! The files in /dev/shm by which endpoints on one machine find each other: those of the dead are removed.
//!
//! A provider removes an endpoint's file when that is closed or its process exits; a killed one's would
//! stay, with the memory of its queues. So whoever shuts down removes the files of all: by then every
//! peer that it needed has been found, and who has found a file has it mapped.

use std::path::{Path, PathBuf};

const FOLDER: &str = "/dev/shm";

/// The files of endpoints with these addresses, where the provider has such.
pub(super) fn files(provider: &str, addresses: &[&[u8]]) -> Vec<PathBuf> {
    let name: fn(&[u8]) -> Option<String> = match provider {
        "shm" => of_shm,
        "psm2" => of_psm2,
        _ => return Vec::new(),
    };
    addresses.iter().filter_map(|address| name(address)).map(|name| Path::new(FOLDER).join(name)).collect()
}

/// Removes files; those that are gone already are what is wanted.
pub(super) fn remove(files: &[PathBuf]) {
    for file in files {
        let _ = std::fs::remove_file(file);
    }
}

/// What follows the address's scheme.
fn of_shm(address: &[u8]) -> Option<String> {
    let name = address.strip_prefix(b"fi_shm://")?.split(|&byte| byte == 0).next()?;
    let name = str::from_utf8(name).ok().filter(|name| !name.is_empty() && !name.contains('/'))?;
    Some(name.to_owned())
}

/// The user's number, the endpoint's (with which the address begins) and a count.
fn of_psm2(address: &[u8]) -> Option<String> {
    let number = u64::from_le_bytes(*address.first_chunk()?);
    Some(format!("psm2_shm.{}{number:016x}0", rustix::process::getuid().as_raw()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_name_in_the_folder_is_a_file() {
        assert_eq!(of_shm(b"fi_shm://2400:0:0\0\0").as_deref(), Some("2400:0:0"));
        for other in [&b"fi_shm://"[..], b"fi_shm://\0x", b"fi_shm://../etc/x", b"\x02\x00\x1f\x90", b""] {
            assert_eq!(of_shm(other), None);
        }
    }

    #[test]
    fn a_provider_without_such_files_has_none() {
        assert_eq!(files("net", &[b"fi_shm://2400:0:0\0"]), [""; 0].map(PathBuf::from));
    }
}
