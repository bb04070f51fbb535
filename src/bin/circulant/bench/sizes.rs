//! Message sizes as users write them: `1K:4M`.

use std::str::FromStr;

/// Sizes from the least to the largest, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    least: usize,
    largest: usize,
}

impl Sizes {
    pub const fn new(least: usize, largest: usize) -> Sizes {
        Sizes { least, largest }
    }

    /// All of them: from the least on, each `factor` times the one before, the largest not exceeded.
    pub fn each(self, factor: usize) -> Vec<usize> {
        let after = |&size: &usize| {
            size.max(1).checked_mul(factor).filter(|&next| next <= self.largest && next > size)
        };
        let first = (self.least <= self.largest).then_some(self.least);
        let after_zero =
            |&size: &usize| if size == 0 { (self.largest > 0).then_some(1) } else { after(&size) };
        std::iter::successors(first, after_zero).collect()
    }
}

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (least, largest) = text.split_once(':').unwrap_or((text, text));
        let sizes = Sizes { least: size(least)?, largest: size(largest)? };
        if sizes.least > sizes.largest {
            return Err(format!("{least} is more than {largest}; write the smaller size first"));
        }
        Ok(sizes)
    }
}

/// A size, with K, M or G for the powers of 1024.
fn size(text: &str) -> Result<usize, String> {
    let bad = || format!("'{text}' is no size; write bytes, or a number with K, M or G, as in 8:4M");
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match &text[digits.len()..] {
        "" | "B" => 0,
        "K" | "k" | "KB" | "kB" | "KiB" => 10,
        "M" | "m" | "MB" | "MiB" => 20,
        "G" | "g" | "GB" | "GiB" => 30,
        _ => return Err(bad()),
    };
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(bad());
    }
    let number = digits.parse().ok().and_then(|number: usize| number.checked_mul(1 << shift));
    number
        .filter(|&bytes| bytes <= isize::MAX as usize)
        .ok_or_else(|| format!("'{text}' is too large; no memory has so many bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_they_are_written() {
        assert_eq!("1K:16K".parse::<Sizes>().unwrap().each(4), [1024, 4096, 16384]);
        assert_eq!("0:8".parse::<Sizes>().unwrap().each(2), [0, 1, 2, 4, 8]);
        assert_eq!("5MiB".parse::<Sizes>().unwrap().each(2), [5 << 20]);
        assert_eq!("3:20".parse::<Sizes>().unwrap().each(4), [3, 12]);
    }

    #[test]
    fn what_is_no_size_is_named() {
        for bad in ["", "x", "1:", "1T", "-3", "9:3", "99999999999G", "1KK"] {
            assert!(bad.parse::<Sizes>().is_err(), "{bad}");
        }
        for large in ["99999999999999999999", "99999999999G"] {
            assert!(large.parse::<Sizes>().unwrap_err().contains("is too large"), "{large}");
        }
    }
}
