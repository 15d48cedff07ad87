// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests as tc sends them, and their results.

use weir_netlink::tca::{self, act, flower, gact, root};
use weir_netlink::{Attr, Attrs, Error, Fixed, TcGen, TcMsg, TcaMsg, Writer, errno::*, nlm, rtm};

use crate::testing::{Answer, Stack, vectors};

/// Sends the requests that tc made for a command. Returns the answers to the last one.
fn tc(stack: &Stack, command: &str) -> Result<Vec<Answer>, Error> {
    let all = vectors(include_str!("../../tests/vectors/control.vec"));
    let found = all.into_iter().find(|(recorded, _)| recorded == command);
    let (_, datagrams) = found.unwrap_or_else(|| panic!("not recorded: {command}"));
    assert!(!datagrams.is_empty(), "nothing sent: {command}");
    let mut last = Ok(Vec::new());
    for bytes in datagrams {
        last = stack.request(&bytes);
    }
    last
}

/// Does the same as [`tc`] for commands that must all succeed.
fn ok(stack: &Stack, commands: &[&str]) {
    for command in commands {
        tc(stack, command).unwrap_or_else(|error| panic!("{command}: {error}"));
    }
}

/// Returns the errno and message of a refusal.
fn refused(stack: &Stack, command: &str) -> (i32, String) {
    let error = tc(stack, command).expect_err(command);
    (error.errno, error.message.unwrap_or_default().into_owned())
}

fn attrs(answer: &Answer) -> Attrs<'_> {
    answer.message().attrs::<TcMsg>()
}

fn find<'a>(mut attrs: Attrs<'a>, path: &[u16]) -> Option<Attr<'a>> {
    let (last, path) = path.split_last()?;
    for &ty in path {
        attrs = attrs.find_type(ty)?.attrs();
    }
    attrs.find_type(*last)
}

/// Returns (handle, chain, priority) of each filter in a dump; instances have handle 0.
fn filters(answers: &[Answer]) -> Vec<(u32, u32, u16)> {
    let one = |answer: &Answer| {
        let tcm = answer.message().fixed::<TcMsg>().unwrap();
        let chain = find(attrs(answer), &[tca::CHAIN]).unwrap().u32().unwrap();
        (tcm.handle, chain, tcm.prio())
    };
    answers.iter().map(one).collect()
}

const SHOW: &str = "tc filter show dev d0 ingress";

#[test]
fn qdiscs_are_created_changed_and_deleted() {
    let stack = Stack::default();
    ok(&stack, &["tc qdisc add dev d0 clsact"]);
    assert_eq!(
        refused(&stack, "tc qdisc add dev d0 ingress"),
        (EEXIST, "Exclusivity flag on, cannot modify".into())
    );
    ok(
        &stack,
        &["tc qdisc add dev d0 handle 1: root pfifo limit 10"],
    );
    assert_eq!(
        refused(&stack, "tc qdisc add dev d0 handle 1: root bfifo"),
        (EEXIST, "Exclusivity flag on, cannot modify".into())
    );
    ok(
        &stack,
        &["tc qdisc change dev d0 handle 1: root pfifo limit 20"],
    );
    assert_eq!(
        refused(
            &stack,
            "tc qdisc replace dev d0 handle 1: root bfifo limit 3000b"
        ),
        (EINVAL, "Invalid qdisc name".into())
    );
    let shown = tc(&stack, "tc qdisc show").unwrap();
    let on_d0: Vec<_> = shown
        .iter()
        .filter(|answer| answer.message().fixed::<TcMsg>().unwrap().ifindex == 3)
        .map(|answer| {
            let tcm = answer.message().fixed::<TcMsg>().unwrap();
            let kind = find(attrs(answer), &[tca::KIND]).unwrap();
            (
                kind.str().unwrap().to_owned(),
                tcm.handle,
                tcm.parent,
                tcm.info,
            )
        })
        .collect();
    assert_eq!(
        on_d0,
        [
            ("pfifo".into(), 0x1_0000, u32::MAX, 2),
            ("clsact".into(), 0xffff_0000, tca::h::CLSACT, 1)
        ]
    );
    ok(
        &stack,
        &[
            "tc qdisc del dev d0 handle 1: root",
            "tc qdisc del dev d0 clsact",
        ],
    );
    assert_eq!(
        refused(&stack, "tc qdisc del dev d0 handle 1: root"),
        (EINVAL, "Invalid handle".into())
    );
    assert_eq!(
        refused(&stack, "tc qdisc del dev d0 ingress"),
        (EINVAL, "Invalid handle".into())
    );
    assert_eq!(
        refused(&stack, "tc qdisc add dev d0 root nosuch"),
        (ENOENT, "Specified qdisc kind is unknown".into())
    );
    ok(&stack, &["tc qdisc add dev d0 root pfifo"]);
    let root = stack.heard().pop().unwrap();
    assert_eq!(root.message().fixed::<TcMsg>().unwrap().handle, 0x8001_0000);
}

