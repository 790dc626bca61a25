//! Aggregates over Rust types, for programs that use the library without SQL.
//!
//! [`Aggregate`] says how a value becomes a state, how two states become one, and what is published. Ready ones are
//! [`Count`], [`Sum`], [`FloatSum`], [`Mean`], [`Min`] and [`Max`]; [`of`] applies one to a part of the input, and a tuple of
//! up to four applies all of them at once:
//!
//! ```
//! use slackwater::aggregate::monoid::{Aggregate, Count, Max, Sum, aggregate, of};
//! struct Order { amount: i64, items: i64 }
//! let per_window = (
//!     Count::default(),
//!     of(|o: &Order| o.amount, Sum::default()),
//!     of(|o: &Order| o.items, Max::default()),
//! );
//! let orders = [Order { amount: 20, items: 1 }, Order { amount: 5, items: 3 }];
//! assert_eq!(aggregate(&per_window, &orders), (2, Some(25), Some(3)));
//! ```

use super::exact::ExactSum;
use super::fixed::IntSum;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::marker::PhantomData;

/// A commutative monoid over inputs.
///
/// # Contract
///
/// With `a ⊕ b` for the state `a` after `combine(&mut a, &b)`, and states taken for equal when they cannot be told apart by `lower`,
/// now or after the same further `lift`s and `combine`s:
///
/// * *associative*: `(a ⊕ b) ⊕ c = a ⊕ (b ⊕ c)`;
/// * *commutative*: `a ⊕ b = b ⊕ a`;
/// * *identity*: `a ⊕ State::default() = a`;
/// * *lift is combine*: lifting `x` into `a` equals `a ⊕ b` where `b` is `x` lifted into the default state.
///
/// That is all that the engine relies on: batches, workers and the order of arrival then cannot change a result. Floating
/// point addition is **not** associative; use [`FloatSum`]. Nothing checks the contract; a property test of yours should.
///
/// ```
/// use slackwater::aggregate::monoid::{Aggregate, aggregate};
/// /// The greatest common divisor.
/// struct Gcd;
/// impl Aggregate for Gcd {
///     type Input = u64;
///     type State = u64;
///     type Output = u64;
///     fn lift(&self, state: &mut u64, input: &u64) {
///         self.combine(state, input);
///     }
///     fn combine(&self, state: &mut u64, other: &u64) {
///         let (mut a, mut b) = (*state, *other);
///         while b != 0 {
///             (a, b) = (b, a % b);
///         }
///         *state = a;
///     }
///     fn lower(&self, state: &u64) -> u64 {
///         *state
///     }
/// }
/// assert_eq!(aggregate(&Gcd, &[12, 18, 30]), 6);
/// ```
pub trait Aggregate {
    /// What is aggregated.
    type Input: ?Sized;
    /// What is held per group and window; the default is the empty state.
    type State: Clone + Default + Serialize + DeserializeOwned + Send + 'static;
    /// What is published.
    type Output;
    /// Adds one input to a state.
    fn lift(&self, state: &mut Self::State, input: &Self::Input);
    /// Adds another state to a state.
    fn combine(&self, state: &mut Self::State, other: &Self::State);
    /// The result of a state.
    fn lower(&self, state: &Self::State) -> Self::Output;
}

/// Aggregates a slice.
pub fn aggregate<A: Aggregate<Input: Sized>>(aggregate: &A, inputs: &[A::Input]) -> A::Output {
    let mut state = A::State::default();
    inputs.iter().for_each(|input| aggregate.lift(&mut state, input));
    aggregate.lower(&state)
}

macro_rules! unit {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name<T>(PhantomData<fn(&T)>);
        impl<T> Default for $name<T> {
            fn default() -> Self {
                $name(PhantomData)
            }
        }
    };
}

unit! {
    /// The number of inputs.
    Count
}
unit! {
    /// The sum of integers of 64 bits: held in 128 bits, `None` if it does not fit `i64` when published. Empty: `Some(0)`.
    Sum
}
unit! {
    /// The mean of integers: the exact quotient, rounded once. Empty: `None`.
    Mean
}
unit! {
    /// The least input. Empty: `None`.
    Min
}
unit! {
    /// The greatest input. Empty: `None`.
    Max
}

