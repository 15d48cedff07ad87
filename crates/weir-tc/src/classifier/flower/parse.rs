// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses attributes into a key and a mask.
//!
//! Mirrors `fl_policy` and `fl_set_key` with everything it calls (net/sched/cls_flower.c). The
//! protocols given decide which attributes apply: `ip_proto` only under IPv4 or IPv6, ports only
//! under TCP, UDP or SCTP, and so on. The others are ignored silently, as in Linux.
//!
//! Keys of connection tracking match as for untracked packets, because no packet is tracked here.

use weir_netlink::errno::{EBADMSG, EINVAL};
use weir_netlink::tca::flower as fl;
use weir_netlink::{Attr, Error, Policy, Rule, Strictness, Table, policy};

use weir_packet::dissect::{ADDR_IPV4, ADDR_IPV6};

use super::enc_opts;
use super::key::{Field, Key, field};
use crate::classifier::exts;
use crate::host::Host;

/// The `ETH_P_*` and `IPPROTO_*` values that decide which keys apply.
pub(super) mod proto {
    #![allow(missing_docs)] // The names are Linux's.
    pub const IP: u16 = 0x0800;
    pub const ARP: u16 = 0x0806;
    pub const RARP: u16 = 0x8035;
    pub const VLAN_8021Q: u16 = 0x8100;
    pub const VLAN_8021AD: u16 = 0x88a8;
    pub const IPV6: u16 = 0x86dd;
    pub const MPLS_UC: u16 = 0x8847;
    pub const MPLS_MC: u16 = 0x8848;
    pub const PPP_SES: u16 = 0x8864;
    pub const ICMP: u8 = 1;
    pub const TCP: u8 = 6;
    pub const UDP: u8 = 17;
    pub const ICMPV6: u8 = 58;
    pub const L2TP: u8 = 115;
    pub const SCTP: u8 = 132;
}

const CT_STATE_BITS: u64 = 0x3f;

