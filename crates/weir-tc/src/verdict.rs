// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What becomes of a packet: the codes actions give (`TC_ACT_*`), and the verdict a hook ends with.
//!
//! Mirrors `sch_handle_ingress` and `sch_handle_egress` (net/core/dev.c) in how codes turn into
//! verdicts. A verdict carries the packet on; nothing reaches back into the stack.

use weir_packet::DropReason;

use crate::chain::Chain;

/// A code an action or classifier gives: one of the constants below, or an extended code, an opcode
/// in the upper four bits with a value below them.
pub type Code = i32;

/// `TC_ACT_*` (linux/pkt_cls.h).
pub mod code {
    #![allow(missing_docs)] // The names are Linux's.
    use super::Code;

    pub const UNSPEC: Code = -1;
    pub const OK: Code = 0;
    pub const RECLASSIFY: Code = 1;
    pub const SHOT: Code = 2;
    pub const PIPE: Code = 3;
    pub const STOLEN: Code = 4;
    pub const QUEUED: Code = 5;
    pub const REPEAT: Code = 6;
    pub const REDIRECT: Code = 7;
    pub const TRAP: Code = 8;
    /// The largest plain code.
    pub const VALUE_MAX: Code = TRAP;
    /// Not on the wire: the packet has gone on by itself (`TC_ACT_CONSUMED`).
    pub const CONSUMED: Code = VALUE_MAX + 1;

    /// Opcode "jump over this many actions".
    pub const JUMP: u32 = 1;
    /// Opcode "go on with this chain".
    pub const GOTO_CHAIN: u32 = 2;
    /// The largest opcode.
    pub const OPCODE_MAX: u32 = GOTO_CHAIN;
    /// The bits of an extended code's value.
    pub const VALUE_MASK: u32 = (1 << 28) - 1;

    /// The code in the words of tc.
    pub fn name(code: Code) -> String {
        match (opcode(code), code) {
            (JUMP, _) => format!("jump {}", value(code)),
            (GOTO_CHAIN, _) => format!("goto chain {}", value(code)),
            (_, UNSPEC) => "continue".into(),
            (_, OK) => "pass".into(),
            (_, RECLASSIFY) => "reclassify".into(),
            (_, SHOT) => "drop".into(),
            (_, PIPE) => "pipe".into(),
            (_, STOLEN) => "stolen".into(),
            (_, QUEUED) => "queued".into(),
            (_, REPEAT) => "repeat".into(),
            (_, TRAP) => "trap".into(),
            (_, CONSUMED) => "redirect".into(),
            _ => format!("{code}"),
        }
    }

    /// Opcode of an extended code, 0 of a plain one; 15 of [`UNSPEC`].
    pub const fn opcode(code: Code) -> u32 {
        code as u32 >> 28
    }

    /// Value of an extended code.
    pub const fn value(code: Code) -> u32 {
        code as u32 & VALUE_MASK
    }

    /// Whether the code is "go on with a chain".
    pub const fn is_goto(code: Code) -> bool {
        opcode(code) == GOTO_CHAIN
    }

    /// Whether a packet's walk over filters ends with the code.
    pub const fn is_end(code: Code) -> bool {
        matches!(code, OK | SHOT..=CONSUMED)
    }

    /// Whether the code is one Linux knows (`tcf_action_valid`).
    pub const fn is_valid(code: Code) -> bool {
        match opcode(code) {
            0 => code <= VALUE_MAX,
            op => op <= OPCODE_MAX || code == UNSPEC,
        }
    }
}

/// Where a packet goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// [`Device::key`](crate::host::Device::key) of the device.
    pub device: u64,
    /// Received by it (`true`) or sent by it (`false`).
    pub ingress: bool,
}

/// How a hook ends for a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Go on as if the hook were not there.
    Pass,
    /// Drop.
    Drop(DropReason),
    /// Go on at another device.
    Redirect(Target),
    /// The packet has arrived where it was to go (stolen, queued, trapped): free it, not a drop.
    Consumed,
}

/// What a classifier leaves beside its code (`struct tcf_result`).
#[derive(Debug, Clone, Copy, Default)]
pub struct Outcome<'g> {
    /// Class the filter names, 0 none.
    pub classid: u32,
    /// Handle of the filter that matched, for traces.
    pub handle: u32,
    /// Chain to go on with, when the code says so.
    pub chain: Option<&'g Chain>,
    /// Where to, when the code is [`code::CONSUMED`].
    pub target: Option<Target>,
    /// Why, when the code is [`code::SHOT`] and the reason is not the hook's own.
    pub reason: Option<DropReason>,
}
