//! How results are written.

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

/// A number of bytes in the largest unit of which there is one: `64 KiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    // What would be 1024 when it is rounded is one of the next unit.
    let step = (bytes.max(1).saturating_add(bytes / 20480).ilog2() / 10).min(4);
    let number = bytes as f64 / (1_u64 << (10 * step)) as f64;
    let digits = usize::from((number - number.round()).abs() >= 0.05);
    format!("{number:.digits$} {}", UNITS[step as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_as_people_write_them() {
        assert_eq!(
            [0, 1023, 65536, 3 << 19, 256 << 10, 1_048_572, 524_284, u64::MAX].map(size),
            ["0 B", "1023 B", "64 KiB", "1.5 MiB", "256 KiB", "1 MiB", "512 KiB", "16777216 TiB"]
        );
    }
}
