//! Every operator on every type beside a serial result that is written another way.

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::Arc;

use bytemuck::{Pod, Zeroable};
use fastrand::Rng;
use half::{bf16, f16};
use num_complex::Complex;

use super::element::{self, Element};
use super::*;

/// What a type needs for its operators to be tried.
trait Sample: Element + Debug {
    /// Any value, and often one that is special.
    fn any(rng: &mut Rng) -> Self;
    /// `a ∘ b`, or `None` where MPI has no such operator on the type.
    fn serial(op: Op, a: Self, b: Self) -> Option<Self>;
    /// Whether nobody can tell the difference; one NaN is as good as another.
    fn same(self, other: Self) -> bool;
}

macro_rules! integer_samples {
    ($($type:ident)*) => {$(
        impl Sample for $type {
            fn any(rng: &mut Rng) -> Self {
                if rng.u8(..4) == 0 { rng.u8(..3) as $type } else { rng.$type(..) }
            }
            fn serial(op: Op, a: Self, b: Self) -> Option<Self> {
                Some(match op {
                    Op::Sum => (a as u128).wrapping_add(b as u128) as $type,
                    Op::Product => (a as u128).wrapping_mul(b as u128) as $type,
                    Op::Min => if b < a { b } else { a },
                    Op::Max => if b > a { b } else { a },
                    Op::LogicalAnd => if a != 0 && b != 0 { 1 } else { 0 },
                    Op::LogicalOr => if a == 0 && b == 0 { 0 } else { 1 },
                    Op::LogicalXor => if (a == 0) == (b == 0) { 0 } else { 1 },
                    Op::BitAnd => !(!a | !b),
                    Op::BitOr => !(!a & !b),
                    Op::BitXor => (a & !b) | (!a & b),
                    _ => return None,
                })
            }
            fn same(self, other: Self) -> bool { self == other }
        }
    )*};
}

integer_samples! { i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize }

/// NaNs of both signs, zeros, infinities, the least and the greatest, one.
macro_rules! specials {
    ($type:ident) => {{
        let signless = [
            $type::NAN,
            $type::from_bits($type::INFINITY.to_bits() + 1),
            $type::from_bits(0),
            $type::INFINITY,
            $type::from_bits(1),
            $type::MIN_POSITIVE,
            $type::MAX,
            $type::from(1_i8),
        ];
        [signless, signless.map(|x| -x)].concat()
    }};
}
macro_rules! float_samples {
    ($($type:ident, $bits:ident;)*) => {$(
        impl Sample for $type {
            fn any(rng: &mut Rng) -> Self {
                let specials = specials!($type);
                match rng.u8(..3) {
                    0 => specials[rng.usize(..specials.len())],
                    1 => $type::from_bits(rng.$bits(..)),
                    _ => $type::from(rng.i8(..)),
                }
            }
            fn serial(op: Op, a: Self, b: Self) -> Option<Self> {
                let mut both = [a, b];
                both.sort_by($type::total_cmp);
                Some(match op {
                    Op::Sum => a + b,
                    Op::Product => a * b,
                    Op::Min | Op::Max if a.is_nan() || b.is_nan() => $type::NAN,
                    Op::Min => both[0],
                    Op::Max => both[1],
                    _ => return None,
                })
            }
            fn same(self, other: Self) -> bool {
                self.to_bits() == other.to_bits() || self.is_nan() && other.is_nan()
            }
        }
    )*};
}

float_samples! { f16, u16; bf16, u16; f32, u32; f64, u64; }

impl<F: Sample + std::ops::Neg<Output = F>> Sample for Complex<F>
where
    Complex<F>: Element,
{
    fn any(rng: &mut Rng) -> Self {
        Complex { re: F::any(rng), im: F::any(rng) }
    }
    fn serial(op: Op, a: Self, b: Self) -> Option<Self> {
        let times = |a, b| F::serial(Op::Product, a, b);
        let plus = |a, b| F::serial(Op::Sum, a, b);
        match op {
            Op::Sum => Some(Complex { re: plus(a.re, b.re)?, im: plus(a.im, b.im)? }),
            Op::Product => Some(Complex {
                re: plus(times(a.re, b.re)?, times(-a.im, b.im)?)?,
                im: plus(times(a.re, b.im)?, times(a.im, b.re)?)?,
            }),
            _ => None,
        }
    }
    fn same(self, other: Self) -> bool {
        self.re.same(other.re) && self.im.same(other.im)
    }
}

