// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Maps for tables that are small in nearly every namespace and device, and large in a few.
//!
//! A `BTreeMap` allocates a node for eleven entries with the first one. Up to eight entries, a [`SmallMap`]
//! is a sorted list that allocates what it holds; beyond that it is a `BTreeMap`. A [`SmallTable`] has no order: its
//! large form is a hash table, which a key of text needs, since each comparison of a search reads memory elsewhere.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hash};
use std::ops::Bound;

use crate::hash::FoldHasher;

/// The number of entries up to which a map is a list.
const FEW: usize = 8;

/// A sorted map; see the module documentation.
#[derive(Debug, Clone)]
pub struct SmallMap<K, V>(Form<K, V>);

#[derive(Debug, Clone)]
#[allow(clippy::box_collection, reason = "a small map is one list")]
enum Form<K, V> {
    /// In ascending order of the keys.
    Few(Vec<(K, V)>),
    /// It stays a tree when it becomes small again.
    Many(Box<BTreeMap<K, V>>),
}

impl<K, V> Default for SmallMap<K, V> {
    fn default() -> Self {
        Self(Form::Few(Vec::new()))
    }
}

/// A map without an order; see the module documentation.
#[derive(Debug)]
pub struct SmallTable<K, V>(TableForm<K, V>);

#[derive(Debug)]
#[allow(clippy::box_collection, reason = "a small map is one list")]
enum TableForm<K, V> {
    /// In ascending order of the keys.
    Few(Vec<(K, V)>),
    /// It stays a hash table when it becomes small again.
    Many(Box<HashMap<K, V, BuildHasherDefault<FoldHasher>>>),
}

impl<K, V> Default for SmallTable<K, V> {
    fn default() -> Self {
        Self(TableForm::Few(Vec::new()))
    }
}

impl<K: Ord + Hash, V> SmallTable<K, V> {
    /// Returns the value of a key.
    pub fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Ord + Hash + ?Sized,
    {
        match &self.0 {
            TableForm::Few(list) => place(list, key).ok().map(|at| &list[at].1),
            TableForm::Many(table) => table.get(key),
        }
    }

    /// Returns whether the map has a key.
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Ord + Hash + ?Sized,
    {
        self.get(key).is_some()
    }

    /// Returns the value of a key, to be changed.
    pub fn get_mut<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Ord + Hash + ?Sized,
    {
        match &mut self.0 {
            TableForm::Few(list) => place(list, key).ok().map(|at| &mut list[at].1),
            TableForm::Many(table) => table.get_mut(key),
        }
    }

    /// Returns the value of a key, to be changed. A key without one gets the default.
    pub fn or_default(&mut self, key: K) -> &mut V
    where
        K: Copy,
        V: Default,
    {
        if let TableForm::Few(list) = &self.0
            && list.len() == FEW
            && place(list, &key).is_err()
        {
            self.insert(key, V::default());
        }
        match &mut self.0 {
            TableForm::Many(table) => table.entry(key).or_default(),
            TableForm::Few(list) => {
                let at = place(list, &key).unwrap_or_else(|at| {
                    list.reserve_exact(1);
                    list.insert(at, (key, V::default()));
                    at
                });
                &mut list[at].1
            }
        }
    }

