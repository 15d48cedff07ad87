// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The VNIs of VXLAN devices: RTM_NEWTUNNEL, RTM_DELTUNNEL, RTM_GETTUNNEL (`vxlan_vnifilter.c`).

use std::sync::Arc;

use weir_link::vxlan::vnifilter::{self, Run};
use weir_netlink::{Error, TunnelMsg, Writer, errno, rtm};

use crate::device::Device;
use crate::rtnl::{Ctl, Dump, DumpCtl, Handler};

/// The handled request types.
pub const HANDLERS: &[Handler] = &[
    Handler {
        ty: rtm::NEWTUNNEL,
        doit: Some(|ctl| vnifilter::process(ctl)),
        dumpit: None,
    },
    Handler {
        ty: rtm::DELTUNNEL,
        doit: Some(|ctl| vnifilter::process(ctl)),
        dumpit: None,
    },
    Handler {
        ty: rtm::GETTUNNEL,
        doit: None,
        dumpit: Some(dump),
    },
];

/// A device and the entries of it that are to come.
struct Part {
    device: Arc<Device>,
    runs: std::vec::IntoIter<Run>,
    next: Option<Run>,
}

/// The identifiers of devices (`vxlan_vnifilter_dump`). A message has as many entries of a device as fit.
struct Vnis {
    parts: std::vec::IntoIter<Part>,
    next: Option<Part>,
}

impl Dump for Vnis {
    fn fill(&mut self, ctl: &DumpCtl<'_>, out: &mut Writer) -> Result<bool, Error> {
        while let Some(mut part) = self.next.take().or_else(|| self.parts.next()) {
            let mut any = false;
            ctl.message(out, rtm::NEWTUNNEL, |out| {
                out.fixed(&vnifilter::head(&part.device));
                while let Some(run) = part.next.take().or_else(|| part.runs.next()) {
                    let before = out.mark();
                    run.fill(out);
                    if out.is_full() {
                        // Without an entry the message goes, too.
                        if any {
                            out.rollback(before);
                        }
                        part.next = Some(run);
                        break;
                    }
                    any = true;
                }
            });
            if part.next.is_some() {
                self.next = Some(part);
                return match out.is_empty() {
                    true => Err(Error::new(errno::EMSGSIZE)),
                    false => Ok(false),
                };
            }
        }
        Ok(true)
    }
}

fn dump(ctl: &mut Ctl<'_>) -> Result<Box<dyn Dump>, Error> {
    let invalid = |text| Error::msg(errno::EINVAL, text);
    let message = ctl.message.fixed::<TunnelMsg>();
    let message = message.map_err(|_| invalid("Invalid msg length"))?;
    if message.flags & !weir_netlink::vnifilter::FLAG_STATS != 0 {
        return Err(invalid("Invalid tunnelmsg flags in ancillary header"));
    }
    let counted = message.flags & weir_netlink::vnifilter::FLAG_STATS != 0;
    let part = |device: &Arc<Device>| {
        let vxlan = vnifilter::vxlan_in(device)?;
        let runs = vnifilter::runs(vxlan, device, counted, ctl.guard)?;
        Some(Part {
            device: device.clone(),
            runs: runs.into_iter(),
            next: None,
        })
    };
    let mut parts: Vec<Part> = if message.ifindex == 0 {
        ctl.ns.all_devices().iter().filter_map(part).collect()
    } else {
        let device = ctl.ns.device(message.ifindex, ctl.guard);
        let device = device.ok_or(Error::new(errno::ENODEV))?;
        if vnifilter::vxlan_in(device).is_none() {
            return Err(invalid("The device is not a vxlan device"));
        }
        vec![part(device).ok_or(Error::new(errno::EINVAL))?]
    };
    parts.retain(|part| part.runs.len() != 0);
    Ok(Box::new(Vnis {
        parts: parts.into_iter(),
        next: None,
    }))
}