#[test]
fn a_classful_qdisc_has_classes_children_and_filters() {
    let stack = Stack::default();
    ok(&stack, &["tc qdisc add dev d0 root handle 1: prio"]);
    ok(
        &stack,
        &["tc qdisc add dev d0 parent 1:2 handle 20: pfifo limit 5"],
    );
    let classes = tc(&stack, "tc class show dev d0").unwrap();
    let infos: Vec<_> = classes
        .iter()
        .map(|answer| answer.message().fixed::<TcMsg>().unwrap())
        .map(|tcm| (tcm.handle, tcm.parent, tcm.info))
        .collect();
    assert_eq!(
        infos,
        [
            (0x1_0001, 0x1_0000, 0),
            (0x1_0002, 0x1_0000, 0x20_0000),
            (0x1_0003, 0x1_0000, 0)
        ]
    );
    let visible = tc(&stack, "tc qdisc show").unwrap().len();
    let all = tc(&stack, "tc qdisc show dev d0 invisible").unwrap().len();
    assert_eq!(all - visible, 2);
    ok(
        &stack,
        &["tc filter add dev d0 parent 1: protocol all prio 1 matchall classid 1:3 action pass"],
    );
    ok(
        &stack,
        &[
            "tc qdisc del dev d0 parent 1:2 handle 20:",
            "tc qdisc del dev d0 handle 1: root",
        ],
    );
    assert_eq!(
        tc(&stack, "tc actions list action gact").unwrap().len(),
        0,
        "the filter is gone"
    );
}