impl Sample for bool {
    fn any(rng: &mut Rng) -> Self {
        rng.bool()
    }
    fn serial(op: Op, a: Self, b: Self) -> Option<Self> {
        match op {
            Op::LogicalAnd | Op::BitAnd => Some(a && b),
            Op::LogicalOr | Op::BitOr => Some(a || b),
            Op::LogicalXor | Op::BitXor => Some(a != b),
            _ => None,
        }
    }
    fn same(self, other: Self) -> bool {
        self == other
    }
}

impl<V: Sample + PartialOrd, I: Sample + From<u8> + Ord> Sample for Located<V, I>
where
    Located<V, I>: Element,
{
    fn any(rng: &mut Rng) -> Self {
        Located { value: V::any(rng), index: I::from(rng.u8(..3)) }
    }
    fn serial(op: Op, a: Self, b: Self) -> Option<Self> {
        let no_number = |x: V| x.partial_cmp(&x).is_none();
        let a_wins = match op {
            Op::MinLoc => a.value < b.value || no_number(a.value) && !no_number(b.value),
            Op::MaxLoc => a.value > b.value || no_number(a.value) && !no_number(b.value),
            _ => return None,
        };
        let tie = a.value == b.value || no_number(a.value) && no_number(b.value);
        Some(if a_wins || tie && a.index < b.index { a } else { b })
    }
    fn same(self, other: Self) -> bool {
        self.index == other.index && (self.value == other.value || self.value.same(other.value))
    }
}

/// Bytes that begin `offset` past what any type is aligned to.
struct Bytes(Vec<u128>, usize, usize);

impl Bytes {
    fn of<T: Element>(values: &[T], offset: usize) -> Bytes {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        let mut room = Bytes(vec![0; (offset + bytes.len()).div_ceil(16)], offset, bytes.len());
        room.get().copy_from_slice(bytes);
        room
    }
    fn get(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.0)[self.1..][..self.2]
    }
    fn values<T: Element>(&mut self) -> Vec<T> {
        self.get().chunks_exact(size_of::<T>()).map(bytemuck::checked::pod_read_unaligned).collect()
    }
}

fn folds_as_serially<T: Sample>(rng: &mut Rng) {
    for &op in Op::ALL {
        if T::serial(op, T::zeroed(), T::zeroed()).is_some() {
            let fold = builtin(op, Type::of::<T>()).unwrap();
            assert_eq!(fold.numbers(), (op.number(), Type::of::<T>().number()));
            assert_eq!((fold.unit(), fold.commutes()), (size_of::<T>(), true));
            folds_every_length::<T>(op, &*fold, rng);
        } else {
            assert!(builtin(op, Type::of::<T>()).is_err(), "{op} of {}", Type::of::<T>());
        }
    }
}

fn folds_every_length<T: Sample>(op: Op, fold: &dyn Fold, rng: &mut Rng) {
    let places = [(0, 0), (1, 0), (0, 1), (3, 3), (size_of::<T>(), 0), (0, size_of::<T>())];
    // Miri is far slower: it has what is aligned and what is not.
    let (lengths, places) =
        if cfg!(miri) { (&[3][..], &places[..2]) } else { (&[0, 1, 7, 1000][..], &places[..]) };
    for &len in lengths {
        for &(to, from) in places {
            let before = rng.bool();
            let a: Vec<T> = (0..len).map(|_| T::any(rng)).collect();
            let b: Vec<T> = (0..len).map(|_| T::any(rng)).collect();
            let mut mine = Bytes::of(&a, to);
            fold.fold(mine.get(), Bytes::of(&b, from).get(), before).unwrap();
            for (result, (a, b)) in mine.values::<T>().into_iter().zip(a.into_iter().zip(b)) {
                let serial = if before { T::serial(op, b, a) } else { T::serial(op, a, b) }.unwrap();
                assert!(result.same(serial), "{a:?} {op} {b:?} is {serial:?}, not {result:?}");
            }
        }
    }
}

#[test]
fn every_operator_on_every_type_is_as_serially() {
    let mut rng = Rng::with_seed(3);
    let mut tried = HashSet::new();
    macro_rules! try_all {
        ($($type:ty),*) => {$(
            folds_as_serially::<$type>(&mut rng);
            tried.insert(Type::of::<$type>());
        )*};
    }
    try_all!(i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize);
    try_all!(f16, bf16, f32, f64, Complex<f32>, Complex<f64>, bool);
    try_all!(Located<f32, i32>, Located<f32, u32>, Located<f64, i64>, Located<f64, u64>);
    try_all!(Located<i32, i32>, Located<i64, i64>, Located<u32, u32>, Located<u64, u64>);
    assert_eq!(tried, Type::ALL.iter().copied().collect());
}

