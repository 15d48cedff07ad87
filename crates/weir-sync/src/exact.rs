// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists that take no more memory than their elements and two words: boxed slices that are edited seldom.

/// Adds an element at the end.
pub fn push<T>(list: &mut Box<[T]>, value: T) {
    insert(list, list.len(), value);
}

/// Adds an element before the one at `at`. Panics if `at` is past the end.
pub fn insert<T>(list: &mut Box<[T]>, at: usize, value: T) {
    assert!(at <= list.len(), "there is such a place");
    let mut all = std::mem::take(list).into_vec();
    all.reserve_exact(1);
    all.insert(at, value);
    *list = all.into();
}

/// Removes and returns the element at `at`. Panics if there is none.
pub fn remove<T>(list: &mut Box<[T]>, at: usize) -> T {
    assert!(at < list.len(), "there is such an element");
    let mut all = std::mem::take(list).into_vec();
    let value = all.remove(at);
    *list = all.into();
    value
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn edits_are_those_of_a_vector() {
        let mut list = Box::<[u32]>::default();
        push(&mut list, 1);
        push(&mut list, 3);
        insert(&mut list, 1, 2);
        insert(&mut list, 0, 0);
        assert_eq!(*list, [0, 1, 2, 3]);
        assert_eq!((remove(&mut list, 1), remove(&mut list, 2)), (1, 3));
        assert_eq!(*list, [0, 2]);
    }
}
