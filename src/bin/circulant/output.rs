//! Writing results to standard output.

use std::io::{self, BufWriter, ErrorKind, Write};

/// Lets `write` write, buffered. A reader that has seen enough (`circulant ... | head`) is not an error.
pub fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut output = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    match write(&mut output).and_then(|()| output.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        // The kernel's words do not say what they are about.
        other => other.map_err(|error| {
            io::Error::new(error.kind(), format!("the standard output cannot be written: {error}"))
        }),
    }
}
