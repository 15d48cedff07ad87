// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The VLANs of bridges: RTM_GETVLAN (`br_vlan_rtm_dump`).
//!
//! VLANs are added and deleted by RTM_SETLINK and RTM_DELLINK of family AF_BRIDGE, as `bridge vlan` does. Not
//! implemented: RTM_NEWVLAN and RTM_DELVLAN, which change options of VLANs; global options.

use std::sync::Arc;

use weir_netlink::ifla::vlandb;
use weir_netlink::{BrVlanMsg, Error, Policy, Rule, Writer, errno, policy, rtm};

use crate::device::Device;
use crate::rtnl::{Collected, Ctl, Dump, Handler};

/// The handled request types.
pub const HANDLERS: &[Handler] = &[Handler {
    ty: rtm::GETVLAN,
    doit: None,
    dumpit: Some(dump),
}];

static POLICY: Policy = policy! { max vlandb::DUMP_MAX; vlandb::DUMP_FLAGS => Rule::u32() };

fn dump(ctl: &mut Ctl<'_>) -> Result<Box<dyn Dump>, Error> {
    let request = ctl.message;
    let (message, attrs) = request.parse::<BrVlanMsg>(&POLICY, weir_netlink::Strictness::Strict)?;
    let flags = attrs.u32(vlandb::DUMP_FLAGS)?.unwrap_or(0);
    if flags & vlandb::DUMPF_GLOBAL != 0 {
        return Err(Error::unsupported("Global options of VLANs are not served"));
    }
    let stats = flags & vlandb::DUMPF_STATS != 0;
    let vlans = |device: &Arc<Device>| {
        let above = device.master(ctl.guard);
        let above = above.and_then(|above| above.link.bridging());
        let bridging = device.link.bridging().or(above)?;
        Some(bridging.vlans(ctl.guard, device, stats))
    };
    let messages = if message.ifindex == 0 {
        let devices = ctl.ns.all_devices();
        devices.iter().filter_map(vlans).flatten().collect()
    } else {
        let device = ctl.ns.device(message.ifindex, ctl.guard);
        let device = device.ok_or_else(|| Error::new(errno::ENODEV))?;
        vlans(device).ok_or_else(|| Error::new(errno::EINVAL))?
    };
    Ok(Collected::boxed(
        messages,
        false,
        |ctl, message: &Vec<u8>, out: &mut Writer| {
            ctl.message(out, rtm::NEWVLAN, |out| out.raw(message))
        },
    ))
}
