// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of refusals against a kernel: the parser and the acknowledgement reproduce the bytes of
//! Linux.
//!
//! `record.py` writes `tests/answers/answers.vec`: requests that a policy refuses, and the kernel's
//! reply under each combination of `NETLINK_CAP_ACK` and `NETLINK_EXT_ACK`. The policies are those
//! of `ifla_policy`, `nda_policy`, `tcf_action_policy` and `rtm_nh_policy_new`, as far as the cases
//! need them.

use weir_netlink::*;

static LINK: Policy = policy! { max ifla::MAX;
    ifla::IFNAME => Rule::string(15),
    ifla::ADDRESS => Rule::binary(32),
    ifla::MTU => Rule::u32(),
    ifla::LINKINFO => Rule::nested_any(),
    ifla::NEW_IFINDEX => Rule::s32().min(1),
};

static NEIGH: Policy = policy! { max nda::MAX;
    nda::DST => Rule::binary(32),
    nda::NH_ID => Rule::u32(),
    nda::FLAGS_EXT => Rule::u32().mask(nda::ntf_ext::MANAGED as u64),
}
.strict_from(nda::NH_ID);

static ACTION: Policy = policy! { max tca::act::MAX;
    tca::act::KIND => Rule::string(0),
    tca::act::FLAGS => Rule::bitfield32(7),
};

static NEXTHOP: Policy = policy! { max nexthop::RES_GROUP;
    nexthop::ID => Rule::u32(),
    nexthop::BLACKHOLE => Rule::flag(),
    nexthop::OIF => Rule::u32(),
    nexthop::ENCAP => Rule::nested_any(),
};

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2)
        .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).expect("hexadecimal"))
        .collect()
}

fn refuse(m: &Message<'_>) -> Option<Error> {
    match m.header.ty {
        rtm::NEWLINK => m.parse::<IfInfoMsg>(&LINK, Strictness::Liberal).err(),
        rtm::NEWNEIGH => m.parse::<NdMsg>(&NEIGH, Strictness::Liberal).err(),
        rtm::NEWACTION => {
            let table = m.attrs::<TcaMsg>().find_type(tca::root::TAB)?;
            let action = table.attrs().next()?;
            action.parse(&ACTION, Strictness::Liberal).err()
        }
        _ => m.parse::<NhMsg>(&NEXTHOP, Strictness::Strict).err(),
    }
}

#[test]
fn refusals_are_those_of_linux() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/answers/answers.vec");
    let text = std::fs::read_to_string(path).expect("the recorded answers");
    let (mut name, mut request, mut cases) = ("", Vec::new(), 0);
    for line in text.lines() {
        match line.split_at(2) {
            ("$ ", now) => name = now,
            ("> ", hex) => request = bytes(hex),
            ("< ", hex) => {
                let theirs = bytes(hex);
                let m = messages(&request).next().expect("a request");
                let error = refuse(&m).unwrap_or_else(|| panic!("{name}: taken"));
                let options = AckOptions {
                    cap: name.contains("cap 1"),
                    ext: name.contains("ext 1"),
                };
                let mut w = Writer::new();
                let pid = messages(&theirs).next().expect("an answer").header.pid;
                write_ack(&mut w, &m, pid, Some(&error), options).expect("room");
                let read = refusal(&theirs).expect("a refusal");
                let text = error.message.as_deref().filter(|_| options.ext);
                assert_eq!((read.errno, read.message.as_deref()), (error.errno, text));
                let (ours, theirs) = (print::datagram(w.bytes()), print::datagram(&theirs));
                assert_eq!(ours, theirs, "{name}");
                assert_eq!(w.bytes(), bytes(hex), "{name}");
                cases += 1;
            }
            _ => {}
        }
    }
    assert_eq!(cases, 80);
}