/// `fl_policy`
pub static POLICY: Policy = policy! { max fl::MAX;
    fl::CLASSID => Rule::u32(),
    fl::INDEV => Rule::string(16),
    fl::KEY_ETH_DST => Rule::unspec(6),
    fl::KEY_ETH_DST_MASK => Rule::unspec(6),
    fl::KEY_ETH_SRC => Rule::unspec(6),
    fl::KEY_ETH_SRC_MASK => Rule::unspec(6),
    fl::KEY_ETH_TYPE => Rule::u16(),
    fl::KEY_IP_PROTO => Rule::u8(),
    fl::KEY_IPV4_SRC => Rule::u32(),
    fl::KEY_IPV4_SRC_MASK => Rule::u32(),
    fl::KEY_IPV4_DST => Rule::u32(),
    fl::KEY_IPV4_DST_MASK => Rule::u32(),
    fl::KEY_IPV6_SRC => Rule::unspec(16),
    fl::KEY_IPV6_SRC_MASK => Rule::unspec(16),
    fl::KEY_IPV6_DST => Rule::unspec(16),
    fl::KEY_IPV6_DST_MASK => Rule::unspec(16),
    fl::KEY_TCP_SRC => Rule::u16(),
    fl::KEY_TCP_DST => Rule::u16(),
    fl::KEY_UDP_SRC => Rule::u16(),
    fl::KEY_UDP_DST => Rule::u16(),
    fl::KEY_VLAN_ID => Rule::u16(),
    fl::KEY_VLAN_PRIO => Rule::u8(),
    fl::KEY_VLAN_ETH_TYPE => Rule::u16(),
    fl::KEY_ENC_KEY_ID => Rule::u32(),
    fl::KEY_ENC_IPV4_SRC => Rule::u32(),
    fl::KEY_ENC_IPV4_SRC_MASK => Rule::u32(),
    fl::KEY_ENC_IPV4_DST => Rule::u32(),
    fl::KEY_ENC_IPV4_DST_MASK => Rule::u32(),
    fl::KEY_ENC_IPV6_SRC => Rule::unspec(16),
    fl::KEY_ENC_IPV6_SRC_MASK => Rule::unspec(16),
    fl::KEY_ENC_IPV6_DST => Rule::unspec(16),
    fl::KEY_ENC_IPV6_DST_MASK => Rule::unspec(16),
    fl::KEY_TCP_SRC_MASK => Rule::u16(),
    fl::KEY_TCP_DST_MASK => Rule::u16(),
    fl::KEY_UDP_SRC_MASK => Rule::u16(),
    fl::KEY_UDP_DST_MASK => Rule::u16(),
    fl::KEY_SCTP_SRC_MASK => Rule::u16(),
    fl::KEY_SCTP_DST_MASK => Rule::u16(),
    fl::KEY_SCTP_SRC => Rule::u16(),
    fl::KEY_SCTP_DST => Rule::u16(),
    fl::KEY_ENC_UDP_SRC_PORT => Rule::u16(),
    fl::KEY_ENC_UDP_SRC_PORT_MASK => Rule::u16(),
    fl::KEY_ENC_UDP_DST_PORT => Rule::u16(),
    fl::KEY_ENC_UDP_DST_PORT_MASK => Rule::u16(),
    fl::KEY_FLAGS => Rule::u32(),
    fl::KEY_FLAGS_MASK => Rule::u32(),
    fl::KEY_ICMPV4_TYPE => Rule::u8(),
    fl::KEY_ICMPV4_TYPE_MASK => Rule::u8(),
    fl::KEY_ICMPV4_CODE => Rule::u8(),
    fl::KEY_ICMPV4_CODE_MASK => Rule::u8(),
    fl::KEY_ICMPV6_TYPE => Rule::u8(),
    fl::KEY_ICMPV6_TYPE_MASK => Rule::u8(),
    fl::KEY_ICMPV6_CODE => Rule::u8(),
    fl::KEY_ICMPV6_CODE_MASK => Rule::u8(),
    fl::KEY_ARP_SIP => Rule::u32(),
    fl::KEY_ARP_SIP_MASK => Rule::u32(),
    fl::KEY_ARP_TIP => Rule::u32(),
    fl::KEY_ARP_TIP_MASK => Rule::u32(),
    fl::KEY_ARP_OP => Rule::u8(),
    fl::KEY_ARP_OP_MASK => Rule::u8(),
    fl::KEY_ARP_SHA => Rule::unspec(6),
    fl::KEY_ARP_SHA_MASK => Rule::unspec(6),
    fl::KEY_ARP_THA => Rule::unspec(6),
    fl::KEY_ARP_THA_MASK => Rule::unspec(6),
    fl::KEY_MPLS_TTL => Rule::u8(),
    fl::KEY_MPLS_BOS => Rule::u8(),
    fl::KEY_MPLS_TC => Rule::u8(),
    fl::KEY_MPLS_LABEL => Rule::u32(),
    fl::KEY_MPLS_OPTS => Rule::nested_any(),
    fl::KEY_TCP_FLAGS => Rule::u16(),
    fl::KEY_TCP_FLAGS_MASK => Rule::u16(),
    fl::KEY_IP_TOS => Rule::u8(),
    fl::KEY_IP_TOS_MASK => Rule::u8(),
    fl::KEY_IP_TTL => Rule::u8(),
    fl::KEY_IP_TTL_MASK => Rule::u8(),
    fl::KEY_CVLAN_ID => Rule::u16(),
    fl::KEY_CVLAN_PRIO => Rule::u8(),
    fl::KEY_CVLAN_ETH_TYPE => Rule::u16(),
    fl::KEY_ENC_IP_TOS => Rule::u8(),
    fl::KEY_ENC_IP_TOS_MASK => Rule::u8(),
    fl::KEY_ENC_IP_TTL => Rule::u8(),
    fl::KEY_ENC_IP_TTL_MASK => Rule::u8(),
    fl::KEY_ENC_OPTS => Rule::nested_any(),
    fl::KEY_ENC_OPTS_MASK => Rule::nested_any(),
    fl::KEY_CT_STATE => Rule::u16().mask(CT_STATE_BITS),
    fl::KEY_CT_STATE_MASK => Rule::u16().mask(CT_STATE_BITS),
    fl::KEY_CT_ZONE => Rule::u16(),
    fl::KEY_CT_ZONE_MASK => Rule::u16(),
    fl::KEY_CT_MARK => Rule::u32(),
    fl::KEY_CT_MARK_MASK => Rule::u32(),
    fl::KEY_CT_LABELS => Rule::binary(16),
    fl::KEY_CT_LABELS_MASK => Rule::binary(16),
    fl::FLAGS => Rule::u32(),
    fl::KEY_HASH => Rule::u32(),
    fl::KEY_HASH_MASK => Rule::u32(),
    fl::KEY_NUM_OF_VLANS => Rule::u8(),
    fl::KEY_PPPOE_SID => Rule::u16(),
    fl::KEY_PPP_PROTO => Rule::u16(),
    fl::KEY_L2TPV3_SID => Rule::u32(),
};

