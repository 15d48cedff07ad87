// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of behaviour that all kinds share, and of requests to kinds without recordings.

use proptest::prelude::*;
use proptest::test_runner::contextualize_config;
use weir_netlink::errno::{EINVAL, ENOENT, EOPNOTSUPP};
use weir_netlink::tca::{csum, ife, mirred, nat, sample, simple, vlan};
use weir_netlink::{
    Fixed, TcCsum, TcGactP, TcIfe, TcMirred, TcNat, TcVlan, Writer, nlm, tca::gact, tca::skbedit,
};

use super::requests::{at_ingress, gen_parms, new_action, options_of};
use crate::testing::{Stack, ipv4};
use crate::verdict::code;

const ADD: u16 = nlm::F_CREATE | nlm::F_EXCL;
const REPLACE: u16 = nlm::F_CREATE | nlm::F_REPLACE;

/// A kind, the type of its parameters attribute, the part of the parameters after the common start,
/// and the other options: type and value.
type Options = (&'static str, u16, Vec<u8>, Vec<(u16, Vec<u8>)>);

fn word(value: u32) -> Vec<u8> {
    value.to_ne_bytes().to_vec()
}

/// Generates a subset of the attributes.
fn some(attrs: Vec<(u16, BoxedStrategy<Vec<u8>>)>) -> BoxedStrategy<Vec<(u16, Vec<u8>)>> {
    let one = |(ty, value): (u16, BoxedStrategy<Vec<u8>>)| {
        prop::option::of(value.prop_map(move |value| (ty, value)))
    };
    let all: Vec<_> = attrs.into_iter().map(one).collect();
    all.prop_map(|attrs| attrs.into_iter().flatten().collect())
        .boxed()
}

fn options() -> BoxedStrategy<Options> {
    let word = || any::<u32>().prop_map(word).boxed();
    let from_one = || (1..=u32::MAX).prop_map(self::word).boxed();
    let mac = || {
        prop::array::uniform6(1_u8..)
            .prop_map(|mac| mac.to_vec())
            .boxed()
    };
    let prob = (0_u16..3, 1_u16.., 0..8_i32).prop_map(|(ptype, pval, paction)| {
        let prob = TcGactP {
            ptype,
            pval,
            paction,
        };
        // A dump does not show the alternative if there is no randomness.
        if ptype == 0 {
            vec![]
        } else {
            vec![(gact::PROB, prob.to_vec())]
        }
    });
    let text = prop::collection::vec(1_u8.., 0..32).prop_map(|mut text| {
        text.push(0);
        vec![(simple::DATA, text)]
    });
    let rate = (from_one(), word(), prop::option::of(word())).prop_map(|(rate, group, cut)| {
        let mut attrs = vec![(sample::RATE, rate)];
        attrs.extend(cut.map(|cut| (sample::TRUNC_SIZE, cut)));
        attrs.push((sample::PSAMPLE_GROUP, group));
        attrs
    });
    let metas = (
        any::<Option<u32>>(),
        any::<Option<u32>>(),
        any::<Option<u16>>(),
    );
    let metas = metas.prop_map(|(mark, prio, index)| {
        let mut w = Writer::new();
        let value = |value: Option<u32>| value.map(self::word).unwrap_or_default();
        w.put(ife::META_SKBMARK, &value(mark));
        w.put(ife::META_PRIO, &value(prio));
        let index = index.map(|index| index.to_ne_bytes().to_vec());
        w.put(ife::META_TCINDEX, &index.unwrap_or_default());
        w.into_vec()
    });
    let short = || {
        any::<u16>()
            .prop_map(|value| value.to_ne_bytes().to_vec())
            .boxed()
    };
    let tail = |value: &dyn FixedTail| value.tail();
    prop_oneof![
        prob.prop_map(|attrs| ("gact", gact::PARMS, vec![], attrs)),
        text.prop_map(|attrs| ("simple", simple::PARMS, vec![], attrs)),
        rate.prop_map(|attrs| ("sample", sample::PARMS, vec![], attrs)),
        some(vec![
            (ife::DMAC, mac()),
            (ife::SMAC, mac()),
            (ife::TYPE, short()),
            (ife::METALST, metas.boxed()),
        ])
        .prop_map(|attrs| ("ife", ife::PARMS, vec![1, 0, 0, 0], attrs)),
        (1..5_i32).prop_map(move |eaction| {
            let parms = TcMirred {
                eaction,
                ifindex: 5,
                ..TcMirred::default()
            };
            ("mirred", mirred::PARMS, tail(&parms), vec![])
        }),
        some(vec![(
            vlan::PUSH_VLAN_PRIORITY,
            (0..8_u8).prop_map(|priority| vec![priority]).boxed()
        )])
        .prop_flat_map(move |more| {
            (0..4096_u16).prop_map(move |id| {
                let mut attrs = vec![(vlan::PUSH_VLAN_ID, id.to_ne_bytes().to_vec())];
                attrs.push((vlan::PUSH_VLAN_PROTOCOL, vec![0x88, 0xa8]));
                attrs.extend(more.clone());
                let parms = TcVlan {
                    v_action: vlan::ACT_PUSH,
                    ..TcVlan::default()
                };
                ("vlan", vlan::PARMS, tail(&parms), attrs)
            })
        }),
        (0..64_u32).prop_map(move |update_flags| {
            let parms = TcCsum {
                update_flags,
                ..TcCsum::default()
            };
            ("csum", csum::PARMS, tail(&parms), vec![])
        }),
        (any::<[[u8; 4]; 2]>(), 0..2_u32).prop_map(move |([old_addr, new_addr], flags)| {
            let parms = TcNat {
                old_addr,
                new_addr,
                mask: [255; 4],
                flags,
                ..TcNat::default()
            };
            ("nat", nat::PARMS, tail(&parms), vec![])
        }),
        some(vec![
            (skbedit::PRIORITY, word()),
            (skbedit::MARK, word()),
            (skbedit::PTYPE, Just(0_u16.to_ne_bytes().to_vec()).boxed()),
        ])
        .prop_map(|attrs| ("skbedit", skbedit::PARMS, vec![], attrs)),
    ]
    .boxed()
}

/// Returns a kind's parameters after the common start.
trait FixedTail {
    fn tail(&self) -> Vec<u8>;
}

impl<T: Fixed> FixedTail for T {
    fn tail(&self) -> Vec<u8> {
        self.to_vec().split_off(20)
    }
}

fn put(w: &mut Writer, options: &Options, index: u32, control: i32) {
    let (_, parms, tail, attrs) = options;
    let start = [gen_parms(index, control).to_vec(), tail.clone()].concat();
    w.put(*parms, &start);
    for (ty, value) in attrs {
        w.put(*ty, value);
    }
}

/// Checks that a dump shows everything requested.
fn shown(
    options: &Options,
    index: u32,
    control: i32,
    dump: &[(u16, Vec<u8>)],
) -> Result<(), String> {
    let (_, parms, tail, attrs) = options;
    let found = |ty| {
        dump.iter()
            .find(|(other, _)| other == ty)
            .map(|(_, value)| value)
    };
    let start = found(parms).ok_or("no parameters")?;
    if start[..4] != index.to_ne_bytes()
        || start[8..12] != control.to_ne_bytes()
        || start[20..] != tail[..]
    {
        return Err(format!("parameters {start:?}"));
    }
    let missing = attrs.iter().find(|(ty, value)| found(ty) != Some(value));
    missing.map_or(Ok(()), |missing| Err(format!("{missing:?} in {dump:?}")))
}

proptest! {
    #![proptest_config(contextualize_config(ProptestConfig::with_cases(200)))]
    #[test]
    fn shown_actions_can_be_requested_again(
        first in options(),
        second in options(),
        index in prop_oneof![Just(0_u32), 1..=u32::MAX],
        control in 0..9_i32,
    ) {
        let stack = Stack::default();
        let kind = first.0;
        let asked = stack.request(&new_action(kind, ADD, |w| put(w, &first, index, control)));
        // Only `skbedit` without any change and `vlan` refuse these requests.
        if asked.is_err() {
            prop_assert!(kind == "skbedit" && first.3.is_empty() || kind == "vlan", "{:?}", asked);
            return Ok(());
        }
        let index = index.max(1);
        let dump = options_of(&stack, kind, index);
        prop_assert_eq!(shown(&first, index, control, &dump), Ok(()));
        // The answer is itself a valid request for the same action, except for the ages.
        let replace = new_action(kind, REPLACE, |w| {
            for (ty, value) in &dump {
                if value.len() != 32 || kind == "simple" && *ty == simple::DATA {
                    w.put(*ty, value);
                }
            }
        });
        prop_assert!(stack.request(&replace).is_ok());
        let again = options_of(&stack, kind, index);
        prop_assert_eq!(&again, &dump);
        // Replaces the action by another of the same kind.
        if second.0 == kind {
            let request = new_action(kind, REPLACE, |w| put(w, &second, index, control));
            if stack.request(&request).is_ok() {
                let dump = options_of(&stack, kind, index);
                prop_assert_eq!(shown(&second, index, control, &dump), Ok(()));
            }
        }
        // Packets must not cause a panic.
        for request in at_ingress(kind, |w| put(w, &first, index, control)) {
            stack.request(&request).unwrap();
        }
        for _ in 0..3 {
            stack.receive(&ipv4(17, [10, 0, 0, 1], [10, 0, 0, 2], 1, 2));
        }
    }
}

#[test]
fn unsupported_kinds_are_refused_by_name() {
    let stack = Stack::default();
    for (kind, sentence) in crate::unsupported::ACTIONS {
        let error = stack.request(&new_action(kind, ADD, |_| {})).unwrap_err();
        assert_eq!(
            (error.errno, error.message.as_deref()),
            (EOPNOTSUPP, Some(*sentence))
        );
    }
    let error = stack
        .request(&new_action("nosuch", ADD, |_| {}))
        .unwrap_err();
    assert_eq!(error.errno, ENOENT);
}

#[test]
fn ife_and_sample_refuse_invalid_requests() {
    let stack = Stack::default();
    let refuse = |kind: &str, options: &dyn Fn(&mut Writer)| {
        let error = stack
            .request(&new_action(kind, ADD, |w| options(w)))
            .unwrap_err();
        (error.errno, error.message.unwrap_or_default().into_owned())
    };
    let plain = (EINVAL, String::new());
    assert_eq!(refuse("ife", &|_| {}), plain);
    let parms = |w: &mut Writer, flags| {
        let common = gen_parms(0, code::PIPE);
        w.put_fixed(
            ife::PARMS,
            &TcIfe {
                common,
                flags,
                pad: 0,
            },
        );
    };
    assert_eq!(refuse("ife", &|w| parms(w, 2)), plain);
    let meta = |id, value: &'static [u8]| {
        move |w: &mut Writer| {
            parms(w, 1);
            let nest = w.nest_noflag(ife::METALST);
            w.put(id, value);
            w.end(nest);
        }
    };
    assert_eq!(
        refuse("ife", &meta(ife::META_HASHID, &[])),
        (ENOENT, String::new())
    );
    assert_eq!(refuse("ife", &meta(ife::META_PRIO, &[1, 2])), plain);
    assert_eq!(
        refuse("ife", &meta(ife::META_TCINDEX, &[1, 2, 3, 4])),
        plain
    );
    let wrong = |w: &mut Writer| {
        w.put_fixed(sample::PARMS, &gen_parms(0, 77));
        w.put_u32(sample::RATE, 0);
        w.put_u32(sample::PSAMPLE_GROUP, 1);
    };
    let control = (EINVAL, "invalid control action".to_owned());
    assert_eq!(refuse("sample", &wrong), control, "before the rate");
    assert!(
        stack.generic.0.lock().unwrap().is_empty(),
        "no group was made"
    );
}
