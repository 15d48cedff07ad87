// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A list of routes of one prefix that readers see as a whole while a writer replaces it.
//!
//! A namespace with very many devices has as many routes to `fe80::/64` and `ff00::/8`. A new list
//! shares everything with the old one except a path of a B-tree: an insertion or a removal copies at
//! most [`FAN`] elements for each of its levels. A node knows the range of the device indices below
//! it, so the route through a device is found in a few steps if devices came in the order of their
//! indices, which they do unless indices are given by hand.

use std::sync::Arc;

/// The largest number of elements or children of a node. More would make a list flatter, but each change copies a node
/// of each level and counts references to everything in it.
const FAN: usize = 8;

/// An element of a [`Sequence`].
pub(super) trait Element: Clone {
    /// The index of its device.
    fn device(&self) -> u32;
    /// Whether it may be part of a multipath route.
    fn is_ecmp(&self) -> bool;
}

/// What a node says about everything below it.
#[derive(Debug, Clone, Copy)]
struct Summary {
    len: usize,
    /// The range of device indices.
    least: u32,
    most: u32,
    ecmp: bool,
}

impl Summary {
    const EMPTY: Self = Self {
        len: 0,
        least: u32::MAX,
        most: 0,
        ecmp: false,
    };

    fn and(self, other: Self) -> Self {
        Self {
            len: self.len + other.len,
            least: self.least.min(other.least),
            most: self.most.max(other.most),
            ecmp: self.ecmp | other.ecmp,
        }
    }

    fn may_have(&self, device: u32) -> bool {
        (self.least..=self.most).contains(&device)
    }
}

type Child<T> = (Summary, Arc<Node<T>>);

#[derive(Debug)]
enum Node<T> {
    Leaf(Vec<T>),
    Inner(Vec<Child<T>>),
}

fn leaf<T: Element>(elements: Vec<T>) -> Child<T> {
    let summary = elements.iter().map(|element| Summary {
        len: 1,
        least: element.device(),
        most: element.device(),
        ecmp: element.is_ecmp(),
    });
    let summary = summary.fold(Summary::EMPTY, Summary::and);
    (summary, Arc::new(Node::Leaf(elements)))
}

fn inner<T>(children: Vec<Child<T>>) -> Child<T> {
    let summary = children.iter().map(|child| child.0);
    let summary = summary.fold(Summary::EMPTY, Summary::and);
    (summary, Arc::new(Node::Inner(children)))
}

/// Splits what has grown too long. What grew at its end stays full, since it grows there again.
fn halves<T>(mut all: Vec<T>, at_end: bool) -> (Vec<T>, Option<Vec<T>>) {
    if all.len() <= FAN {
        return (all, None);
    }
    let rest = all.split_off(if at_end { FAN } else { FAN / 2 });
    (all, Some(rest))
}

impl<T: Element> Node<T> {
    fn insert(&self, at: usize, value: T) -> (Child<T>, Option<Child<T>>) {
        match self {
            Self::Leaf(elements) => {
                steps(elements.len());
                let mut new = Vec::with_capacity(elements.len() + 1);
                new.extend_from_slice(&elements[..at]);
                new.push(value);
                new.extend_from_slice(&elements[at..]);
                let (first, second) = halves(new, at == elements.len());
                (leaf(first), second.map(leaf))
            }
            Self::Inner(children) => {
                steps(children.len());
                let (mut nth, mut at) = (0, at);
                while nth + 1 < children.len() && at > children[nth].0.len {
                    at -= children[nth].0.len;
                    nth += 1;
                }
                let (first, second) = children[nth].1.insert(at, value);
                let mut new = children.clone();
                new[nth] = first;
                if let Some(second) = second {
                    new.insert(nth + 1, second);
                }
                let (first, second) = halves(new, nth + 1 == children.len());
                (inner(first), second.map(inner))
            }
        }
    }

