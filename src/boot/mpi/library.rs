//! The library itself: found among the files that this process has mapped, its functions by their names.
//!
//! It may be out of the program's sight, as a Python module's libraries are; so files are opened by their names
//! again, which loads nothing (RTLD_NOLOAD), and functions are asked of the file that defines them. Files with `mpi` in
//! their names are asked first, and all others only where the program sees that one of them is it.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::ops::Range;
use std::path::{Path, PathBuf};

use libloading::os::unix::Library;

use super::abi::{Abi, Flavour, Handle};
use crate::error::{Error, Result};
use crate::rank::Place;

/// The function that only an MPI library has, and each has.
const MARK: &str = "PMPI_Init";

/// The MPI library of this process.
pub struct Mpi {
    library: Library,
    /// Its constants.
    pub abi: Abi,
    /// Its file.
    pub file: PathBuf,
}

impl Mpi {
    /// Looks for it; `None` where there is none.
    ///
    /// # Errors
    /// Two libraries in one process, which are both named; or one that misses what it should have.
    pub fn find() -> Result<Option<Mpi>> {
        let mut all = Mpi::all()?;
        match all.len() {
            0 | 1 => Ok(all.pop()),
            _ => Err(Mpi::several(&all)),
        }
    }

    /// All that are in this process, in the order in which they are mapped.
    pub fn all() -> Result<Vec<Mpi>> {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let (named, others): (Vec<_>, Vec<_>) =
            files(&maps).into_iter().partition(|(file, _)| is_named(file));
        let found = Mpi::among(named)?;
        match found.is_empty() && address(&Library::this(), MARK).is_some() {
            true => Mpi::among(others),
            false => Ok(found),
        }
    }

    fn among(files: Vec<Mapped>) -> Result<Vec<Mpi>> {
        let found = files.into_iter().filter_map(|(file, at)| Some((open(&file, &at)?, file)));
        found.map(|(library, file)| Mpi::new(library, file)).collect()
    }

    /// That there are several, which is an error.
    pub fn several(all: &[Mpi]) -> Error {
        let files: Vec<_> = all.iter().map(|mpi| mpi.file.display().to_string()).collect();
        Error::boot(
            format!("{} MPI libraries are in this process: {}", files.len(), files.join(", ")),
            "build the program and all that it loads with one of them",
        )
    }

    fn new(library: Library, file: PathBuf) -> Result<Mpi> {
        let flavour = flavour(&library, &file);
        let program = Library::this();
        let symbol = |name: &str| address(&program, name).or_else(|| address(&library, name));
        match Abi::of(flavour, symbol) {
            Some(abi) => Ok(Mpi { library, abi, file }),
            None => Err(Error::boot(
                format!("{} lacks objects that Open MPI has", file.display()),
                "use Open MPI 4 or 5, MPICH, Intel MPI, or a library of the standard interface",
            )),
        }
    }

    /// The address of a function.
    pub fn address(&self, name: &str) -> Option<usize> {
        address(&self.library, name)
    }

    /// A function by its name.
    ///
    /// # Safety
    /// - `F` is the type of a C function pointer, and that function's type with handles as [`Handle`]s.
    pub unsafe fn function<F: Copy>(&self, name: &str) -> Result<F> {
        // SAFETY: - the type is the function's (the caller)
        let symbol = unsafe { self.library.get::<F>(name.as_bytes()) };
        // The file stays open as long as anybody could call what was found: it was there before us.
        symbol.map(|symbol| *symbol).map_err(|_| {
            Error::boot(format!("{} has no {name}", self.file.display()), "use a library of MPI 3 or later")
        })
    }

    /// Whether `MPI_Init` has been called, and `MPI_Finalize` has not.
    pub fn is_running(&self) -> Result<bool> {
        Ok(self.flag("PMPI_Initialized")? && !self.flag("PMPI_Finalized")?)
    }

    fn flag(&self, name: &str) -> Result<bool> {
        // SAFETY: - both functions of MPI that tell their state have this type
        let ask = unsafe { self.function::<unsafe extern "C" fn(*mut i32) -> i32>(name)? };
        let mut flag = 0;
        // SAFETY: - they may be called at any time
        //         - `flag` is an int to be written
        check(name, unsafe { ask(&mut flag) })?;
        Ok(flag != 0)
    }

    /// This process's place in a communicator.
    pub fn place(&self, comm: Handle) -> Result<Place> {
        let number = |name: &str| -> Result<u32> {
            // SAFETY: - MPI_Comm_rank and MPI_Comm_size have this type
            let ask = unsafe { self.function::<unsafe extern "C" fn(Handle, *mut i32) -> i32>(name)? };
            let mut number = 0;
            // SAFETY: - the communicator is the caller's, of a library that runs
            //         - `number` is an int to be written
            check(name, unsafe { ask(comm, &mut number) })?;
            Ok(number as u32)
        };
        Ok(Place { rank: number("PMPI_Comm_rank")?, size: number("PMPI_Comm_size")? })
    }
}

