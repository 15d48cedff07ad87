// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `IFLA_AF_SPEC`: the per-family settings of a link (`inet_set_link_af`, `inet6_set_link_af`).

use std::sync::Arc;

use weir_netlink::ifla::iff;
use weir_netlink::{Attr, Error, af, errno, ifla};

use crate::device::Device;
use crate::rtnl::Ctl;
use crate::settings::HasIp;
use crate::settings::WithSettings;
use crate::sysctl::Ipv6Conf;

/// `IN6_ADDR_GEN_MODE_STABLE_PRIVACY`
const STABLE_PRIVACY: u8 = 2;

/// Applies the per-family settings of a set request.
pub fn apply(_ctl: &mut Ctl<'_>, device: &Arc<Device>, spec: Attr<'_>) -> Result<(), Error> {
    for family in spec.attrs() {
        match family.ty {
            ty if ty == u16::from(af::INET6) && device.has_ipv6() => {
                for attr in family.attrs() {
                    match attr.ty {
                        ifla::inet6::ADDR_GEN_MODE => {
                            let mode = attr.u8()?;
                            // Without a secret, none is derived from it (`check_stable_privacy`).
                            if mode > 3 || mode == STABLE_PRIVACY {
                                return Err(Error::new(errno::EINVAL));
                            }
                            device
                                .conf()
                                .ipv6
                                .set(Ipv6Conf::AddrGenMode, i32::from(mode));
                        }
                        ifla::inet6::TOKEN if device.flags() & iff::NOARP != 0 => {
                            let text = "ipv6: Device does not do neighbour discovery";
                            return Err(Error::msg(errno::EINVAL, text));
                        }
                        ifla::inet6::TOKEN => {
                            return Err(Error::unsupported(
                                "Interface identifiers need router advertisements, which are not supported",
                            ));
                        }
                        _ => return Err(Error::new(errno::EOPNOTSUPP)),
                    }
                }
            }
            _ => return Err(Error::new(errno::EAFNOSUPPORT)),
        }
    }
    Ok(())
}