    /// Returns `None` if nothing is left.
    fn remove(&self, at: usize) -> Option<Child<T>> {
        match self {
            Self::Leaf(elements) => {
                steps(elements.len());
                let mut new = elements.clone();
                new.remove(at);
                (!new.is_empty()).then(|| leaf(new))
            }
            Self::Inner(children) => {
                steps(children.len());
                let (mut nth, mut at) = (0, at);
                while at >= children[nth].0.len {
                    at -= children[nth].0.len;
                    nth += 1;
                }
                let mut new = children.clone();
                match children[nth].1.remove(at) {
                    Some(child) => new[nth] = child,
                    None => drop(new.remove(nth)),
                }
                match new.len() {
                    0 => None,
                    1 => new.pop(),
                    _ => Some(inner(new)),
                }
            }
        }
    }

    fn find(&self, device: u32, wanted: &mut impl FnMut(&T) -> bool) -> Option<usize> {
        match self {
            Self::Leaf(elements) => {
                steps(elements.len());
                let is = |element: &T| element.device() == device && wanted(element);
                elements.iter().position(is)
            }
            Self::Inner(children) => {
                steps(children.len());
                let mut before = 0;
                for (summary, node) in children {
                    if summary.may_have(device)
                        && let Some(at) = node.find(device, wanted)
                    {
                        return Some(before + at);
                    }
                    before += summary.len;
                }
                None
            }
        }
    }
}

/// A list of at least one element; see the module documentation.
#[derive(Debug)]
pub(super) struct Sequence<T>(Child<T>);

impl<T: Element> Sequence<T> {
    /// Returns `None` for no elements.
    pub(super) fn new(elements: Vec<T>) -> Option<Self> {
        let mut level: Vec<Child<T>> = Vec::with_capacity(elements.len().div_ceil(FAN));
        let mut elements = elements.into_iter().peekable();
        while elements.peek().is_some() {
            level.push(leaf(elements.by_ref().take(FAN).collect()));
        }
        while level.len() > 1 {
            level = level.chunks(FAN).map(|part| inner(part.to_vec())).collect();
        }
        level.pop().map(Self)
    }

    pub(super) fn len(&self) -> usize {
        self.0.0.len
    }

    /// Returns whether an element may be part of a multipath route. Stays true for some time after the
    /// last such element has gone.
    pub(super) fn has_ecmp(&self) -> bool {
        self.0.0.ecmp
    }

    pub(super) fn get(&self, mut at: usize) -> Option<&T> {
        let mut node = &*self.0.1;
        loop {
            match node {
                Node::Leaf(elements) => return elements.get(at),
                Node::Inner(children) => {
                    steps(children.len());
                    let mut children = children.iter();
                    node = loop {
                        let (summary, child) = children.next()?;
                        if at < summary.len {
                            break child;
                        }
                        at -= summary.len;
                    };
                }
            }
        }
    }

    /// Returns the list with `value` before the element at `at`.
    pub(super) fn with(&self, at: usize, value: T) -> Self {
        let (first, second) = self.0.1.insert(at, value);
        Self(match second {
            Some(second) => inner(vec![first, second]),
            None => first,
        })
    }

    /// Returns the list without the element at `at`, or `None` if it was the last one.
    pub(super) fn without(&self, at: usize) -> Option<Self> {
        self.0.1.remove(at).map(Self)
    }

    /// Returns the position of the first element of a device that is `wanted`.
    pub(super) fn find(&self, device: u32, mut wanted: impl FnMut(&T) -> bool) -> Option<usize> {
        self.0.1.find(device, &mut wanted)
    }
}

impl<T> Sequence<T> {
    pub(super) fn iter(&self) -> Iter<'_, T> {
        let mut iter = Iter::default();
        iter.enter(&self.0.1);
        iter
    }
}

/// An iterator over a list, in order.
#[derive(Debug, Clone)]
pub(super) struct Iter<'a, T> {
    inner: Vec<std::slice::Iter<'a, Child<T>>>,
    leaf: std::slice::Iter<'a, T>,
}

