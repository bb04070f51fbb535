//! What a reduction combines, and how: element types, operators, and the loops over them.
//!
//! It knows bytes of one element type and an operator on it; it never knows ranks, rounds or networks.

/// Combines elements, given as bytes: the engine knows sizes and order, not types.
pub trait Fold: Send + Sync {
    /// Bytes of an element; every range that is folded is a whole number of them.
    fn unit(&self) -> usize;

    /// The operator's and the type's numbers, which all ranks of a call must agree on.
    fn numbers(&self) -> (u8, u8);

    /// Whether `a ∘ b = b ∘ a`: if not, only plans that keep the ranks' order will do.
    fn commutes(&self) -> bool;

    /// `mine = mine ∘ theirs` element by element, or `theirs ∘ mine` where they come `before`. Of equal
    /// lengths, and apart. An error, or a panic that was caught, is the operator's own words.
    fn fold(&self, mine: &mut [u8], theirs: &[u8], before: bool) -> Result<(), String>;
}

/// Operator and type by their numbers, as errors say them.
pub fn names(numbers: (u8, u8)) -> String {
    format!("operator {} on type {}", numbers.0, numbers.1)
}
