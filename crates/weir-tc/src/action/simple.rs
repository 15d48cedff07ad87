// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `simple`: logs a string for each packet; an example of an action.
//!
//! Mirrors net/sched/act_simple.c.
//!
//! Parameters: the control action (default of tc: pipe) and `sdata`, a string of at most 31 bytes.
//! A string of 32 bytes is accepted and its last byte is cut off. A new action and a change must
//! both give it.
//!
//! Linux writes `simple: STRING_COUNT` with the number of packets counted so far to the kernel's
//! log. Here this text goes to the packet's trace, which `weir run` writes to comments in its
//! captures.

use weir_netlink::errno::EINVAL;
use weir_netlink::tca::simple as attr;
use weir_netlink::{Attr, Error, Fixed, Policy, Rule, Table, TcGen, Writer, policy};
use weir_packet::Packet;
use weir_sync::rcu::Published;

use super::init::required;
use super::{Common, Kind, Spec};
use crate::context::Context;
use crate::env::Env;
use crate::host::Host;
use crate::verdict::{Code, Outcome};

/// `SIMP_MAX_DATA`, including the final NUL.
const MAX_DATA: usize = 32;

static POLICY: Policy = policy! { max attr::MAX;
    attr::PARMS => Rule::unspec(TcGen::LEN as u16),
    attr::DATA => Rule::string(MAX_DATA as u16),
};

/// The kind's part of an action.
pub struct Simple {
    data: Published<Box<[u8]>>,
}

impl Kind for Simple {
    fn run<'g>(
        &'g self,
        common: &'g Common,
        cx: &mut Context<'_, 'g>,
        packet: &mut Packet,
        _out: &mut Outcome<'g>,
    ) -> Code {
        common.hit(cx);
        cx.note(packet, || {
            let data = String::from_utf8_lossy(self.data.load(cx.guard));
            format!("simple: {data}_{}", common.counters.totals().packets)
        });
        common.control()
    }

    fn dump(&self, common: &Common, start: TcGen, env: &Env<'_>, w: &mut Writer) {
        w.put_fixed(attr::PARMS, &start);
        w.put_c_str(attr::DATA, self.data.load(env.guard));
        w.put_fixed(attr::TM, &common.ages(env));
    }
}

/// Options whose syntax has been checked.
#[derive(Debug)]
pub struct Request {
    control: Code,
    data: Option<Box<[u8]>>,
}

impl Spec for Simple {
    const KIND: &'static str = "simple";
    type Request = Request;
    type Params = Box<[u8]>;

    fn parse(options: Option<&Attr<'_>>) -> Result<(u32, Request), Error> {
        let mut tb = Table::empty();
        let parms: TcGen = required(options, &POLICY, attr::PARMS, &mut tb)?;
        let cut = |data: Attr<'_>| {
            let data = data.c_str();
            data[..data.len().min(MAX_DATA - 1)].into()
        };
        let request = Request {
            control: parms.action,
            data: tb.get(attr::DATA).map(cut),
        };
        Ok((parms.index, request))
    }

    fn validate(request: &Request, _exists: bool) -> Result<(), Error> {
        match request.data {
            Some(_) => Ok(()),
            None => Err(Error::new(EINVAL)),
        }
    }

    fn control(request: &Request) -> Code {
        request.control
    }

    fn prepare(request: Request, _host: &dyn Host) -> Result<Self::Params, Error> {
        request.data.ok_or(Error::new(EINVAL))
    }

    published!(data: Published);
}
