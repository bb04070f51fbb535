//! How much memory there is still to be had: what the machine has, and what the limits of a container leave of it.
//!
//! Who takes more than a container's limit is ended by the kernel, though the machine has memory left. The
//! limits are those of the control groups that this process is in, each within those above it. What a group's
//! files take up that nobody has used of late counts as free, as the kernel drops it first.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// What is left, and of what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Room {
    /// So many bytes.
    pub bytes: u64,
    /// Whose they are.
    pub of: Owner,
}

/// Who has memory to give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// The machine.
    Machine,
    /// A control group: the file of its limit.
    Container(PathBuf),
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Owner::Machine => f.write_str("the machine"),
            Owner::Container(limit) => write!(f, "the container ({})", limit.display()),
        }
    }
}

impl Owner {
    /// What helps.
    pub fn cure(&self) -> &'static str {
        match self {
            Owner::Machine => "ask for less, or free memory",
            Owner::Container(_) => "ask for less, or raise the container's limit on memory",
        }
    }
}

/// The least room of all that this process's memory must fit in; none where the system does not tell. Some 50 µs.
pub fn left() -> Option<Room> {
    static GROUPS: OnceLock<Vec<Group>> = OnceLock::new();
    let groups = GROUPS.get_or_init(|| groups(Path::new("/")));
    let limits = groups.iter().filter_map(Group::room);
    available().into_iter().chain(limits).min_by_key(|room| room.bytes)
}

/// What can be had without pushing others out.
fn available() -> Option<Room> {
    let table = fs::read_to_string("/proc/meminfo").ok()?;
    let line = table.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(Room { bytes: kib << 10, of: Owner::Machine })
}

/// The two interfaces of control groups, with what their files are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Version {
    filesystem: &'static str,
    limit: &'static str,
    usage: &'static str,
    unused_files: &'static str,
}

const FIRST: Version = Version {
    filesystem: "cgroup",
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    unused_files: "total_inactive_file ",
};
const SECOND: Version = Version {
    filesystem: "cgroup2",
    limit: "memory.max",
    usage: "memory.current",
    unused_files: "inactive_file ",
};

/// The first interface has a number also where there is no limit: so large a one.
const UNLIMITED: u64 = 1 << 60;

/// A control group with an account of memory.
#[derive(Debug, PartialEq, Eq)]
struct Group {
    folder: PathBuf,
    version: Version,
}

impl Group {
    /// None where it has no limit.
    fn room(&self) -> Option<Room> {
        let limit = self.folder.join(self.version.limit);
        let most = number(&limit).filter(|&most| most < UNLIMITED)?;
        let used = number(&self.folder.join(self.version.usage))?;
        let used = used.saturating_sub(self.unused_files().unwrap_or(0));
        Some(Room { bytes: most.saturating_sub(used), of: Owner::Container(limit) })
    }

    fn unused_files(&self) -> Option<u64> {
        let table = fs::read_to_string(self.folder.join("memory.stat")).ok()?;
        table.lines().find_map(|line| line.strip_prefix(self.version.unused_files))?.parse().ok()
    }
}

/// None of `max`, which is no limit, and where there is no such file.
fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// The groups that account for this process's memory, on the system below `root`.
fn groups(root: &Path) -> Vec<Group> {
    let read = |name: &str| fs::read_to_string(root.join(name)).unwrap_or_default();
    let mounts = read("proc/self/mountinfo");
    let memberships = read("proc/self/cgroup");
    memberships
        .lines()
        .filter_map(|line| membership(line))
        .flat_map(|(version, path)| above(root, version, path, &mounts))
        .collect()
}

/// Of a line `4:memory:/jobs/7`, or `0::/jobs/7`: where the process is in the hierarchy that accounts for memory.
fn membership(line: &str) -> Option<(Version, &str)> {
    let mut fields = line.splitn(3, ':');
    let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    let first = controllers.split(',').any(|name| name == "memory");
    let second = number == "0" && controllers.is_empty();
    (first || second).then_some((if first { FIRST } else { SECOND }, path))
}

