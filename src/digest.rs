//! A number for a sequence of words, by which a change of it is noticed. Quick, and no match for somebody's ill will.
#![forbid(unsafe_code)]

/// The number. It always differs where sequences of one length differ in one word; where they differ in more, hardly ever not.
///
/// FNV's start and prime, and a rotation, as the last words would else leave the first bits as they are.
pub fn of_words(words: impl IntoIterator<Item = u64>) -> u64 {
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29);
    words.into_iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_word_that_changes_is_noticed(mut words in proptest::collection::vec(any::<u64>(), 1..40), at: usize, change in 1u64..) {
            let before = of_words(words.iter().copied());
            let at = at % words.len();
            words[at] ^= change;
            prop_assert_ne!(of_words(words), before);
        }
    }
}
