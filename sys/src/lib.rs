//! libfabric as it is: C declarations, and the headers' `static inline` functions.
//!
//! It adds no meaning of its own; see `man 7 fabric` for what a call does. The declarations come from
//! the headers of version 1.17, whose binary interface later libraries keep, and are committed, as those
//! generated from 2.x headers name things differently. The library is opened at run time: a program
//! builds where there is none, and says what is missing when it runs.

/// The declarations that bindgen made of the headers.
#[rustfmt::skip]
#[allow(
    missing_docs, non_camel_case_types, dead_code, unsafe_op_in_unsafe_fn,
    clippy::undocumented_unsafe_blocks, clippy::too_many_arguments, clippy::missing_safety_doc
)]
mod bindings {
    #[cfg(not(feature = "regenerate"))]
    include!("bindings.rs");
    #[cfg(feature = "regenerate")]
    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}

mod inline;
mod signals;

pub use bindings::*;
pub use inline::*;

use std::sync::OnceLock;

/// The version of the interface that is asked for: 1.17.
pub const VERSION: u32 = (FI_MAJOR_VERSION << 16) | FI_MINOR_VERSION;

/// The variable that may name the library's file.
pub const VARIABLE: &str = "CIRCULANT_LIBFABRIC";

/// Why there is no libfabric, with the cure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// What was tried, and what the loader said.
    pub what: String,
    /// What to do.
    pub cure: String,
}

/// The library, opened at the first call: the file that [`VARIABLE`] names, else `libfabric.so.1`.
///
/// It stays open for the life of the process, as providers leave threads and exit handlers behind.
pub fn libfabric() -> Result<&'static Functions, Missing> {
    static LIBRARY: OnceLock<Result<Functions, Missing>> = OnceLock::new();
    LIBRARY.get_or_init(open).as_ref().map_err(Clone::clone)
}

fn open() -> Result<Functions, Missing> {
    let named = std::env::var_os(VARIABLE).filter(|file| !file.is_empty());
    let file = named.clone().unwrap_or_else(|| "libfabric.so.1".into());
    // SAFETY: - loading runs the initialisers of the library that the user installed or named
    //         - the functions' types are those of the library's own headers
    let library = signals::kept(|| unsafe { Functions::new(&file) }).map_err(|e| Missing {
        what: format!("libfabric cannot be opened: {e}"),
        cure: match named {
            Some(_) => format!("let {VARIABLE} name a libfabric.so.1, or unset it"),
            None => format!("`apt install libfabric1`, or let {VARIABLE} name a libfabric.so.1"),
        },
    })?;
    // SAFETY: - takes nothing and reads a constant
    let version = unsafe { library.fi_version() };
    if version >= VERSION {
        return Ok(library);
    }
    let [there, least] = [version, VERSION].map(version_text);
    Err(Missing {
        what: format!("{} is libfabric {there}, where {least} or later is needed", file.display()),
        cure: format!("install a later one, and let {VARIABLE} name it where it is not found by itself"),
    })
}

/// A version as people write it: `1.17`.
pub fn version_text(version: u32) -> String {
    format!("{}.{}", version >> 16, version & 0xffff)
}
