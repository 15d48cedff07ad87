// SPDX-License-Identifier: Apache-2.0 OR MIT
//! NewReno (RFC 5681; `tcp_reno_cong_avoid`): the window grows by one packet a round trip and is halved by a loss.

use super::Window;

/// Half of the window, at least 2 packets.
pub fn after_loss(window: &Window) -> u32 {
    (window.cwnd / 2).max(2)
}

/// Grows the window.
pub fn acked(window: &mut Window, mut acked: u32) {
    if window.in_slow_start() {
        acked = window.slow_start(acked);
        if acked == 0 {
            return;
        }
    }
    window.increase(window.cwnd, acked);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_packet_a_round_trip() {
        let mut window = Window {
            cwnd: 20,
            ssthresh: 10,
            count: 0,
            clamp: u32::MAX,
        };
        for _ in 0..20 {
            acked(&mut window, 1);
        }
        assert_eq!(window.cwnd, 21);
        assert_eq!(after_loss(&window), 10);
    }
}
