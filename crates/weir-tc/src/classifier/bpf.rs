// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `bpf`: matches packets with a program in classic BPF.
//!
//! Mirrors net/sched/cls_bpf.c. Parameters: the program (`bytecode`, 1 to 4096 instructions, checked
//! by [`Program`]), `classid` (0: none), `direct-action`, actions or a policer in the old form,
//! offload flags (`skip_sw` is refused because there is no hardware). Handles are assigned from 1
//! upwards. Filters are tried from the newest to the oldest.
//!
//! The program sees the frame from its Ethernet header on. Its result is 0 if the packet does not
//! match, -1 for the filter's class, or else the class. With `direct-action` it is a code: `OK`,
//! `SHOT`, `STOLEN` or `TRAP`; `REDIRECT` drops, because a classic program cannot name a device.
//!
//! Not implemented: eBPF programs; loads of ancillary data and from negative offsets.

use std::sync::Arc;

use weir_netlink::errno::{EINVAL, EOPNOTSUPP};
use weir_netlink::tca::{self, bpf as attr, cls_flags};
use weir_netlink::{Error, Policy, Rule, Table, Writer, policy};
use weir_packet::Packet;
use weir_packet::bpf::{Instruction, LONGEST, Program};

use super::exts::{self, Exts, Pending};
use super::list::{List, Listed, free_handle};
use super::{Change, Ops};
use crate::context::Context;
use crate::env::Env;
use crate::verdict::{Code, Outcome, code};

/// The kind's entry in the list of kinds.
pub const OPS: Ops = Ops {
    kind: "bpf",
    create: |new| Ok(Box::new(Bpf(List::new(new.env.net.domain())))),
    template: None,
};

static POLICY: Policy = policy! { max attr::MAX;
    attr::CLASSID => Rule::u32(),
    attr::FLAGS => Rule::u32(),
    attr::FLAGS_GEN => Rule::u32(),
    attr::FD => Rule::u32(),
    attr::NAME => Rule::nul_string(256),
    attr::OPS_LEN => Rule::u16(),
    attr::OPS => Rule::binary((LONGEST * Instruction::LEN) as u16),
};

const EXTS: exts::Attrs = exts::Attrs {
    act: attr::ACT,
    police: attr::POLICE,
    classid: attr::CLASSID,
};

/// The lowest offset of loads relative to a header (`SKF_LL_OFF`), and the lowest of ancillary data
/// (`SKF_AD_OFF`).
const RELATIVE: u32 = -0x20_0000_i32 as u32;
const ANCILLARY: u32 = -0x1000_i32 as u32;
/// The end of the known ancillary data (`SKF_AD_MAX`), in words.
const ANCILLARY_END: u32 = 64;
/// The result of a program that stands for the filter's class.
const OWN_CLASS: u32 = u32::MAX;

/// A filter of the kind.
struct Filter {
    handle: u32,
    program: Program,
    /// The program's result is a code.
    direct: bool,
    flags: u32,
    exts: Exts,
}

/// The parameters of a filter beside its actions.
struct Params {
    program: Program,
    direct: bool,
    flags: u32,
}

/// An instance; see the module's documentation.
struct Bpf(List<Filter>);

impl Params {
    /// Parses the parameters (`cls_bpf_set_parms`).
    fn parse(tb: &Table<'_>) -> Result<Self, Error> {
        let invalid = || Error::new(EINVAL);
        let direct = tb.u32(attr::FLAGS)?.unwrap_or(0);
        if direct & !attr::FLAG_ACT_DIRECT != 0 {
            return Err(invalid());
        }
        let flags = exts::flags(tb, attr::FLAGS_GEN)?;
        if flags & cls_flags::VERBOSE != 0 {
            return Err(invalid());
        }
        if let Some(fd) = tb.get(attr::FD) {
            return Err(Error::unsupported("eBPF programs are not supported").at(&fd));
        }
        Ok(Self {
            program: program(tb)?,
            direct: direct != 0,
            flags: exts::offload(flags)?,
        })
    }
}

