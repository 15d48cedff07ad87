// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Models of changes of several slots at once, and of a reader beside them.

use std::sync::Arc;

use super::Conf;
use weir_sync::models::check;
use weir_sync::primitive::thread;

crate::slots! {
    Few {
        A = 1, "a";
        B = 2, "b";
        C = 3, "c";
    }
}

/// Sets the slots one after the other in a thread of its own, and reads each back.
fn set(conf: &Arc<Conf<Few>>, changes: &'static [(Few, i32)]) -> thread::JoinHandle<()> {
    let conf = conf.clone();
    thread::spawn(move || {
        for &(slot, value) in changes {
            conf.set(slot, value);
            assert_eq!(conf.get(slot), value);
        }
    })
}

#[test]
fn no_change_is_lost() {
    check(3, || {
        let conf = Arc::new(Conf::<Few>::default());
        let threads = [
            set(&conf, &[(Few::A, 11), (Few::A, 10)]),
            set(&conf, &[(Few::B, 20)]),
        ];
        conf.set(Few::C, 30);
        for thread in threads {
            thread.join().unwrap();
        }
        let all = [Few::A, Few::B, Few::C].map(|slot| conf.get(slot));
        assert_eq!(all, [10, 20, 30]);
    });
}

#[test]
fn a_reader_sees_each_value_once_and_in_order() {
    check(3, || {
        let conf = Arc::new(Conf::<Few>::default());
        let threads = [
            set(&conf, &[(Few::A, 5), (Few::A, 6)]),
            set(&conf, &[(Few::B, 7)]),
        ];
        let place = |value| [1, 5, 6].iter().position(|known| *known == value).unwrap();
        let seen = [conf.get(Few::A), conf.get(Few::A)].map(place);
        assert!(seen[0] <= seen[1], "a value came back: {seen:?}");
        assert!([2, 7].contains(&conf.get(Few::B)));
        for thread in threads {
            thread.join().unwrap();
        }
    });
}
