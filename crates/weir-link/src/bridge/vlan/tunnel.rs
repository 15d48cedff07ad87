// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tunnel ids of the VLANs of a port (`br_vlan_tunnel.c`, `br_netlink_tunnel.c`): a frame that leaves by a port with
//! `vlan_tunnel` loses its tag and gets metadata with the id of its VLAN, by which a vxlan device in external mode
//! finds remotes; the id in the metadata of an untagged frame that arrives names its VLAN.

use std::sync::Arc;

use weir_netlink::ifla::bridge::{
    self, VLAN_INFO_RANGE_BEGIN, VLAN_INFO_RANGE_END, VLAN_TUNNEL_FLAGS, VLAN_TUNNEL_ID,
    VLAN_TUNNEL_VID,
};
use weir_netlink::ifla::{brport, vlandb};
use weir_netlink::{Attr, Error, Policy, Rule, Strictness, Writer, errno, parse_at, policy, rtm};
use weir_packet::header::{ETH_P_8021AD, ETH_P_8021Q};
use weir_packet::tunnel::{Ends, Tunnel};
use weir_packet::{Packet, VlanTag, edit};
use weir_sync::rcu::Guard;

use super::{Change, Group, Vlan};
use crate::bridge::Bridge;
use crate::bridge::port::Port;

/// `vlan_tunnel_policy`
static POLICY: Policy = policy! { max bridge::VLAN_TUNNEL_MAX;
    VLAN_TUNNEL_ID => Rule::u32(),
    VLAN_TUNNEL_VID => Rule::u16(),
    VLAN_TUNNEL_FLAGS => Rule::u16(),
};

/// `br_vlandb_tinfo_pol`
static ENTRY: Policy = policy! { max vlandb::TINFO_MAX;
    vlandb::TINFO_ID => Rule::u32(),
    vlandb::TINFO_CMD => Rule::u32(),
};

/// `struct vtunnel_info`
#[derive(Debug, Clone, Copy)]
pub(super) struct Info {
    id: u32,
    vid: u16,
    flags: u16,
}

fn invalid() -> Error {
    Error::new(errno::EINVAL)
}

impl Info {
    /// `br_parse_vlan_tunnel_info`
    fn parse(attr: &Attr<'_>) -> Result<Self, Error> {
        let inside = attr.attrs();
        let table = parse_at(inside.rest(), inside.offset(), &POLICY, Strictness::Liberal)?;
        let (id, vid) = (table.u32(VLAN_TUNNEL_ID)?, table.u16(VLAN_TUNNEL_VID)?);
        let (Some(id), Some(vid)) = (id, vid) else {
            return Err(invalid());
        };
        if vid >= 4095 {
            return Err(Error::new(errno::ERANGE));
        }
        let flags = table.u16(VLAN_TUNNEL_FLAGS)?.unwrap_or(0);
        Ok(Self { id, vid, flags })
    }
}

impl Vlan {
    /// Returns the tunnel id.
    pub(super) fn tunnel_id(&self) -> Option<u32> {
        self.tunnel.as_ref().map(|tunnel| tunnel.id)
    }

    /// Returns whether the next VLAN may be shown in one range with this one (`__vlan_tun_can_enter_range`).
    pub(super) fn tunnels_join(&self, next: &Self) -> bool {
        match (self.tunnel_id(), next.tunnel_id()) {
            (None, None) => true,
            (one, next) => next.unwrap_or(0).wrapping_sub(one.unwrap_or(0)) == 1,
        }
    }
}

impl Group {
    /// Gives a VLAN a tunnel id (`nbp_vlan_tunnel_info_add`).
    fn add_tunnel(&mut self, vid: u16, id: u32) -> Result<(), Error> {
        let at = self.tunnels.binary_search_by_key(&id, |(id, _)| *id);
        let vlan = self.find(vid).ok_or_else(invalid)?;
        let (None, Err(at)) = (&vlan.tunnel, at) else {
            return Err(Error::new(errno::EEXIST));
        };
        vlan.tunnel = Some(Arc::new(Tunnel {
            ends: Ends::V4([0; 4], [0; 4]),
            options: None,
            id,
            src_port: 0,
            dst_port: 0,
            tos: 0,
            ttl: 0,
            has_id: true,
            checksum: false,
            dont_fragment: false,
            transmit: true,
            bridge: true,
            hop: false,
        }));
        self.tunnels.insert(at, (id, vid));
        Ok(())
    }

