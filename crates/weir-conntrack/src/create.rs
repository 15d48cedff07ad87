// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Connections that requests make (`ctnetlink_create_conntrack`).

use crate::connection::{Create, CreateError, CreateNat, Handle, Origin};
use crate::conntrack::{Conntrack, Fresh, Refused, State};
use crate::nat::Manip;
use crate::range::Range;
use crate::status::{ipct, ips};

impl Conntrack {
    /// Makes a connection.
    pub fn create(&self, new: &Create, now: u64, origin: Origin) -> Result<Handle, CreateError> {
        let mut fresh = Fresh {
            original: new.original,
            reply: new.reply,
            zone: new.zone,
            status: new.status,
            mark: new.mark,
            labels: new.labels,
            timeout: new.timeout,
            state: State::requested(new),
            bytes: 0,
            no_port: false,
        };
        if let Some(nat) = &new.nat {
            self.translate_new(&mut fresh, nat, now)?;
        }
        let handle = self.confirm(&fresh, now).map_err(|refused| match refused {
            Refused::Clash(..) => CreateError::Exists,
            Refused::Full => CreateError::Full,
            Refused::NoMemory => CreateError::NoMemory,
        })?;
        if let Some(slot) = self.slot(handle) {
            let mut events = ipct::NEW;
            if new.status & ips::SEEN_REPLY != 0 {
                events |= ipct::REPLY;
            }
            if new.status & ips::ASSURED != 0 {
                events |= ipct::ASSURED;
            }
            if new.mark != 0 {
                events |= ipct::MARK;
            }
            if new.tcp.is_some() || new.sctp.is_some() || new.dccp.is_some() {
                events |= ipct::PROTOINFO;
            }
            if new.labels.is_some() {
                events |= ipct::LABEL;
            }
            self.tell(events, &slot, origin, now);
        }
        Ok(handle)
    }

    /// Decides the translation of a connection that a request makes (`ctnetlink_setup_nat`).
    fn translate_new(
        &self,
        fresh: &mut Fresh,
        nat: &CreateNat,
        now: u64,
    ) -> Result<(), CreateError> {
        let (mut drawn, seed) = (0, u64::from(self.entries()) << 32);
        let mut random = || {
            drawn += 1;
            self.secret.hash(now, seed | drawn) as u32
        };
        for (manip, range) in [
            (Manip::Destination, nat.destination),
            (Manip::Source, nat.source),
        ] {
            // Ports alone are those of the address that the connection has.
            let range = range.map(|range| Range {
                addresses: range.addresses.or_else(|| {
                    let current = fresh.reply.invert()?;
                    let address = match manip {
                        Manip::Source => current.src,
                        Manip::Destination => current.dst,
                    };
                    Some((address, address))
                }),
                ..range
            });
            self.set_up(fresh, range.as_ref(), manip, &mut random)
                .map_err(|_| CreateError::NoMemory)?;
        }
        Ok(())
    }
}
