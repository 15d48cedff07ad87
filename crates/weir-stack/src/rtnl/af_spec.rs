// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `IFLA_AF_SPEC`: the per-family settings of a link (`inet_set_link_af`, `inet6_set_link_af`).

use std::sync::Arc;

use weir_netlink::ifla::iff;
use weir_netlink::{Attr, Error, af, errno, ifla};

use crate::device::Device;
use crate::ipv6::WithIpv6;
use crate::layers::Site;
use crate::rtnl::Ctl;
use crate::settings::HasIp;
use crate::settings::WithSettings;
use crate::sysctl::Ipv6Conf;

/// Applies the per-family settings of a set request.
pub fn apply(ctl: &mut Ctl<'_>, device: &Arc<Device>, spec: Attr<'_>) -> Result<(), Error> {
    for family in spec.attrs() {
        match family.ty {
            ty if ty == u16::from(af::INET6) && device.has_ipv6() => {
                for attr in family.attrs() {
                    match attr.ty {
                        ifla::inet6::ADDR_GEN_MODE => {
                            let mode = i32::from(attr.u8()?);
                            let ns = device.namespace(ctl.guard);
                            if !crate::ipv6::is_mode(ns, Some(device), mode) {
                                return Err(Error::new(errno::EINVAL));
                            }
                            device.conf().ipv6.set(Ipv6Conf::AddrGenMode, mode);
                        }
                        ifla::inet6::TOKEN => set_token(ctl, device, attr)?,
                        _ => return Err(Error::new(errno::EOPNOTSUPP)),
                    }
                }
            }
            _ => return Err(Error::new(errno::EAFNOSUPPORT)),
        }
    }
    Ok(())
}

/// Sets the interface identifier of automatic addresses (`inet6_set_iftoken`).
fn set_token(ctl: &Ctl<'_>, device: &Arc<Device>, attr: Attr<'_>) -> Result<(), Error> {
    let refused = |text| Err(Error::msg(errno::EINVAL, text));
    let conf = &device.conf().ipv6;
    if device.flags() & iff::LOOPBACK != 0 {
        return refused("ipv6: Device is loopback");
    }
    if device.flags() & iff::NOARP != 0 {
        return refused("ipv6: Device does not do neighbour discovery");
    }
    if !crate::ipv6::accepts_advertisements(device) {
        return refused("ipv6: Router advertisement is disabled on device");
    }
    if conf.get(Ipv6Conf::RouterSolicitations) == 0 {
        return refused("Router solicitation is disabled on device");
    }
    let token: &[u8; 16] = attr
        .payload
        .first_chunk()
        .ok_or_else(|| attr.invalid("Attribute failed policy validation"))?;
    let token = u128::from_be_bytes(*token) as u64;
    let site = Site::new(ctl.stack, ctl.guard, device.namespace(ctl.guard), device);
    device.ipv6().addresses.set_token(&site, token);
    Ok(())
}