    /// Takes a VLAN's tunnel id away (`vlan_tunnel_info_del`).
    pub(super) fn remove_tunnel(&mut self, vid: u16) {
        if let Some(vlan) = self.find(vid)
            && vlan.tunnel.take().is_some()
        {
            self.tunnels.retain(|(_, other)| *other != vid);
        }
    }

    /// `br_vlan_tunnel_info`
    fn change_tunnel(&mut self, vid: u16, id: u32, delete: bool) -> Result<bool, Error> {
        if !delete {
            return self.add_tunnel(vid, id).map(|()| true);
        }
        let known = self.place(vid).is_ok();
        self.remove_tunnel(vid);
        Ok(known)
    }

    /// Changes the tunnel id of a VLAN as RTM_NEWVLAN asks for it (`br_vlan_modify_tunnel`). `place` is that of the VLAN in
    /// the range.
    pub(super) fn modify_tunnel(
        &mut self,
        port: Option<&Port>,
        (vid, place): (u16, u16),
        attr: &Attr<'_>,
    ) -> Result<bool, Error> {
        let wrong = |errno, text| Err(Error::msg(errno, text));
        let Some(port) = port else {
            return wrong(
                errno::EINVAL,
                "bridge: Can't modify tunnel mapping of non-port vlans",
            );
        };
        if !port.has(brport::VLAN_TUNNEL) {
            return wrong(errno::EINVAL, "bridge: Port doesn't have tunnel flag set");
        }
        let table = attr.parse(&ENTRY, Strictness::Strict)?;
        let id = table.u32(vlandb::TINFO_ID)?;
        match table.u32(vlandb::TINFO_CMD)?.map(u16::try_from) {
            None => wrong(errno::ENOENT, "bridge: Missing tunnel command attribute"),
            Some(Ok(rtm::SETLINK)) => match id {
                None => wrong(errno::ENOENT, "bridge: Missing tunnel id attribute"),
                Some(id) => self.change_tunnel(vid, id.wrapping_add(place.into()), false),
            },
            Some(Ok(rtm::DELLINK)) => self.change_tunnel(vid, 0, true),
            Some(_) => wrong(errno::EINVAL, "bridge: Unsupported tunnel command"),
        }
    }

    /// Gives an untagged frame with metadata the tag of the VLAN of its tunnel (`br_handle_ingress_vlan_tunnel`).
    pub fn enter_tunnel(&self, protocol: u16, packet: &mut Packet) {
        let tagged =
            packet.vlan().is_some() || matches!(packet.protocol, ETH_P_8021Q | ETH_P_8021AD);
        let Some(id) = packet.tunnel().map(|tunnel| tunnel.id).filter(|_| !tagged) else {
            return;
        };
        let at = self.tunnels.binary_search_by_key(&id, |(id, _)| *id);
        if let Some((_, vid)) = at.ok().and_then(|at| self.tunnels.get(at)) {
            packet.set_tunnel(None);
            packet.set_vlan(Some(VlanTag {
                proto: protocol,
                tci: *vid,
            }));
        }
    }
}

impl Vlan {
    /// Gives a tagged frame metadata in place of its tag (`br_handle_egress_vlan_tunnel`).
    pub fn leave_by_tunnel(&self, packet: &mut Packet) {
        if let Some(tunnel) = &self.tunnel
            && packet.vlan().is_some()
        {
            packet.set_vlan(None);
            // As `skb_vlan_pop` takes the next tag out of the data; a frame cut in it keeps it.
            edit::untag(packet);
            packet.set_tunnel(Some(tunnel.clone()));
        }
    }
}

