//! One line of PMI-1: `key=value` pairs with spaces between, the first of which names the command.
//!
//! It never does I/O. A word without `=` belongs to the value before it: abort messages hold spaces.
#![forbid(unsafe_code)]

/// The most bytes of a request with its newline: Slurm reads each with one read of this size.
pub const REQUEST_BYTES: usize = 1024;

/// The most bytes of an answer: Intel's launcher announces values of 4096.
pub const ANSWER_BYTES: usize = 8192;

/// A line taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pairs: Vec<(String, String)>,
}

impl Line {
    /// Takes a line apart. The error is a phrase that quotes it.
    pub fn parse(bytes: &[u8]) -> Result<Line, String> {
        let text =
            std::str::from_utf8(bytes).map_err(|_| format!("a line that is not text: {}", quoted(bytes)))?;
        let mut pairs: Vec<(String, String)> = Vec::new();
        for word in text.split_ascii_whitespace() {
            match (word.split_once('='), pairs.last_mut()) {
                (Some((key, value)), _) => pairs.push((key.into(), value.into())),
                (None, Some((_, value))) => {
                    value.push(' ');
                    value.push_str(word);
                }
                (None, None) => return Err(format!("a line without a command: {}", quoted(bytes))),
            }
        }
        match pairs.first() {
            Some((key, _)) if key == "cmd" || key == "mcmd" => Ok(Line { pairs }),
            _ => Err(format!("a line without a command: {}", quoted(bytes))),
        }
    }

    /// What is asked or answered.
    pub fn command(&self) -> &str {
        &self.pairs[0].1
    }

    /// A request of several lines, which ends with `endcmd`.
    pub fn opens_a_block(&self) -> bool {
        self.pairs[0].0 == "mcmd"
    }

    /// The value of the first pair with this key.
    pub fn get(&self, key: &str) -> Option<&str> {
        Some(&self.pairs.iter().find(|pair| pair.0 == key)?.1)
    }

    /// The value as a number; the error is a phrase.
    pub fn number<T: std::str::FromStr>(&self, key: &str) -> Result<T, String> {
        let value = self.get(key).ok_or_else(|| format!("no '{key}' in '{}'", self.command()))?;
        value.parse().map_err(|_| format!("'{key}={value}' in '{}' is not such a number", self.command()))
    }
}

/// Foreign bytes, made fit for a message: escaped, and not too many.
pub fn quoted(bytes: &[u8]) -> String {
    const MOST: usize = 60;
    let shown = bytes[..bytes.len().min(MOST)].escape_ascii();
    let more = if bytes.len() > MOST { "..." } else { "" };
    format!("'{shown}{more}'")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_is_pairs_after_a_command() {
        let line = Line::parse(b"cmd=get_result rc=0 msg=success value=(vector,(0,1,2))").unwrap();
        assert_eq!(line.command(), "get_result");
        assert_eq!(line.get("value"), Some("(vector,(0,1,2))"));
        assert_eq!(line.number("rc"), Ok(0));
        assert_eq!(line.get("nothing"), None);
    }

    #[test]
    fn a_value_may_hold_an_equals_sign_or_be_empty() {
        let line = Line::parse(b"cmd=put value=a=b key=").unwrap();
        assert_eq!(line.get("value"), Some("a=b"));
        assert_eq!(line.get("key"), Some(""));
    }

    #[test]
    fn words_without_equals_sign_belong_to_the_value_before() {
        let line = Line::parse(b"cmd=abort exitcode=3 error_msg=out of luck").unwrap();
        assert_eq!(line.get("error_msg"), Some("out of luck"));
    }

    #[test]
    fn a_line_without_a_command_is_quoted_in_the_error() {
        for bad in [&b""[..], b"   ", b"hello", b"rc=0 cmd=x", b"\xff\xfe"] {
            let error = Line::parse(bad).unwrap_err();
            assert!(error.contains(&quoted(bad)), "{error}");
        }
    }

    #[test]
    fn a_number_that_is_none_is_named() {
        let line = Line::parse(b"cmd=maxes keylen_max=many").unwrap();
        assert_eq!(
            line.number::<u32>("keylen_max").unwrap_err(),
            "'keylen_max=many' in 'maxes' is not such a number"
        );
        assert_eq!(line.number::<u32>("vallen_max").unwrap_err(), "no 'vallen_max' in 'maxes'");
    }

    proptest! {
        #[test]
        fn no_line_at_all_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(line) = Line::parse(&bytes) {
                prop_assert!(line.get("cmd").is_some() || line.opens_a_block());
            }
        }
    }
}