/// The exact sum of doubles, rounded once when published (see [`ExactSum`]). Empty: 0.0.
///
/// ```
/// use slackwater::aggregate::monoid::{FloatSum, aggregate};
/// assert_eq!(aggregate(&FloatSum, &[1e100, 0.1, -1e100]), 0.1);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct FloatSum;

impl<T> Aggregate for Count<T> {
    type Input = T;
    type State = u64;
    type Output = u64;
    fn lift(&self, state: &mut u64, _: &T) {
        *state = state.saturating_add(1);
    }
    fn combine(&self, state: &mut u64, other: &u64) {
        *state = state.saturating_add(*other);
    }
    fn lower(&self, state: &u64) -> u64 {
        *state
    }
}

impl<T: Copy + Into<i64>> Aggregate for Sum<T> {
    type Input = T;
    type State = IntSum;
    type Output = Option<i64>;
    fn lift(&self, state: &mut IntSum, input: &T) {
        state.add((*input).into());
    }
    fn combine(&self, state: &mut IntSum, other: &IntSum) {
        state.merge(other);
    }
    fn lower(&self, state: &IntSum) -> Option<i64> {
        state.total().try_into().ok()
    }
}

impl<T: Copy + Into<i64>> Aggregate for Mean<T> {
    type Input = T;
    type State = IntSum;
    type Output = Option<f64>;
    fn lift(&self, state: &mut IntSum, input: &T) {
        state.add((*input).into());
    }
    fn combine(&self, state: &mut IntSum, other: &IntSum) {
        state.merge(other);
    }
    fn lower(&self, state: &IntSum) -> Option<f64> {
        state.mean()
    }
}

impl Aggregate for FloatSum {
    type Input = f64;
    type State = ExactSum;
    type Output = f64;
    fn lift(&self, state: &mut ExactSum, input: &f64) {
        state.add(*input);
    }
    fn combine(&self, state: &mut ExactSum, other: &ExactSum) {
        state.merge(other);
    }
    fn lower(&self, state: &ExactSum) -> f64 {
        state.to_f64()
    }
}

/// The state of [`Min`] and [`Max`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extreme<T>(Option<T>);

impl<T> Default for Extreme<T> {
    fn default() -> Self {
        Extreme(None)
    }
}

impl<T: Clone> Extreme<T> {
    fn replace_if(&mut self, with: &T, better: impl Fn(&T, &T) -> bool) {
        if self.0.as_ref().is_none_or(|old| better(with, old)) {
            self.0 = Some(with.clone());
        }
    }
}

macro_rules! extreme {
    ($name:ident, $better:expr) => {
        impl<T: Ord + Clone + Serialize + DeserializeOwned + Send + 'static> Aggregate for $name<T> {
            type Input = T;
            type State = Extreme<T>;
            type Output = Option<T>;
            fn lift(&self, state: &mut Extreme<T>, input: &T) {
                state.replace_if(input, $better);
            }
            fn combine(&self, state: &mut Extreme<T>, other: &Extreme<T>) {
                other.0.iter().for_each(|x| state.replace_if(x, $better));
            }
            fn lower(&self, state: &Extreme<T>) -> Option<T> {
                state.0.clone()
            }
        }
    };
}
extreme!(Min, |new, old| new < old);
extreme!(Max, |new, old| new > old);

/// An aggregate of a part of the input; made by [`of`].
#[derive(Clone, Copy, Debug)]
pub struct Of<I: ?Sized, F, A> {
    project: F,
    aggregate: A,
    input: PhantomData<fn(&I)>,
}

/// Applies an aggregate to what a function makes of each input.
pub fn of<I: ?Sized, A: Aggregate<Input: Sized>, F: Fn(&I) -> A::Input>(project: F, aggregate: A) -> Of<I, F, A> {
    Of { project, aggregate, input: PhantomData }
}

impl<I: ?Sized, A: Aggregate<Input: Sized>, F: Fn(&I) -> A::Input> Aggregate for Of<I, F, A> {
    type Input = I;
    type State = A::State;
    type Output = A::Output;
    fn lift(&self, state: &mut A::State, input: &I) {
        self.aggregate.lift(state, &(self.project)(input));
    }
    fn combine(&self, state: &mut A::State, other: &A::State) {
        self.aggregate.combine(state, other);
    }
    fn lower(&self, state: &A::State) -> A::Output {
        self.aggregate.lower(state)
    }
}

