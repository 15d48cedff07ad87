// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The peer of `path` and `receive`: DPDK's testpmd, which replays the same capture from memory
//! (`net_pcap`, `infinite_rx`) and drops on transmit.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

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

/// Writes the frames as a plain capture file, for testpmd.
pub fn write_capture(frames: &[Vec<u8>], path: &Path) -> std::io::Result<()> {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    file.write_all(&0xa1b2_c3d4u32.to_ne_bytes())?;
    file.write_all(&[2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0])?;
    file.write_all(&65_535u32.to_ne_bytes())?;
    file.write_all(&1u32.to_ne_bytes())?;
    for frame in frames {
        let len = (frame.len() as u32).to_ne_bytes();
        file.write_all(&[0; 8])?;
        file.write_all(&len)?;
        file.write_all(&len)?;
        file.write_all(frame)?;
    }
    file.flush()
}

/// The way in which testpmd forwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Receives and frees.
    Rxonly,
    /// Receives, swaps the two MAC addresses and transmits.
    Macswap,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::Rxonly => "rxonly",
            Self::Macswap => "macswap",
        }
    }
}

/// Returns the device that replays a capture from memory and drops on transmit.
pub fn replay(capture: &Path) -> String {
    format!("net_pcap0,rx_pcap={},infinite_rx=1", capture.display())
}

/// Returns the arguments for testpmd's memory, and what they ask for. Pages of 2 MiB must have been
/// reserved (`vm.nr_hugepages`).
fn memory() -> (&'static [&'static str], &'static str) {
    let free = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";
    let free = std::fs::read_to_string(free).unwrap_or_default();
    match free.trim().parse::<u32>() {
        Ok(256..) => (&["--in-memory", "-m", "512"], "2 MiB"),
        _ => (&["--no-huge", "-m", "1024"], "4 KiB"),
    }
}

/// Describes the pages that testpmd uses.
pub fn pages() -> String {
    format!("testpmd uses pages of {}", memory().1)
}

/// Runs testpmd with a virtual device for `seconds`. Returns nanoseconds per received packet.
pub fn run(device: &str, mode: Mode, seconds: u64) -> Result<f64, String> {
    let prefix = format!("weir{}", std::process::id());
    let mode = format!("--forward-mode={}", mode.name());
    let mut child = Command::new("timeout")
        .args(["-s", "INT", "-k", "2", &(seconds + 2).to_string()])
        .args(["dpdk-testpmd", "-l", "0,1", "--no-pci", "--no-telemetry"])
        .args(memory().0)
        .args(["--file-prefix", &prefix, "--vdev", device, "--", &mode])
        .args([
            "--stats-period",
            "1",
            "--nb-cores=1",
            "--no-mlockall",
            "--total-num-mbufs=16384",
            "--port-topology=loop",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("dpdk-testpmd: {error}"))?;
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

/// Starts testpmd, which passes frames on from the first of two virtual devices to the second, and back.
pub fn io(devices: &[&str; 2]) -> Result<Child, String> {
    let prefix = format!("weir{}", std::process::id());
    Command::new("dpdk-testpmd")
        .args(["-l", "0,1", "--no-pci", "--no-telemetry"])
        .args(memory().0)
        .args(["--file-prefix", &prefix])
        .args(devices.iter().flat_map(|device| ["--vdev", device]))
        .args(["--", "--forward-mode=io", "--stats-period", "1"])
        .args(["--nb-cores=1", "--no-mlockall", "--total-num-mbufs=16384"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("dpdk-testpmd: {error}"))
}

/// Ends testpmd.
pub fn stop(child: &mut Child) {
    let pid = rustix::process::Pid::from_child(child);
    // It may have ended by itself.
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
    let end = Instant::now() + Duration::from_secs(5);
    while Instant::now() < end {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let _ = child.wait();
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
