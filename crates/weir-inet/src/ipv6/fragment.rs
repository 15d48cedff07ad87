// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fragmentation (`ip6_fragment`, RFC 8200, 4.5): splits a packet larger than the MTU.

use weir_packet::header::ipv6::{
    Fragment, FragmentMut, NEXTHDR_DEST, NEXTHDR_FRAGMENT, NEXTHDR_HOP, NEXTHDR_ROUTING,
};
use weir_packet::header::ipv6_ext::extensions;
use weir_packet::header::{Ipv6, Ipv6Mut};
use weir_packet::{Packet, Pool};

use crate::fragments::{Lengths, like};

/// Splits a packet that begins with its IPv6 header into fragments of at most `mtu` bytes with the identification
/// `id`. Hop-by-hop and routing headers, and destination options in front of a routing header, are in every fragment.
/// Returns `None` if that is impossible: a header is cut off, the MTU leaves no room for payload, or there is no
/// memory.
pub fn split(packet: &Packet, mtu: usize, id: u32, pool: &Pool) -> Option<Vec<Packet>> {
    let (_, front) = unfragmentable(packet.data())?;
    let step = mtu
        .checked_sub(front + Fragment::LEN)
        .filter(|step| *step >= 8)?
        & !7;
    let count = packet.len().checked_sub(front)?.div_ceil(step);
    split_by(packet, id, pool, (0..count).map(|_| step))
}

/// Splits a packet like [`split`]; into the fragments that it was reassembled from, if these fit (`ip6_fragment`).
pub fn split_again(
    packet: &Packet,
    mtu: usize,
    id: u32,
    lengths: &Lengths,
    pool: &Pool,
) -> Option<Vec<Packet>> {
    let (_, front) = unfragmentable(packet.data())?;
    let payload = packet.len().checked_sub(front)?;
    if !lengths.fit(payload, mtu.saturating_sub(front + Fragment::LEN)) {
        return split(packet, mtu, id, pool);
    }
    split_by(
        packet,
        id,
        pool,
        lengths.payloads.iter().map(|len| usize::from(*len)),
    )
}

/// Splits a packet into fragments of these bytes of payload; the last one may have less.
fn split_by(
    packet: &Packet,
    id: u32,
    pool: &Pool,
    steps: impl ExactSizeIterator<Item = usize>,
) -> Option<Vec<Packet>> {
    let data = packet.data();
    let (name, front) = unfragmentable(data)?;
    let (head, payload) = data.split_at_checked(front)?;
    let next = *head.get(name)?;
    let mut fragments = Vec::with_capacity(steps.len());
    let mut done = 0;
    for step in steps {
        let take = step.min(payload.len() - done);
        let part = payload.get(done..done + take)?;
        let len = front + Fragment::LEN + part.len();
        let mut fragment = like(packet, len, pool)?;
        if !fragment.append(head) || !fragment.append(&[0; Fragment::LEN]) || !fragment.append(part)
        {
            return None;
        }
        fragment.set_transport(front);
        let to = fragment.data_mut();
        *to.get_mut(name)? = NEXTHDR_FRAGMENT;
        Ipv6Mut::new(to)?.set_payload_len((len - Ipv6::LEN) as u16);
        FragmentMut::new(to.get_mut(front..)?)?
            .set_next_header(next)
            .set_frag_off(done as u16 | u16::from(done + take < payload.len()))
            .set_id(id);
        fragments.push(fragment);
        done += take;
    }
    Some(fragments)
}

/// Returns the offset of the byte that names the first header of the fragmentable part, and of that part
/// (`ip6_find_1stfragopt`).
fn unfragmentable(data: &[u8]) -> Option<(usize, usize)> {
    let (mut name, mut at) = (6, Ipv6::LEN);
    // Destination options that may turn out to be in front of a routing header.
    let mut pending = None;
    for extension in extensions(data) {
        let extension = extension.ok()?;
        let end = extension.at + extension.bytes.len();
        match extension.kind {
            NEXTHDR_HOP | NEXTHDR_ROUTING => (name, at, pending) = (extension.at, end, None),
            NEXTHDR_DEST if pending.is_none() => pending = Some(end),
            _ => break,
        }
    }
    Some((name, at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_packet::PoolConfig;
    use weir_packet::header::ipv6::ipv6;

    #[test]
    fn pieces_add_up_and_keep_the_headers_of_every_fragment() {
        let pool = Pool::new(PoolConfig::default());
        let payload: Vec<u8> = (0..4000_u32).map(|n| n as u8).collect();
        // Hop-by-hop options (padding) in front of UDP.
        let hop = [17, 0, 1, 4, 0, 0, 0, 0];
        let mut bytes = ipv6(
            [1; 16],
            [2; 16],
            NEXTHDR_HOP,
            64,
            0,
            0,
            hop.len() + payload.len(),
        )
        .to_vec();
        bytes.extend(hop);
        bytes.extend(&payload);
        let packet = pool.packet(&bytes).unwrap();
        for mtu in [1280, 1500, 2001] {
            let fragments = split(&packet, mtu, 0xabcd, &pool).unwrap();
            let mut joined = Vec::new();
            for (index, fragment) in fragments.iter().enumerate() {
                let data = fragment.data();
                assert!(data.len() <= mtu);
                let header = Ipv6::new(data).unwrap();
                assert_eq!(usize::from(header.payload_len()) + 40, data.len());
                assert_eq!((data[6], data[40], &data[41..48]), (0, 44, &hop[1..]));
                let found = Fragment::new(&data[48..]).unwrap();
                assert_eq!(
                    (found.id(), found.offset(), data[48]),
                    (0xabcd, joined.len(), 17)
                );
                assert_eq!(found.more(), index + 1 < fragments.len());
                joined.extend_from_slice(&data[56..]);
            }
            assert_eq!(joined, payload);
        }
        assert!(split(&packet, 60, 1, &pool).is_none());
    }
}
