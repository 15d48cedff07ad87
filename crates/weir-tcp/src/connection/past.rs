// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a connection leaves behind, and begins with (`tcp_update_metrics`, `tcp_init_metrics`).

use super::{Connection, Phase};
use crate::congestion::INFINITE;
use crate::metrics::Metrics;

impl Connection {
    /// Adds what the connection has learned of the path.
    pub fn save(&self, metrics: &mut Metrics) {
        if self.rtt.backoff > 0 || self.rtt.srtt8 == 0 {
            // The figures are doubtful: the path is in trouble.
            metrics.rtt = 0;
            return;
        }
        let rtt = self.rtt.srtt8 >> 3;
        let mut difference = i64::from(metrics.rtt) - i64::from(rtt);
        // A smaller value is taken slowly, a larger one at once.
        metrics.rtt = if difference <= 0 {
            rtt
        } else {
            (i64::from(metrics.rtt) - (difference >> 3)) as u32
        };
        difference = difference.abs().max(i64::from(self.rtt.mdev4 >> 2));
        let old = i64::from(metrics.rtt_var);
        metrics.rtt_var = if difference >= old {
            difference as u32
        } else {
            (old - ((old - difference) >> 2)) as u32
        };
        let keeps = !self.config.no_ssthresh_metrics_save;
        let (cwnd, ssthresh) = (self.window.cwnd, self.window.ssthresh);
        if self.window.in_slow_start() || ssthresh == INFINITE {
            // Slow start is not over.
            if keeps && metrics.ssthresh != 0 && cwnd >> 1 > metrics.ssthresh {
                metrics.ssthresh = cwnd >> 1;
            }
            metrics.cwnd = metrics.cwnd.max(cwnd.min(INFINITE));
        } else if self.phase == Phase::Open {
            if keeps {
                metrics.ssthresh = (cwnd >> 1).max(ssthresh);
            }
            metrics.cwnd = if metrics.cwnd == 0 {
                cwnd
            } else {
                (metrics.cwnd + cwnd) >> 1
            };
        } else {
            metrics.cwnd = match metrics.cwnd {
                0 => ssthresh,
                old => (old + ssthresh) >> 1,
            };
            if keeps && metrics.ssthresh != 0 && ssthresh > metrics.ssthresh {
                metrics.ssthresh = ssthresh;
            }
        }
        if metrics.reordering < self.reordering && self.reordering != self.config.reordering {
            metrics.reordering = self.reordering;
        }
    }

    /// Begins with what earlier connections have learned (`tcp_init_metrics`).
    pub(crate) fn begin_with_metrics(&mut self) {
        let metrics = self.path.metrics;
        if metrics.ssthresh != 0 && !self.config.no_ssthresh_metrics_save {
            self.window.ssthresh = metrics.ssthresh.min(self.window.clamp);
        }
        if metrics.reordering != 0 {
            self.reordering = metrics.reordering;
        }
        // A longer time than the handshake's is more cautious.
        if metrics.rtt > self.rtt.srtt8 >> 3 {
            let rtt = u64::from(metrics.rtt) * 1000;
            self.rtt.set_rto(rtt + (2 * rtt).max(self.config.rto_min));
        }
    }

    /// The connection has ended as it should: what it has learned is worth keeping.
    pub fn has_ended_well(&self) -> bool {
        self.ended_well
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::Opening;
    use crate::connection::settings::{Path, Settings};
    use crate::time::MS;
    use std::sync::Arc;

    fn connection() -> Connection {
        let opening = Opening {
            config: Arc::default(),
            settings: Settings::shared(),
            path: Path::ipv4(1500),
            isn: 1,
            timestamp_offset: 0,
            fast_open: None,
        };
        Connection::connect(0, opening)
    }

    #[test]
    fn a_shorter_time_is_taken_slowly_and_a_longer_one_at_once() {
        let mut connection = connection();
        let mut metrics = Metrics::default();
        connection.rtt.sample(80_000, 1, 2, 200 * MS);
        connection.save(&mut metrics);
        assert_eq!(
            (metrics.rtt, metrics.cwnd, metrics.ssthresh),
            (80_000, 10, 0)
        );
        assert_eq!(metrics.rtt_var, 80_000);
        connection.rtt.srtt8 = 40_000 << 3;
        connection.save(&mut metrics);
        assert_eq!(metrics.rtt, 75_000);
        connection.rtt.srtt8 = 100_000 << 3;
        connection.save(&mut metrics);
        assert_eq!(metrics.rtt, 100_000);
        connection.rtt.back_off();
        connection.save(&mut metrics);
        assert_eq!(metrics.rtt, 0);
    }

    #[test]
    fn the_time_out_follows_a_slower_past() {
        let mut connection = connection();
        connection.rtt.sample(10_000, 1, 2, 200 * MS);
        connection.path.metrics.rtt = 300_000;
        connection.path.metrics.reordering = 9;
        connection.begin_with_metrics();
        assert_eq!(connection.rtt.rto(), 900 * MS);
        assert_eq!(connection.reordering, 9);
    }
}
