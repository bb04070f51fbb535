//! libpmix, opened at run time: eight of its functions, each with an error in words.
//!
//! Opened and not linked: linking would fix one version, and make it a dependency of every laptop.

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};

use libloading::os::unix::Library;

use super::layout::{ALL_OF_THE_JOB, BYTE_OBJECT, GLOBAL, Info, Proc, SUCCESS, Status, UINT32, Value};
use super::search::{self, VARIABLE};
use crate::error::{Error, Result};
use crate::rank::Rank;

/// The functions, and the library that they are in.
struct Functions {
    init: unsafe extern "C" fn(*mut Proc, *mut Info, usize) -> Status,
    finalize: unsafe extern "C" fn(*const Info, usize) -> Status,
    put: unsafe extern "C" fn(u8, *const c_char, *mut Value) -> Status,
    commit: unsafe extern "C" fn() -> Status,
    fence: unsafe extern "C" fn(*const Proc, usize, *const Info, usize) -> Status,
    get: unsafe extern "C" fn(*const Proc, *const c_char, *const Info, usize, *mut *mut Value) -> Status,
    /// None before version 4.2, where it is a macro of its header.
    destruct: Option<unsafe extern "C" fn(*mut Value)>,
    error_string: unsafe extern "C" fn(Status) -> *const c_char,
    /// Never closed: its threads may outlive the last call.
    file: PathBuf,
}

impl Functions {
    fn open(file: &Path) -> std::result::Result<Self, libloading::Error> {
        // SAFETY: - what runs when it is opened is the library's own initialisation; the file is the one that the user or the
        //           launcher names, or that the system calls libpmix
        let library = unsafe { Library::open(Some(file), libc::RTLD_NOW | libc::RTLD_LOCAL) }?;
        // SAFETY: - each symbol has the type that pmix.h of versions 3 to 5 declares
        let functions = unsafe {
            Functions {
                init: *library.get(b"PMIx_Init\0")?,
                finalize: *library.get(b"PMIx_Finalize\0")?,
                put: *library.get(b"PMIx_Put\0")?,
                commit: *library.get(b"PMIx_Commit\0")?,
                fence: *library.get(b"PMIx_Fence\0")?,
                get: *library.get(b"PMIx_Get\0")?,
                destruct: library.get(b"PMIx_Value_destruct\0").ok().map(|found| *found),
                error_string: *library.get(b"PMIx_Error_string\0")?,
                file: file.to_owned(),
            }
        };
        std::mem::forget(library);
        Ok(functions)
    }

    /// The first candidate that can be opened.
    fn find(named: Option<String>) -> Result<Self> {
        let mut failures = Vec::new();
        for file in search::candidates(named) {
            match Functions::open(&file) {
                Ok(functions) => return Ok(functions),
                Err(error) => failures.push(format!("{}: {error}", file.display())),
            }
        }
        Err(Error::boot(
            format!("the launcher speaks PMIx, and no libpmix can be opened ({})", failures.join("; ")),
            format!(
                "install it (apt-get install libpmix2), or let {VARIABLE} name its file; or use `srun --mpi=pmi2`, MPICH's mpiexec or `circulant run`"
            ),
        ))
    }
}

/// A rank's connection with a launcher that speaks PMIx.
pub(super) struct Client {
    functions: Functions,
    own: Proc,
}

impl Client {
    /// Connects with the launcher that started this process.
    pub(super) fn join(named: Option<String>) -> Result<Self> {
        let functions = Functions::find(named)?;
        let mut client = Client { functions, own: Proc::NOBODY };
        // SAFETY: - `own` outlives the call, which writes it; there are no wishes
        let status = unsafe { (client.functions.init)(&mut client.own, null_mut(), 0) };
        client.check("PMIx_Init", status)?;
        Ok(client)
    }

    /// Where the library is.
    pub(super) fn file(&self) -> &Path {
        &self.functions.file
    }

    pub(super) fn rank(&self) -> Rank {
        self.own.rank
    }

    /// How many ranks the job has.
    pub(super) fn size(&self) -> Result<u32> {
        let found = self.get(ALL_OF_THE_JOB, "pmix.job.size", |value| {
            match value.kind {
                // SAFETY: - the kind says which part of the union was written
                UINT32 => Some(unsafe { value.data.uint32 }),
                _ => None,
            }
        })?;
        found.ok_or_else(|| self.wrong("PMIx_Get", "a size that is no number"))
    }

