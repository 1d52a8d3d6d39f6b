//! The point of a pass: parameters, or a mixture that is not stored.

use std::ops::Range;

use crate::params::mix;

/// A point in the space of parameters.
#[derive(Clone, Copy, Debug)]
pub enum Point<'a> {
    /// Parameters.
    At(&'a [f32]),
    /// α·v + (1 − α)·w, computed on the fly to the same bits as [`mix`], which keeps one vector
    /// less in the cache.
    Mixture {
        /// α
        alpha: f32,
        /// v
        v: &'a [f32],
        /// w
        w: &'a [f32],
    },
}

impl<'a> Point<'a> {
    /// Returns a range of its numbers.
    pub fn part(self, range: Range<usize>) -> Self {
        match self {
            Point::At(at) => Point::At(&at[range]),
            Point::Mixture { alpha, v, w } => Point::Mixture {
                alpha,
                v: &v[range.clone()],
                w: &w[range],
            },
        }
    }

    /// Returns the number of its numbers.
    pub fn count(self) -> usize {
        match self {
            Point::At(at) => at.len(),
            Point::Mixture { v, .. } => v.len(),
        }
    }

    /// Returns the `k`-th number.
    #[inline(always)]
    pub fn get(self, k: usize) -> f32 {
        match self {
            Point::At(at) => at[k],
            Point::Mixture { alpha, v, w } => alpha * v[k] + (1.0 - alpha) * w[k],
        }
    }

    /// Returns all numbers, computed into `buffer` if they are not stored.
    pub fn numbers(self, buffer: &'a mut Vec<f32>) -> &'a [f32] {
        match self {
            Point::At(at) => at,
            Point::Mixture { alpha, v, w } => {
                buffer.resize(v.len(), 0.0);
                mix(buffer, alpha, v, w);
                buffer
            }
        }
    }
}

/// The point of a derivative, relative to the vector that is updated.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    /// That vector itself, before the update.
    Here,
    /// Another vector.
    There(&'a [f32]),
    /// α·itself + (1 − α)·w.
    Mixed(f32, &'a [f32]),
}

impl<'a> Place<'a> {
    /// Returns the length of the other vector, if there is one.
    pub fn other_len(self) -> Option<usize> {
        match self {
            Place::Here => None,
            Place::There(at) | Place::Mixed(_, at) => Some(at.len()),
        }
    }

    /// Returns the place of `at`; `None` means the updated vector itself.
    pub fn of(at: Option<&'a [f32]>) -> Self {
        at.map_or(Place::Here, Place::There)
    }

    /// Returns the point, before `into` is updated.
    pub fn point(self, into: &'a [f32]) -> Point<'a> {
        match self {
            Place::Here => Point::At(into),
            Place::There(at) => Point::At(at),
            Place::Mixed(alpha, w) => Point::Mixture { alpha, v: into, w },
        }
    }

    /// Returns the place for a range of the numbers.
    pub fn part(self, range: Range<usize>) -> Self {
        match self {
            Place::Here => Place::Here,
            Place::There(at) => Place::There(&at[range]),
            Place::Mixed(alpha, w) => Place::Mixed(alpha, &w[range]),
        }
    }

    /// Returns the point's `k`-th number, where `own` is that of the updated vector.
    #[inline(always)]
    pub fn get(self, k: usize, own: f32) -> f32 {
        match self {
            Place::Here => own,
            Place::There(at) => at[k],
            Place::Mixed(alpha, w) => alpha * own + (1.0 - alpha) * w[k],
        }
    }
}
