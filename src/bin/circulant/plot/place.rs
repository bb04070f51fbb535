//! Where the figure goes.

use std::fmt::Display;
use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use circulant::error::{Error, Result};
use rustix::fs::{Access, access, fstat};

use crate::output::print;

pub enum Place {
    StandardOutput,
    /// A device, a pipe, or a file in a folder that is closed.
    AsItIs(PathBuf, Option<Metadata>),
    /// A file, which is there or not.
    File(PathBuf, Option<Metadata>),
}

impl Place {
    /// Fails where nothing can be written there.
    pub fn of(output: &Path) -> Result<Place> {
        let refusal = |why: &dyn Display| {
            let what = format!("{} cannot be written: {why}", output.display());
            Error::argument("plot", what, "give -o a file in a folder that you may write to")
        };
        if output == Path::new("-") {
            return Ok(Place::StandardOutput);
        }
        let target = match output.canonicalize() {
            Ok(target) => target,
            Err(e) if output.is_symlink() || output.as_os_str().as_encoded_bytes().ends_with(b"/") => {
                return Err(refusal(&e));
            }
            Err(_) => {
                access(folder(output), Access::WRITE_OK | Access::EXEC_OK).map_err(|e| refusal(&e))?;
                return Ok(Place::File(output.to_owned(), None));
            }
        };
        access(&target, Access::WRITE_OK).map_err(|e| refusal(&e))?;
        let about = target.metadata().map_err(|e| refusal(&e))?;
        match about.is_file() && access(folder(&target), Access::WRITE_OK | Access::EXEC_OK).is_ok() {
            _ if about.is_dir() => Err(refusal(&"it is a folder")),
            true => Ok(Place::File(target, Some(about))),
            false => Ok(Place::AsItIs(target, Some(about).filter(Metadata::is_file))),
        }
    }

    /// A measurement must not be lost to its figure, by whatever name.
    pub fn check_other_than(&self, input: impl AsFd, name: &str) -> Result<()> {
        let (Place::File(_, Some(own)) | Place::AsItIs(_, Some(own))) = self else { return Ok(()) };
        match fstat(input) {
            Ok(other) if (own.dev(), own.ino()) == (other.st_dev, other.st_ino) => {
                let what = format!("{name} is to be read, and to be written");
                Err(Error::argument("plot", what, "give -o another file"))
            }
            _ => Ok(()),
        }
    }

    /// What a file had before is there until all is written.
    pub fn write(&self, svg: &str) -> io::Result<()> {
        let (file, written) = match self {
            Place::StandardOutput => return print(|out| out.write_all(svg.as_bytes())),
            Place::AsItIs(file, _) => {
                let opened = File::options().write(true).truncate(true).open(file);
                (file, opened.and_then(|mut opened| opened.write_all(svg.as_bytes())))
            }
            Place::File(file, before) => {
                let part = folder(file).join(format!(".circulant-{}.svg", std::process::id()));
                let written = fs::write(&part, svg)
                    .and_then(|()| {
                        before.as_ref().map_or(Ok(()), |b| fs::set_permissions(&part, b.permissions()))
                    })
                    .and_then(|()| fs::rename(&part, file));
                if written.is_err() {
                    let _ = fs::remove_file(&part);
                }
                (file, written)
            }
        };
        // The kernel's words do not say what they are about.
        written.map_err(|e| io::Error::new(e.kind(), format!("{} cannot be written: {e}", file.display())))
    }
}

fn folder(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
