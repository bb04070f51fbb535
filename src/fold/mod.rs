//! What a reduction combines, and how: element types, operators, and the loops over them.
//!
//! It knows bytes of one element type and an operator on it; it never knows ranks, rounds or networks.
//! The engine sees [`Fold`] alone, over bytes, held as [`AnyFold`]; users see [`Operator`]s over elements, and [`Typed`] joins
//! the two. A type and an operator that do not go together do not compile; who learns of them at run
//! time asks [`builtin`], which says what would go together.
//!
//! | operators | integers | f16, bf16, f32, f64 | complex | bool | [`Located`] |
//! |---|---|---|---|---|---|
//! | [`Sum`], [`Product`] | they wrap | yes | yes | | |
//! | [`Min`], [`Max`] | yes | a NaN wins | | | |
//! | [`LogicalAnd`], [`LogicalOr`], [`LogicalXor`] | not 0 is true | | | yes | |
//! | [`BitAnd`], [`BitOr`], [`BitXor`] | yes | | | yes | |
//! | [`MinLoc`], [`MaxLoc`] | | | | | yes |
//!
//! [`commutative`] and [`ordered`] make an operator of a closure, on any [`Element`](element::Element).

mod builtin;
mod classes;
pub mod element;
mod halves;
mod held;
mod kinds;
mod located;
mod loops;
mod operators;
#[cfg(test)]
mod tests;
mod typed;
mod users;

pub use builtin::builtin;
pub use held::AnyFold;
pub use kinds::{Op, Type, words};
pub use located::Located;
pub use operators::{
    BitAnd, BitOr, BitXor, LogicalAnd, LogicalOr, LogicalXor, Max, MaxLoc, Min, MinLoc, Operator, Product,
    Sum,
};
pub use typed::{Typed, of};
pub use users::{commutative, ordered, try_commutative, try_ordered};

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