#[test]
fn filters_are_found_changed_and_deleted_by_name() {
    let stack = Stack::default();
    assert_eq!(
        refused(&stack, "tc filter add dev d0 ingress matchall action drop"),
        (EINVAL, "Parent Qdisc doesn't exists".into())
    );
    ok(&stack, &["tc qdisc add dev d0 clsact"]);
    let add = "tc filter add dev d0 ingress protocol ip prio 7 handle 5 flower dst_ip 192.0.2.1 action pass";
    ok(
        &stack,
        &[add, "tc filter add dev d0 ingress matchall action drop"],
    );
    ok(
        &stack,
        &["tc filter add dev d0 ingress protocol ip flower dst_ip 192.0.2.0/24 action drop"],
    );
    assert_eq!(
        filters(&tc(&stack, SHOW).unwrap()),
        [
            (0, 0, 7),
            (5, 0, 7),
            (0, 0, 0xbfff),
            (1, 0, 0xbfff),
            (0, 0, 0xc000),
            (1, 0, 0xc000)
        ]
    );
    assert_eq!(
        refused(&stack, add),
        (EEXIST, "Filter already exists".into())
    );
    let text = |text: &str| text.to_owned();
    for (command, errno, words) in [
        (
            "tc filter add dev d0 ingress protocol ip prio 7 u32 match u32 0 0",
            EINVAL,
            "Specified filter kind does not match existing one",
        ),
        (
            "tc filter add dev d0 ingress protocol ipv6 prio 7 flower action pass",
            EINVAL,
            "Filter with specified priority/protocol not found",
        ),
        (
            "tc filter add dev d0 ingress protocol ip prio 7 matchall action pass",
            EINVAL,
            "Specified filter kind does not match existing one",
        ),
        (
            "tc filter change dev d0 ingress protocol ip prio 7 handle 9 flower dst_ip 192.0.2.2 action drop",
            ENOENT,
            "Need both RTM_NEWTFILTER and NLM_F_CREATE to create a new filter",
        ),
        (
            "tc filter del dev d0 ingress protocol ip prio 7 handle 6 flower",
            ENOENT,
            "Specified filter handle not found",
        ),
        (
            "tc filter replace dev d0 ingress protocol ip prio 7 handle 5 flower src_ip 192.0.2.2 action drop",
            EINVAL,
            "",
        ),
        (
            "tc filter add dev d0 ingress protocol ip prio 2 flower skip_sw dst_ip 10.0.0.1 action drop",
            EOPNOTSUPP,
            "",
        ),
        (
            "tc filter add block 22 protocol ip prio 1 flower dst_ip 192.0.2.9 action drop",
            EINVAL,
            "Block of given index was not found",
        ),
        (
            "tc filter add dev d0 parent 1: protocol ip prio 1 matchall",
            EINVAL,
            "Parent Qdisc doesn't exists",
        ),
    ] {
        assert_eq!(refused(&stack, command), (errno, text(words)), "{command}");
    }
    assert_eq!(
        filters(&tc(&stack, SHOW).unwrap()).len(),
        6,
        "refusals change nothing"
    );
    ok(
        &stack,
        &[
            "tc filter replace dev d0 ingress protocol ip prio 7 handle 5 flower dst_ip 192.0.2.2 action drop",
        ],
    );
    let got = tc(
        &stack,
        "tc filter get dev d0 ingress protocol ip prio 7 handle 5 flower",
    )
    .unwrap();
    let dst = find(attrs(&got[0]), &[tca::OPTIONS, flower::KEY_IPV4_DST]).unwrap();
    assert_eq!(dst.payload, [192, 0, 2, 2]);
    stack.heard();
    ok(
        &stack,
        &["tc filter del dev d0 ingress protocol ip prio 7 handle 5 flower"],
    );
    let heard = stack.heard();
    assert_eq!(heard[0].message().header.ty, rtm::DELTFILTER);
    assert_eq!(
        refused(&stack, "tc filter del dev d0 ingress protocol ip prio 7"),
        (
            ENOENT,
            "Filter with specified priority/protocol not found".into()
        ),
        "the last filter removes its priority"
    );
    ok(&stack, &["tc filter del dev d0 ingress"]);
    assert_eq!(filters(&tc(&stack, SHOW).unwrap()), []);
    assert_eq!(tc(&stack, "tc actions list action gact").unwrap().len(), 0);
    ok(&stack, &["tc filter del dev d0 ingress chain 9"]);
}

#[test]
fn chains_live_as_long_as_they_are_referenced() {
    let stack = Stack::default();
    ok(&stack, &["tc qdisc add dev d0 clsact"]);
    ok(
        &stack,
        &["tc filter add dev d0 ingress protocol ip prio 1 flower action goto chain 5"],
    );
    let show = "tc chain show dev d0 ingress";
    let chains = |stack: &Stack| -> Vec<u32> {
        let shown = tc(stack, show).unwrap();
        let chain = |answer| find(attrs(answer), &[tca::CHAIN]).unwrap().u32().unwrap();
        shown.iter().map(chain).collect()
    };
    assert_eq!(
        chains(&stack),
        [0],
        "a chain only actions hold is not shown"
    );
    ok(&stack, &["tc chain add dev d0 ingress chain 5"]);
    assert_eq!(chains(&stack), [0, 5]);
    assert_eq!(
        refused(&stack, "tc chain add dev d0 ingress chain 5"),
        (EEXIST, "Filter chain already exists".into())
    );
    ok(
        &stack,
        &["tc chain add dev d0 ingress chain 6 protocol ip flower dst_ip 0.0.0.0/8"],
    );
    assert_eq!(
        refused(
            &stack,
            "tc chain add dev d0 ingress chain 7 protocol ip matchall"
        ),
        (
            EOPNOTSUPP,
            "Chain templates are not supported with specified classifier".into()
        )
    );
    assert_eq!(chains(&stack), [0, 5, 6]);
    ok(
        &stack,
        &[
            "tc filter add dev d0 ingress chain 6 protocol ip prio 1 flower dst_ip 10.0.0.0/8 action drop",
        ],
    );
    assert_eq!(
        refused(
            &stack,
            "tc filter add dev d0 ingress chain 6 protocol ip prio 1 flower dst_ip 10.1.0.0/16 action drop"
        ),
        (EINVAL, "cls_flower: Mask does not fit the template".into())
    );
    let got = tc(&stack, "tc chain get dev d0 ingress chain 6").unwrap();
    let mask = find(attrs(&got[0]), &[tca::OPTIONS, flower::KEY_IPV4_DST_MASK]).unwrap();
    assert_eq!(mask.payload, [255, 0, 0, 0]);
    ok(&stack, &["tc chain del dev d0 ingress chain 6"]);
    assert_eq!(
        refused(&stack, "tc chain del dev d0 ingress chain 6"),
        (EINVAL, "Cannot find specified filter chain".into())
    );
    stack.heard();
    ok(&stack, &["tc filter del dev d0 ingress"]);
    assert_eq!(chains(&stack), [5]);
    let types: Vec<u16> = stack
        .heard()
        .iter()
        .map(|answer| answer.message().header.ty)
        .collect();
    assert_eq!(types, [rtm::DELTFILTER, rtm::DELCHAIN]);
}

