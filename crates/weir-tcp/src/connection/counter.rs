// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What happens to connections, counted by the names of `/proc/net/netstat`.

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What happens to connections, by the names of `/proc/net/netstat`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Counter { $($(#[$doc])* $name,)* }

        impl Counter {
            /// All counters, in the order of their bits.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
        }
    };
}

counters! {
    /// `Tcp: AttemptFails`
    AttemptFails,
    /// `Tcp: EstabResets`
    EstabResets,
    /// `TcpExt: PAWSEstab`
    PawsEstab,
    /// `TcpExt: DelayedACKs`
    DelayedAcks,
    /// `TcpExt: DelayedACKLost`
    DelayedAckLost,
    /// `TcpExt: TCPTimeouts`
    Timeouts,
    /// `TcpExt: TCPLossProbes`
    LossProbes,
    /// `TcpExt: TCPLossProbeRecovery`
    LossProbeRecovery,
    /// `TcpExt: TCPSackRecovery`
    SackRecovery,
    /// `TcpExt: TCPRenoRecovery`
    RenoRecovery,
    /// `TcpExt: TCPSACKReneging`
    SackReneging,
    /// `TcpExt: TCPSACKReorder`
    SackReorder,
    /// `TcpExt: TCPFullUndo`
    FullUndo,
    /// `TcpExt: TCPPartialUndo`
    PartialUndo,
    /// `TcpExt: TCPLossUndo`
    LossUndo,
    /// `TcpExt: TCPSpuriousRTOs`
    SpuriousRtos,
    /// `TcpExt: TCPDSACKOldSent`
    DsackOldSent,
    /// `TcpExt: TCPDSACKOfoSent`
    DsackOfoSent,
    /// `TcpExt: TCPDSACKRecv`
    DsackReceived,
    /// `TcpExt: TCPOFOQueue`
    OfoQueue,
    /// `TcpExt: TCPChallengeACK`
    ChallengeAck,
    /// `TcpExt: TCPSYNChallenge`
    SynChallenge,
    /// `TcpExt: TCPAbortOnData`
    AbortOnData,
    /// `TcpExt: TCPAbortOnTimeout`
    AbortOnTimeout,
    /// `TcpExt: TCPAbortOnLinger`
    AbortOnLinger,
    /// `TcpExt: TCPKeepAlive`
    KeepAlive,
    /// `TcpExt: TCPWinProbe`
    WindowProbe,
    /// `TcpExt: TCPToZeroWindowAdv`
    ToZeroWindow,
    /// `TcpExt: TCPFromZeroWindowAdv`
    FromZeroWindow,
    /// `TcpExt: TCPZeroWindowDrop`
    ZeroWindowDrop,
    /// `TcpExt: TCPFastOpenActive`
    FastOpenActive,
    /// `TcpExt: TCPFastOpenActiveFail`
    FastOpenActiveFail,
    /// `TcpExt: TCPAckCompressed`
    AckCompressed,
    /// `TcpExt: TCPAbortOnClose`
    AbortOnClose,
    /// `TcpExt: TCPHystartTrainDetect` and `TCPHystartDelayDetect` together
    Hystart,
    /// `TcpExt: TCPSackFailures` and `TCPLossFailures` together
    RecoveryFailures,
}

/// Counters that rose since they were taken: a set of bits by [`Counter`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts(pub u64);

impl Counts {
    /// Returns whether a counter rose.
    pub fn has(self, counter: Counter) -> bool {
        self.0 & (1 << counter as u8) != 0
    }
}