static MPLS_LSE: Policy = policy! { max fl::mpls_lse::MAX;
    fl::mpls_lse::DEPTH => Rule::u8(),
    fl::mpls_lse::TTL => Rule::u8(),
    fl::mpls_lse::BOS => Rule::u8(),
    fl::mpls_lse::TC => Rule::u8(),
    fl::mpls_lse::LABEL => Rule::u32(),
};

/// A key and mask under construction.
struct Builder<'a, 't> {
    tb: &'t Table<'a>,
    key: &'t mut Key,
    mask: &'t mut Key,
    /// An attribute had bits outside its mask.
    exceeds: bool,
}

/// A key and its mask.
#[derive(Debug, Default)]
pub struct Masked {
    /// The key as given.
    pub key: Key,
    /// The mask: the bits of the key that are compared.
    pub mask: Key,
    /// The key may have bits outside the mask; if `false`, it has none.
    exceeds: bool,
}

impl Masked {
    /// Returns whether the key has bits outside the mask.
    pub fn exceeds_mask(&self) -> bool {
        self.exceeds && self.key.exceeds(&self.mask)
    }
}

fn text(message: &'static str) -> Error {
    Error::msg(EINVAL, message)
}

impl Builder<'_, '_> {
    /// Parses a field with a mask attribute (`fl_set_key_val`).
    #[inline(always)]
    fn set(&mut self, field: Field, value: u16, mask: u16) {
        if self.tb.has(value) {
            self.read(field, value, mask);
        }
    }

    /// Parses a field without a mask attribute: all bits are compared (`fl_set_key_val`).
    #[inline(always)]
    fn set_exact(&mut self, field: Field, value: u16) {
        if self.tb.has(value) {
            self.read(field, value, 0);
        }
    }

    /// Only the check of the table is inlined, because most of the many possible attributes are
    /// absent.
    #[inline(always)]
    fn read(&mut self, field: Field, value: u16, mask: u16) {
        match field.width() {
            1 => self.read_of::<1>(field, value, mask),
            2 => self.read_of::<2>(field, value, mask),
            4 => self.read_of::<4>(field, value, mask),
            6 => self.read_of::<6>(field, value, mask),
            _ => self.read_of::<16>(field, value, mask),
        }
    }

    #[inline(never)]
    fn read_of<const N: usize>(&mut self, field: Field, value: u16, mask: u16) {
        let Some(value) = self.tb.payload(value) else {
            return;
        };
        self.key.set_from::<N>(field, value);
        // No attribute has type 0, which stands for a missing mask attribute.
        match self.tb.payload(mask) {
            Some(mask) => {
                self.mask.set_from::<N>(field, mask);
                self.exceeds |= self.key.exceeds_in::<N>(field, self.mask);
            }
            None => self.mask.put(field, [0xff; N]),
        }
    }

    /// Sets a field of two bytes of which all bits are compared.
    #[inline(always)]
    fn exact_u16(&mut self, field: Field, value: u16) {
        self.key.set(field, &value.to_be_bytes());
        self.mask.fill(field);
    }