#[test]
fn blocks_are_shared_by_index() {
    let stack = Stack::default();
    ok(
        &stack,
        &["tc qdisc add dev d0 ingress_block 22 egress_block 23 clsact"],
    );
    assert_eq!(
        refused(&stack, "tc filter add dev d0 ingress matchall action drop"),
        (
            EOPNOTSUPP,
            "This filter block is shared. Please use the block index to manipulate the filters"
                .into()
        )
    );
    ok(
        &stack,
        &["tc filter add block 22 protocol ip prio 1 flower dst_ip 192.0.2.9 action drop"],
    );
    let show = || {
        let mut bytes = Vec::new();
        for (command, datagrams) in vectors(include_str!("../../tests/vectors/control.vec")) {
            if command == SHOW {
                bytes = datagrams[0].clone();
            }
        }
        // Index and parent follow the message header and the family.
        bytes[20..24].copy_from_slice(&(-1_i32).to_ne_bytes());
        bytes[28..32].copy_from_slice(&22_u32.to_ne_bytes());
        stack.request(&bytes).unwrap()
    };
    let shown = show();
    assert_eq!(filters(&shown), [(0, 0, 1), (1, 0, 1)]);
    let tcm = shown[0].message().fixed::<TcMsg>().unwrap();
    assert_eq!((tcm.ifindex, tcm.parent), (-1, 22));
    ok(&stack, &["tc qdisc del dev d0 clsact"]);
    assert!(show().is_empty());
    assert_eq!(tc(&stack, "tc actions list action gact").unwrap().len(), 0);
}

/// Returns (index, control action, references, binds) of each action in answers.
fn actions(answers: &[Answer]) -> Vec<(u32, i32, i32, i32)> {
    let mut all = Vec::new();
    for answer in answers {
        let tab = answer
            .message()
            .attrs::<TcaMsg>()
            .find_type(root::TAB)
            .unwrap();
        for nest in tab.attrs() {
            let parms = find(nest.attrs(), &[act::OPTIONS, gact::PARMS]).unwrap();
            let g = TcGen::from_bytes(parms.payload).unwrap();
            all.push((g.index, g.action, g.refcnt, g.bindcnt));
        }
    }
    all
}

