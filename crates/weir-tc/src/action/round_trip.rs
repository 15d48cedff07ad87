// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests of random parameters, many of them wrong: what is taken is shown as it was asked for; what is
//! refused leaves no action behind, and one that is there as it was.

use proptest::prelude::*;
use proptest::test_runner::contextualize_config;
use weir_netlink::errno::ENOENT;
use weir_netlink::tca::{act, gate, mpls, pedit, police, root, skbmod, tunnel_key};
use weir_netlink::{Fixed, TcGen, TcPolice, TcRateSpec, TcaMsg, Writer, nlm, rtm};

use super::requests::{gen_parms, new_action, options_of};
use crate::testing::Stack;

const ADD: u16 = nlm::F_CREATE | nlm::F_EXCL;
const REPLACE: u16 = nlm::F_CREATE | nlm::F_REPLACE;
const INDEX: u32 = 7;
/// `NLA_F_NESTED`
const NESTED: u16 = 1 << 15;

/// A kind, and its options: the parameters first.
type Asked = (&'static str, Vec<(u16, Vec<u8>)>);

fn word(value: u32) -> Vec<u8> {
    value.to_ne_bytes().to_vec()
}

/// Control actions, one in eight of them none.
fn control() -> impl Strategy<Value = i32> {
    prop_oneof![7 => 0..9_i32, 1 => Just(77)]
}

/// Each attribute of `of` or not, in front of it the parameters `start` makes.
fn with(
    kind: &'static str,
    start: BoxedStrategy<(u16, Vec<u8>)>,
    of: Vec<(u16, BoxedStrategy<Vec<u8>>)>,
) -> BoxedStrategy<Asked> {
    let one = |(ty, value): (u16, BoxedStrategy<Vec<u8>>)| {
        prop::option::weighted(0.6, value.prop_map(move |value| (ty, value)))
    };
    let attrs: Vec<_> = of.into_iter().map(one).collect();
    (start, attrs)
        .prop_map(move |(start, attrs)| {
            let all = [start].into_iter().chain(attrs.into_iter().flatten());
            (kind, all.collect())
        })
        .boxed()
}

/// The common start and what a kind has behind it.
fn parms(ty: u16, tail: BoxedStrategy<Vec<u8>>) -> BoxedStrategy<(u16, Vec<u8>)> {
    (control(), tail)
        .prop_map(move |(control, tail)| (ty, [gen_parms(INDEX, control).to_vec(), tail].concat()))
        .boxed()
}

fn octets(range: std::ops::RangeInclusive<u8>) -> BoxedStrategy<Vec<u8>> {
    range.prop_map(|octet| vec![octet]).boxed()
}

fn long(from: u64, to: u64) -> BoxedStrategy<Vec<u8>> {
    let value = from..=to;
    value.prop_map(|value| value.to_ne_bytes().to_vec()).boxed()
}

fn of_mpls() -> BoxedStrategy<Asked> {
    let mode = (0..=6_u32).prop_map(word).boxed();
    let proto = prop::sample::select(vec![0x8847_u16, 0x8848, 0x0800, 0x0100]);
    with(
        "mpls",
        parms(mpls::PARMS, mode),
        vec![
            (
                mpls::LABEL,
                prop_oneof![0..8_u32, 0..1_u32 << 21].prop_map(word).boxed(),
            ),
            (mpls::TC, octets(0..=8)),
            (mpls::TTL, octets(0..=255)),
            (mpls::BOS, octets(0..=2)),
            (
                mpls::PROTO,
                proto.prop_map(|p| p.to_be_bytes().to_vec()).boxed(),
            ),
        ],
    )
}

fn of_skbmod() -> BoxedStrategy<Asked> {
    let mac = || any::<[u8; 6]>().prop_map(|mac| mac.to_vec()).boxed();
    let number = any::<u16>().prop_map(|n| n.to_ne_bytes().to_vec()).boxed();
    let attrs = vec![
        (skbmod::DMAC, mac()),
        (skbmod::SMAC, mac()),
        (skbmod::ETYPE, number),
    ];
    let set = with(
        "skbmod",
        parms(skbmod::PARMS, Just(vec![0; 12]).boxed()),
        attrs,
    );
    // The flags follow from what is set.
    let set = set.prop_map(|(kind, mut all)| {
        let flags = all[1..].iter().fold(0, |flags, (ty, _)| match *ty {
            skbmod::DMAC => flags | skbmod::SKBMOD_F_DMAC,
            skbmod::SMAC => flags | skbmod::SKBMOD_F_SMAC,
            _ => flags | skbmod::SKBMOD_F_ETYPE,
        });
        all[0].1[24..].copy_from_slice(&u64::to_ne_bytes(flags));
        (kind, all)
    });
    let flags = prop_oneof![Just(skbmod::SKBMOD_F_SWAPMAC), Just(skbmod::SKBMOD_F_ECN)];
    let tail = flags.prop_map(|flags| [vec![0; 4], flags.to_ne_bytes().to_vec()].concat());
    prop_oneof![
        set,
        with("skbmod", parms(skbmod::PARMS, tail.boxed()), vec![])
    ]
    .boxed()
}

fn of_tunnel_key() -> BoxedStrategy<Asked> {
    let four = || any::<[u8; 4]>().prop_map(|octets| octets.to_vec()).boxed();
    let sixteen = || any::<[u8; 16]>().prop_map(|octets| octets.to_vec()).boxed();
    let ends = prop_oneof![
        3 => (four(), four()).prop_map(|(src, dst)| {
            vec![(tunnel_key::ENC_IPV4_SRC, src), (tunnel_key::ENC_IPV4_DST, dst)]
        }),
        2 => (sixteen(), sixteen()).prop_map(|(src, dst)| {
            vec![(tunnel_key::ENC_IPV6_SRC, src), (tunnel_key::ENC_IPV6_DST, dst)]
        }),
        1 => four().prop_map(|src| vec![(tunnel_key::ENC_IPV4_SRC, src)]),
    ];
    let mode = tunnel_key::ACT_SET as u32;
    let port = (1..=u16::MAX)
        .prop_map(|port| port.to_be_bytes().to_vec())
        .boxed();
    let set = with(
        "tunnel_key",
        parms(tunnel_key::PARMS, Just(word(mode)).boxed()),
        vec![
            (tunnel_key::ENC_KEY_ID, four()),
            (tunnel_key::ENC_DST_PORT, port),
            (tunnel_key::NO_CSUM, octets(0..=1)),
            (tunnel_key::ENC_TOS, octets(1..=255)),
            (tunnel_key::ENC_TTL, octets(1..=255)),
        ],
    );
    let set = (set, ends).prop_map(|((kind, mut all), ends)| {
        all.extend(ends);
        (kind, all)
    });
    let other = prop_oneof![Just(tunnel_key::ACT_RELEASE as u32), Just(9)].prop_map(word);
    let other = with(
        "tunnel_key",
        parms(tunnel_key::PARMS, other.boxed()),
        vec![],
    );
    prop_oneof![4 => set, 1 => other].boxed()
}

fn of_pedit() -> BoxedStrategy<Asked> {
    // Mask, value, and a place: no multiple of 4 here and there.
    let place = prop_oneof![9 => (0..400_u32).prop_map(|n| n * 4), 1 => 0..400_u32];
    let key = (any::<u32>(), any::<u32>(), place);
    let key = key.prop_map(|(mask, value, off)| [mask, value, off, 0, 0, 0].map(word).concat());
    let keys = (prop::collection::vec(key, 0..5), prop::bool::weighted(0.1));
    let tail = keys.prop_map(|(keys, short)| {
        let count = keys.len() as u8 + u8::from(short);
        [vec![count, 0, 0, 0], keys.concat()].concat()
    });
    with("pedit", parms(pedit::PARMS, tail.boxed()), vec![])
}

fn of_gate() -> BoxedStrategy<Asked> {
    let entry = (any::<bool>(), 0_u32..3_000_000, any::<u32>(), any::<u32>());
    let entries = prop::collection::vec(entry, 0..5).prop_map(|entries| {
        let mut w = Writer::new();
        for (index, (open, interval, octets, priority)) in (0..).zip(entries) {
            let nest = w.nest(gate::ONE_ENTRY);
            w.put_u32(gate::ENTRY_INDEX, index);
            if open {
                w.put_flag(gate::ENTRY_GATE);
            }
            w.put_u32(gate::ENTRY_INTERVAL, interval);
            w.put_u32(gate::ENTRY_MAX_OCTETS, octets);
            w.put_u32(gate::ENTRY_IPV, priority);
            w.end(nest);
        }
        w.into_vec()
    });
    let clock = prop::sample::select(vec![0_u32, 1, 7, 11, 5]);
    with(
        "gate",
        parms(gate::PARMS, Just(vec![]).boxed()),
        vec![
            (gate::PRIORITY, any::<u32>().prop_map(word).boxed()),
            (gate::ENTRY_LIST | NESTED, entries.boxed()),
            (gate::BASE_TIME, long(0, 1 << 61)),
            (gate::CYCLE_TIME, long(1000, 1 << 40)),
            (gate::CYCLE_TIME_EXT, long(0, 1 << 40)),
            (gate::CLOCKID, clock.prop_map(word).boxed()),
        ],
    )
}

fn of_police() -> BoxedStrategy<Asked> {
    let rate = || prop_oneof![Just(0_u32), 1000..=u32::MAX];
    let numbers = (rate(), rate(), any::<u32>(), 1..=u32::MAX, control());
    let start = numbers.prop_map(|(rate, peak, burst, mtu, action)| {
        let spec = |rate| TcRateSpec {
            rate,
            cell_log: 3,
            linklayer: 1,
            ..TcRateSpec::default()
        };
        // A peak rate counts beside a rate only, and none is as good as none asked for.
        let some = |rate| {
            if rate == 0 {
                TcRateSpec::default()
            } else {
                spec(rate)
            }
        };
        let parms = TcPolice {
            index: INDEX,
            action,
            burst,
            mtu,
            rate: some(rate),
            peakrate: some(if rate == 0 { 0 } else { peak }),
            ..TcPolice::default()
        };
        (police::TBF, parms.to_vec())
    });
    with(
        "police",
        start.boxed(),
        vec![
            (police::RATE, Just(vec![1; 1024]).boxed()),
            (police::PEAKRATE, Just(vec![1; 1024]).boxed()),
            (
                police::RESULT,
                prop_oneof![1..9_u32, Just(77)].prop_map(word).boxed(),
            ),
            (police::PKTRATE64, long(1, 1 << 40)),
            (police::PKTBURST64, long(1, 1 << 40)),
        ],
    )
}

fn asked() -> BoxedStrategy<Asked> {
    prop_oneof![
        of_mpls(),
        of_skbmod(),
        of_tunnel_key(),
        of_pedit(),
        of_gate(),
        of_police()
    ]
    .boxed()
}

fn request(stack: &Stack, (kind, options): &Asked, flags: u16) -> bool {
    let all = |w: &mut Writer| {
        for (ty, value) in options {
            w.put(*ty, value);
        }
    };
    stack.request(&new_action(kind, flags, all)).is_ok()
}

/// What of a value a dump shows: counts of references are its own, and of a rate the table's cells are not
/// kept.
fn comparable(kind: &str, ty: u16, value: &[u8]) -> Vec<u8> {
    let mut value = value.to_vec();
    if kind == "police" && ty == police::TBF {
        if let Some(mut parms) = TcPolice::from_bytes(&value) {
            (parms.refcnt, parms.bindcnt) = (0, 0);
            (parms.rate.cell_log, parms.peakrate.cell_log) = (0, 0);
            value = parms.to_vec();
        }
    } else if ty == 2 && value.len() >= TcGen::LEN {
        // `PARMS` of all others.
        value[12..20].fill(0);
    } else if kind == "gate" && ty == gate::ENTRY_LIST {
        // The flag of each nest is not shown.
        let mut w = Writer::new();
        for entry in weir_netlink::attrs(&value) {
            w.put(entry.ty, entry.payload);
        }
        value = w.into_vec();
    }
    value
}

/// The options shown, without ages.
fn shown(stack: &Stack, kind: &str) -> Vec<(u16, Vec<u8>)> {
    let mut all = options_of(stack, kind, INDEX);
    let ages = if kind == "police" { police::TM } else { 1 };
    all.retain(|(ty, _)| *ty != ages);
    all
}

fn check(stack: &Stack, (kind, options): &Asked) -> Result<(), TestCaseError> {
    let shown = shown(stack, kind);
    for (ty, value) in options {
        let ty = ty & !NESTED;
        if *kind == "police" && matches!(ty, police::RATE | police::PEAKRATE) {
            continue;
        }
        // An empty list leaves the entries there are.
        if *kind == "gate" && ty == gate::ENTRY_LIST && value.is_empty() {
            continue;
        }
        let found = shown.iter().find(|(other, _)| *other == ty);
        let found = found.map(|(_, value)| comparable(kind, ty, value));
        prop_assert_eq!(found, Some(comparable(kind, ty, value)), "{} {}", kind, ty);
    }
    Ok(())
}

/// Whether there is an action of a kind.
fn exists(stack: &Stack, kind: &str) -> bool {
    let mut w = Writer::new();
    let mark = w.message(rtm::GETACTION, nlm::F_REQUEST, 1, 0);
    w.fixed(&TcaMsg::default());
    let list = w.nest_noflag(root::TAB);
    let first = w.nest_noflag(1);
    w.put_str(act::KIND, kind);
    w.put_u32(act::INDEX, INDEX);
    w.end(first);
    w.end(list);
    w.finish(mark).unwrap();
    match stack.request(w.bytes()) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.errno, ENOENT);
            false
        }
    }
}

proptest! {
    #![proptest_config(contextualize_config(ProptestConfig::with_cases(400)))]
    #[test]
    fn accepted_requests_are_shown_and_refused_ones_change_nothing(
        requests in prop::collection::vec(asked(), 1..12),
    ) {
        let stack = Stack::default();
        for asked in requests {
            let kind = asked.0;
            if !exists(&stack, kind) {
                match request(&stack, &asked, ADD) {
                    true => check(&stack, &asked)?,
                    false => prop_assert!(!exists(&stack, kind)),
                }
                continue;
            }
            let before = shown(&stack, kind);
            prop_assert!(!request(&stack, &asked, ADD), "it is there");
            prop_assert_eq!(&shown(&stack, kind), &before);
            match request(&stack, &asked, REPLACE) {
                true => check(&stack, &asked)?,
                false => prop_assert_eq!(&shown(&stack, kind), &before),
            }
        }
    }
}
