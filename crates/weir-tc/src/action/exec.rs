// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the actions of a filter over a packet.
//!
//! Mirrors `tcf_action_exec` (net/sched/act_api.c), its limits included: a jump starts the list anew
//! and skips as many actions as it says; 32 jumps, and 32 repeats of one action.

use weir_netlink::tca::act;
use weir_packet::{DropReason, Flags, Packet};

use super::{ActionRef, MAX};
use crate::context::Context;
use crate::verdict::{Code, Outcome, code};

/// `TCA_ACT_MAX_PRIO_MASK`
const JUMP_MASK: u32 = 0x1ff;

/// Runs `actions` in order; the code of the one that ends the run.
pub fn run<'g>(
    actions: &'g [ActionRef],
    cx: &mut Context<'_, 'g>,
    packet: &mut Packet,
    out: &mut Outcome<'g>,
) -> Code {
    if packet.flags.contains(Flags::SKIP_CLASSIFY) {
        return code::OK;
    }
    let mut result = code::OK;
    let mut jumps = MAX;
    let mut at = 0;
    while let Some(action) = actions.get(at) {
        at += 1;
        let common = &action.common;
        if common.flags() & act::FLAGS_SKIP_SW != 0 {
            continue;
        }
        let mut repeats = 32;
        result = loop {
            let result = action.kind.run(common, cx, packet, out);
            if result != code::REPEAT {
                break result;
            }
            repeats -= 1;
            if repeats == 0 {
                return code::OK;
            }
        };
        if result == code::PIPE {
            continue;
        }
        match code::opcode(result) {
            code::JUMP => {
                // When all are skipped, the jump's own code is what is left, as in Linux.
                let skip = (code::value(result) & JUMP_MASK) as usize;
                jumps -= 1;
                if skip == 0 || skip > actions.len() || jumps == 0 {
                    return code::OK;
                }
                at = skip;
                continue;
            }
            code::GOTO_CHAIN => match common.chain(cx) {
                Some(chain) => out.chain = Some(chain),
                None => {
                    out.reason = Some(DropReason::TC_CHAIN_NOTFOUND);
                    return code::SHOT;
                }
            },
            _ => {}
        }
        break;
    }
    result
}