#[test]
fn actions_are_created_shared_and_counted() {
    let stack = Stack::default();
    let list = |stack: &Stack| actions(&tc(stack, "tc actions list action gact").unwrap());
    ok(&stack, &["tc actions add action pass index 8"]);
    assert_eq!(
        refused(&stack, "tc actions add action drop index 8").0,
        EEXIST
    );
    ok(&stack, &["tc actions replace action drop index 8"]);
    assert_eq!(list(&stack), [(8, 2, 1, 0)]);
    ok(
        &stack,
        &["tc actions add action pass random determ drop 3 index 9 cookie aabbcc"],
    );
    let got = tc(&stack, "tc actions get action gact index 9").unwrap();
    assert_eq!(actions(&got), [(9, 0, 1, 0)]);
    let tab = got[0].message().attrs::<TcaMsg>();
    let cookie = find(tab, &[root::TAB, 1, act::COOKIE]).unwrap();
    assert_eq!(cookie.payload, [0xaa, 0xbb, 0xcc]);
    ok(
        &stack,
        &["tc actions add action pass random netrand drop 3 index 10 no_percpu"],
    );
    let got = tc(&stack, "tc actions get action gact index 10").unwrap();
    let flags = find(
        got[0].message().attrs::<TcaMsg>(),
        &[root::TAB, 1, act::FLAGS],
    )
    .unwrap();
    assert_eq!(flags.bitfield32().unwrap(), (1, 1));
    for (command, errno, words) in [
        (
            "tc actions add action goto chain 5",
            EINVAL,
            "can't goto NULL proto/chain",
        ),
        (
            "tc actions add action pass random determ goto chain 1 2 index 90",
            EINVAL,
            "goto chain not allowed on fallback",
        ),
        ("tc actions add action pass skip_sw", EINVAL, ""),
        ("tc actions add action continue skip_sw", EOPNOTSUPP, ""),
        (
            "tc actions add action nat ingress 192.0.2.1 192.0.2.2 skip_sw",
            EOPNOTSUPP,
            "",
        ),
        (
            "tc actions add action pedit munge ip ttl set 3 skip_sw",
            EOPNOTSUPP,
            "",
        ),
        (
            "tc actions add action police rate 1mbit burst 10k conform-exceed reclassify skip_sw",
            EOPNOTSUPP,
            "act_api: Failed to setup tc actions for offload",
        ),
        (
            "tc actions add action police rate 1mbit burst 10k conform-exceed drop/pipe skip_sw",
            EINVAL,
            "",
        ),
        ("tc actions add action mpls dec_ttl skip_sw", EOPNOTSUPP, ""),
        (
            "tc actions add action mpls pop protocol ip skip_sw",
            EINVAL,
            "",
        ),
        ("tc actions add action skbedit mark 3 skip_sw", EINVAL, ""),
        (
            "tc actions add action skbedit mark 3 priority 4 skip_sw",
            EOPNOTSUPP,
            "",
        ),
        (
            "tc actions add action skbedit queue_mapping 3 skip_sw",
            EOPNOTSUPP,
            "",
        ),
        ("tc actions add action vlan pop skip_sw", EINVAL, ""),
        ("tc actions add action csum ip skip_sw", EINVAL, ""),
        (
            "tc actions get action gact index 8888",
            ENOENT,
            "TC action with specified index not found",
        ),
    ] {
        assert_eq!(
            refused(&stack, command),
            (errno, words.to_owned()),
            "{command}"
        );
    }
    ok(
        &stack,
        &["tc actions add action pass action drop action continue"],
    );
    assert_eq!(
        list(&stack),
        [
            (1, 0, 1, 0),
            (2, 2, 1, 0),
            (3, -1, 1, 0),
            (8, 2, 1, 0),
            (9, 0, 1, 0),
            (10, 0, 1, 0)
        ]
    );
    ok(&stack, &["tc qdisc add dev d0 clsact"]);
    ok(
        &stack,
        &[
            "tc filter add dev d0 ingress protocol all prio 1 handle 0x1234 matchall action gact index 8",
        ],
    );
    assert_eq!(
        refused(&stack, "tc actions del action gact index 8"),
        (EPERM, "Failed to delete TC action".into())
    );
    ok(&stack, &["tc actions flush action gact"]);
    assert_eq!(
        list(&stack),
        [(8, 2, 2, 1), (9, 0, 1, 0), (10, 0, 1, 0)],
        "up to the bound one"
    );
    assert_eq!(refused(&stack, "tc actions flush action gact").0, EPERM);
    ok(&stack, &["tc filter del dev d0 ingress"]);
    ok(&stack, &["tc actions flush action gact"]);
    assert_eq!(list(&stack), []);
}