    /// Returns whether a VLAN header follows, and the Ethertype given (`is_vlan_key`).
    fn is_vlan(&mut self, attr: u16, threshold: u8) -> Result<(bool, u16), Error> {
        let enough = self.key.u8(field::NUM_OF_VLANS) > threshold;
        let Some(attr) = self.tb.get(attr) else {
            return Ok((enough, 0));
        };
        let ethertype = attr.be16()?;
        if enough || matches!(ethertype, proto::VLAN_8021Q | proto::VLAN_8021AD) {
            return Ok((true, ethertype));
        }
        self.exact_u16(field::N_PROTO, ethertype);
        Ok((false, ethertype))
    }

    /// Parses the fields of a VLAN tag (`fl_set_key_vlan`).
    fn vlan(
        &mut self,
        ethertype: u16,
        [id, prio, next]: [u16; 3],
        [vid, priority, tpid, eth_type]: [Field; 4],
    ) -> Result<(), Error> {
        if let Some(id) = self.tb.get(id) {
            self.key.set(vid, &(id.u16()? & 0xfff).to_ne_bytes());
            self.mask.set(vid, &0xfff_u16.to_ne_bytes());
        }
        if let Some(prio) = self.tb.get(prio) {
            self.key.set(priority, &[prio.u8()? & 7]);
            self.mask.set(priority, &[7]);
        }
        if ethertype != 0 {
            self.exact_u16(tpid, ethertype);
        }
        if let Some(next) = self.tb.get(next) {
            self.exact_u16(eth_type, next.be16()?);
        }
        Ok(())
    }

    /// Parses the PPPoE fields (`fl_set_key_pppoe`).
    fn pppoe(&mut self) -> Result<(), Error> {
        self.set_exact(field::PPPOE_SID, fl::KEY_PPPOE_SID);
        let Some(ppp) = self.tb.get(fl::KEY_PPP_PROTO) else {
            self.key.clear(field::N_PROTO);
            self.mask.clear(field::N_PROTO);
            return Ok(());
        };
        self.set_exact(field::PPP_PROTO, fl::KEY_PPP_PROTO);
        let n_proto = match ppp.be16()? {
            0x0021 => proto::IP,
            0x0057 => proto::IPV6,
            0x0281 => proto::MPLS_UC,
            0x0283 => proto::MPLS_MC,
            _ => return Ok(()),
        };
        self.exact_u16(field::N_PROTO, n_proto);
        Ok(())
    }

    /// Sets a value in a label stack entry.
    fn lse(&mut self, index: usize, place: Field, value: &[u8], bits: &[u8]) {
        self.key.set(place, value);
        self.mask.set(place, bits);
        self.use_lse(index);
    }

    fn use_lse(&mut self, index: usize) {
        let used = self.mask.u8(field::MPLS_USED) | 1 << index;
        self.key.set(field::MPLS_USED, &[used]);
        self.mask.set(field::MPLS_USED, &[used]);
    }

    /// Parses the four values of one label stack entry, given the attribute types `[ttl, bos, tc,
    /// label]`.
    fn lse_values(
        &mut self,
        tb: &Table<'_>,
        index: usize,
        [ttl, bos, tc, label]: [u16; 4],
    ) -> Result<(), Error> {
        if let Some(ttl) = tb.get(ttl) {
            self.lse(index, field::mpls_ttl(index), &[ttl.u8()?], &[0xff]);
        }
        if let Some(attr) = tb.get(bos) {
            let bos = attr.u8()?;
            if bos > 1 {
                return Err(text("Bottom Of Stack (BOS) must be 0 or 1").at(&attr));
            }
            self.lse(index, field::mpls_bos(index), &[bos], &[1]);
        }
        if let Some(attr) = tb.get(tc) {
            let tc = attr.u8()?;
            if tc > 7 {
                return Err(text("Traffic Class (TC) must be between 0 and 7").at(&attr));
            }
            self.lse(index, field::mpls_tc(index), &[tc], &[7]);
        }
        if let Some(attr) = tb.get(label) {
            let label = attr.u32()?;
            if label > 0xf_ffff {
                return Err(text("Label must be between 0 and 1048575").at(&attr));
            }
            let place = field::mpls_label(index);
            self.lse(
                index,
                place,
                &label.to_ne_bytes(),
                &0xf_ffff_u32.to_ne_bytes(),
            );
        }
        Ok(())
    }

