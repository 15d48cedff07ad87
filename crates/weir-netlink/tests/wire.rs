// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hand-written tests of the wire format: writer against reader, acknowledgements, policies.
#![allow(clippy::unwrap_used)] // Helpers of tests.

use weir_netlink::errno::{EINVAL, ERANGE};
use weir_netlink::*;

static INFO: Policy = policy! { max ifla::info::MAX;
    ifla::info::KIND => Rule::string(0),
    ifla::info::DATA => Rule::nested_any(),
};

static LINK: Policy = policy! { max ifla::MAX;
    ifla::IFNAME => Rule::string(15),
    ifla::ADDRESS => Rule::binary(32),
    ifla::MTU => Rule::u32(),
    ifla::LINKINFO => Rule::nested(&INFO),
    ifla::GROUP => Rule::u32().range(0, 7),
    ifla::NUM_VF => Rule::reject("not yours"),
};

fn link(fill: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut w = Writer::new();
    let m = w.message(rtm::NEWLINK, nlm::F_REQUEST | nlm::F_ACK, 7, 0);
    w.fixed(&IfInfoMsg {
        index: 3,
        ..Default::default()
    });
    fill(&mut w);
    w.finish(m).unwrap();
    w.into_vec()
}

fn refuse(strictness: Strictness, fill: impl FnOnce(&mut Writer)) -> Error {
    let bytes = link(fill);
    let m = messages(&bytes).next().unwrap();
    m.parse::<IfInfoMsg>(&LINK, strictness)
        .err()
        .expect("refused")
}

#[test]
fn written_is_read() {
    let bytes = link(|w| {
        w.put_str(ifla::IFNAME, "eth0");
        let info = w.nest(ifla::LINKINFO);
        w.put_str(ifla::info::KIND, "dummy");
        w.end(info);
        w.put_u32(ifla::MTU, 1400);
    });
    let m = messages(&bytes).next().unwrap();
    assert!(m.is_served() && !m.is_dump());
    let (head, table) = m.parse::<IfInfoMsg>(&LINK, Strictness::Strict).unwrap();
    assert_eq!(head.index, 3);
    assert_eq!(table.str(ifla::IFNAME), Ok(Some("eth0")));
    assert_eq!(table.u32(ifla::MTU), Ok(Some(1400)));
    assert_eq!(table.u32(ifla::GROUP), Ok(None));
    let info = table.get(ifla::LINKINFO).unwrap();
    assert_eq!(info.offset, 32 + 12);
    let info = info.parse(&INFO, Strictness::Strict).unwrap();
    assert_eq!(info.str(ifla::info::KIND), Ok(Some("dummy")));
    assert_eq!(info.get(ifla::info::KIND).unwrap().offset, 32 + 12 + 4);
}

#[test]
fn linux_sentences() {
    use Strictness::*;
    let e = refuse(Liberal, |w| w.put(ifla::MTU, &[1, 2]));
    assert_eq!((e.errno, e.offset), (ERANGE, Some(32)));
    assert_eq!(
        e.message.as_deref(),
        Some("Attribute failed policy validation")
    );
    let e = refuse(DeprecatedStrict, |w| w.put_u32(99, 1));
    assert_eq!(e.message.as_deref(), Some("Unknown attribute type"));
    let e = refuse(Strict, |w| w.put_u32(ifla::TXQLEN, 1));
    assert_eq!(e.message.as_deref(), Some("Unsupported attribute"));
    let e = refuse(Strict, |w| w.put_u64(ifla::MTU, 1));
    assert_eq!(e.message.as_deref(), Some("invalid attribute length"));
    let e = refuse(Strict, |w| w.put(ifla::LINKINFO, &[]));
    assert_eq!(e.message.as_deref(), Some("NLA_F_NESTED is missing"));
    let e = refuse(Strict, |w| w.put_u32(ifla::MTU | nlm::nla::F_NESTED, 1));
    assert_eq!(e.message.as_deref(), Some("NLA_F_NESTED not expected"));
    let e = refuse(Liberal, |w| w.put_u32(ifla::GROUP, 8));
    assert_eq!(e.message.as_deref(), Some("integer out of range"));
    let e = refuse(Liberal, |w| w.put_u32(ifla::NUM_VF, 8));
    assert_eq!((e.errno, e.message.as_deref()), (EINVAL, Some("not yours")));
    let e = refuse(Liberal, |w| w.put_str(ifla::IFNAME, "sixteen-bytes-16"));
    assert_eq!(e.errno, ERANGE);
    let e = refuse(DeprecatedStrict, |w| w.raw(&[1, 0, 0, 0]));
    assert_eq!(
        e.message.as_deref(),
        Some("bytes leftover after parsing attributes")
    );
}