#[test]
fn a_dump_of_actions_can_be_brief_or_recent() {
    let stack = Stack::default();
    ok(&stack, &["tc actions add action pass index 8"]);
    let brief = tc(&stack, "tc -br actions list action gact").unwrap();
    let tab = brief[0].message().attrs::<TcaMsg>();
    assert_eq!(find(tab, &[root::TAB, 0, act::INDEX]).unwrap().u32(), Ok(8));
    assert!(find(tab, &[root::TAB, 0, act::OPTIONS]).is_none());
    assert_eq!(find(tab, &[root::COUNT]).unwrap().u32(), Ok(1));
    stack
        .now
        .fetch_add(5_000_000_000, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(
        actions(&tc(&stack, "tc actions list action gact since 1000").unwrap()),
        []
    );
    assert_eq!(
        actions(&tc(&stack, "tc actions list action gact").unwrap()).len(),
        1
    );
}

#[test]
fn many_filters_and_actions_are_dumped_across_datagrams() {
    let stack = Stack::default();
    ok(&stack, &["tc qdisc add dev d0 clsact"]);
    let all = vectors(include_str!("../../tests/vectors/control.vec"));
    let add = "tc filter add dev d0 ingress protocol ip prio 7 handle 5 flower dst_ip 192.0.2.1 action pass";
    let (_, datagrams) = all.into_iter().find(|(command, _)| command == add).unwrap();
    let mut bytes = datagrams[0].clone();
    let dst = bytes
        .windows(4)
        .position(|window| window == [192, 0, 2, 1])
        .unwrap();
    for i in 1..=200_u8 {
        bytes[dst + 3] = i;
        // The handle follows the message header, the family and the index.
        bytes[24..28].copy_from_slice(&u32::from(i).to_ne_bytes());
        stack.request(&bytes).unwrap();
    }
    let shown = filters(&tc(&stack, SHOW).unwrap());
    let handles: Vec<u32> = shown.iter().map(|filter| filter.0).collect();
    assert_eq!(handles, (0..=200).collect::<Vec<_>>());
    let listed = actions(&tc(&stack, "tc actions list action gact").unwrap());
    assert_eq!(listed.len(), 200);
    assert!(listed.iter().all(|action| action.2 == 1 && action.3 == 1));
    ok(&stack, &["tc qdisc del dev d0 clsact"]);
    assert_eq!(tc(&stack, "tc actions list action gact").unwrap().len(), 0);
}

#[test]
fn police_is_shown_as_requested() {
    let stack = Stack::default();
    ok(
        &stack,
        &[
            "tc actions add action police rate 1mbit burst 10k mtu 2000 conform-exceed drop/pipe index 7",
        ],
    );
    let got = tc(&stack, "tc actions get action police index 7").unwrap();
    let tab = got[0].message().attrs::<TcaMsg>();
    let tbf = find(tab, &[root::TAB, 1, act::OPTIONS, tca::police::TBF]).unwrap();
    let police = weir_netlink::TcPolice::from_bytes(tbf.payload).unwrap();
    assert_eq!((police.index, police.action, police.mtu), (7, 2, 2000));
    assert_eq!(
        (police.rate.rate, police.refcnt, police.bindcnt),
        (125_000, 1, 0)
    );
    let result = find(tab, &[root::TAB, 1, act::OPTIONS, tca::police::RESULT]).unwrap();
    assert_eq!(result.u32(), Ok(3));
    ok(
        &stack,
        &["tc actions add action police pkts_rate 1000 pkts_burst 10 index 8"],
    );
}

/// For all supported keys, every attribute of a flower request is shown in the dump as it was sent.
/// Other keys are refused with a message.
#[test]
fn flower_shows_the_keys_it_was_given() {
    let recording = include_str!("../../../weir-netlink/tests/vectors/filter.vec");
    let mut shown = 0;
    for (command, datagrams) in vectors(recording) {
        if !command.starts_with("tc filter add")
            || !command.contains("flower")
            || command.contains("block")
            || command.contains("goto")
        {
            continue;
        }
        let stack = Stack::default();
        ok(&stack, &["tc qdisc add dev d0 clsact"]);
        let Err(error) = stack.request(&datagrams[0]) else {
            let mut heard = stack.heard().into_iter();
            let heard = heard
                .rfind(|a| a.message().header.ty == rtm::NEWTFILTER)
                .unwrap();
            let sent = Answer(datagrams[0].clone());
            let pick = |answer: &Answer| {
                let options = attrs(answer).find_type(tca::OPTIONS).unwrap();
                let all = options.attrs().filter(|attr| {
                    !matches!(attr.ty, flower::ACT | flower::FLAGS | flower::IN_HW_COUNT)
                });
                let mut all: Vec<(u16, Vec<u8>)> = all
                    .map(|attr| {
                        let mut value = attr.payload.to_vec();
                        // Linux shows the attributes of this nest in another order than tc sends
                        // them.
                        if attr.ty == flower::KEY_MPLS_OPTS {
                            value.sort_unstable();
                        }
                        // The inner nest of these is shown without the nest flag.
                        if let flower::KEY_ENC_OPTS | flower::KEY_ENC_OPTS_MASK = attr.ty {
                            value[3] &= 0x7f;
                        }
                        // A short label is padded.
                        if attr.ty == flower::KEY_CT_LABELS {
                            value.resize(16, 0);
                        }
                        (attr.ty, value)
                    })
                    .collect();
                all.sort();
                all
            };
            let (sent, heard) = (pick(&sent), pick(&heard));
            // For tagged packets and PPPoE, Linux shows the inner protocol as the Ethertype.
            let tagged = command.contains("vlan") || command.contains("pppoe");
            let lost = sent.iter().filter(|attr| !heard.contains(attr));
            let lost = lost.filter(|attr| !(tagged && attr.0 == flower::KEY_ETH_TYPE));
            let lost: Vec<_> = lost.collect();
            assert!(lost.is_empty(), "{command}: lost {lost:?}, shown {heard:?}");
            shown += 1;
            continue;
        };
        let words = error.message.clone().unwrap_or_default();
        assert!(
            command.contains("skip_sw")
                || command.contains("replace")
                || command.contains("change")
                || error.errno == EINVAL
                || error.errno == EOPNOTSUPP,
            "{command}: {error} {words}"
        );
    }
    assert!(shown >= 15, "{shown}");
}

/// Requests with changed, truncated or repeated bytes are answered without a panic, and the stack
/// still works.
#[test]
fn damaged_requests_cause_no_panic() {
    let all: Vec<_> = vectors(include_str!("../../tests/vectors/control.vec"))
        .into_iter()
        .chain(vectors(include_str!(
            "../../../weir-netlink/tests/vectors/filter.vec"
        )))
        .chain(vectors(include_str!(
            "../../../weir-netlink/tests/vectors/action.vec"
        )))
        .chain(vectors(include_str!(
            "../../../weir-netlink/tests/vectors/qdisc.vec"
        )))
        .flat_map(|(_, datagrams)| datagrams)
        .collect();
    let mut seed = 7_u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize % below.max(1)
    };
    for _ in 0..20 {
        let stack = Stack::default();
        for _ in 0..600 {
            let mut bytes = all[random(all.len())].clone();
            for _ in 0..random(4) {
                // Only bytes after the header change, so that it stays a message.
                let at = 16 + random(bytes.len() - 16);
                bytes[at] = match random(3) {
                    0 => random(256) as u8,
                    1 => bytes[at] ^ 1 << random(8),
                    _ => [0, 1, 4, 0x7f, 0x80, 0xff][random(6)],
                };
            }
            if random(8) == 0 {
                bytes.truncate(16 + random(bytes.len() - 16));
                let len = (bytes.len() as u32).to_ne_bytes();
                bytes[..4].copy_from_slice(&len);
            }
            let _ = stack.request(&bytes);
            stack.heard();
        }
        stack.receive(&crate::testing::ipv4(
            17,
            [192, 0, 2, 1],
            [192, 0, 2, 2],
            1,
            53,
        ));
        tc(&stack, "tc qdisc show").unwrap();
        tc(&stack, SHOW).unwrap();
    }
}

#[test]
fn unsupported_qdiscs_are_refused_by_name() {
    let stack = Stack::default();
    for (kind, sentence) in crate::unsupported::QDISCS {
        let mut w = Writer::new();
        let flags = nlm::F_REQUEST | nlm::F_CREATE | nlm::F_EXCL;
        let mark = w.message(rtm::NEWQDISC, flags, 1, 0);
        w.fixed(&TcMsg {
            ifindex: 3,
            parent: tca::h::ROOT,
            ..TcMsg::default()
        });
        w.put_str(tca::KIND, kind);
        w.finish(mark).unwrap();
        let error = stack.request(&w.into_vec()).unwrap_err();
        assert_eq!(
            (error.errno, error.message.as_deref()),
            (EOPNOTSUPP, Some(*sentence))
        );
    }
}
