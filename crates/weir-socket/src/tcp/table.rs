// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The connections of a namespace by their addresses and ports (`tcp_hashinfo`), those in TIME_WAIT included, and the
//! settings of TCP.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};

use weir_core::random::mix;
use weir_inet::sockets::{interest, sockets};
use weir_sync::hash::RcuHash;
use weir_sync::order::{self, Mutex};
use weir_sync::rcu::{Domain, Guard};
use weir_tcp::cookie::Secret;
use weir_tcp::fast_open::Keys;
use weir_tcp::time::{MS, SECOND};
use weir_tcp::{Algorithm, Config, TimeWait};

use super::core::Core;
use super::metrics::Metrics;
use super::tuple::Tuple;
use crate::cpu::Cx;
use crate::namespace::Namespace;

/// A connection that is over, and whose addresses are not free yet.
#[derive(Debug)]
pub struct Waiting {
    /// What answers old segments. Nothing else is locked meanwhile.
    pub rest: Mutex<TimeWait, order::Unranked>,
    /// `SO_MARK`, `IP_TOS` and so on of the connection.
    pub way: super::send::Choice,
    /// The socket was of IPv6.
    pub v6: bool,
    /// The key of its signatures.
    pub key: Option<Arc<super::signature::Key>>,
}

/// Who has a tuple.
#[derive(Debug, Clone)]
pub enum Holder {
    /// A connection.
    Open(Arc<Core>),
    /// The rest of one.
    TimeWait(Arc<Waiting>),
}

impl Holder {
    fn is(&self, core: &Arc<Core>) -> bool {
        matches!(self, Self::Open(own) if Arc::ptr_eq(own, core))
    }
}

/// The connections of a namespace.
#[derive(Debug)]
pub struct Connections {
    table: RcuHash<Tuple, Holder>,
    secret: Secret,
    open: AtomicU64,
    metrics: Metrics,
}

impl Connections {
    /// Makes the table of a new namespace.
    pub fn new(domain: &Domain, seed: u64) -> Self {
        let key = |n: u64| mix(seed ^ mix(n ^ 0x7463_702d_6b65_7973));
        Self {
            table: RcuHash::new(domain),
            secret: Secret([key(1), key(2), key(3), key(4)]),
            open: AtomicU64::new(0),
            metrics: Metrics::new(),
        }
    }

    /// Returns who has a tuple.
    #[inline]
    pub fn get(&self, tuple: &Tuple, guard: &Guard) -> Option<Holder> {
        self.table.get(tuple, guard).cloned()
    }

    /// Enters a connection. Returns false if its tuple is taken.
    pub fn insert(&self, ns: &Namespace, tuple: Tuple, core: &Arc<Core>, guard: &Guard) -> bool {
        let holder = Holder::Open(core.clone());
        let entered = self.table.insert_if_absent(tuple, holder, guard).is_ok();
        if entered {
            self.open.fetch_add(1, Relaxed);
            sockets(ns).set_interest(interest::TCP, true);
        }
        entered
    }

    /// Enters the rest of a connection in place of it.
    pub fn wait(&self, tuple: Tuple, waiting: Arc<Waiting>, guard: &Guard) {
        self.table.insert(tuple, Holder::TimeWait(waiting), guard);
    }

    /// Removes a connection, if it still has its tuple.
    pub fn remove(&self, tuple: &Tuple, core: &Arc<Core>, guard: &Guard) {
        if self
            .table
            .remove_if(tuple, guard, |holder| holder.is(core))
            .is_some()
        {
            self.open.fetch_sub(1, Relaxed);
        }
    }

    /// Frees the tuple of a connection in TIME_WAIT for a new one, where `tcp_tw_reuse` allows it (`tcp_twsk_unique`). Returns
    /// the sequence number to begin with.
    pub fn take_waiting(&self, ns: &Namespace, tuple: &Tuple, cx: &Cx<'_>) -> Option<u32> {
        let Some(Holder::TimeWait(waiting)) = self.get(tuple, cx.guard) else {
            return None;
        };
        let local = tuple.local.is_loopback() || tuple.remote.is_loopback();
        let allowed = match self.config(ns).tw_reuse {
            0 => false,
            2 => local,
            _ => true,
        };
        let isn = waiting.rest.lock().reuse(cx.now).filter(|_| allowed)?;
        self.end_wait(tuple, &waiting, cx.guard);
        Some(isn)
    }

    /// Removes the rest of a connection, if it still has its tuple.
    pub fn end_wait(&self, tuple: &Tuple, waiting: &Arc<Waiting>, guard: &Guard) {
        let own =
            |holder: &Holder| matches!(holder, Holder::TimeWait(own) if Arc::ptr_eq(own, waiting));
        if self.table.remove_if(tuple, guard, own).is_some() {
            self.open.fetch_sub(1, Relaxed);
        }
    }

    /// Calls `each` with the rest of each connection in TIME_WAIT.
    pub fn each_waiting(&self, guard: &Guard, mut each: impl FnMut(&Tuple, &Waiting)) {
        for (tuple, holder) in self.table.iter(guard) {
            if let Holder::TimeWait(waiting) = holder {
                each(tuple, waiting);
            }
        }
    }

    /// Returns whether there is no connection.
    pub fn is_empty(&self) -> bool {
        self.open.load(Relaxed) == 0
    }