    /// Leaves bytes for all ranks; they are there after the next [`fence`](Self::fence).
    pub(super) fn put(&self, key: &str, bytes: &mut [u8]) -> Result<()> {
        let key = self.name(key)?;
        let mut value = Value::of_bytes(bytes.as_mut_ptr().cast(), bytes.len());
        // SAFETY: - key, value and the bytes that it points to outlive the call, which copies them
        self.check("PMIx_Put", unsafe { (self.functions.put)(GLOBAL, key.as_ptr(), &mut value) })?;
        // SAFETY: - takes nothing
        self.check("PMIx_Commit", unsafe { (self.functions.commit)() })
    }

    /// Waits until all ranks have come as far, and brings what they have left.
    pub(super) fn fence(&self) -> Result<()> {
        let everybody = Proc { rank: ALL_OF_THE_JOB, ..self.own };
        let wish = Info::collect();
        // SAFETY: - one of each, which outlive the call
        self.check("PMIx_Fence", unsafe { (self.functions.fence)(&everybody, 1, &wish, 1) })
    }

    /// The bytes that a rank has left.
    pub(super) fn bytes(&self, rank: Rank, key: &str) -> Result<Vec<u8>> {
        let found = self.get(rank, key, |value| {
            let bytes = match value.kind {
                // SAFETY: - the kind says which part of the union was written
                BYTE_OBJECT => unsafe { value.data.bytes },
                _ => return None,
            };
            if bytes.start.is_null() {
                return Some(Vec::new());
            }
            // SAFETY: - the library says that so many bytes are there, and no one writes them before they are given back
            Some(unsafe { std::slice::from_raw_parts(bytes.start.cast::<u8>(), bytes.size) }.to_vec())
        })?;
        found.ok_or_else(|| {
            self.wrong("PMIx_Get", &format!("something else than bytes for {key} of rank {rank}"))
        })
    }

    /// Tells the launcher that this process ends well.
    pub(super) fn finalize(&self) -> Result<()> {
        // SAFETY: - there are no wishes
        self.check("PMIx_Finalize", unsafe { (self.functions.finalize)(null(), 0) })
    }

    fn get<T>(&self, rank: Rank, key: &str, read: impl FnOnce(&Value) -> T) -> Result<T> {
        let name = self.name(key)?;
        let of = Proc { rank, ..self.own };
        let mut found: *mut Value = null_mut();
        // SAFETY: - all of them outlive the call, which writes `found`; there are no wishes
        let status = unsafe { (self.functions.get)(&of, name.as_ptr(), null(), 0, &mut found) };
        self.check(&format!("PMIx_Get of {key}"), status)?;
        // SAFETY: - not null, it is a value that the library has allocated and given away
        let value = unsafe { found.as_ref() }.ok_or_else(|| self.wrong("PMIx_Get", "no value"))?;
        let read = read(value);
        // SAFETY: - it is used no more; what it points to and itself are given back once, by the library's function
        //           and, as PMIX_VALUE_RELEASE does, by free
        //         - where there is no function, bytes are freed as the macro does; other kinds that are asked for
        //           point to nothing
        unsafe {
            match self.functions.destruct {
                Some(destruct) => destruct(found),
                None if (*found).kind == BYTE_OBJECT => libc::free((*found).data.bytes.start),
                None => {}
            }
            libc::free(found.cast::<c_void>());
        }
        Ok(read)
    }

    fn name(&self, key: &str) -> Result<CString> {
        CString::new(key).map_err(|_| self.wrong("PMIx", "a key with a zero"))
    }

    fn check(&self, call: &str, status: Status) -> Result<()> {
        if status == SUCCESS {
            return Ok(());
        }
        // SAFETY: - takes any number
        let words = unsafe { (self.functions.error_string)(status) };
        let words = match words.is_null() {
            true => "no reason given".into(),
            // SAFETY: - not null, it is one of the library's constant strings
            false => unsafe { CStr::from_ptr(words) }.to_string_lossy(),
        };
        Err(self.wrong(call, &format!("{words} ({status})")))
    }

    fn wrong(&self, call: &str, what: &str) -> Error {
        Error::boot(
            format!("{call} of {} gave {what}", self.functions.file.display()),
            format!(
                "see what the launcher says; {VARIABLE} names another libpmix, CIRCULANT_BOOT another way of boot"
            ),
        )
    }
}
