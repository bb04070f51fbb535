//! A card as PMI-1 values: base64url without padding, in as many chunks as it takes.
//!
//! It never does I/O. The first chunk begins with the number of chunks in four digits, so that a reader
//! needs no second key to learn it and even an empty card has a value that is not empty.
#![forbid(unsafe_code)]

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

/// How many digits the number of chunks has.
const COUNT_DIGITS: usize = 4;

/// The card's chunks of at most `room` characters each; `room` is at least 8.
pub(super) fn write(card: &[u8], room: usize) -> Vec<String> {
    let text = BASE64_URL_SAFE_NO_PAD.encode(card);
    let count = (COUNT_DIGITS + text.len()).div_ceil(room);
    let whole = format!("{count:0COUNT_DIGITS$}{text}");
    let mut rest = whole.as_str();
    let mut chunks = Vec::with_capacity(count);
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(rest.len().min(room));
        chunks.push(chunk.to_owned());
        rest = after;
    }
    chunks
}

/// The number of chunks that the first one announces.
pub(super) fn count(first: &str) -> Option<usize> {
    first.get(..COUNT_DIGITS)?.parse().ok().filter(|&count| count > 0)
}

/// The card, from all its chunks one after the other.
pub(super) fn read(whole: &str) -> Option<Vec<u8>> {
    BASE64_URL_SAFE_NO_PAD.decode(whole.get(COUNT_DIGITS..)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_empty_card_is_one_chunk_that_is_not_empty() {
        assert_eq!(write(&[], 100), ["0001"]);
        assert_eq!(read("0001").unwrap(), [0u8; 0]);
    }

    #[test]
    fn what_is_no_card_is_refused() {
        for bad in ["", "1", "abcd", "0000", "\u{e9}\u{e9}x"] {
            assert_eq!(count(bad), None, "{bad}");
        }
        assert_eq!(read("0001!"), None);
    }

    proptest! {
        #[test]
        fn chunks_fit_and_give_the_card_back(card in proptest::collection::vec(any::<u8>(), 0..4097), room in 8_usize..1000) {
            let chunks = write(&card, room);
            prop_assert!(chunks.iter().all(|chunk| !chunk.is_empty() && chunk.len() <= room));
            prop_assert_eq!(count(&chunks[0]), Some(chunks.len()));
            prop_assert_eq!(read(&chunks.concat()), Some(card));
        }
    }
}