    /// Keeps the entries for which `keep` is true.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        match &mut self.0 {
            TableForm::Few(list) => list.retain_mut(|(key, value)| keep(key, value)),
            TableForm::Many(table) => {
                table.retain(keep);
                shrink(table);
            }
        }
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        match &self.0 {
            TableForm::Few(list) => list.len(),
            TableForm::Many(table) => table.len(),
        }
    }

    /// Returns whether the map has no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the values, in arbitrary order.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        let (few, many) = match &self.0 {
            TableForm::Few(list) => (Some(list), None),
            TableForm::Many(table) => (None, Some(table.values())),
        };
        let few = few.into_iter().flatten().map(|(_, value)| value);
        few.chain(many.into_iter().flatten())
    }

    /// Inserts a value. Returns the value that the key had.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let list = match &mut self.0 {
            TableForm::Many(table) => return table.insert(key, value),
            TableForm::Few(list) => list,
        };
        let at = match place(list, &key) {
            Ok(at) => return Some(std::mem::replace(&mut list[at].1, value)),
            Err(at) => at,
        };
        if list.len() < FEW {
            list.reserve_exact(1);
            list.insert(at, (key, value));
        } else {
            let mut table: HashMap<_, _, _> = std::mem::take(list).into_iter().collect();
            table.insert(key, value);
            self.0 = TableForm::Many(Box::new(table));
        }
        None
    }

    /// Removes a key. Returns its value.
    pub fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Ord + Hash + ?Sized,
    {
        match &mut self.0 {
            TableForm::Few(list) => place(list, key).ok().map(|at| list.remove(at).1),
            TableForm::Many(table) => {
                let value = table.remove(key);
                shrink(table);
                value
            }
        }
    }
}

/// The number of entries up to which a hash table keeps its memory.
const KEPT: usize = 64;

/// Gives memory back if an eighth of a hash table is in use.
fn shrink<K: Eq + Hash, V>(table: &mut HashMap<K, V, BuildHasherDefault<FoldHasher>>) {
    let room = table.capacity();
    if room > KEPT && table.len() < room / 8 {
        table.shrink_to(table.len() * 2);
    }
}

/// Finds the place of a key in a sorted list.
fn place<K, V, Q>(list: &[(K, V)], key: &Q) -> Result<usize, usize>
where
    K: Borrow<Q>,
    Q: Ord + ?Sized,
{
    list.binary_search_by(|(other, _)| other.borrow().cmp(key))
}

