// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fragmentation (`ip_do_fragment`): splits a packet larger than the MTU.

use weir_packet::header::ipv4::{IP_MF, IP_OFFSET, fill_check, whole_header};
use weir_packet::header::{Ipv4, Ipv4Mut, ipv4_options};
use weir_packet::{Packet, Pool};

use crate::fragments::{Lengths, like};

/// Splits a packet that begins with its IPv4 header into fragments of at most `mtu` bytes. Returns
/// `None` if that is impossible: the MTU leaves no room for payload, or there is no memory. The
/// caller checks whether the packet may be fragmented.
pub fn split(packet: &Packet, mtu: usize, pool: &Pool) -> Option<Vec<Packet>> {
    let header = whole_header(packet.data())?;
    let room = mtu.checked_sub(header.len()).filter(|room| *room >= 8)?;
    let count = (packet.len() - header.len()).div_ceil(room & !7);
    split_by(packet, count, pool, |_, rest| match rest > room {
        true => room & !7,
        false => rest,
    })
}

/// Splits a packet that begins with its IPv4 header into fragments of at most `mtu` bytes, like [`split`]; into the
/// ones that it was reassembled from, if these fit (`ip_do_fragment`).
pub fn split_again(
    packet: &Packet,
    mtu: usize,
    lengths: &Lengths,
    pool: &Pool,
) -> Option<Vec<Packet>> {
    let header = whole_header(packet.data())?;
    let payload = packet.len() - header.len();
    if !lengths.fit(payload, mtu.saturating_sub(header.len())) {
        return split(packet, mtu, pool);
    }
    let payloads = &lengths.payloads;
    split_by(packet, payloads.len(), pool, |index, rest| {
        payloads.get(index).map_or(rest, |len| (*len).into())
    })
}

/// Splits a packet; `next` returns the payload of a fragment from its index and the payload that is left. There are
/// about `count`.
fn split_by(
    packet: &Packet,
    count: usize,
    pool: &Pool,
    next: impl Fn(usize, usize) -> usize,
) -> Option<Vec<Packet>> {
    let data = packet.data();
    let header = whole_header(data)?;
    let view = Ipv4::new(header)?;
    let (offset, flags) = (
        usize::from(view.frag_off() & IP_OFFSET) * 8,
        view.frag_off() & !IP_OFFSET,
    );
    // Options without the copy flag appear only in the first fragment; the others carry NOOPs
    // instead.
    let mut later = header.to_vec();
    ipv4_options::fragment(&mut later);
    let payload = data.get(header.len()..)?;
    let mut fragments = Vec::with_capacity(count);
    let mut done = 0;
    while done < payload.len() {
        let take = next(fragments.len(), payload.len() - done);
        let part = payload.get(done..done + take)?;
        let first = done == 0;
        let head = if first { header } else { later.as_slice() };
        let mut fragment = like(packet, head.len() + part.len(), pool)?;
        if !fragment.append(head) || !fragment.append(part) {
            return None;
        }
        let more = if done + take < payload.len() {
            IP_MF
        } else {
            flags & IP_MF
        };
        let place = ((offset + done) / 8) as u16 & IP_OFFSET;
        let total = (head.len() + part.len()) as u16;
        let mut edit = Ipv4Mut::new(fragment.data_mut())?;
        edit.set_total_len(total)
            .set_frag_off((flags & !IP_MF) | more | place);
        fill_check(fragment.data_mut());
        fragments.push(fragment);
        done += take;
    }
    Some(fragments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_packet::header::ipv4::ipv4;
    use weir_packet::{PoolConfig, checksum};

    #[test]
    fn pieces_add_up_and_fit() {
        let pool = Pool::new(PoolConfig::default());
        let payload: Vec<u8> = (0..4000u32).map(|n| n as u8).collect();
        let mut bytes = ipv4([1, 2, 3, 4], [5, 6, 7, 8], 17, 64, 0, 7, 0, payload.len()).to_vec();
        bytes.extend_from_slice(&payload);
        let packet = pool.packet(&bytes).unwrap();
        for mtu in [68, 576, 1500, 2000] {
            let fragments = split(&packet, mtu, &pool).unwrap();
            let mut joined = Vec::new();
            for (index, fragment) in fragments.iter().enumerate() {
                let data = fragment.data();
                let header = Ipv4::new(data).unwrap();
                assert!(data.len() <= mtu && usize::from(header.total_len()) == data.len());
                assert_eq!(header.fragment_offset(), joined.len());
                assert_eq!(header.more_fragments(), index + 1 < fragments.len());
                assert!(checksum::verify(&data[..20]));
                joined.extend_from_slice(&data[20..]);
            }
            assert_eq!(joined, payload);
        }
        assert!(split(&packet, 27, &pool).is_none());
    }
}
