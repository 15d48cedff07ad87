// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Encodes a key and its mask as attributes.
//!
//! Mirrors `fl_dump_key` with everything it calls (net/sched/cls_flower.c). The order of the
//! attributes and the conditions under which each appears are Linux's.

use weir_netlink::Writer;
use weir_netlink::tca::flower as fl;

use weir_packet::dissect::{ADDR_IPV4, ADDR_IPV6};

use super::enc_opts;
use super::key::{Field, Key, field};
use super::parse::proto;
use crate::host::Host;

/// The fields of the key that decide which attributes appear. Otherwise this depends only on the
/// mask.
pub const CHOOSING: [Field; 4] = [
    field::N_PROTO,
    field::IP_PROTO,
    field::ADDR_TYPE,
    field::ENC_ADDR_TYPE,
];

struct Dump<'a> {
    w: &'a mut Writer,
    key: &'a Key,
    mask: &'a Key,
    /// Records the offsets of the values of fields, if requested.
    record: Option<&'a mut Vec<(usize, Field)>>,
}

impl Dump<'_> {
    /// Encodes a field with a mask attribute (`fl_dump_key_val`).
    #[inline(always)]
    fn put(&mut self, place: Field, value: u16, mask: u16) {
        if !self.mask.is_zero(place) {
            self.write(place, value, Some(mask));
        }
    }

    /// Encodes a field without a mask attribute (`fl_dump_key_val`).
    #[inline(always)]
    fn put_exact(&mut self, place: Field, value: u16) {
        if !self.mask.is_zero(place) {
            self.write(place, value, None);
        }
    }

    /// Only the check of the mask is inlined, because most of the many possible fields are absent.
    #[inline(always)]
    fn write(&mut self, place: Field, value: u16, mask: Option<u16>) {
        // With a length known to the compiler each access is a few loads and stores.
        match place.width() {
            1 => self.write_of::<1>(place, value, mask),
            2 => self.write_of::<2>(place, value, mask),
            4 => self.write_of::<4>(place, value, mask),
            6 => self.write_of::<6>(place, value, mask),
            _ => self.write_of::<16>(place, value, mask),
        }
    }

    #[inline(never)]
    fn write_of<const N: usize>(&mut self, place: Field, value: u16, mask: Option<u16>) {
        let key = self.key.array::<N>(place);
        if let Some(record) = &mut self.record {
            // The value follows the attribute's header.
            record.push((self.w.len() + 4, place));
        }
        match mask {
            Some(mask) => self.w.put_two(value, key, mask, self.mask.array(place)),
            None => self.w.put(value, &key),
        }
    }

    /// Encodes the MPLS label stack (`fl_dump_key_mpls`).
    fn mpls(&mut self) {
        use fl::mpls_lse as l;
        let used = self.mask.u8(field::MPLS_USED);
        if used == 0 {
            return;
        }
        if used & !1 == 0 && !self.lse_is_zero(0) {
            let order = [
                fl::KEY_MPLS_TTL,
                fl::KEY_MPLS_TC,
                fl::KEY_MPLS_LABEL,
                fl::KEY_MPLS_BOS,
            ];
            return self.lse(0, order, true);
        }
        let opts = self.w.nest(fl::KEY_MPLS_OPTS);
        for index in (0..7).filter(|index| used & 1 << index != 0) {
            let lse = self.w.nest(fl::mpls_opts::LSE);
            self.w.put_u8(l::DEPTH, index as u8 + 1);
            self.lse(index, [l::TTL, l::TC, l::LABEL, l::BOS], false);
            self.w.end(lse);
        }
        self.w.end(opts);
    }

    /// Encodes the values of a label stack entry. The bottom-of-stack bit is the last one in the
    /// old attributes and the second one in the nest.
    fn lse(&mut self, index: usize, [ttl, tc, label, bos]: [u16; 4], old: bool) {
        use field as f;
        self.put_exact(f::mpls_ttl(index), ttl);
        if !old {
            self.put_exact(f::mpls_bos(index), bos);
        }
        self.put_exact(f::mpls_tc(index), tc);
        self.put_exact(f::mpls_label(index), label);
        if old {
            self.put_exact(f::mpls_bos(index), bos);
        }
    }

    /// Returns whether the mask selects no value of a label stack entry.
    fn lse_is_zero(&self, index: usize) -> bool {
        use field as f;
        [
            f::mpls_ttl(index),
            f::mpls_bos(index),
            f::mpls_tc(index),
            f::mpls_label(index),
        ]
        .into_iter()
        .all(|place| self.mask.is_zero(place))
    }

    fn link(&mut self, host: &dyn Host) {
        use field as f;
        if !self.mask.is_zero(f::INDEV)
            && let Some(device) = host.device(self.key.flow.ingress_ifindex)
        {
            self.w.put_str(fl::INDEV, &device.name());
        }
        self.put(f::ETH_DST, fl::KEY_ETH_DST, fl::KEY_ETH_DST_MASK);
        self.put(f::ETH_SRC, fl::KEY_ETH_SRC, fl::KEY_ETH_SRC_MASK);
        self.put_exact(f::N_PROTO, fl::KEY_ETH_TYPE);
        self.put_exact(f::NUM_OF_VLANS, fl::KEY_NUM_OF_VLANS);
        self.mpls();
        self.put_exact(f::VLAN_ID, fl::KEY_VLAN_ID);
        self.put_exact(f::VLAN_PRIO, fl::KEY_VLAN_PRIO);
        self.put_exact(f::CVLAN_ID, fl::KEY_CVLAN_ID);
        self.put_exact(f::CVLAN_PRIO, fl::KEY_CVLAN_PRIO);
        self.put_exact(f::CVLAN_TPID, fl::KEY_VLAN_ETH_TYPE);
        if !self.mask.is_zero(f::N_PROTO) {
            if !self.mask.is_zero(f::CVLAN_ETH_TYPE) {
                self.write(f::N_PROTO, fl::KEY_CVLAN_ETH_TYPE, None);
            } else if !self.mask.is_zero(f::VLAN_ETH_TYPE) {
                self.write(f::VLAN_ETH_TYPE, fl::KEY_VLAN_ETH_TYPE, None);
            }
        }
    }

    fn network(&mut self) {
        use field as f;
        if matches!(self.key.u16(f::N_PROTO), proto::IP | proto::IPV6) {
            self.put_exact(f::IP_PROTO, fl::KEY_IP_PROTO);
            self.put(f::IP_TOS, fl::KEY_IP_TOS, fl::KEY_IP_TOS_MASK);
            self.put(f::IP_TTL, fl::KEY_IP_TTL, fl::KEY_IP_TTL_MASK);
        }
        self.put_exact(f::PPPOE_SID, fl::KEY_PPPOE_SID);
        if !self.mask.is_zero(f::N_PROTO) {
            self.put_exact(f::PPP_PROTO, fl::KEY_PPP_PROTO);
        }
        match self.key.u8(f::ADDR_TYPE) {
            ADDR_IPV4 => {
                self.put(f::IPV4_SRC, fl::KEY_IPV4_SRC, fl::KEY_IPV4_SRC_MASK);
                self.put(f::IPV4_DST, fl::KEY_IPV4_DST, fl::KEY_IPV4_DST_MASK);
            }
            ADDR_IPV6 => {
                self.put(f::IPV6_SRC, fl::KEY_IPV6_SRC, fl::KEY_IPV6_SRC_MASK);
                self.put(f::IPV6_DST, fl::KEY_IPV6_DST, fl::KEY_IPV6_DST_MASK);
            }
            _ => {}
        }
    }

    fn transport(&mut self) {
        use field as f;
        match (self.key.u16(f::N_PROTO), self.key.u8(f::IP_PROTO)) {
            (_, proto::TCP) => {
                self.put(f::PORT_SRC, fl::KEY_TCP_SRC, fl::KEY_TCP_SRC_MASK);
                self.put(f::PORT_DST, fl::KEY_TCP_DST, fl::KEY_TCP_DST_MASK);
                self.put(f::TCP_FLAGS, fl::KEY_TCP_FLAGS, fl::KEY_TCP_FLAGS_MASK);
            }
            (_, proto::UDP) => {
                self.put(f::PORT_SRC, fl::KEY_UDP_SRC, fl::KEY_UDP_SRC_MASK);
                self.put(f::PORT_DST, fl::KEY_UDP_DST, fl::KEY_UDP_DST_MASK);
            }
            (_, proto::SCTP) => {
                self.put(f::PORT_SRC, fl::KEY_SCTP_SRC, fl::KEY_SCTP_SRC_MASK);
                self.put(f::PORT_DST, fl::KEY_SCTP_DST, fl::KEY_SCTP_DST_MASK);
            }
            (proto::IP, proto::ICMP) => {
                self.put(f::ICMP_TYPE, fl::KEY_ICMPV4_TYPE, fl::KEY_ICMPV4_TYPE_MASK);
                self.put(f::ICMP_CODE, fl::KEY_ICMPV4_CODE, fl::KEY_ICMPV4_CODE_MASK);
            }
            (proto::IPV6, proto::ICMPV6) => {
                self.put(f::ICMP_TYPE, fl::KEY_ICMPV6_TYPE, fl::KEY_ICMPV6_TYPE_MASK);
                self.put(f::ICMP_CODE, fl::KEY_ICMPV6_CODE, fl::KEY_ICMPV6_CODE_MASK);
            }
            (proto::ARP | proto::RARP, _) => {
                self.put(f::ARP_SIP, fl::KEY_ARP_SIP, fl::KEY_ARP_SIP_MASK);
                self.put(f::ARP_TIP, fl::KEY_ARP_TIP, fl::KEY_ARP_TIP_MASK);
                self.put(f::ARP_OP, fl::KEY_ARP_OP, fl::KEY_ARP_OP_MASK);
                self.put(f::ARP_SHA, fl::KEY_ARP_SHA, fl::KEY_ARP_SHA_MASK);
                self.put(f::ARP_THA, fl::KEY_ARP_THA, fl::KEY_ARP_THA_MASK);
            }
            (_, proto::L2TP) => self.put_exact(f::L2TPV3_SID, fl::KEY_L2TPV3_SID),
            _ => {}
        }
        if matches!(
            self.key.u8(f::IP_PROTO),
            proto::TCP | proto::UDP | proto::SCTP
        ) {
            self.put_exact(f::PORT_DST_MIN, fl::KEY_PORT_DST_MIN);
            self.put_exact(f::PORT_DST_MAX, fl::KEY_PORT_DST_MAX);
            self.put_exact(f::PORT_SRC_MIN, fl::KEY_PORT_SRC_MIN);
            self.put_exact(f::PORT_SRC_MAX, fl::KEY_PORT_SRC_MAX);
        }
    }

    fn tunnel(&mut self) {
        use field as f;
        match self.key.u8(f::ENC_ADDR_TYPE) {
            ADDR_IPV4 => {
                self.put(
                    f::ENC_IPV4_SRC,
                    fl::KEY_ENC_IPV4_SRC,
                    fl::KEY_ENC_IPV4_SRC_MASK,
                );
                self.put(
                    f::ENC_IPV4_DST,
                    fl::KEY_ENC_IPV4_DST,
                    fl::KEY_ENC_IPV4_DST_MASK,
                );
            }
            ADDR_IPV6 => {
                self.put(
                    f::ENC_IPV6_SRC,
                    fl::KEY_ENC_IPV6_SRC,
                    fl::KEY_ENC_IPV6_SRC_MASK,
                );
                self.put(
                    f::ENC_IPV6_DST,
                    fl::KEY_ENC_IPV6_DST,
                    fl::KEY_ENC_IPV6_DST_MASK,
                );
            }
            _ => {}
        }
        self.put_exact(f::ENC_KEY_ID, fl::KEY_ENC_KEY_ID);
        self.put(
            f::ENC_SRC_PORT,
            fl::KEY_ENC_UDP_SRC_PORT,
            fl::KEY_ENC_UDP_SRC_PORT_MASK,
        );
        self.put(
            f::ENC_DST_PORT,
            fl::KEY_ENC_UDP_DST_PORT,
            fl::KEY_ENC_UDP_DST_PORT_MASK,
        );
        self.put(f::ENC_TOS, fl::KEY_ENC_IP_TOS, fl::KEY_ENC_IP_TOS_MASK);
        self.put(f::ENC_TTL, fl::KEY_ENC_IP_TTL, fl::KEY_ENC_IP_TTL_MASK);
        enc_opts::dump(self.w, fl::KEY_ENC_OPTS, self.key);
        enc_opts::dump(self.w, fl::KEY_ENC_OPTS_MASK, self.mask);
    }

    fn connection(&mut self) {
        use field as f;
        self.put(f::CT_STATE, fl::KEY_CT_STATE, fl::KEY_CT_STATE_MASK);
        self.put(f::CT_ZONE, fl::KEY_CT_ZONE, fl::KEY_CT_ZONE_MASK);
        self.put(f::CT_MARK, fl::KEY_CT_MARK, fl::KEY_CT_MARK_MASK);
        self.put(f::CT_LABELS, fl::KEY_CT_LABELS, fl::KEY_CT_LABELS_MASK);
    }

    fn flags(&mut self) {
        let mask = self.mask.u8(field::FLAGS);
        if mask != 0 {
            self.w
                .put_be32(fl::KEY_FLAGS, u32::from(self.key.u8(field::FLAGS)));
            self.w.put_be32(fl::KEY_FLAGS_MASK, u32::from(mask));
        }
    }

    fn all(&mut self, host: &dyn Host) {
        self.link(host);
        self.network();
        self.transport();
        self.tunnel();
        self.connection();
        self.flags();
        self.put(field::HASH, fl::KEY_HASH, fl::KEY_HASH_MASK);
    }
}

/// Encodes the key and the mask of a filter.
pub fn dump(w: &mut Writer, host: &dyn Host, key: &Key, mask: &Key) {
    let record = None;
    let mut dump = Dump {
        w,
        key,
        mask,
        record,
    };
    dump.all(host);
}

/// Does the same and returns the fields with the offsets of their values. Returns `None` if keys
/// under the mask can differ in more than these values.
pub fn record(
    w: &mut Writer,
    host: &dyn Host,
    key: &Key,
    mask: &Key,
) -> Option<Vec<(usize, Field)>> {
    let others = [field::INDEV, field::FLAGS, field::ENC_OPTS_TYPE];
    if mask.ranges() != 0 || others.into_iter().any(|field| !mask.is_zero(field)) {
        return None;
    }
    let mut places = Vec::new();
    let record = Some(&mut places);
    let mut dump = Dump {
        w,
        key,
        mask,
        record,
    };
    dump.all(host);
    Some(places)
}
