//! What the ranks' data are made of: every type that operators come with, and two that a user made.
//!
//! All values are such that an operator's result does not depend on rounding: floats are small powers of
//! two, so that what a serial loop computes is what any order must give, bit for bit.

use std::fmt::Debug;
use std::sync::Arc;

use bytemuck::{Pod, Zeroable};
use circulant::fold::element::Element;
use circulant::fold::{self, *};
use half::{bf16, f16};
use num_complex::Complex;

/// An element of a test.
pub trait Sample: Element + PartialEq + Debug {
    /// One of its values.
    fn sample(random: u64) -> Self;

    /// The operator that a script calls so.
    fn operator(name: &str) -> Option<Arc<dyn Operator<Self>>>;
}

/// A matrix, for products that do not commute.
#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Matrix([[u32; 2]; 2]);

impl Matrix {
    fn times(&self, other: &Matrix) -> Matrix {
        let (Matrix(a), Matrix(b)) = (self, other);
        let of =
            |i: usize, j: usize| a[i][0].wrapping_mul(b[0][j]).wrapping_add(a[i][1].wrapping_mul(b[1][j]));
        Matrix([[of(0, 0), of(0, 1)], [of(1, 0), of(1, 1)]])
    }
}

impl Sample for Matrix {
    fn sample(random: u64) -> Self {
        let odd = |by: u32| (random >> by) as u32 | 1;
        Matrix([[odd(0), odd(8)], [odd(16), odd(24)]])
    }

    fn operator(name: &str) -> Option<Arc<dyn Operator<Self>>> {
        (name == "product").then(|| Arc::new(fold::ordered(Matrix::times)) as _)
    }
}

/// From where to where, and how often: of 24 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Extent {
    least: i64,
    most: i64,
    count: u64,
}

impl Extent {
    fn join(&self, other: &Extent) -> Extent {
        let (least, most) = (self.least.min(other.least), self.most.max(other.most));
        Extent { least, most, count: self.count.wrapping_add(other.count) }
    }
}

impl Sample for Extent {
    fn sample(random: u64) -> Self {
        Extent { least: random as i64, most: random as i64, count: 1 }
    }

    fn operator(name: &str) -> Option<Arc<dyn Operator<Self>>> {
        match name {
            "join" => Some(Arc::new(fold::commutative(Extent::join))),
            other => users::<Self>(other),
        }
    }
}

macro_rules! samples {
    ($($type:ty: $random:ident => $sample:expr, $($operators:ident)*;)*) => {$(
        impl Sample for $type {
            fn sample($random: u64) -> Self {
                $sample
            }

            fn operator(name: &str) -> Option<Arc<dyn Operator<Self>>> {
                let op = Op::named(name);
                None $(.or_else(|| $operators::<Self>(op?)))* .or_else(|| users::<Self>(name))
            }
        }
    )*};
}

/// Of all sizes, and 0 often enough for the logical operators to tell.
macro_rules! whole_numbers {
    ($($type:ty)*) => {
        samples! { $($type: random =>
            if random % 4 == 0 { 0 } else { u128::from(random).wrapping_mul((1 << 64) | 0x9e37_79b9) as $type },
            number extreme truth;)* }
    };
}

whole_numbers! { i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize }

samples! {
    f16: random => f16::from_f32(f32::sample(random)), number extreme;
    bf16: random => bf16::from_f32(f32::sample(random)), number extreme;
    f32: random => [-2.0, -1.0, -0.5, 0.5, 1.0, 2.0][random as usize % 6], number extreme;
    f64: random => f64::from(f32::sample(random)), number extreme;
    Complex<f32>: random => complex(random), number;
    Complex<f64>: random => Complex::new(complex(random).re.into(), complex(random).im.into()), number;
    bool: random => random.is_multiple_of(4), truth;
    Located<f32, i32>: random => located(random, random as i32 % 50), place;
    Located<f32, u32>: random => located(random, random as u32 % 50), place;
    Located<f64, i64>: random => located(random, random as i64 % 50), place;
    Located<f64, u64>: random => located(random, random % 50), place;
    Located<i32, i32>: random => located(random, random as i32 % 50), place;
    Located<i64, i64>: random => located(random, random as i64 % 50), place;
    Located<u32, u32>: random => located(random, random as u32 % 50), place;
    Located<u64, u64>: random => located(random, random % 50), place;
}

fn complex(random: u64) -> Complex<f32> {
    let (re, im) = [(1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (1, -1)][random as usize % 6];
    Complex::new(re as f32, im as f32)
}

fn located<V: Sample, I>(random: u64, index: I) -> Located<V, I> {
    Located { value: V::sample(random >> 32), index }
}

fn number<T: Element>(op: Op) -> Option<Arc<dyn Operator<T>>>
where
    Sum: Operator<T>,
    Product: Operator<T>,
{
    match op {
        Op::Sum => Some(Arc::new(Sum)),
        Op::Product => Some(Arc::new(Product)),
        _ => None,
    }
}

fn extreme<T: Element>(op: Op) -> Option<Arc<dyn Operator<T>>>
where
    Min: Operator<T>,
    Max: Operator<T>,
{
    match op {
        Op::Min => Some(Arc::new(Min)),
        Op::Max => Some(Arc::new(Max)),
        _ => None,
    }
}

fn truth<T: Element>(op: Op) -> Option<Arc<dyn Operator<T>>>
where
    LogicalAnd: Operator<T>,
    LogicalOr: Operator<T>,
    LogicalXor: Operator<T>,
    BitAnd: Operator<T>,
    BitOr: Operator<T>,
    BitXor: Operator<T>,
{
    match op {
        Op::LogicalAnd => Some(Arc::new(LogicalAnd)),
        Op::LogicalOr => Some(Arc::new(LogicalOr)),
        Op::LogicalXor => Some(Arc::new(LogicalXor)),
        Op::BitAnd => Some(Arc::new(BitAnd)),
        Op::BitOr => Some(Arc::new(BitOr)),
        Op::BitXor => Some(Arc::new(BitXor)),
        _ => None,
    }
}

fn place<T: Element>(op: Op) -> Option<Arc<dyn Operator<T>>>
where
    MinLoc: Operator<T>,
    MaxLoc: Operator<T>,
{
    match op {
        Op::MinLoc => Some(Arc::new(MinLoc)),
        Op::MaxLoc => Some(Arc::new(MaxLoc)),
        _ => None,
    }
}

/// A user's operators: the later rank's element, which commutes with nobody's; and two that fail.
fn users<T: Element>(name: &str) -> Option<Arc<dyn Operator<T>>> {
    match name {
        "last" => Some(Arc::new(fold::ordered(|_: &T, last: &T| *last))),
        "fails" => {
            Some(Arc::new(fold::try_commutative(|_: &T, _: &T| Err::<T, _>("no sum of apples and pears"))))
        }
        "panics" => Some(Arc::new(fold::commutative(|_: &T, _: &T| -> T { panic!("a pear is no apple") }))),
        _ => None,
    }
}