impl Change<'_> {
    /// Processes one attribute (`br_process_vlan_tunnel_info`). Returns whether anything changed.
    pub(super) fn process_tunnel(
        &mut self,
        port: Option<(&Port, &mut Group)>,
        attr: &Attr<'_>,
        begin: &mut Option<Info>,
        delete: bool,
    ) -> Result<bool, Error> {
        let port = port.filter(|(port, _)| port.has(brport::VLAN_TUNNEL));
        let Some((port, group)) = port else {
            return Err(invalid());
        };
        let info = Info::parse(attr)?;
        if info.flags & VLAN_INFO_RANGE_BEGIN != 0 {
            return match begin.replace(info) {
                Some(_) => Err(invalid()),
                None => Ok(false),
            };
        }
        if info.flags & VLAN_INFO_RANGE_END == 0 {
            if begin.is_some() {
                return Err(invalid());
            }
            let changed = group.change_tunnel(info.vid, info.id, delete)?;
            self.tell_tunnels(port, group, (info.vid, 0));
            return Ok(changed);
        }
        let first = begin.ok_or_else(invalid)?;
        let vids = i64::from(info.vid) - i64::from(first.vid);
        if vids != i64::from(info.id) - i64::from(first.id) {
            return Err(invalid());
        }
        let (mut any, mut run) = (false, None);
        let mut done = Ok(());
        for (vid, id) in (first.vid..=info.vid).zip(first.id..=info.id) {
            match group.change_tunnel(vid, id, delete) {
                Ok(true) => {
                    any = true;
                    let start = run.map_or(vid, |(start, _)| start);
                    run = Some((start, vid));
                }
                Ok(false) => {
                    if let Some(run) = run.take() {
                        self.tell_tunnels(port, group, run);
                    }
                }
                Err(error) => {
                    done = Err(error);
                    break;
                }
            }
        }
        if let Some(run) = run {
            self.tell_tunnels(port, group, run);
        }
        done?;
        *begin = None;
        Ok(any)
    }

    fn tell_tunnels(&self, port: &Port, group: &Group, vids: (u16, u16)) {
        self.bridge
            .tell_vlans(self.at, Some(port), group, vids, rtm::NEWVLAN);
    }
}

impl Bridge {
    /// Forgets the tunnel ids of a port (`nbp_vlan_tunnel_info_flush`).
    pub fn forget_tunnels(&self, guard: &Guard, port: &Port) {
        let _vlans = self.vlans.lock();
        let mut group = port.vlans.load(guard).clone();
        if group.tunnels.is_empty() {
            return;
        }
        group.tunnels.clear();
        group.list.iter_mut().for_each(|vlan| vlan.tunnel = None);
        port.vlans.replace(group);
    }
}

/// Writes the tunnel ids of the VLANs of a port, in ranges (`br_fill_vlan_tunnel_info`).
pub(super) fn fill(group: &Group, out: &mut Writer) {
    let mut runs: Vec<(u16, u32, u16)> = Vec::new();
    for vlan in group.all_usable() {
        let Some(id) = vlan.tunnel_id() else { continue };
        match runs.last_mut() {
            Some((first, start, last))
                if *last + 1 == vlan.vid
                    && id.wrapping_sub(*start) == u32::from(vlan.vid - *first) =>
            {
                *last = vlan.vid;
            }
            _ => runs.push((vlan.vid, id, vlan.vid)),
        }
    }
    let mut put = |vid: u16, id: u32, flags: u16| {
        let nest = out.nest_noflag(bridge::VLAN_TUNNEL_INFO);
        out.put_u32(VLAN_TUNNEL_ID, id);
        out.put_u16(VLAN_TUNNEL_VID, vid);
        out.put_u16(VLAN_TUNNEL_FLAGS, flags);
        out.end(nest);
    };
    for (first, id, last) in runs {
        if first == last {
            put(first, id, 0);
        } else {
            put(first, id, VLAN_INFO_RANGE_BEGIN);
            put(
                last,
                id.wrapping_add(u32::from(last - first)),
                VLAN_INFO_RANGE_END,
            );
        }
    }
}
