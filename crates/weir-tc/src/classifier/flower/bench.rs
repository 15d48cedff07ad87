// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a look-up costs; run by hand: `cargo test --release -p weir-tc -- --ignored --nocapture lookup`.

use std::time::Instant;

use weir_netlink::tca::{self, act, flower as attr, gact};
use weir_netlink::{TcGen, TcMsg, Writer, nlm, rtm};
use weir_packet::Batch;

use crate::classifier::Lookup;
use crate::context::Context;
use crate::testing::{Stack, ipv4, vectors};

fn rule(prefix: u8, n: u32) -> Vec<u8> {
    let mut w = Writer::new();
    let mark = w.message(
        rtm::NEWTFILTER,
        nlm::F_REQUEST | nlm::F_CREATE | nlm::F_EXCL,
        1,
        0,
    );
    w.fixed(&TcMsg {
        ifindex: 3,
        parent: 0xffff_fff2,
        info: TcMsg::make_info(1, 0x0800),
        ..TcMsg::default()
    });
    w.put_str(tca::KIND, "flower");
    let options = w.nest(tca::OPTIONS);
    w.put_be16(attr::KEY_ETH_TYPE, 0x0800);
    w.put_u8(attr::KEY_IP_PROTO, 17);
    w.put_be32(attr::KEY_IPV4_DST, 0x1000_0000 + (n << (32 - prefix)));
    w.put_be32(attr::KEY_IPV4_DST_MASK, u32::MAX << (32 - prefix));
    w.put_be16(attr::KEY_UDP_DST, 4000 + u16::from(prefix));
    let actions = w.nest(attr::ACT);
    let action = w.nest(1);
    w.put_str(act::KIND, "gact");
    let parms = w.nest(act::OPTIONS);
    w.put_fixed(
        gact::PARMS,
        &TcGen {
            action: 2,
            ..TcGen::default()
        },
    );
    w.end(parms);
    w.end(action);
    w.end(actions);
    w.end(options);
    w.finish(mark).unwrap();
    w.into_vec()
}

#[test]
#[ignore = "measures; run by hand"]
fn lookup() {
    let loops = std::env::var("LOOPS").map_or(20, |loops| loops.parse().unwrap());
    let most = std::env::var("RULES").map_or(10_000, |rules| rules.parse().unwrap());
    let sizes = [
        (1_u8, 1),
        (10, 1),
        (1, 10_000),
        (10, 1_000),
        (1, 1_000_000),
        (10, 100_000),
    ];
    let least = std::env::var("MASKS").map_or(1, |masks| masks.parse().unwrap());
    for (masks, rules) in sizes
        .into_iter()
        .filter(|size| u32::from(size.0) * size.1 <= most && size.0 >= least)
    {
        let stack = Stack::default();
        let all = vectors(include_str!("../../../tests/vectors/control.vec"));
        let add = all
            .into_iter()
            .find(|(command, _)| command == "tc qdisc add dev d0 clsact");
        stack.request(&add.unwrap().1[0]).unwrap();
        let requests: Vec<_> = (0..masks)
            .flat_map(|m| (0..rules).map(move |n| rule(32 - m, n)))
            .collect();
        let start = Instant::now();
        for request in &requests {
            stack.request(request).unwrap();
        }
        let insert = start.elapsed().as_nanos() as f64 / requests.len() as f64;
        stack.heard();
        let mut seed = 1_u64;
        let mut random = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as u32
        };
        let frame = ipv4(17, [1; 4], [0; 4], 1, 4000);
        let mut batch = Batch::new();
        while batch.push(stack.packet(&frame)).is_ok() {}
        let guard = stack.domain.pin();
        let (mut copies, mut ended) = (Vec::new(), Vec::new());
        let mut zero = || 0;
        let mut cx = Context::new(&guard, 0, 0, 3, &mut zero, &mut copies);
        let mut lookup = Lookup::default();
        let tc = &stack.devices[&3].tc;
        let mut best = f64::MAX;
        for _ in 0..loops {
            let mut spent = 0;
            for _ in 0..64 {
                // Another filter each time, so that none is in a cache because of the last round.
                for packet in &mut batch {
                    let m = (random() % u32::from(masks)) as u8;
                    let dst = 0x1000_0000_u32 + ((random() % rules) << m);
                    let port = 4000 + u16::from(32 - m);
                    packet.data_mut()[16..20].copy_from_slice(&dst.to_be_bytes());
                    packet.data_mut()[22..24].copy_from_slice(&port.to_be_bytes());
                }
                let count = batch.len();
                let start = Instant::now();
                tc.ingress_batch(&mut cx, &mut lookup, &mut batch, &mut ended);
                spent += start.elapsed().as_nanos();
                assert_eq!(ended.len(), count);
                for (packet, _) in ended.drain(..) {
                    batch.push(packet).unwrap();
                }
            }
            best = best.min(spent as f64 / 4096.0);
        }
        println!("{masks} masks x {rules} rules: {best:.0} ns a packet, insert {insert:.0} ns");
    }
}
