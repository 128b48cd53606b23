//! A copy-on-write vector. Clones share unchanged chunks.
//!
//! Elements are stored in chunks of 16 behind `Arc`s: a persistent vector with a single level. A
//! clone copies the pointers to the chunks; modifying an element copies its chunk if it is shared.

use std::sync::Arc;

/// Elements per chunk: few, so that a change copies little; many, so that a clone does.
const CHUNK: usize = 16;

/// A copy-on-write vector, see the module.
#[derive(Clone)]
pub(crate) struct CowVec<T> {
    chunks: Vec<Arc<Vec<T>>>,
    len: usize,
}

impl<T> CowVec<T> {
    pub(crate) const fn new() -> CowVec<T> {
        CowVec { chunks: Vec::new(), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn get(&self, i: usize) -> Option<&T> {
        self.chunks.get(i / CHUNK)?.get(i % CHUNK)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }
}

impl<T: Clone> CowVec<T> {
    /// A mutable reference to element `i`. Copies the chunk if another vector shares it.
    pub(crate) fn get_mut(&mut self, i: usize) -> Option<&mut T> {
        Arc::make_mut(self.chunks.get_mut(i / CHUNK)?).get_mut(i % CHUNK)
    }

    pub(crate) fn push(&mut self, value: T) {
        match self.chunks.last_mut() {
            Some(last) if !self.len.is_multiple_of(CHUNK) => Arc::make_mut(last).push(value),
            _ => self.chunks.push(Arc::new(vec![value])),
        }
        self.len += 1;
    }
}

impl<T> FromIterator<T> for CowVec<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> CowVec<T> {
        let mut all = CowVec::new();
        let mut values = values.into_iter();
        loop {
            let chunk: Vec<T> = values.by_ref().take(CHUNK).collect();
            if chunk.is_empty() {
                return all;
            }
            all.len += chunk.len();
            all.chunks.push(Arc::new(chunk));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_unchanged_chunks() {
        for n in [0, 1, 15, 16, 17, 100] {
            let first: CowVec<usize> = (0..n).collect();
            let mut second = first.clone();
            for i in n..n + 20 {
                assert!(second.get_mut(i).is_none());
                second.push(i);
            }
            if let Some(element) = second.get_mut(n / 2) {
                *element += 1000;
            }
            assert_eq!(first.iter().copied().collect::<Vec<_>>(), (0..n).collect::<Vec<_>>());
            assert_eq!((first.len(), second.len()), (n, n + 20));
            for i in 0..n + 20 {
                assert_eq!(second.get(i), Some(&(i + if i == n / 2 { 1000 } else { 0 })));
            }
            let pairs = first.chunks.iter().zip(&second.chunks);
            let copied = pairs.filter(|(a, b)| !Arc::ptr_eq(a, b)).count();
            assert!(copied <= 2, "{copied} chunks of {n} elements were copied");
        }
    }
}