/// The bits of `a ∘ b`.
fn bits<T: Element, O: Operator<T>>(operator: &O, a: T, b: T) -> T {
    let mut mine = [a];
    operator.fold(&mut mine, &[b], false).unwrap();
    mine[0]
}

/// Bit by bit, on all triples.
fn never_depends_on_order<T: Pod + Element + Debug, O: Operator<T>>(operator: &O, values: &[T]) {
    let look = |x: &T| bytemuck::bytes_of(x).to_vec();
    for &a in values {
        for &b in values {
            assert_eq!(look(&bits(operator, a, b)), look(&bits(operator, b, a)), "{a:?} and {b:?}");
            for &c in values {
                let left = bits(operator, bits(operator, a, b), c);
                let right = bits(operator, a, bits(operator, b, c));
                assert_eq!(look(&left), look(&right), "{a:?}, {b:?} and {c:?}");
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "all triples of values take minutes, and have no pointers of their own")]
fn extremes_of_floats_never_depend_on_order() {
    macro_rules! try_all {
        ($($type:ident)*) => {$(
            never_depends_on_order(&Min, &specials!($type));
            never_depends_on_order(&Max, &specials!($type));
        )*};
    }
    try_all!(f16 bf16 f32 f64);
}

#[test]
#[cfg_attr(miri, ignore = "all triples of values take minutes, and have no pointers of their own")]
fn places_of_extremes_never_depend_on_order() {
    let values = [f32::NAN, -f32::NAN, 0.0, -0.0, 1.0, f32::INFINITY];
    let pairs: Vec<_> =
        values.iter().flat_map(|&value| [1, 2].map(|index: i32| Located { value, index })).collect();
    never_depends_on_order(&MinLoc, &pairs);
    never_depends_on_order(&MaxLoc, &pairs);
}

#[test]
fn a_nan_is_never_lost_and_minus_zero_is_less() {
    assert!(bits(&Min, f64::NAN, 1.0).is_nan() && bits(&Max, 1.0, -f64::NAN).is_nan());
    assert!(bits(&Min, f16::ONE, f16::NAN).is_nan() && bits(&Max, bf16::NAN, bf16::ONE).is_nan());
    assert!(bits(&Min, 0.0, -0.0_f32).is_sign_negative() && bits(&Max, -0.0, 0.0_f32).is_sign_positive());
    assert!(bits(&Sum, bf16::NAN, bf16::ONE).is_nan() && bits(&Product, bf16::INFINITY, bf16::ZERO).is_nan());
}

#[test]
fn of_equal_extremes_the_least_place_counts() {
    let at = |value: f64, index: u64| Located { value, index };
    assert_eq!(bits(&MinLoc, at(-0.0, 5), at(0.0, 3)).index, 3);
    assert_eq!(bits(&MaxLoc, at(2.0, 3), at(2.0, 5)).index, 3);
    assert_eq!(bits(&MaxLoc, at(f64::INFINITY, 1), at(f64::NAN, 5)).index, 5);
    assert_eq!(bits(&MinLoc, at(f64::NAN, 7), at(f64::NAN, 5)).index, 5);
}

#[test]
fn sums_of_halves_round_as_half_does() {
    let mut rng = Rng::with_seed(5);
    for _ in 0..if cfg!(miri) { 50 } else { 20_000 } {
        let (a, b) = (bf16::from_bits(rng.u16(..)), bf16::from_bits(rng.u16(..)));
        assert!(bits(&Sum, a, b).same(a + b), "{a:?} + {b:?}");
        assert!(bits(&Product, a, b).same(a * b), "{a:?} * {b:?}");
    }
}

/// A matrix of two by two: its product does not commute.
#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
#[repr(C)]
struct Matrix([[i64; 2]; 2]);

impl Matrix {
    fn times(&self, Matrix(b): &Matrix) -> Matrix {
        let Matrix(a) = self;
        let at = |i: usize, j: usize| a[i][0] * b[0][j] + a[i][1] * b[1][j];
        Matrix([[at(0, 0), at(0, 1)], [at(1, 0), at(1, 1)]])
    }
}

const A: Matrix = Matrix([[1, 2], [3, 4]]);
const B: Matrix = Matrix([[0, 1], [5, 2]]);

#[test]
fn a_users_operator_keeps_its_sides() {
    let fold = of(ordered(Matrix::times));
    assert!(!fold.commutes());
    assert_eq!(fold.numbers(), (Op::Ordered.number(), Type::Users.number()));
    for (before, product) in [(false, A.times(&B)), (true, B.times(&A))] {
        for offset in [0, 1] {
            let mut mine = Bytes::of(&[A; 9], offset);
            fold.fold(mine.get(), Bytes::of(&[B; 9], 0).get(), before).unwrap();
            assert_eq!(mine.values::<Matrix>(), [product; 9]);
        }
    }
}

#[test]
fn an_operator_in_an_arc_serves_many_calls() {
    let product: Arc<dyn Operator<Matrix>> = Arc::new(ordered(Matrix::times));
    for fold in [of(product.clone()), of(product.clone())] {
        assert_eq!((fold.numbers(), fold.commutes()), (of(ordered(Matrix::times)).numbers(), false));
        let mut mine = Bytes::of(&[A], 0);
        fold.fold(mine.get(), Bytes::of(&[B], 0).get(), true).unwrap();
        assert_eq!(mine.values::<Matrix>(), [B.times(&A)]);
    }
    assert_eq!(product.name(), "user's ordered operator");
}

#[test]
fn a_users_error_is_in_the_users_words() {
    let below = |limit: i32| move |a: &i32, b: &i32| if a + b < limit { Ok(a + b) } else { Err("too much") };
    let fold = of(try_commutative(below(10)));
    assert!(fold.commutes());
    let mut mine = Bytes::of(&[1, 2], 0);
    assert_eq!(fold.fold(mine.get(), Bytes::of(&[1, 2], 0).get(), false), Ok(()));
    assert_eq!(mine.values::<i32>(), [2, 4]);
    assert_eq!(fold.fold(mine.get(), Bytes::of(&[1, 7], 0).get(), false), Err("too much".to_owned()));
    let fold = of(try_ordered(below(0)));
    assert_eq!(fold.fold(mine.get(), Bytes::of(&[1, 1], 1).get(), true), Err("too much".to_owned()));
}

#[test]
fn runs_about_the_length_of_a_step_are_folded_to_their_ends() {
    // Of 24 bytes 682 are in a step of 16 KiB, and some of it is left.
    let join = |a: &[u64; 3], b: &[u64; 3]| std::array::from_fn(|i| a[i].wrapping_mul(3) ^ b[i]);
    let fold = of(ordered(join));
    // To compare a thousand takes miri seconds: a part of a step, and two steps and a part.
    for &count in if cfg!(miri) { &[0, 681, 1365][..] } else { &[0, 1, 681, 682, 683, 1364, 1365, 3000] } {
        let numbers = |from: u64| (from..).map(|i| [i, i * i, !i]).take(count).collect::<Vec<_>>();
        let (mut mine, theirs) = (numbers(1), numbers(77));
        let expected: Vec<_> = mine.iter().zip(&theirs).map(|(a, b)| join(a, b)).collect();
        let bytes = bytemuck::cast_slice_mut(&mut mine);
        assert_eq!(fold.fold(bytes, bytemuck::cast_slice(&theirs), false), Ok(()));
        assert_eq!(mine, expected, "{count} elements");
    }
}

#[test]
fn what_an_operator_has_goes_with_the_last_that_holds_it() {
    let own = Arc::new(5);
    let held = Arc::downgrade(&own);
    let fold = of(commutative(move |a: &i32, b: &i32| a + b + *own));
    let copy = fold.clone();
    drop(fold);
    let mut mine = Bytes::of(&[1], 0);
    assert_eq!(copy.fold(mine.get(), Bytes::of(&[2], 0).get(), false), Ok(()));
    assert_eq!((mine.values::<i32>(), held.strong_count()), (vec![8], 1));
    drop(copy);
    assert_eq!(held.strong_count(), 0);
}

#[test]
fn a_users_panic_is_an_error_with_its_words() {
    let said =
        |fold: AnyFold| fold.fold(Bytes::of(&[7], 0).get(), Bytes::of(&[0], 0).get(), false).unwrap_err();
    let divide = of(ordered(|a: &i32, b: &i32| a / b));
    assert_eq!(said(divide), "the operator panicked: attempt to divide by zero");
    let format = of(commutative(|a: &i32, b: &i32| -> i32 { panic!("{a} and {b}") }));
    assert_eq!(said(format), "the operator panicked: 7 and 0");
    let silent = of(commutative(|_: &i32, _: &i32| -> i32 { std::panic::panic_any(7) }));
    assert_eq!(said(silent), "the operator panicked: without a word");
}

/// When it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("once more");
    }
}

