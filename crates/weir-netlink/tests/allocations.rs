// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that reading does not allocate. The message has 448 bytes: flower with 17 keys,
//! tunnel_key, mirred and gact.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::Ipv4Addr;

use weir_netlink::tca::{act, flower};
use weir_netlink::*;

/// An allocator that counts the allocations of each thread.
struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

#[allow(unsafe_code)] // A global allocator is unsafe to implement.
// SAFETY: passes all calls to the system's allocator, which upholds the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: `at` came from `alloc` above with this layout.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static TOP: Policy = policy! { max tca::MAX;
    tca::KIND => Rule::string(0), tca::CHAIN => Rule::u32(), tca::OPTIONS => Rule::nested_any(),
};

static FLOWER: Policy = policy! { max flower::MAX;
    flower::CLASSID => Rule::u32(), flower::ACT => Rule::nested_any(),
    flower::KEY_ETH_DST => Rule::binary(6), flower::KEY_ETH_DST_MASK => Rule::binary(6),
    flower::KEY_ETH_SRC => Rule::binary(6), flower::KEY_ETH_SRC_MASK => Rule::binary(6),
    flower::KEY_ETH_TYPE => Rule::u16(), flower::KEY_IP_PROTO => Rule::u8(),
    flower::KEY_IPV4_SRC => Rule::u32(), flower::KEY_IPV4_SRC_MASK => Rule::u32(),
    flower::KEY_IPV4_DST => Rule::u32(), flower::KEY_IPV4_DST_MASK => Rule::u32(),
    flower::KEY_TCP_SRC => Rule::u16(), flower::KEY_TCP_DST => Rule::u16(),
    flower::KEY_TCP_SRC_MASK => Rule::u16(), flower::KEY_TCP_DST_MASK => Rule::u16(),
    flower::FLAGS => Rule::u32(), flower::KEY_IP_TTL => Rule::u8(),
    flower::KEY_IP_TTL_MASK => Rule::u8(),
};

static ACTION: Policy = policy! { max act::MAX;
    act::KIND => Rule::string(0), act::OPTIONS => Rule::nested_any(),
    act::FLAGS => Rule::bitfield32(7), act::INDEX => Rule::u32(), act::COOKIE => Rule::binary(16),
};

static PARMS: Policy = policy! { max 13; 1 => Rule::unspec(0), 2 => Rule::unspec(20),
    3 => Rule::u32(), 4 => Rule::u32(), 7 => Rule::u32(), 9 => Rule::u16(), 10 => Rule::u8(),
};

fn action(w: &mut Writer, number: u16, kind: &str, options: impl FnOnce(&mut Writer)) {
    let action = w.nest(number);
    w.put_str(act::KIND, kind);
    let nest = w.nest(act::OPTIONS);
    options(w);
    w.end(nest);
    w.put_bitfield32(act::FLAGS, 1, 1);
    w.end(action);
}

fn write(w: &mut Writer) {
    let head = TcMsg {
        ifindex: 2,
        parent: 0xffff_fff2,
        info: TcMsg::make_info(1, eth::P_IP),
        ..Default::default()
    };
    let m = w.message(rtm::NEWTFILTER, nlm::F_REQUEST | nlm::F_CREATE, 1, 0);
    w.fixed(&head);
    w.put_str(tca::KIND, "flower");
    let options = w.nest(tca::OPTIONS);
    w.put_be16(flower::KEY_ETH_TYPE, eth::P_IP);
    for ty in [
        flower::KEY_ETH_DST,
        flower::KEY_ETH_DST_MASK,
        flower::KEY_ETH_SRC,
        flower::KEY_ETH_SRC_MASK,
    ] {
        w.put(ty, &[2, 0, 0, 0, 0, 1]);
    }
    w.put_u8(flower::KEY_IP_PROTO, 6);
    for ty in flower::KEY_IPV4_SRC..=flower::KEY_IPV4_DST_MASK {
        w.put_ipv4(ty, Ipv4Addr::new(192, 0, 2, 1));
    }
    w.put_be16(flower::KEY_TCP_SRC, 1000);
    w.put_be16(flower::KEY_TCP_DST, 80);
    w.put_be16(flower::KEY_TCP_SRC_MASK, 0xffff);
    w.put_be16(flower::KEY_TCP_DST_MASK, 0xffff);
    w.put_u8(flower::KEY_IP_TTL, 64);
    w.put_u8(flower::KEY_IP_TTL_MASK, 255);
    let acts = w.nest(flower::ACT);
    let common = TcGen::default();
    action(w, 1, "tunnel_key", |w| {
        let parms = TcTunnelKey {
            common,
            t_action: 1,
        };
        w.put_fixed(tca::tunnel_key::PARMS, &parms);
        w.put_ipv4(tca::tunnel_key::ENC_IPV4_SRC, Ipv4Addr::new(192, 0, 2, 1));
        w.put_ipv4(tca::tunnel_key::ENC_IPV4_DST, Ipv4Addr::new(192, 0, 2, 2));
        w.put_be32(tca::tunnel_key::ENC_KEY_ID, 42);
        w.put_be16(tca::tunnel_key::ENC_DST_PORT, 4789);
    });
    action(w, 2, "mirred", |w| {
        let parms = TcMirred {
            common,
            eaction: 1,
            ifindex: 3,
        };
        w.put_fixed(tca::mirred::PARMS, &parms);
    });
    action(w, 3, "gact", |w| w.put_fixed(tca::gact::PARMS, &common));
    w.end(acts);
    w.put_u32(flower::FLAGS, 1);
    w.end(options);
    w.finish(m).expect("no bound");
}

/// Reads every attribute at every level by iteration.
fn walk(bytes: &[u8]) -> u64 {
    let mut sum = 0;
    let mut leaf = |a: &Attr<'_>| sum += u64::from(a.ty) + a.len() as u64;
    for m in messages(bytes) {
        for top in m.attrs::<TcMsg>() {
            leaf(&top);
            if top.ty != tca::OPTIONS {
                continue;
            }
            for key in top.attrs() {
                leaf(&key);
                if key.ty != flower::ACT {
                    continue;
                }
                for action in key.attrs() {
                    for part in action.attrs() {
                        leaf(&part);
                        if part.ty == act::OPTIONS {
                            part.attrs().for_each(|a| leaf(&a));
                        }
                    }
                }
            }
        }
    }
    sum
}

/// Checks every level against a policy and indexes it.
fn check(bytes: &[u8]) -> Result<u64, Error> {
    let mut sum = 0;
    for m in messages(bytes) {
        let (_, top) = m.parse::<TcMsg>(&TOP, Strictness::Liberal)?;
        let options = top.require(tca::OPTIONS)?;
        let keys = options.parse(&FLOWER, Strictness::Liberal)?;
        sum += u64::from(keys.be16(flower::KEY_TCP_DST)?.unwrap_or(0));
        for action in keys.require(flower::ACT)?.attrs() {
            let action = action.parse(&ACTION, Strictness::Liberal)?;
            let options = action.require(act::OPTIONS)?;
            let parms = options.parse(&PARMS, Strictness::Liberal)?;
            sum += parms.require(2)?.len() as u64;
        }
    }
    Ok(sum)
}

#[test]
fn the_reader_does_not_allocate() {
    let mut w = Writer::new();
    write(&mut w);
    let before = COUNT.get();
    let sums = (walk(w.bytes()), check(w.bytes()));
    let after = COUNT.get();
    assert!(sums.0 > 0 && sums.1.is_ok());
    assert_eq!(after, before);
}
