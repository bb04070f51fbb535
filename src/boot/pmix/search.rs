//! Which libpmix: the one that the launcher itself uses, where that can be seen.
//!
//! It never opens one. Client and server of different versions mostly understand each other; of the same version, surely.
#![forbid(unsafe_code)]

use std::fs;
use std::path::PathBuf;

use rustix::process::getpid;

/// Names the library's file.
pub(in crate::boot) const VARIABLE: &str = "CIRCULANT_LIBPMIX";

/// How far up launchers are looked for: a rank may have been started through shells and wrappers.
const GENERATIONS: usize = 8;

/// Files to try, in order; `named` is the variable's word, which stands alone.
pub(super) fn candidates(named: Option<String>) -> Vec<PathBuf> {
    if let Some(named) = named {
        return vec![named.into()];
    }
    let own = getpid().as_raw_nonzero().get();
    let lineage = std::iter::successors(Some(own), |&process| parent(process)).take(GENERATIONS);
    let mut files: Vec<_> = lineage.filter_map(mapped_by).collect();
    files.extend(["libpmix.so.2", "libpmix.so"].map(PathBuf::from));
    files.dedup();
    files
}

/// The process that started this one, if there is one other than the first of all.
fn parent(process: i32) -> Option<i32> {
    parent_in(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

/// The fourth field. The second is a name in brackets and may hold anything.
fn parent_in(stat: &str) -> Option<i32> {
    let after_name = &stat[stat.rfind(')')? + 1..];
    after_name.split_ascii_whitespace().nth(1)?.parse().ok().filter(|&parent| parent > 1)
}

/// The libpmix that a process has in memory, if it may be looked at.
fn mapped_by(process: i32) -> Option<PathBuf> {
    libpmix_in(&fs::read_to_string(format!("/proc/{process}/maps")).ok()?)
}

fn libpmix_in(maps: &str) -> Option<PathBuf> {
    let files = maps.lines().filter_map(|line| line.find('/').map(|start| &line[start..]));
    files.map(PathBuf::from).find(|file| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libpmix.so") && !name.ends_with("(deleted)")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_in_memory_is_found_by_its_name() {
        let maps = "7f00-7f01 r-xp 00000000 08:01 42    /usr/lib/libc.so.6\n\
                    7f02-7f03 rw-p 00000000 00:00 0     [heap]\n\
                    7f04-7f05 r-xp 00000000 08:01 43    /opt/a b/libpmix.so.2.13.4\n";
        assert_eq!(libpmix_in(maps), Some("/opt/a b/libpmix.so.2.13.4".into()));
        assert_eq!(libpmix_in("7f00-7f01 r-xp 0 08:01 4 /usr/lib/libpmix.so.2 (deleted)\n"), None);
        assert_eq!(libpmix_in(""), None);
    }

    #[test]
    fn a_parent_is_found_whatever_the_name() {
        assert_eq!(parent_in("42 (a ) b) S 17 42 42 0"), Some(17));
        assert_eq!(parent_in("42 (x) S 1 42"), None);
        assert_eq!(parent_in("nonsense"), None);
    }

    #[test]
    fn the_named_file_stands_alone() {
        assert_eq!(candidates(Some("/x/libpmix.so".into())), [PathBuf::from("/x/libpmix.so")]);
        assert!(candidates(None).ends_with(&["libpmix.so.2".into(), "libpmix.so".into()]));
    }
}