/// Reads and checks the program (`cls_bpf_prog_from_ops`).
fn program(tb: &Table<'_>) -> Result<Program, Error> {
    let invalid = || Error::new(EINVAL);
    let count = usize::from(tb.u16(attr::OPS_LEN)?.ok_or_else(invalid)?);
    let code = tb.get(attr::OPS).ok_or_else(invalid)?;
    if count * Instruction::LEN != code.len() {
        return Err(invalid());
    }
    let (instructions, _) = code.payload.as_chunks();
    let instructions = instructions.iter().copied().map(Instruction::from_bytes);
    let program = Program::new(instructions.collect()).map_err(|_| invalid())?;
    for instruction in program.instructions() {
        match instruction.load_offset() {
            Some(offset) if offset >= ANCILLARY => {
                let which = offset - ANCILLARY;
                if which >= ANCILLARY_END || !which.is_multiple_of(4) {
                    return Err(invalid());
                }
                let message = "Ancillary data of BPF programs is not supported";
                return Err(Error::msg(EOPNOTSUPP, message).at(&code));
            }
            Some(RELATIVE..) => {
                let message = "Negative offsets in BPF programs are not supported";
                return Err(Error::msg(EOPNOTSUPP, message).at(&code));
            }
            _ => {}
        }
    }
    Ok(program)
}

impl Filter {
    /// Runs the program on a packet. Returns `None` if the packet continues with the next filter.
    fn run<'g>(
        &'g self,
        cx: &mut Context<'_, 'g>,
        packet: &mut Packet,
        out: &mut Outcome<'g>,
    ) -> Option<Code> {
        let result = self.program.run(packet.mac()).unwrap_or(0);
        if self.direct {
            let result = match result as Code {
                code::REDIRECT => code::SHOT,
                known @ (code::OK | code::SHOT | code::STOLEN | code::TRAP) => known,
                _ => return None,
            };
            (out.handle, out.classid, out.chain) = (self.handle, self.exts.classid, None);
            return Some(result);
        }
        if result == 0 {
            return None;
        }
        out.handle = self.handle;
        let code = self.exts.run(cx, packet, out);
        if result != OWN_CLASS {
            out.classid = result;
        }
        (code >= 0).then_some(code)
    }
}

impl Listed for Bpf {
    type Filter = Filter;

    fn list(&self) -> &List<Filter> {
        &self.0
    }

    fn classify<'g>(
        &'g self,
        cx: &mut Context<'_, 'g>,
        packet: &mut Packet,
        out: &mut Outcome<'g>,
    ) -> Code {
        for (_, filter) in self.0.entries(cx.guard) {
            if let Some(code) = filter.run(cx, packet, out) {
                return code;
            }
        }
        code::UNSPEC
    }

    fn change(
        &self,
        change: &Change<'_>,
        old: Option<Arc<Filter>>,
    ) -> Result<Option<Arc<Filter>>, Error> {
        let options = change.options.as_ref().ok_or(Error::new(EINVAL))?;
        let tb = options.parse_quietly(&POLICY)?;
        let classic = tb.has(attr::OPS_LEN) && tb.has(attr::OPS);
        if classic == tb.has(attr::FD) {
            return Err(Error::new(EINVAL));
        }
        let exts = exts::parse(change, &tb, EXTS, 0)?;
        let parsed = Params::parse(&tb).map(|params| {
            let newest = (old.is_none()).then(|| u64::MAX / 2 - self.0.number());
            (newest, params)
        });
        let make = |params: Params, entries: &[_], exts: &mut Pending| {
            let handle = match (change.handle, &old) {
                (_, Some(old)) => old.handle,
                (0, None) => free_handle(entries)?,
                (handle, None) => handle,
            };
            Ok(Filter {
                handle,
                program: params.program,
                direct: params.direct,
                flags: params.flags,
                exts: exts.commit(),
            })
        };
        self.0.settle(change, old.as_ref(), exts, parsed, make)
    }
}

impl super::Filter for Filter {
    fn handle(&self) -> u32 {
        self.handle
    }

    fn exts(&self) -> &Exts {
        &self.exts
    }

    fn dump(&self, w: &mut Writer, _terse: bool, env: &Env<'_>) {
        let options = w.nest_noflag(tca::OPTIONS);
        if self.exts.classid != 0 {
            w.put_u32(attr::CLASSID, self.exts.classid);
        }
        let instructions = self.program.instructions();
        w.put_u16(attr::OPS_LEN, instructions.len() as u16);
        let code: Vec<u8> = instructions.iter().flat_map(|one| one.to_bytes()).collect();
        w.put(attr::OPS, &code);
        self.exts.dump(w, EXTS, false, env);
        if self.direct {
            w.put_u32(attr::FLAGS, attr::FLAG_ACT_DIRECT);
        }
        w.put_u32(attr::FLAGS_GEN, self.flags);
        w.end(options);
    }
}