    /// Parses the MPLS fields (`fl_set_key_mpls`).
    fn mpls(&mut self) -> Result<(), Error> {
        let old = [
            fl::KEY_MPLS_TTL,
            fl::KEY_MPLS_BOS,
            fl::KEY_MPLS_TC,
            fl::KEY_MPLS_LABEL,
        ];
        let Some(opts) = self.tb.get(fl::KEY_MPLS_OPTS) else {
            let tb = self.tb;
            return self.lse_values(tb, 0, old);
        };
        if old.iter().any(|&ty| self.tb.has(ty)) {
            return Err(Error::msg(
                EBADMSG,
                "MPLS label, Traffic Class, Bottom Of Stack and Time To Live must be encapsulated in \
                 the MPLS options attribute",
            )
            .at(&opts));
        }
        self.mpls_options(&opts)
    }

    /// Parses a nest of label stack entries (`fl_set_key_mpls_opts`).
    fn mpls_options(&mut self, opts: &Attr<'_>) -> Result<(), Error> {
        use fl::mpls_lse as l;
        if !opts.nested {
            return Err(text("NLA_F_NESTED is missing").at(opts));
        }
        let mut all = opts.attrs();
        for lse in all.by_ref() {
            if lse.ty != fl::mpls_opts::LSE {
                return Err(text("Invalid MPLS option type").at(&lse));
            }
            let tb = lse.parse(&MPLS_LSE, Strictness::Strict)?;
            let depth = tb
                .get(l::DEPTH)
                .ok_or_else(|| text("Missing MPLS option \"depth\""))?;
            let index = match depth.u8()? {
                n @ 1..=7 => usize::from(n - 1),
                _ => return Err(text("Invalid MPLS depth").at(&depth)),
            };
            self.use_lse(index);
            self.lse_values(&tb, index, [l::TTL, l::BOS, l::TC, l::LABEL])?;
        }
        if !all.rest().is_empty() {
            return Err(text("Bytes leftover after parsing MPLS options"));
        }
        Ok(())
    }

    /// Parses ranges of ports (`fl_set_key_port_range`).
    fn port_ranges(&mut self) -> Result<(), Error> {
        self.set_exact(field::PORT_DST_MIN, fl::KEY_PORT_DST_MIN);
        self.set_exact(field::PORT_DST_MAX, fl::KEY_PORT_DST_MAX);
        self.set_exact(field::PORT_SRC_MIN, fl::KEY_PORT_SRC_MIN);
        self.set_exact(field::PORT_SRC_MAX, fl::KEY_PORT_SRC_MAX);
        let sides = [
            (
                (
                    field::PORT_DST_MIN,
                    field::PORT_DST_MAX,
                    fl::KEY_PORT_DST_MIN,
                ),
                "Both min and max destination ports must be specified",
                "Invalid destination port range (min must be strictly smaller than max)",
            ),
            (
                (
                    field::PORT_SRC_MIN,
                    field::PORT_SRC_MAX,
                    fl::KEY_PORT_SRC_MIN,
                ),
                "Both min and max source ports must be specified",
                "Invalid source port range (min must be strictly smaller than max)",
            ),
        ];
        for ((min, max, _), both, _) in sides {
            if self.mask.is_zero(min) != self.mask.is_zero(max) {
                return Err(text(both));
            }
        }
        for ((min, max, attr), _, invalid) in sides {
            if !self.mask.is_zero(min) && self.key.u16(max) <= self.key.u16(min) {
                let error = text(invalid);
                return Err(match self.tb.get(attr) {
                    Some(attr) => error.at(&attr),
                    None => error,
                });
            }
        }
        Ok(())
    }

