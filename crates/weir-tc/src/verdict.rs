// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The codes that actions return (`TC_ACT_*`), and the verdict of a hook on a packet.
//!
//! Codes become verdicts as in `sch_handle_ingress` and `sch_handle_egress` (net/core/dev.c). A
//! verdict says where the packet goes; this crate never calls back into the stack.

use weir_packet::DropReason;

use crate::chain::Chain;

/// A code returned by an action or classifier: one of the constants below, or an extended code,
/// which has an opcode in the upper four bits and a value below them.
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
    /// The packet was taken over by an action (`TC_ACT_CONSUMED`). Never used in messages.
    pub const CONSUMED: Code = VALUE_MAX + 1;

    /// The opcode "jump over this many actions".
    pub const JUMP: u32 = 1;
    /// The opcode "continue with this chain".
    pub const GOTO_CHAIN: u32 = 2;
    /// The largest opcode.
    pub const OPCODE_MAX: u32 = GOTO_CHAIN;
    /// The bits of an extended code's value.
    pub const VALUE_MASK: u32 = (1 << 28) - 1;

    /// Returns the code's name as tc prints it.
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

    /// Returns the opcode of an extended code, 0 for a plain code, 15 for [`UNSPEC`].
    pub const fn opcode(code: Code) -> u32 {
        code as u32 >> 28
    }

    /// Returns the value of an extended code.
    pub const fn value(code: Code) -> u32 {
        code as u32 & VALUE_MASK
    }

    /// Returns whether the code is "continue with a chain".
    pub const fn is_goto(code: Code) -> bool {
        opcode(code) == GOTO_CHAIN
    }

    /// Returns whether the code ends a packet's walk over filters.
    pub const fn is_end(code: Code) -> bool {
        matches!(code, OK | SHOT..=CONSUMED)
    }

    /// Returns whether Linux knows the code (`tcf_action_valid`).
    pub const fn is_valid(code: Code) -> bool {
        match opcode(code) {
            0 => code <= VALUE_MAX,
            op => op <= OPCODE_MAX || code == UNSPEC,
        }
    }
}

/// The destination of a redirected packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// The [`Device::key`](crate::host::Device::key) of the device.
    pub device: u64,
    /// The device receives the packet (`true`) or sends it (`false`).
    pub ingress: bool,
}

/// The verdict of a hook on a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The packet continues as if the hook were not there.
    Pass,
    /// The packet is dropped.
    Drop(DropReason),
    /// The packet continues at another device.
    Redirect(Target),
    /// The packet has reached its destination (stolen, queued, trapped): it is freed and does not
    /// count as dropped.
    Consumed,
}

/// The result of a classifier in addition to its code (`struct tcf_result`).
#[derive(Debug, Clone, Copy, Default)]
pub struct Outcome<'g> {
    /// The class the filter selects, 0 for none.
    pub classid: u32,
    /// The handle of the filter that matched, for traces.
    pub handle: u32,
    /// The chain to continue with, if the code says so.
    pub chain: Option<&'g Chain>,
    /// The destination, if the code is [`code::CONSUMED`].
    pub target: Option<Target>,
    /// The reason, if the code is [`code::SHOT`] and the reason is not the hook's own.
    pub reason: Option<DropReason>,
    /// Whether [`code::RECLASSIFY`] is a result instead of a reason to start again.
    pub compat: bool,
}