impl<K: Ord, V> SmallMap<K, V> {
    /// Returns the value of a key.
    pub fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        match &self.0 {
            Form::Few(list) => place(list, key).ok().map(|at| &list[at].1),
            Form::Many(tree) => tree.get(key),
        }
    }

    /// Returns the value of a key, to be changed.
    pub fn get_mut<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        match &mut self.0 {
            Form::Few(list) => place(list, key).ok().map(|at| &mut list[at].1),
            Form::Many(tree) => tree.get_mut(key),
        }
    }

    /// Returns whether the map has a key.
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.get(key).is_some()
    }

    /// Inserts a value. Returns the value that the key had.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let list = match &mut self.0 {
            Form::Many(tree) => return tree.insert(key, value),
            Form::Few(list) => list,
        };
        let at = match place(list, &key) {
            Ok(at) => return Some(std::mem::replace(&mut list[at].1, value)),
            Err(at) => at,
        };
        if list.len() < FEW {
            list.reserve_exact(1);
            list.insert(at, (key, value));
        } else {
            let mut tree: BTreeMap<K, V> = std::mem::take(list).into_iter().collect();
            tree.insert(key, value);
            self.0 = Form::Many(Box::new(tree));
        }
        None
    }

    /// Removes a key. Returns its value.
    pub fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        match &mut self.0 {
            Form::Few(list) => place(list, key).ok().map(|at| list.remove(at).1),
            Form::Many(tree) => tree.remove(key),
        }
    }

    /// Returns the entry with the smallest key above `key`.
    pub fn above(&self, key: &K) -> Option<(&K, &V)> {
        match &self.0 {
            Form::Few(list) => {
                let at = list.partition_point(|(other, _)| other <= key);
                list.get(at).map(|(key, value)| (key, value))
            }
            Form::Many(tree) => tree.range((Bound::Excluded(key), Bound::Unbounded)).next(),
        }
    }

    /// Returns the entries in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let (few, many) = match &self.0 {
            Form::Few(list) => (Some(list), None),
            Form::Many(tree) => (None, Some(&**tree)),
        };
        let few = few.into_iter().flatten().map(|(key, value)| (key, value));
        few.chain(many.into_iter().flatten())
    }

    /// Returns the keys in order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    /// Returns the values in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// Removes and returns all entries in the order of their keys.
    pub fn take(&mut self) -> Vec<(K, V)> {
        match std::mem::take(self).0 {
            Form::Few(list) => list,
            Form::Many(tree) => (*tree).into_iter().collect(),
        }
    }

    /// Returns whether the map has no entry.
    pub fn is_empty(&self) -> bool {
        match &self.0 {
            Form::Few(list) => list.is_empty(),
            Form::Many(tree) => tree.is_empty(),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(crate::cases(256))]
        #[test]
        fn a_table_of_numbers_equals_a_tree(ops in prop::collection::vec((0..6_u8, 0..40_u32, any::<u16>()), 0..200)) {
            let mut table = SmallTable::default();
            let mut tree = BTreeMap::new();
            for (op, key, value) in ops {
                match op {
                    0 => prop_assert_eq!(table.remove(&key), tree.remove(&key)),
                    1 if value % 8 == 0 => {
                        table.retain(|other, _| other % 8 != key % 8);
                        tree.retain(|other, _| other % 8 != key % 8);
                    }
                    2 => {
                        *table.or_default(key) ^= value;
                        *tree.entry(key).or_default() ^= value;
                    }
                    3 => prop_assert_eq!(table.get_mut(&key), tree.get_mut(&key)),
                    _ => prop_assert_eq!(table.insert(key, value), tree.insert(key, value)),
                }
                let mut values: Vec<_> = table.values().collect();
                let mut expected: Vec<_> = tree.values().collect();
                values.sort();
                expected.sort();
                prop_assert_eq!(values, expected);
                prop_assert_eq!((table.is_empty(), table.len()), (tree.is_empty(), tree.len()));
            }
        }

        #[test]
        fn a_table_gives_memory_back(keys in 500..2_000_u32) {
            let mut table = SmallTable::default();
            let room = |table: &SmallTable<u32, u32>| match &table.0 {
                TableForm::Few(list) => list.capacity(),
                TableForm::Many(table) => table.capacity(),
            };
            (0..keys).for_each(|key| _ = table.insert(key, key));
            prop_assert!(room(&table) >= 500);
            (3..keys).for_each(|key| _ = table.remove(&key));
            prop_assert!(room(&table) <= 2 * KEPT);
            prop_assert!((0..3).all(|key| table.get(&key) == Some(&key)));
        }

        #[test]
        fn a_table_equals_a_tree(ops in prop::collection::vec((0..3_u8, 0..40_u32, any::<u16>()), 0..200)) {
            let mut table = SmallTable::default();
            let mut tree = BTreeMap::new();
            for (op, key, value) in ops {
                let key = key.to_string();
                match op {
                    0 => prop_assert_eq!(table.remove(key.as_str()), tree.remove(&key)),
                    _ => prop_assert_eq!(table.insert(key.clone(), value), tree.insert(key.clone(), value)),
                }
                prop_assert_eq!(table.get(key.as_str()), tree.get(&key));
                prop_assert_eq!(table.contains_key("7"), tree.contains_key("7"));
            }
        }
    }

    proptest! {
        #![proptest_config(crate::cases(256))]
        #[test]
        fn equals_a_tree(ops in prop::collection::vec((0..3_u8, 0..40_u32, any::<u16>()), 0..200)) {
            let mut map = SmallMap::default();
            let mut tree = BTreeMap::new();
            for (op, key, value) in ops {
                match op {
                    0 => prop_assert_eq!(map.remove(&key), tree.remove(&key)),
                    _ => prop_assert_eq!(map.insert(key, value), tree.insert(key, value)),
                }
                prop_assert!(map.iter().eq(&tree));
                prop_assert_eq!(map.get(&key), tree.get(&key));
                prop_assert_eq!(map.above(&key), tree.range(key + 1..).next());
                prop_assert_eq!(map.is_empty(), tree.is_empty());
            }
            prop_assert_eq!(map.take(), tree.into_iter().collect::<Vec<_>>());
            prop_assert!(map.is_empty());
        }
    }
}
