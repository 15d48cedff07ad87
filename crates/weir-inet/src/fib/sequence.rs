// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A list of routes of one prefix that readers see as a whole while a writer replaces it.
//!
//! A namespace with very many devices has as many routes to `fe80::/64` and `ff00::/8`. A new list
//! shares everything with the old one except a path of a B-tree: an insertion or a removal copies at
//! most [`FAN`] elements for each of its levels, and an insertion at the end mostly those of one node. A node knows the range of the device indices below
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

    /// Returns what is said after an element has gone: the range of those that were there, which other nodes do not
    /// overlap either.
    fn less(self) -> Self {
        let len = self.len - 1;
        Self { len, ..self }
    }
}

type Child<T> = (Summary, Node<T>);

/// A node is one piece of memory.
#[derive(Debug, Clone)]
enum Node<T> {
    Leaf(Arc<[T]>),
    Inner(Arc<[Child<T>]>),
}

fn leaf<T: Element>(elements: Arc<[T]>) -> Child<T> {
    let summary = elements.iter().map(|element| Summary {
        len: 1,
        least: element.device(),
        most: element.device(),
        ecmp: element.is_ecmp(),
    });
    let summary = summary.fold(Summary::EMPTY, Summary::and);
    (summary, Node::Leaf(elements))
}

fn inner<T>(children: Arc<[Child<T>]>) -> Child<T> {
    let summary = children.iter().map(|child| child.0);
    let summary = summary.fold(Summary::EMPTY, Summary::and);
    (summary, Node::Inner(children))
}

/// Returns a list with `value` before the one at `at`, and its second half if it is too long. What grew at its end
/// stays full, since it grows there again.
fn with<V: Clone>(all: &[V], at: usize, value: V) -> (Arc<[V]>, Option<Arc<[V]>>) {
    let mut value = Some(value);
    let parts = (0..=all.len()).map(|nth| match nth == at {
        true => value.take().expect("each number comes once"),
        false => all[nth - usize::from(nth > at)].clone(),
    });
    if all.len() < FAN {
        return (parts.collect(), None);
    }
    let mut parts: Vec<V> = parts.collect();
    let rest = parts.split_off(if at == all.len() { FAN } else { FAN / 2 });
    (parts.into(), Some(rest.into()))
}

/// Returns a list with `value` in place of the one at `at`.
fn replaced<V: Clone>(all: &[V], at: usize, value: V) -> Arc<[V]> {
    let mut value = Some(value);
    let new = all.iter().enumerate().map(|(nth, old)| match nth == at {
        true => value.take().expect("each number comes once"),
        false => old.clone(),
    });
    new.collect()
}

/// Returns a list without the one at `at`.
fn removed<V: Clone>(all: &[V], at: usize) -> Arc<[V]> {
    let (before, behind) = (&all[..at], &all[at + 1..]);
    match before {
        [] => behind.into(),
        _ => before.iter().chain(behind).cloned().collect(),
    }
}

/// Returns children of which one has been replaced by one or two.
fn grown<T: Element>(
    children: &[Child<T>],
    at: usize,
    (first, second): (Child<T>, Option<Child<T>>),
) -> (Child<T>, Option<Child<T>>) {
    let new = replaced(children, at, first);
    let Some(second) = second else {
        return (inner(new), None);
    };
    let (first, second) = with(&new, at + 1, second);
    (inner(first), second.map(inner))
}

impl<T: Element> Node<T> {
    fn insert(&self, at: usize, value: T) -> (Child<T>, Option<Child<T>>) {
        match self {
            Self::Leaf(elements) => {
                steps(elements.len());
                let (first, second) = with(elements, at, value);
                (leaf(first), second.map(leaf))
            }
            Self::Inner(children) => {
                steps(children.len());
                let (mut nth, mut at) = (0, at);
                while nth + 1 < children.len() && at > children[nth].0.len {
                    at -= children[nth].0.len;
                    nth += 1;
                }
                grown(children, nth, children[nth].1.insert(at, value))
            }
        }
    }

    /// Adds a leaf at the end.
    fn append(&self, summary: Summary, last: Child<T>) -> (Child<T>, Option<Child<T>>) {
        match self {
            Self::Leaf(_) => ((summary, self.clone()), Some(last)),
            Self::Inner(children) => {
                steps(children.len());
                let Some(nth) = children.len().checked_sub(1) else {
                    return (last, None);
                };
                let (summary, child) = &children[nth];
                grown(children, nth, child.append(*summary, last))
            }
        }
    }