    /// Parses the keys of the tunnel metadata except for options.
    fn tunnel(&mut self) {
        use field as f;
        let v4 = self.tb.has(fl::KEY_ENC_IPV4_SRC) || self.tb.has(fl::KEY_ENC_IPV4_DST);
        let v6 = self.tb.has(fl::KEY_ENC_IPV6_SRC) || self.tb.has(fl::KEY_ENC_IPV6_DST);
        if v4 || v6 {
            let family = if v6 { ADDR_IPV6 } else { ADDR_IPV4 };
            self.key.set(f::ENC_ADDR_TYPE, &[family]);
            self.mask.fill(f::ENC_ADDR_TYPE);
        }
        let keys = [
            (
                f::ENC_IPV4_SRC,
                fl::KEY_ENC_IPV4_SRC,
                fl::KEY_ENC_IPV4_SRC_MASK,
            ),
            (
                f::ENC_IPV4_DST,
                fl::KEY_ENC_IPV4_DST,
                fl::KEY_ENC_IPV4_DST_MASK,
            ),
            (
                f::ENC_IPV6_SRC,
                fl::KEY_ENC_IPV6_SRC,
                fl::KEY_ENC_IPV6_SRC_MASK,
            ),
            (
                f::ENC_IPV6_DST,
                fl::KEY_ENC_IPV6_DST,
                fl::KEY_ENC_IPV6_DST_MASK,
            ),
            (
                f::ENC_SRC_PORT,
                fl::KEY_ENC_UDP_SRC_PORT,
                fl::KEY_ENC_UDP_SRC_PORT_MASK,
            ),
            (
                f::ENC_DST_PORT,
                fl::KEY_ENC_UDP_DST_PORT,
                fl::KEY_ENC_UDP_DST_PORT_MASK,
            ),
            (f::ENC_TOS, fl::KEY_ENC_IP_TOS, fl::KEY_ENC_IP_TOS_MASK),
            (f::ENC_TTL, fl::KEY_ENC_IP_TTL, fl::KEY_ENC_IP_TTL_MASK),
        ];
        for (field, value, mask) in keys {
            self.set(field, value, mask);
        }
        self.set_exact(f::ENC_KEY_ID, fl::KEY_ENC_KEY_ID);
    }

    /// Parses the keys of connection tracking (`fl_set_key_ct`).
    fn connection(&mut self) -> Result<(), Error> {
        use field as f;
        self.set(f::CT_STATE, fl::KEY_CT_STATE, fl::KEY_CT_STATE_MASK);
        if self.tb.has(fl::KEY_CT_STATE) {
            let state = self.key.flow.ct_state & self.mask.flow.ct_state;
            if let Err(error) = check_ct_state(state) {
                let mask = self.tb.get(fl::KEY_CT_STATE_MASK);
                return Err(match mask {
                    Some(mask) => error.at(&mask),
                    None => error,
                });
            }
        }
        self.set(f::CT_ZONE, fl::KEY_CT_ZONE, fl::KEY_CT_ZONE_MASK);
        self.set(f::CT_MARK, fl::KEY_CT_MARK, fl::KEY_CT_MARK_MASK);
        self.set(f::CT_LABELS, fl::KEY_CT_LABELS, fl::KEY_CT_LABELS_MASK);
        Ok(())
    }

    /// Parses the flags (`fl_set_key_flags`).
    fn flags(&mut self) -> Result<(), Error> {
        let Some(flags) = self.tb.get(fl::KEY_FLAGS) else {
            return Ok(());
        };
        let Some(mask) = self.tb.get(fl::KEY_FLAGS_MASK) else {
            return Err(text("Missing flags mask"));
        };
        let known = fl::KEY_FLAGS_IS_FRAGMENT | fl::KEY_FLAGS_FRAG_IS_FIRST;
        let mask = mask.be32()? & known;
        self.key.set(field::FLAGS, &[(flags.be32()? & mask) as u8]);
        self.mask.set(field::FLAGS, &[mask as u8]);
        Ok(())
    }

