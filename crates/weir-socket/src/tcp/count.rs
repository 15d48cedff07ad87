// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a connection counts, in the namespace's counters (`/proc/net/snmp`, `/proc/net/netstat`).

use weir_inet::mib::{Count, Ext, Tcp as Mib};
use weir_tcp::{Counter, Counts};

use crate::cpu::Cx;
use crate::namespace::Namespace;

/// The place of a counter of a connection.
enum Place {
    Tcp(Mib),
    Ext(Ext),
    /// Linux counts it in more detail.
    None,
}

fn place(counter: Counter) -> Place {
    Place::Ext(match counter {
        Counter::AttemptFails => return Place::Tcp(Mib::AttemptFails),
        Counter::EstabResets => return Place::Tcp(Mib::EstabResets),
        Counter::Hystart | Counter::RecoveryFailures => return Place::None,
        Counter::PawsEstab => Ext::PAWSEstab,
        Counter::DelayedAcks => Ext::DelayedACKs,
        Counter::DelayedAckLost => Ext::DelayedACKLost,
        Counter::Timeouts => Ext::TCPTimeouts,
        Counter::LossProbes => Ext::TCPLossProbes,
        Counter::LossProbeRecovery => Ext::TCPLossProbeRecovery,
        Counter::SackRecovery => Ext::TCPSackRecovery,
        Counter::RenoRecovery => Ext::TCPRenoRecovery,
        Counter::SackReneging => Ext::TCPSACKReneging,
        Counter::SackReorder => Ext::TCPSACKReorder,
        Counter::FullUndo => Ext::TCPFullUndo,
        Counter::PartialUndo => Ext::TCPPartialUndo,
        Counter::LossUndo => Ext::TCPLossUndo,
        Counter::SpuriousRtos => Ext::TCPSpuriousRTOs,
        Counter::DsackOldSent => Ext::TCPDSACKOldSent,
        Counter::DsackOfoSent => Ext::TCPDSACKOfoSent,
        Counter::DsackReceived => Ext::TCPDSACKRecv,
        Counter::OfoQueue => Ext::TCPOFOQueue,
        Counter::ChallengeAck => Ext::TCPChallengeACK,
        Counter::SynChallenge => Ext::TCPSYNChallenge,
        Counter::AbortOnData => Ext::TCPAbortOnData,
        Counter::AckCompressed => Ext::TCPAckCompressed,
        Counter::FastOpenActive => Ext::TCPFastOpenActive,
        Counter::FastOpenActiveFail => Ext::TCPFastOpenActiveFail,
        Counter::AbortOnClose => Ext::TCPAbortOnClose,
        Counter::AbortOnTimeout => Ext::TCPAbortOnTimeout,
        Counter::AbortOnLinger => Ext::TCPAbortOnLinger,
        Counter::KeepAlive => Ext::TCPKeepAlive,
        Counter::WindowProbe => Ext::TCPWinProbe,
        Counter::ToZeroWindow => Ext::TCPToZeroWindowAdv,
        Counter::FromZeroWindow => Ext::TCPFromZeroWindowAdv,
        Counter::ZeroWindowDrop => Ext::TCPZeroWindowDrop,
    })
}

/// Adds what has happened since the last time, and the segments that were sent again.
pub fn add(cx: &Cx<'_>, ns: &Namespace, counts: Counts, resent: u32) {
    if counts.0 == 0 && resent == 0 {
        return;
    }
    let mib = cx.mib(ns);
    mib.tcp.add(Mib::RetransSegs, resent.into());
    for &counter in Counter::ALL {
        if counts.has(counter) {
            match place(counter) {
                Place::Tcp(counter) => mib.tcp.add(counter, 1),
                Place::Ext(counter) => mib.ext.add(counter, 1),
                Place::None => {}
            }
        }
    }
}