#[test]
fn acknowledgements() {
    let bytes = link(|w| w.put(ifla::MTU, &[1, 2]));
    let m = messages(&bytes).next().unwrap();
    let mut w = Writer::new();
    write_ack(&mut w, &m, 42, None, AckOptions::default()).unwrap();
    assert_eq!(w.len(), 36);
    assert_eq!(refusal(w.bytes()), None);
    let a = messages(w.bytes()).next().unwrap();
    assert_eq!((a.header.flags, a.header.pid), (nlm::F_CAPPED, 42));
    let error = m
        .parse::<IfInfoMsg>(&LINK, Strictness::Liberal)
        .err()
        .unwrap();
    let mut w = Writer::new();
    let ext = AckOptions {
        cap: false,
        ext: true,
    };
    write_ack(&mut w, &m, 42, Some(&error), ext).unwrap();
    let a = messages(w.bytes()).next().unwrap();
    assert_eq!(a.header.flags, nlm::F_ACK_TLVS);
    assert_eq!(a.payload()[..4], (-ERANGE).to_ne_bytes());
    assert_eq!(a.payload()[4..4 + bytes.len()], bytes[..]);
    let tlvs: Vec<_> = a.attrs_after(4 + bytes.len()).collect();
    assert_eq!(
        tlvs.iter().map(|t| t.ty).collect::<Vec<_>>(),
        [nlm::err::MSG, nlm::err::OFFS, nlm::err::POLICY]
    );
    assert_eq!(tlvs[0].str(), Ok("Attribute failed policy validation"));
    assert_eq!(tlvs[1].u32(), Ok(32));
}

#[test]
fn a_message_that_does_not_fit_is_removed() {
    let mut w = Writer::with_limit(100);
    let m = w.message(rtm::NEWLINK, 0, 1, 0);
    w.fixed(&IfInfoMsg::default());
    w.finish(m).unwrap();
    let len = w.len();
    let m = w.message(rtm::NEWLINK, 0, 1, 0);
    w.fixed(&IfInfoMsg::default());
    w.put(ifla::ADDRESS, &[0; 64]);
    w.put_u8(ifla::CARRIER, 1);
    assert_eq!(w.finish(m), Err(Full));
    assert_eq!(w.len(), len);
    assert!(!w.is_full());
}

#[test]
fn a_message_that_does_not_fit_begins_the_next_datagram() {
    const OCTETS: usize = 400;
    let message = |w: &mut Writer, len: usize| {
        let m = w.message(rtm::NEWLINK, 0, len as u32, 0);
        w.put(1, &vec![len as u8; len]);
        w.finish(m)
    };
    // With their headers, the longest of these fill a datagram.
    let all: Vec<usize> = (0..60).map(|n| n * 220 % 400).collect();
    let too_long = OCTETS - 19;
    let (mut one_by_one, mut left) = (Vec::new(), &all[..]);
    while !left.is_empty() {
        let mut w = Writer::with_limit(OCTETS);
        while let Some((&len, behind)) = left.split_first() {
            if message(&mut w, len).is_err() {
                break;
            }
            left = behind;
        }
        one_by_one.push(w.into_vec());
    }
    for count in 1..6 {
        let (mut together, mut left) = (Vec::new(), &all[..]);
        while !left.is_empty() {
            let mut w = Writer::with_datagrams(OCTETS, count);
            while let Some((&len, behind)) = left.split_first() {
                assert!(message(&mut w, too_long).is_err());
                if message(&mut w, len).is_err() {
                    break;
                }
                left = behind;
            }
            let datagrams: Vec<_> = w.into_datagrams().collect();
            assert!(left.is_empty() || datagrams.len() == count);
            together.extend(datagrams);
        }
        assert_eq!(together, one_by_one, "{count} at once");
    }
    assert_eq!(
        Writer::with_datagrams(OCTETS, 3).into_datagrams().count(),
        0
    );
}

#[test]
fn walk_of_a_datagram() {
    let one = link(|w| w.put_u32(ifla::MTU, 1));
    let mut two = [one.clone(), one.clone()].concat();
    assert_eq!(messages(&two).count(), 2);
    let at = one.len();
    two[at..at + 4].copy_from_slice(&200u32.to_ne_bytes());
    assert_eq!(messages(&two).count(), 1);
    two[at..at + 4].copy_from_slice(&15u32.to_ne_bytes());
    assert_eq!(messages(&two).count(), 1);
}

#[test]
fn put_two_equals_two_puts_or_writes_nothing() {
    let mut one_by_one = Writer::new();
    one_by_one.put(1, &[1, 2, 3, 4, 5, 6]);
    one_by_one.put(2, &[7, 8, 9, 10, 11, 12]);
    let put = |limit| {
        let mut w = Writer::with_limit(limit);
        w.put_two(1, [1, 2, 3, 4, 5, 6], 2, [7, 8, 9, 10, 11, 12]);
        w
    };
    assert_eq!(put(24).bytes(), one_by_one.bytes());
    let none = put(23);
    assert!(none.is_empty() && none.is_full());
}