macro_rules! tuple {
    ($first:ident $(, $name:ident)* ; $($index:tt),*) => {
        impl<$first: Aggregate $(, $name: Aggregate<Input = $first::Input>)*> Aggregate for ($first, $($name,)*) {
            type Input = $first::Input;
            type State = ($first::State, $($name::State,)*);
            type Output = ($first::Output, $($name::Output,)*);
            fn lift(&self, state: &mut Self::State, input: &Self::Input) {
                $(self.$index.lift(&mut state.$index, input);)*
            }
            fn combine(&self, state: &mut Self::State, other: &Self::State) {
                $(self.$index.combine(&mut state.$index, &other.$index);)*
            }
            fn lower(&self, state: &Self::State) -> Self::Output {
                ($(self.$index.lower(&state.$index),)*)
            }
        }
    };
}
tuple!(A; 0);
tuple!(A, B; 0, 1);
tuple!(A, B, C; 0, 1, 2);
tuple!(A, B, C, D; 0, 1, 2, 3);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Checks the contract for three states made of the inputs.
    fn laws<A: Aggregate<Input: Sized>>(a: &A, [x, y, z]: [&[A::Input]; 3]) -> Result<(), TestCaseError>
    where
        A::Output: PartialEq + std::fmt::Debug,
    {
        let state = |inputs: &[A::Input]| {
            let mut state = A::State::default();
            inputs.iter().for_each(|i| a.lift(&mut state, i));
            state
        };
        let plus = |mut left: A::State, right: &A::State| {
            a.combine(&mut left, right);
            left
        };
        let (x, y, z) = (state(x), state(y), state(z));
        let left = plus(plus(x.clone(), &y), &z);
        prop_assert_eq!(a.lower(&left), a.lower(&plus(x.clone(), &plus(y.clone(), &z))));
        prop_assert_eq!(a.lower(&left), a.lower(&plus(plus(z, &y), &x)));
        prop_assert_eq!(a.lower(&left), a.lower(&plus(left.clone(), &A::State::default())));
        prop_assert_eq!(a.lower(&left), a.lower(&plus(A::State::default(), &left)));
        Ok(())
    }

    proptest! {
        #[test]
        fn the_contract_holds(x: Vec<i64>, y: Vec<i64>, z: Vec<i64>) {
            let inputs = [&x[..], &y[..], &z[..]];
            laws(&Count::default(), inputs)?;
            laws(&Sum::default(), inputs)?;
            laws(&Mean::default(), inputs)?;
            laws(&(Min::default(), Max::default(), of(|x: &i64| f64::from_bits(*x as u64 >> 2), FloatSum)), inputs)?;
        }
    }

    #[test]
    fn a_plain_sum_of_doubles_breaks_the_contract() {
        /// What [`FloatSum`] is for: the laws must notice this one.
        struct Naive;
        impl Aggregate for Naive {
            type Input = f64;
            type State = f64;
            type Output = f64;
            fn lift(&self, state: &mut f64, input: &f64) {
                *state += input;
            }
            fn combine(&self, state: &mut f64, other: &f64) {
                *state += other;
            }
            fn lower(&self, state: &f64) -> f64 {
                *state
            }
        }
        let inputs: [&[f64]; 3] = [&[1e100], &[-1e100], &[1.0]];
        assert!(laws(&Naive, inputs).is_err());
        assert!(laws(&FloatSum, inputs).is_ok());
    }

    #[test]
    fn empty_states_are_published() {
        assert_eq!(aggregate(&Count::<i64>::default(), &[]), 0);
        assert_eq!(aggregate(&Sum::<i64>::default(), &[]), Some(0));
        assert_eq!(aggregate(&Sum::default(), &[i64::MAX, 1]), None);
        assert_eq!(aggregate(&Mean::default(), &[1, 2]), Some(1.5));
        assert_eq!(aggregate(&(Min::<i64>::default(), Mean::default()), &[]), (None, None));
    }
}