    /// Parses the fields that follow the network header, depending on its protocols.
    fn transport(&mut self) -> Result<(), Error> {
        use field as f;
        let n_proto = self.key.u16(f::N_PROTO);
        match (n_proto, self.key.u8(f::IP_PROTO)) {
            (_, proto::TCP) => {
                self.set(f::PORT_SRC, fl::KEY_TCP_SRC, fl::KEY_TCP_SRC_MASK);
                self.set(f::PORT_DST, fl::KEY_TCP_DST, fl::KEY_TCP_DST_MASK);
                self.set(f::TCP_FLAGS, fl::KEY_TCP_FLAGS, fl::KEY_TCP_FLAGS_MASK);
            }
            (_, proto::UDP) => {
                self.set(f::PORT_SRC, fl::KEY_UDP_SRC, fl::KEY_UDP_SRC_MASK);
                self.set(f::PORT_DST, fl::KEY_UDP_DST, fl::KEY_UDP_DST_MASK);
            }
            (_, proto::SCTP) => {
                self.set(f::PORT_SRC, fl::KEY_SCTP_SRC, fl::KEY_SCTP_SRC_MASK);
                self.set(f::PORT_DST, fl::KEY_SCTP_DST, fl::KEY_SCTP_DST_MASK);
            }
            (proto::IP, proto::ICMP) => {
                self.set(f::ICMP_TYPE, fl::KEY_ICMPV4_TYPE, fl::KEY_ICMPV4_TYPE_MASK);
                self.set(f::ICMP_CODE, fl::KEY_ICMPV4_CODE, fl::KEY_ICMPV4_CODE_MASK);
            }
            (proto::IPV6, proto::ICMPV6) => {
                self.set(f::ICMP_TYPE, fl::KEY_ICMPV6_TYPE, fl::KEY_ICMPV6_TYPE_MASK);
                self.set(f::ICMP_CODE, fl::KEY_ICMPV6_CODE, fl::KEY_ICMPV6_CODE_MASK);
            }
            (proto::MPLS_UC | proto::MPLS_MC, _) => self.mpls()?,
            (proto::ARP | proto::RARP, _) => {
                self.set(f::ARP_SIP, fl::KEY_ARP_SIP, fl::KEY_ARP_SIP_MASK);
                self.set(f::ARP_TIP, fl::KEY_ARP_TIP, fl::KEY_ARP_TIP_MASK);
                self.set(f::ARP_OP, fl::KEY_ARP_OP, fl::KEY_ARP_OP_MASK);
                self.set(f::ARP_SHA, fl::KEY_ARP_SHA, fl::KEY_ARP_SHA_MASK);
                self.set(f::ARP_THA, fl::KEY_ARP_THA, fl::KEY_ARP_THA_MASK);
            }
            (_, proto::L2TP) => self.set_exact(f::L2TPV3_SID, fl::KEY_L2TPV3_SID),
            _ => {}
        }
        if matches!(
            self.key.u8(f::IP_PROTO),
            proto::TCP | proto::UDP | proto::SCTP
        ) {
            self.port_ranges()?;
        }
        Ok(())
    }
}

/// Checks the state of connection tracking (`fl_validate_ct_state`).
fn check_ct_state(state: u16) -> Result<(), Error> {
    let has = |bits: u16| state & bits != 0;
    if has(!0) && !has(fl::KEY_CT_FLAGS_TRACKED) {
        return Err(text("no trk, so no other flag can be set"));
    }
    if has(fl::KEY_CT_FLAGS_NEW) && has(fl::KEY_CT_FLAGS_ESTABLISHED) {
        return Err(text("new and est are mutually exclusive"));
    }
    if has(fl::KEY_CT_FLAGS_INVALID) && has(!(fl::KEY_CT_FLAGS_TRACKED | fl::KEY_CT_FLAGS_INVALID))
    {
        return Err(text("when inv is set, only trk may be set"));
    }
    if has(fl::KEY_CT_FLAGS_NEW) && has(fl::KEY_CT_FLAGS_REPLY) {
        return Err(text("new and rpl are mutually exclusive"));
    }
    Ok(())
}