#[test]
#[cfg_attr(miri, ignore = "what a second panic says is lost memory")]
fn a_panic_that_panics_again_is_an_error_too() {
    let bomb = of(commutative(|_: &i32, _: &i32| -> i32 { std::panic::panic_any(Bomb) }));
    let said = bomb.fold(Bytes::of(&[7], 0).get(), Bytes::of(&[0], 0).get(), false);
    assert_eq!(said, Err("the operator panicked: without a word".to_owned()));
}

#[test]
fn bytes_that_are_no_truth_are_an_error_wherever_they_come_in() {
    let fold = of::<bool, _>(LogicalOr);
    let error = Err("bytes came in that are no value of bool".to_owned());
    let (mut good, mut bad) = (vec![0; 100], vec![1; 100]);
    bad[99] = 2;
    assert_eq!(fold.fold(&mut good, &bad, false), error);
    assert_eq!(fold.fold(&mut bad, &good, false), error);
    bad[99] = 1;
    assert_eq!(fold.fold(&mut bad, &good, false), Ok(()));
}

#[test]
fn an_enum_that_is_not_aligned_is_looked_at_too() {
    #[derive(Clone, Copy, PartialEq, Debug, bytemuck::NoUninit, bytemuck::CheckedBitPattern, Zeroable)]
    #[repr(u32)]
    enum Light {
        Red,
        Green,
    }
    let fold = of(commutative(|a: &Light, b: &Light| if *a == Light::Red { *b } else { *a }));
    let mut mine = Bytes::of(&[Light::Red; 5], 1);
    assert_eq!(fold.fold(mine.get(), Bytes::of(&[Light::Green; 5], 0).get(), false), Ok(()));
    assert_eq!(mine.values::<Light>(), [Light::Green; 5]);
    let error = fold.fold(mine.get(), Bytes::of(&[2_u32; 5], 3).get(), false).unwrap_err();
    assert!(error.ends_with("Light"), "{error}");
}