/// The group at `path`, and all above it that can be seen from here. A container may see its own group as the
/// uppermost, whatever its path is outside.
fn above(root: &Path, version: Version, path: &str, mounts: &str) -> Vec<Group> {
    let Some((seen, top)) = mounts.lines().find_map(|line| mount(version, line)) else { return Vec::new() };
    let top = root.join(top.trim_start_matches('/'));
    let below = Path::new(path).strip_prefix(seen).unwrap_or(Path::new(""));
    let folder = Some(top.join(below)).filter(|folder| folder.is_dir()).unwrap_or_else(|| top.clone());
    let folders = folder.ancestors().take_while(|folder| folder.starts_with(&top));
    folders.map(|folder| Group { folder: folder.to_owned(), version }).collect()
}

/// Of a line `35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory`: which group is seen, and where.
fn mount(version: Version, line: &str) -> Option<(&str, &str)> {
    let (place, what) = line.split_once(" - ")?;
    let mut place = place.split(' ').skip(3);
    let mut what = what.split(' ');
    let is_it = what.next()? == version.filesystem
        && (version == SECOND || what.nth(1)?.split(',').any(|option| option == "memory"));
    is_it.then_some((place.next()?, place.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A system with these files.
    fn system(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let file = root.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        root
    }

    fn rooms(root: &tempfile::TempDir) -> Vec<(u64, PathBuf)> {
        let rooms = groups(root.path()).into_iter().filter_map(|group| group.room());
        let file = |of: Owner| match of {
            Owner::Container(limit) => limit.strip_prefix(root.path()).unwrap().to_owned(),
            Owner::Machine => unreachable!(),
        };
        rooms.map(|room| (room.bytes, file(room.of))).collect()
    }

    #[test]
    fn every_group_above_may_have_a_limit() {
        let root = system(&[
            ("proc/self/cgroup", "9:name=systemd:/\n0::/jobs/7\n"),
            ("proc/self/mountinfo", "41 31 0:38 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n"),
            ("sys/fs/cgroup/jobs/memory.max", "1000\n"),
            ("sys/fs/cgroup/jobs/memory.current", "700\n"),
            ("sys/fs/cgroup/jobs/memory.stat", "anon 1\ninactive_file 50\n"),
            ("sys/fs/cgroup/jobs/7/memory.max", "max\n"),
            ("sys/fs/cgroup/jobs/7/memory.current", "300\n"),
        ]);
        assert_eq!(rooms(&root), [(350, "sys/fs/cgroup/jobs/memory.max".into())]);
    }

    #[test]
    fn the_first_interface_has_other_names() {
        let root = system(&[
            ("proc/self/cgroup", "4:cpu,memory:/job\n1:cpu:/\n0::/\n"),
            (
                "proc/self/mountinfo",
                "35 31 0:32 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                 36 31 0:32 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n",
            ),
            ("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "0\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "500\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "600\n"),
        ]);
        assert_eq!(
            rooms(&root),
            [(0, "sys/fs/cgroup/memory/memory.limit_in_bytes".into())],
            "the other has none"
        );
    }

    #[test]
    fn a_container_may_see_its_group_as_the_uppermost() {
        for (cgroup, seen) in
            [("0::/docker/12ab\n", "/docker/12ab"), ("0::/docker/12ab\n", "/"), ("0::/\n", "/../x")]
        {
            let mounts = format!("41 31 0:38 {seen} /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n");
            let root = system(&[
                ("proc/self/cgroup", cgroup),
                ("proc/self/mountinfo", &mounts),
                ("sys/fs/cgroup/memory.max", "64\n"),
                ("sys/fs/cgroup/memory.current", "4\n"),
            ]);
            assert_eq!(rooms(&root), [(60, "sys/fs/cgroup/memory.max".into())], "{cgroup} {seen}");
        }
    }

    #[test]
    fn a_system_that_tells_nothing_has_no_limits() {
        assert_eq!(groups(system(&[]).path()), []);
        assert!(left().is_some_and(|room| room.bytes > 0), "this one does");
    }
}
