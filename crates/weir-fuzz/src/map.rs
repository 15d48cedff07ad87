// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Calls of maps of any kind, against a model.
//!
//! The first five bytes are the kind, the sizes, the number of entries and the policy. The calls are
//! drawn from the others ([`Operation::draw`]).
//!
//! Invariants: each result is the model's; a map that evicts may have lost entries, but never gives a
//! wrong value and never holds more than it may. Keys and values of wrong lengths are refused.

use weir_map::model::{Model, Operation};
use weir_map::{Error, Kind, LruOptions, Map, MapOptions, Policy, Spread, Update};

/// Runs the target.
pub fn run(bytes: &[u8]) {
    let Some((&[kind, key_size, value_size, entries, policy], calls)) = bytes.split_first_chunk()
    else {
        return;
    };
    let options = MapOptions {
        kind: Kind::ALL[usize::from(kind) % Kind::ALL.len()],
        key_size: usize::from(key_size % 12),
        value_size: usize::from(value_size % 20),
        max_entries: u32::from(entries % 40),
        lru: LruOptions {
            policy: [Policy::Clock, Policy::S3Fifo, Policy::Exact][usize::from(policy % 3)],
            spread: [Spread::Common, Spread::PerCpu, Spread::Borrow][usize::from(policy / 3 % 3)],
            cpus: Some(2),
            ..LruOptions::default()
        },
    };
    let Ok(map) = Map::new(options) else {
        return;
    };
    let (key, mut value) = (vec![0; options.key_size + 1], vec![0; map.value_size() + 1]);
    assert_eq!(map.look_up(&key, &mut value[1..]), Err(Error::Inval));
    assert_eq!(map.look_up(&key[1..], &mut value), Err(Error::Inval));
    assert_eq!(map.update(&key, &value, Update::Any), Err(Error::Inval));
    let mut model = Model::new(options, map.value_size());
    let mut calls = calls.iter().copied();
    while let Some(operation) = Operation::draw(&options, map.value_size(), &mut calls) {
        let result = operation.run(&map);
        if let Err(difference) = model.judge(&operation, &result) {
            panic!("{options:?}: {difference}");
        }
    }
    let result = Operation::Keys.run(&map);
    assert_eq!(model.judge(&Operation::Keys, &result), Ok(()));
}