#[test]
fn ranges_that_do_not_fit_are_an_error() {
    let fold = of::<u32, _>(Sum);
    let error = fold.fold(&mut [0; 8], &[0; 4], false).unwrap_err();
    assert_eq!(error, "sum of 8 and 4 bytes, in elements of 4 bytes");
    assert!(fold.fold(&mut [0; 6], &[0; 6], false).is_err());
}

#[test]
fn elements_without_size_fold_to_nothing() {
    let fold = of(commutative(|_: &[u64; 0], _: &[u64; 0]| []));
    assert_eq!(fold.unit(), 1);
    assert_eq!(fold.fold(&mut [], &[], false), Ok(()));
    assert!(fold.fold(&mut [0], &[0], false).is_err());
    assert_eq!(element::check::<[u64; 0]>(&mut [1, 2]), Ok(()));
}

#[test]
fn what_is_no_value_becomes_zero_and_the_first_is_named() {
    let mut truths = [1, 0, 2, 1, 255];
    assert_eq!(element::check::<bool>(&mut truths), Err(2));
    assert_eq!(truths, [1, 0, 0, 1, 0]);
    assert_eq!(element::check::<bool>(&mut truths), Ok(()));
    let mut numbers = [255; 9];
    assert_eq!(element::check::<f32>(&mut numbers), Ok(()));
    assert_eq!(numbers, [255; 9]);
}

#[test]
fn every_type_and_operator_is_found_by_name_and_number() {
    for &ty in Type::ALL {
        assert_eq!((Type::named(ty.name()), Type::numbered(ty.number())), (Some(ty), Some(ty)));
    }
    for &op in Op::ALL {
        assert_eq!((Op::named(op.name()), Op::numbered(op.number())), (Some(op), Some(op)));
    }
    assert_eq!((Type::named("user's type"), Type::numbered(255)), (None, Some(Type::Users)));
    assert_eq!((Type::numbered(0), Op::numbered(0)), (None, None));
    assert_eq!(Type::of::<Matrix>(), Type::Users);
}

#[test]
fn numbers_are_said_in_words() {
    assert_eq!(words(of::<f64, _>(Sum).numbers()), "sum of f64");
    assert_eq!(words(of(ordered(Matrix::times)).numbers()), "user's ordered operator of user's type");
    assert_eq!(words((99, 98)), "operator 99 of type 98");
}

#[test]
fn an_operator_that_does_not_fit_is_told_what_would() {
    let said = |op, ty| builtin(op, ty).err().unwrap().to_string();
    assert_eq!(
        said(Op::Min, Type::ComplexF32),
        "operator: min does not fit complex f32; it fits i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, \
         u128, usize, f16, bf16, f32, f64"
    );
    let error = said(Op::MaxLoc, Type::F32);
    assert!(error.contains("maxloc does not fit f32; it fits f32 with i32 place, "), "{error}");
    let error = said(Op::Ordered, Type::F32);
    assert!(error.ends_with("give the operator itself"), "{error}");
}