/// A function of MPI that has not given back MPI_SUCCESS.
pub(super) fn check(function: &str, code: i32) -> Result<()> {
    match code {
        0 => Ok(()),
        code => {
            Err(Error::boot(format!("{function} gave error {code}"), "the MPI library's own words say why"))
        }
    }
}

/// A file, and where it is mapped.
type Mapped = (PathBuf, Vec<Range<usize>>);

/// Shared libraries that are mapped, in the order of the first places.
fn files(maps: &str) -> Vec<Mapped> {
    let mut files: Vec<Mapped> = Vec::new();
    for (path, range) in maps.lines().filter_map(mapping) {
        match files.iter_mut().find(|(file, _)| file == path) {
            Some((_, ranges)) => ranges.push(range),
            None => files.push((path.to_owned(), vec![range])),
        }
    }
    files
}

fn mapping(line: &str) -> Option<(&Path, Range<usize>)> {
    let path = Path::new(&line[line.find('/')?..]);
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    name(path).contains(".so").then_some((path, number(start)?..number(end)?))
}

/// Whether a file is called as MPI libraries are.
fn is_named(file: &Path) -> bool {
    name(file).to_lowercase().contains("mpi")
}

fn name(file: &Path) -> Cow<'_, str> {
    file.file_name().map(OsStr::to_string_lossy).unwrap_or_default()
}

/// The addresses that one of these names has in the shared libraries of this process, and in what each of them was loaded with:
/// also where the program itself does not see them. The library that is mapped at `ours` is left out.
pub fn found_beside(ours: usize, names: &[&str]) -> Vec<usize> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let others = files(&maps).into_iter().filter(|(_, at)| !is_within(ours, at));
    let libraries: Vec<Library> = others.filter_map(|(file, _)| loaded(&file)).collect();
    let all = libraries.iter().flat_map(|library| names.iter().filter_map(|name| address(library, name)));
    let mut found: Vec<usize> = Vec::new();
    all.for_each(|address| {
        if !found.contains(&address) {
            found.push(address)
        }
    });
    found
}

/// A file that is an MPI library by itself; what only depends on one finds the mark elsewhere.
fn open(file: &Path, ranges: &[Range<usize>]) -> Option<Library> {
    let library = loaded(file)?;
    let mark = address(&library, MARK)?;
    is_within(mark, ranges).then_some(library)
}

/// A file that is loaded.
fn loaded(file: &Path) -> Option<Library> {
    // SAFETY: - nothing is loaded, so nobody's initialiser runs (RTLD_NOLOAD)
    unsafe { Library::open(Some(file), libc::RTLD_LAZY | libc::RTLD_NOLOAD) }.ok()
}

fn is_within(address: usize, ranges: &[Range<usize>]) -> bool {
    ranges.iter().any(|range| range.contains(&address))
}

fn address(library: &Library, name: &str) -> Option<usize> {
    // SAFETY: - any symbol's address may be looked at; it is not followed
    let symbol = unsafe { library.get::<*const u8>(name.as_bytes()) }.ok()?;
    Some(symbol.as_raw_ptr() as usize).filter(|&address| address != 0)
}

fn flavour(library: &Library, file: &Path) -> Flavour {
    if name(file).contains("mpi_abi") {
        Flavour::Standard
    } else if address(library, "ompi_mpi_comm_world").is_some() {
        Flavour::OpenMpi
    } else {
        Flavour::Mpich
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_libraries_are_found_once_and_known_by_their_names() {
        let maps = "55d0-55d8 r-xp 00000000 08:01 11 /bin/mpi_program\n\
                    7f00-7f10 r--p 00000000 08:01 12 /opt/my mpi/lib/libmpi.so.12\n\
                    7f10-7f20 r-xp 00000000 08:01 12 /opt/my mpi/lib/libmpi.so.12\n\
                    7f20-7f30 r-xp 00000000 08:01 13 /lib/libc.so.6\n\
                    7f30-7f40 rw-p 00000000 00:00 0\n\
                    7f40-7f50 r-xp 00000000 08:01 14 /m/MPI.cpython-311.so\n";
        let (found, others): (Vec<_>, Vec<_>) = files(maps).into_iter().partition(|(file, _)| is_named(file));
        assert_eq!(
            found[0],
            (PathBuf::from("/opt/my mpi/lib/libmpi.so.12"), vec![0x7f00..0x7f10, 0x7f10..0x7f20])
        );
        assert_eq!(found[1].0, PathBuf::from("/m/MPI.cpython-311.so"));
        assert_eq!(found.len(), 2);
        assert_eq!(others.len(), 1);
        assert_eq!(others[0].0, PathBuf::from("/lib/libc.so.6"));
    }

    #[test]
    fn there_is_no_mpi_in_a_test() {
        assert!(Mpi::find().unwrap().is_none());
    }
}
