// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The VLANs of bridges: RTM_GETVLAN (`br_vlan_rtm_dump`); RTM_NEWVLAN and RTM_DELVLAN, which change them and their
//! options (`br_vlan_rtm_process`).
//!
//! `bridge vlan add` and `del` use RTM_SETLINK and RTM_DELLINK of family AF_BRIDGE.

use std::sync::Arc;

use weir_netlink::ifla::vlandb;
use weir_netlink::{BrVlanMsg, Error, Policy, Rule, Writer, errno, policy, rtm};

use crate::device::Device;
use crate::kind::Bridging;
use crate::rtnl::{Collected, Ctl, Dump, Handler};

/// The handled request types.
pub const HANDLERS: &[Handler] = &[
    Handler {
        ty: rtm::GETVLAN,
        doit: None,
        dumpit: Some(dump),
    },
    Handler {
        ty: rtm::NEWVLAN,
        doit: Some(process),
        dumpit: None,
    },
    Handler {
        ty: rtm::DELVLAN,
        doit: Some(process),
        dumpit: None,
    },
];

static POLICY: Policy = policy! { max vlandb::DUMP_MAX; vlandb::DUMP_FLAGS => Rule::u32() };

static CHANGE: Policy = policy! { max vlandb::MAX;
    vlandb::ENTRY => Rule::nested_any(),
    vlandb::GLOBAL_OPTIONS => Rule::nested_any(),
};

/// Finds what a device is a port of, or is itself.
fn bridging<'a>(
    device: &'a Arc<Device>,
    above: Option<&'a Arc<Device>>,
) -> Option<&'a dyn Bridging> {
    let above = above.and_then(|above| above.link.bridging());
    device.link.bridging().or(above)
}

fn process(ctl: &mut Ctl<'_>) -> Result<(), Error> {
    let request = ctl.message;
    let (message, _) = request.parse::<BrVlanMsg>(&CHANGE, weir_netlink::Strictness::Strict)?;
    let device = ctl.ns.device(message.ifindex, ctl.guard);
    let device = device.ok_or_else(|| Error::new(errno::ENODEV))?.clone();
    let above = device.master(ctl.guard);
    let bridging = bridging(&device, above).ok_or_else(|| {
        let text = "bridge: The device is not a valid bridge or bridge port";
        Error::msg(errno::EINVAL, text)
    })?;
    let mut attrs = request.attrs::<BrVlanMsg>();
    bridging.process_vlans(ctl, &device, &mut attrs, request.header.ty)
}

fn dump(ctl: &mut Ctl<'_>) -> Result<Box<dyn Dump>, Error> {
    let request = ctl.message;
    let (message, attrs) = request.parse::<BrVlanMsg>(&POLICY, weir_netlink::Strictness::Strict)?;
    let flags = attrs.u32(vlandb::DUMP_FLAGS)?.unwrap_or(0);
    let global = flags & vlandb::DUMPF_GLOBAL != 0;
    let stats = flags & vlandb::DUMPF_STATS != 0;
    let vlans = |device: &Arc<Device>| {
        let above = device.master(ctl.guard);
        let bridging = bridging(device, above)?;
        Some(match global {
            true => bridging.global_vlans(ctl.stack, ctl.guard, device),
            false => bridging.vlans(ctl.guard, device, stats),
        })
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