/// Parses the key and the mask (`fl_set_key`). `into` must be zero.
pub fn parse(tb: &Table<'_>, host: &dyn Host, into: &mut Masked) -> Result<(), Error> {
    use field as f;
    let mut b = Builder {
        tb,
        key: &mut into.key,
        mask: &mut into.mask,
        exceeds: tb.has(fl::KEY_ENC_OPTS),
    };
    if let Some(attr) = tb.get(fl::INDEV) {
        b.key
            .set(f::INDEV, &exts::indev(&attr, host)?.to_ne_bytes());
        b.mask.fill(f::INDEV);
    }
    b.set(f::ETH_DST, fl::KEY_ETH_DST, fl::KEY_ETH_DST_MASK);
    b.set(f::ETH_SRC, fl::KEY_ETH_SRC, fl::KEY_ETH_SRC_MASK);
    b.set_exact(f::NUM_OF_VLANS, fl::KEY_NUM_OF_VLANS);

    if let (true, ethertype) = b.is_vlan(fl::KEY_ETH_TYPE, 0)? {
        b.vlan(
            ethertype,
            [fl::KEY_VLAN_ID, fl::KEY_VLAN_PRIO, fl::KEY_VLAN_ETH_TYPE],
            [f::VLAN_ID, f::VLAN_PRIO, f::VLAN_TPID, f::VLAN_ETH_TYPE],
        )?;
        if let (true, ethertype) = b.is_vlan(fl::KEY_VLAN_ETH_TYPE, 1)? {
            b.vlan(
                ethertype,
                [fl::KEY_CVLAN_ID, fl::KEY_CVLAN_PRIO, fl::KEY_CVLAN_ETH_TYPE],
                [f::CVLAN_ID, f::CVLAN_PRIO, f::CVLAN_TPID, f::CVLAN_ETH_TYPE],
            )?;
            b.set_exact(f::N_PROTO, fl::KEY_CVLAN_ETH_TYPE);
        }
    }
    if b.key.u16(f::N_PROTO) == proto::PPP_SES {
        b.pppoe()?;
    }
    if matches!(b.key.u16(f::N_PROTO), proto::IP | proto::IPV6) {
        b.set_exact(f::IP_PROTO, fl::KEY_IP_PROTO);
        b.set(f::IP_TOS, fl::KEY_IP_TOS, fl::KEY_IP_TOS_MASK);
        b.set(f::IP_TTL, fl::KEY_IP_TTL, fl::KEY_IP_TTL_MASK);
    }
    if tb.has(fl::KEY_IPV4_SRC) || tb.has(fl::KEY_IPV4_DST) {
        b.key.set(f::ADDR_TYPE, &[ADDR_IPV4]);
        b.mask.fill(f::ADDR_TYPE);
        b.set(f::IPV4_SRC, fl::KEY_IPV4_SRC, fl::KEY_IPV4_SRC_MASK);
        b.set(f::IPV4_DST, fl::KEY_IPV4_DST, fl::KEY_IPV4_DST_MASK);
    } else if tb.has(fl::KEY_IPV6_SRC) || tb.has(fl::KEY_IPV6_DST) {
        b.key.set(f::ADDR_TYPE, &[ADDR_IPV6]);
        b.mask.fill(f::ADDR_TYPE);
        b.set(f::IPV6_SRC, fl::KEY_IPV6_SRC, fl::KEY_IPV6_SRC_MASK);
        b.set(f::IPV6_DST, fl::KEY_IPV6_DST, fl::KEY_IPV6_DST_MASK);
    }
    b.transport()?;
    b.tunnel();
    b.set(f::HASH, fl::KEY_HASH, fl::KEY_HASH_MASK);
    enc_opts::parse(tb, b.key, b.mask)?;
    b.connection()?;
    b.flags()?;
    into.exceeds = b.exceeds;
    Ok(())
}