    /// Removes an element of a node with this summary. Returns `None` if nothing is left.
    fn remove(&self, summary: Summary, at: usize) -> Option<Child<T>> {
        // Whether a multipath route is left has to be looked at.
        let inner = |children| match summary.ecmp {
            true => inner(children),
            false => (summary.less(), Self::Inner(children)),
        };
        match self {
            Self::Leaf(elements) => {
                steps(elements.len());
                let left = (elements.len() > 1).then(|| removed(elements, at))?;
                Some(match summary.ecmp {
                    true => leaf(left),
                    false => (summary.less(), Self::Leaf(left)),
                })
            }
            Self::Inner(children) => {
                steps(children.len());
                let (mut nth, mut at) = (0, at);
                while at >= children[nth].0.len {
                    at -= children[nth].0.len;
                    nth += 1;
                }
                let (summary, child) = &children[nth];
                match (child.remove(*summary, at), &children[..]) {
                    (Some(child), [_]) => Some(child),
                    (Some(child), _) => Some(inner(replaced(children, nth, child))),
                    (None, [_]) => None,
                    (None, [first, second]) => Some(if nth == 0 { second } else { first }.clone()),
                    (None, _) => Some(inner(removed(children, nth))),
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
                for (summary, node) in children.iter() {
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

/// A list of at least one element; see the module documentation. Its last elements are not in the tree: the list grows
/// there, and copies nothing else.
#[derive(Debug)]
pub(super) struct Sequence<T> {
    root: Option<Child<T>>,
    last: Option<Arc<[T]>>,
}

impl<T: Element> Sequence<T> {
    /// Returns `None` for no elements.
    pub(super) fn new(elements: Vec<T>) -> Option<Self> {
        if elements.len() <= FAN {
            let last = (!elements.is_empty()).then(|| elements.into())?;
            return Some(Self {
                root: None,
                last: Some(last),
            });
        }
        let mut chunks = elements.chunks(FAN);
        let last = chunks.next_back()?.into();
        let mut level: Vec<Child<T>> = chunks.map(|part| leaf(part.into())).collect();
        while level.len() > 1 {
            level = level.chunks(FAN).map(|part| inner(part.into())).collect();
        }
        Some(Self {
            root: level.pop(),
            last: Some(last),
        })
    }

    /// The number of elements in the tree.
    fn rooted(&self) -> usize {
        self.root.as_ref().map_or(0, |root| root.0.len)
    }

    fn last(&self) -> &[T] {
        self.last.as_deref().unwrap_or_default()
    }

    pub(super) fn len(&self) -> usize {
        self.rooted() + self.last().len()
    }

    /// Returns whether an element may be part of a multipath route. Stays true for some time after the
    /// last such element has gone.
    pub(super) fn has_ecmp(&self) -> bool {
        self.root.as_ref().is_some_and(|root| root.0.ecmp) || self.last().iter().any(T::is_ecmp)
    }

    pub(super) fn get(&self, mut at: usize) -> Option<&T> {
        if let Some(at) = at.checked_sub(self.rooted()) {
            return self.last().get(at);
        }
        let mut node = &self.root.as_ref()?.1;
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
        let rooted = self.rooted();
        let join = |(first, second): (Child<T>, Option<Child<T>>)| match second {
            Some(second) => inner([first, second].into()),
            None => first,
        };
        if at < rooted
            && let Some((_, root)) = &self.root
        {
            return Self {
                root: Some(join(root.insert(at, value))),
                last: self.last.clone(),
            };
        }
        steps(self.last().len());
        if self.last().len() < FAN {
            return Self {
                root: self.root.clone(),
                last: Some(with(self.last(), at - rooted, value).0),
            };
        }
        let (first, rest) = match (&self.last, at - rooted) {
            (Some(last), FAN) => (last.clone(), Some([value].into())),
            (_, at) => with(self.last(), at, value),
        };
        let first = leaf(first);
        Self {
            root: Some(match &self.root {
                Some((summary, root)) => join(root.append(*summary, first)),
                None => first,
            }),
            last: rest,
        }
    }

    /// Returns the list without the element at `at`, or `None` if it was the last one.
    pub(super) fn without(&self, at: usize) -> Option<Self> {
        let rooted = self.rooted();
        let (root, last) = match at.checked_sub(rooted) {
            None => {
                let root = self.root.as_ref()?;
                (root.1.remove(root.0, at), self.last.clone())
            }
            Some(at) => {
                steps(self.last().len());
                let left = self.last().len() > 1;
                let last = left.then(|| removed(self.last(), at));
                (self.root.clone(), last)
            }
        };
        (root.is_some() || last.is_some()).then_some(Self { root, last })
    }

    /// Returns the position of the first element of a device that is `wanted`.
    pub(super) fn find(&self, device: u32, mut wanted: impl FnMut(&T) -> bool) -> Option<usize> {
        if let Some((summary, root)) = &self.root
            && summary.may_have(device)
            && let Some(at) = root.find(device, &mut wanted)
        {
            return Some(at);
        }
        steps(self.last().len());
        let is = |element: &T| element.device() == device && wanted(element);
        let at = self.last().iter().position(is);
        at.map(|at| self.rooted() + at)
    }
}

impl<T> Sequence<T> {
    pub(super) fn iter(&self) -> Iter<'_, T> {
        let mut iter = Iter::default();
        iter.last = self.last.as_deref().unwrap_or_default().iter();
        if let Some((_, root)) = &self.root {
            iter.enter(root);
        }
        iter
    }
}

/// An iterator over a list, in order.
#[derive(Debug, Clone)]
pub(super) struct Iter<'a, T> {
    inner: Vec<std::slice::Iter<'a, Child<T>>>,
    leaf: std::slice::Iter<'a, T>,
    /// The elements that are not in the tree.
    last: std::slice::Iter<'a, T>,
}

/// An iterator over nothing, which needs no memory.
impl<T> Default for Iter<'_, T> {
    fn default() -> Self {
        Self {
            inner: Vec::new(),
            leaf: [].iter(),
            last: [].iter(),
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
            let Some(level) = self.inner.last_mut() else {
                return self.last.next();
            };
            match level.next() {
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