/// An iterator over nothing, which needs no memory.
impl<T> Default for Iter<'_, T> {
    fn default() -> Self {
        Self {
            inner: Vec::new(),
            leaf: [].iter(),
        }
    }
}

impl<'a, T> Iter<'a, T> {
    fn enter(&mut self, node: &'a Node<T>) {
        match node {
            Node::Leaf(elements) => self.leaf = elements.iter(),
            Node::Inner(children) => self.inner.push(children.iter()),
        }
    }
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        loop {
            if let Some(element) = self.leaf.next() {
                return Some(element);
            }
            match self.inner.last_mut()?.next() {
                Some((_, node)) => self.enter(node),
                None => drop(self.inner.pop()),
            }
        }
    }
}

/// Counts the elements that an operation copies or looks at.
#[cfg(test)]
pub(super) fn steps(many: usize) {
    tests::STEPS.set(tests::STEPS.get() + many);
}

#[cfg(not(test))]
#[inline(always)]
pub(super) fn steps(_: usize) {}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;

    thread_local! {
        pub(in crate::fib) static STEPS: Cell<usize> = const { Cell::new(0) };
    }

    #[derive(Debug, Clone, PartialEq, Eq)]
    struct Item(u32, u32);

    impl Element for Item {
        fn device(&self) -> u32 {
            self.0
        }
        fn is_ecmp(&self) -> bool {
            self.1 == 0
        }
    }

    proptest! {
        /// A list agrees with a vector, and the lists before a change stay as they were.
        #[test]
        fn agrees_with_a_vector(
            start in 0usize..100,
            changes in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>(), 0u32..50), 0..300),
        ) {
            let mut oracle: Vec<Item> = (0..start as u32).map(|n| Item(n % 50, n)).collect();
            let mut list = Sequence::new(oracle.clone());
            for (nth, (adds, at, device)) in changes.into_iter().enumerate() {
                let (before, old) = (oracle.clone(), list);
                if adds || oracle.is_empty() {
                    let (at, item) = (at.index(oracle.len() + 1), Item(device, nth as u32));
                    oracle.insert(at, item.clone());
                    list = match &old {
                        Some(old) => Some(old.with(at, item)),
                        None => Sequence::new(vec![item]),
                    };
                } else {
                    let at = at.index(oracle.len());
                    oracle.remove(at);
                    list = old.as_ref().and_then(|old| old.without(at));
                }
                let all = |list: &Option<Sequence<Item>>| -> Vec<Item> {
                    list.iter().flat_map(Sequence::iter).cloned().collect()
                };
                prop_assert_eq!(all(&list), &oracle[..]);
                prop_assert_eq!(all(&old), before);
                if let Some(list) = &list {
                    prop_assert_eq!(list.len(), oracle.len());
                    prop_assert_eq!(list.get(oracle.len()), None);
                    prop_assert_eq!(list.get(oracle.len() - 1), oracle.last());
                    let even = |item: &Item| item.1.is_multiple_of(2);
                    let found = oracle.iter().position(|item| item.0 == device && even(item));
                    prop_assert_eq!(list.find(device, even), found);
                    prop_assert!(list.has_ecmp() == oracle.iter().any(Item::is_ecmp));
                }
            }
        }
    }

    /// The steps of an operation grow with the logarithm of the length.
    #[test]
    fn steps_do_not_grow_with_the_length() {
        let mut list = Sequence::new(vec![Item(1, 1)]).unwrap();
        for device in 2..=40_000 {
            STEPS.set(0);
            assert_eq!(list.find(device, |_| true), None);
            list = list.with(list.len(), Item(device, 1));
            assert_eq!(list.find(device, |_| true), Some(device as usize - 1));
            assert!(STEPS.get() <= 30 * FAN, "{device}: {} steps", STEPS.get());
        }
        for device in (1..40_000).rev() {
            STEPS.set(0);
            let at = list.find(device, |_| true).unwrap();
            list = list.without(at).unwrap();
            assert!(STEPS.get() <= 30 * FAN, "{device}: {} steps", STEPS.get());
        }
    }
}
