// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The peer of `path`: DPDK's testpmd, which replays the same capture from memory (`net_pcap`,
//! `infinite_rx`), swaps addresses, and drops on transmit.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Returns whether testpmd can run, or the reason why not.
pub fn available() -> Result<(), String> {
    match Command::new("dpdk-testpmd")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
    {
        Ok(_) => Ok(()),
        Err(_) => Err("testpmd left out: DPDK (package dpdk-dev) is not installed".into()),
    }
}

/// Runs testpmd for `seconds`. Returns nanoseconds per packet.
pub fn run(capture: &Path, seconds: u64) -> Result<f64, String> {
    let device = format!("net_pcap0,rx_pcap={},infinite_rx=1", capture.display());
    let prefix = format!("weir{}", std::process::id());
    let mut child = Command::new("timeout")
        .args(["-s", "INT", "-k", "2", &(seconds + 3).to_string()])
        .args([
            "dpdk-testpmd",
            "-l",
            "0,1",
            "--no-pci",
            "--no-telemetry",
            "--no-huge",
            "-m",
            "1024",
        ])
        .args(["--file-prefix", &prefix, "--vdev", &device, "--"])
        .args([
            "--forward-mode=macswap",
            "--stats-period",
            "1",
            "--nb-cores=1",
            "--no-mlockall",
        ])
        .args(["--total-num-mbufs=16384", "--port-topology=loop"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("dpdk-testpmd: {error}"))?;
    std::thread::sleep(Duration::from_secs(seconds));
    let output = child.stdout.take();
    let mut text = String::new();
    if let Some(mut output) = output {
        use std::io::Read;
        // Only a banner could contain text that is not UTF-8.
        let _ = output.read_to_string(&mut text);
    }
    let _ = child.wait();
    match rate(&text) {
        Some(rate) => Ok(1e9 / rate),
        None => Err("testpmd left out: it printed no rate here".into()),
    }
}

/// Returns packets per second: the median of the rates printed each second, except the first, which
/// includes the start.
fn rate(text: &str) -> Option<f64> {
    let rates = text.lines().filter_map(|line| {
        let rate = line.trim().strip_prefix("Rx-pps:")?;
        rate.split_whitespace().next()?.parse::<f64>().ok()
    });
    let mut rates: Vec<f64> = rates.skip(1).filter(|&rate| rate > 0.0).collect();
    rates.sort_unstable_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    /// Output of testpmd from DPDK 22.11.
    #[test]
    fn the_rate_is_found() {
        let block = |rate: u64| {
            format!(
                "  RX-packets: 39456000   RX-missed: 0          RX-bytes:  37483200000\n\n  \
                 Throughput (since last show)\n  Rx-pps:     {rate}          Rx-bps: 149301443784\n  \
                 Tx-pps:     19644942          Tx-bps: 149301565360\n"
            )
        };
        let text = [0, 19_644_926, 20_653_770, 16_472_510].map(block).concat();
        assert_eq!(super::rate(&text), Some(19_644_926.0));
        assert_eq!(super::rate("Ports not started\n"), None);
    }
}
