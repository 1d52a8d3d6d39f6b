//! Where a pass is taken: at parameters, or at a mixture that nobody has written down.

use std::ops::Range;

use crate::params::mix;

/// A point in the space of parameters.
#[derive(Clone, Copy, Debug)]
pub enum Point<'a> {
    /// These parameters.
    At(&'a [f32]),
    /// α·v + (1 − α)·w, made number by number as it is needed, to the same bits as
    /// [`mix`] makes it: one vector less to keep in the cache.
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
    /// Some of its numbers.
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

    /// How many numbers it has.
    pub fn count(self) -> usize {
        match self {
            Point::At(at) => at.len(),
            Point::Mixture { v, .. } => v.len(),
        }
    }

    /// One of them.
    #[inline(always)]
    pub fn get(self, k: usize) -> f32 {
        match self {
            Point::At(at) => at[k],
            Point::Mixture { alpha, v, w } => alpha * v[k] + (1.0 - alpha) * w[k],
        }
    }

    /// All of them, written into `room` where they are not written down.
    pub fn numbers(self, room: &'a mut Vec<f32>) -> &'a [f32] {
        match self {
            Point::At(at) => at,
            Point::Mixture { alpha, v, w } => {
                room.resize(v.len(), 0.0);
                mix(room, alpha, v, w);
                room
            }
        }
    }
}

/// Where a derivative is taken, seen from the vector that moves.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    /// At that vector itself, as it was before.
    Here,
    /// At another one.
    There(&'a [f32]),
    /// At α·itself + (1 − α)·w.
    Mixed(f32, &'a [f32]),
}

impl<'a> Place<'a> {
    /// How many numbers there are elsewhere than in the vector that moves.
    pub fn elsewhere(self) -> Option<usize> {
        match self {
            Place::Here => None,
            Place::There(at) | Place::Mixed(_, at) => Some(at.len()),
        }
    }

    /// `None` is here.
    pub fn of(at: Option<&'a [f32]>) -> Self {
        at.map_or(Place::Here, Place::There)
    }

    /// The point, while `into` has not moved.
    pub fn point(self, into: &'a [f32]) -> Point<'a> {
        match self {
            Place::Here => Point::At(into),
            Place::There(at) => Point::At(at),
            Place::Mixed(alpha, w) => Point::Mixture { alpha, v: into, w },
        }
    }

    /// The same for some of the numbers.
    pub fn part(self, range: Range<usize>) -> Self {
        match self {
            Place::Here => Place::Here,
            Place::There(at) => Place::There(&at[range]),
            Place::Mixed(alpha, w) => Place::Mixed(alpha, &w[range]),
        }
    }

    /// The number that belongs to the `k`-th of the vector, which is `own`.
    #[inline(always)]
    pub fn get(self, k: usize, own: f32) -> f32 {
        match self {
            Place::Here => own,
            Place::There(at) => at[k],
            Place::Mixed(alpha, w) => alpha * own + (1.0 - alpha) * w[k],
        }
    }
}