    /// What is known about peers.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The keys of Fast Open: those of the sysctl, or drawn ones.
    pub fn fast_open_keys(&self, ns: &Namespace) -> Keys {
        let kept = ns.kept.lock().get("ipv4/tcp_fastopen_key").cloned();
        kept.and_then(|text| Keys::parse(&text)).unwrap_or_else(|| {
            let words = [
                self.secret.hash(0, b"fast open"),
                self.secret.hash(1, b"fast open"),
            ];
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            Keys::of(&bytes).expect("a key has 16 bytes")
        })
    }

    /// The key of cookies and sequence numbers.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// The first sequence number of a connection (`secure_tcp_seq`): it grows by one each 64 ns.
    pub fn isn(&self, now: u64, tuple: &Tuple) -> u32 {
        (self.secret.hash(0, &tuple.bytes()) as u32).wrapping_add((now >> 6) as u32)
    }

    /// What is added to timestamps for a pair of addresses (`secure_tcp_ts_off`), in ms.
    pub fn timestamp_offset(&self, tuple: &Tuple) -> u32 {
        self.secret.hash(1, &tuple.bytes()[..32]) as u32
    }

    /// The settings `net.ipv4.tcp_*`.
    pub fn config(&self, ns: &Namespace) -> Arc<Config> {
        let kept = ns.kept.lock();
        let mut changed = kept
            .range("ipv4/tcp_".to_owned()..)
            .take_while(|(name, _)| name.starts_with("ipv4/tcp_"))
            .peekable();
        if changed.peek().is_none() {
            static DEFAULT: LazyLock<Arc<Config>> = LazyLock::new(Arc::default);
            return DEFAULT.clone();
        }
        let mut config = Config::default();
        for (name, value) in changed {
            set(&mut config, name.trim_start_matches("ipv4/tcp_"), value);
        }
        Arc::new(config)
    }
}

/// Sets what a sysctl says. Names that do not concern connections change nothing.
fn set(config: &mut Config, name: &str, value: &str) {
    if name == "congestion_control" {
        if let Some(algorithm) = Algorithm::of(value.trim()) {
            config.congestion = algorithm;
        }
        return;
    }
    let mut numbers = value
        .split_whitespace()
        .map_while(|n| n.parse::<i64>().ok());
    let Some(first) = numbers.next() else { return };
    let on = first != 0;
    let byte = first.clamp(0, 255) as u8;
    let word = first.clamp(0, u32::MAX.into()) as u32;
    let seconds = first.max(0) as u64 * SECOND;
    let triple = |default: [u32; 3], numbers: &mut dyn Iterator<Item = i64>| {
        let mut next = || numbers.next().map(|n| n.clamp(0, i32::MAX.into()) as u32);
        [
            word,
            next().unwrap_or(default[1]),
            next().unwrap_or(default[2]),
        ]
    };
    match name {
        "sack" => config.sack = on,
        "dsack" => config.dsack = on,
        "timestamps" => config.timestamps = on,
        "window_scaling" => config.window_scaling = on,
        "fastopen" => config.fast_open = word,
        "no_metrics_save" => config.no_metrics_save = on,
        "no_ssthresh_metrics_save" => config.no_ssthresh_metrics_save = on,
        "comp_sack_nr" => config.comp_sack_count = word,
        "comp_sack_delay_ns" => config.comp_sack_delay = first.max(0) as u64,
        "ecn" => config.ecn = byte,
        "ecn_fallback" => config.ecn_fallback = on,
        "rmem" => config.rmem = triple(config.rmem, &mut numbers),
        "wmem" => config.wmem = triple(config.wmem, &mut numbers),
        "moderate_rcvbuf" => config.moderate_rcvbuf = on,
        "adv_win_scale" => config.adv_win_scale = first.clamp(-31, 31) as i8,
        "syn_retries" => config.syn_retries = byte,
        "synack_retries" => config.synack_retries = byte,
        "retries1" => config.retries1 = byte,
        "retries2" => config.retries2 = byte,
        "orphan_retries" => config.orphan_retries = byte,
        "keepalive_time" => config.keepalive_time = seconds,
        "keepalive_intvl" => config.keepalive_interval = seconds,
        "keepalive_probes" => config.keepalive_probes = byte,
        "fin_timeout" => config.fin_timeout = seconds,
        "reordering" => config.reordering = word,
        "max_reordering" => config.max_reordering = word,
        "slow_start_after_idle" => config.slow_start_after_idle = on,
        "early_retrans" => config.loss_probe = first >= 3,
        "frto" => config.frto = on,
        "recovery" => config.recovery = byte,
        "abort_on_overflow" => config.abort_on_overflow = on,
        "syncookies" => config.syncookies = byte,
        "max_syn_backlog" => config.max_syn_backlog = word,
        "invalid_ratelimit" => config.invalid_ratelimit = u64::from(word) * MS,
        "rfc1337" => config.rfc1337 = on,
        "tw_reuse" => config.tw_reuse = byte,
        "min_tso_segs" => config.min_tso_segs = word,
        "tso_rtt_log" => config.tso_rtt_log = byte,
        "pacing_ss_ratio" => config.pacing_ss_ratio = word,
        "pacing_ca_ratio" => config.pacing_ca_ratio = word,
        "notsent_lowat" => config.notsent_lowat = word,
        "workaround_signed_windows" => config.workaround_signed_windows = on,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sysctls_set_the_settings() {
        let mut config = Config::default();
        set(&mut config, "rmem", "4096 87380 100000");
        set(&mut config, "congestion_control", "reno\n");
        set(&mut config, "fin_timeout", "7");
        set(&mut config, "available_ulp", "");
        assert_eq!(config.rmem, [4096, 87380, 100_000]);
        assert_eq!(config.congestion, Algorithm::Reno);
        assert_eq!(config.fin_timeout, 7 * SECOND);
    }
}
