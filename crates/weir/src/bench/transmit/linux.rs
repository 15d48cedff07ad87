// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The peer: the same packets from UDP sockets by `sendmmsg` through the same qdisc, on an ifb of
//! this machine's kernel, which discards them; in a network namespace of its own.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::io::IoSlice;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, SocketAddrAny, sendmmsg};
use rustix::time::{ClockId, clock_gettime};

use super::send::{BATCH, PAYLOAD, root};

const TARGET: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 98, 0, 2), 9999);

/// Returns millions of packets per second that reached the device, and processor time per packet,
/// ns.
pub fn send(kind: &str, threads: usize, length: Duration) -> Result<(f64, f64), String> {
    let left_out = |why: &str| format!("Linux left out: {why}");
    let me = std::env::current_exe().map_err(|error| left_out(&error.to_string()))?;
    let script = format!(
        "ip link add d0 numtxqueues 1 type ifb && ip link set d0 up && ip addr add 10.98.0.1/24 dev d0 && \
         {{ tc qdisc del dev d0 root 2>/dev/null; {}; }} && exec \"$0\" bench transmit --part {threads}:{}",
        root(kind),
        length.as_millis(),
    );
    let output = Command::new("unshare")
        .args(["-n", "sh", "-c", &script])
        .arg(me)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| left_out(&format!("unshare: {error}")))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or_default();
    let mut figures = last.split_whitespace().filter_map(|n| n.parse().ok());
    match (figures.next(), figures.next()) {
        (Some(millions), Some(cpu_ns)) => Ok((millions, cpu_ns)),
        _ => Err(left_out(&refusal(kind, &output.stderr))),
    }
}

/// Returns the reason that the commands gave for not setting up the ifb: the last line of their
/// errors. Each command runs only if the one before it succeeded.
fn refusal(kind: &str, errors: &[u8]) -> String {
    let text = String::from_utf8_lossy(errors);
    match text.lines().map(str::trim).rfind(|line| !line.is_empty()) {
        Some(line) if line.contains("qdisc kind is unknown") => {
            format!("this machine's kernel has no {kind} ({line})")
        }
        Some(line) => format!("{kind} at an ifb of this machine's kernel: {line}"),
        None => format!("{kind} at an ifb of this machine's kernel gave no figures"),
    }
}

/// Runs the part inside the namespace: `THREADS:MILLISECONDS`.
pub fn part(what: &str) -> Result<String, String> {
    let wrong = || format!("{what} is not THREADS:MILLISECONDS");
    let (threads, length) = what.split_once(':').ok_or_else(wrong)?;
    let threads: usize = threads.parse().map_err(|_| wrong())?;
    let length = Duration::from_millis(length.parse().map_err(|_| wrong())?);
    let stop = AtomicBool::new(false);
    let (mut cpu, mut rate, mut all) = (0.0, 0.0, 0);
    std::thread::scope(|scope| {
        let senders: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| sender(&stop)))
            .collect();
        std::thread::sleep(super::warm_up(length));
        let (start, before) = (Instant::now(), reached()?);
        std::thread::sleep(length);
        rate = (reached()? - before) as f64 / start.elapsed().as_secs_f64();
        stop.store(true, Relaxed);
        for sender in senders {
            cpu += sender.join().map_err(|_| "a sender panicked")??;
        }
        all = reached()?;
        Ok::<(), String>(())
    })?;
    Ok(format!("{} {}\n", rate / 1e6, cpu * 1e9 / all as f64))
}

/// Returns the number of packets that the ifb has discarded.
fn reached() -> Result<u64, String> {
    let path = "/proc/net/dev";
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("d0:"));
    let dropped = line.and_then(|line| line.split_whitespace().nth(3)?.parse().ok());
    dropped.ok_or(format!("{path} has no d0"))
}

/// Sends until stopped. Returns seconds of processor time.
fn sender(stop: &AtomicBool) -> Result<f64, String> {
    let fail = |error: &dyn std::fmt::Display| format!("UDP socket: {error}");
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(|error| fail(&error))?;
    let payload = [0; PAYLOAD];
    let parts = [IoSlice::new(&payload)];
    let to = SocketAddrAny::from(TARGET);
    let mut control: Vec<SendAncillaryBuffer<'_, '_, '_>> =
        (0..BATCH).map(|_| SendAncillaryBuffer::default()).collect();
    let mut messages: Vec<MMsgHdr<'_>> = control
        .iter_mut()
        .map(|control| MMsgHdr::new_with_addr(&to, &parts, control))
        .collect();
    let start = clock_gettime(ClockId::ThreadCPUTime);
    while !stop.load(Relaxed) {
        // A full buffer is part of the measurement.
        let _ = sendmmsg(&socket, &mut messages, SendFlags::empty());
    }
    let end = clock_gettime(ClockId::ThreadCPUTime);
    Ok((end.tv_sec - start.tv_sec) as f64 + (end.tv_nsec - start.tv_nsec) as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::refusal;

    #[test]
    fn the_reason_is_that_of_the_command_that_failed() {
        let kernel = b"Error: Specified qdisc kind is unknown.\n";
        assert_eq!(
            refusal("fq", kernel),
            "this machine's kernel has no fq (Error: Specified qdisc kind is unknown.)"
        );
        let user = b"unshare: unshare failed: Operation not permitted\n\n";
        assert_eq!(
            refusal("fq", user),
            "fq at an ifb of this machine's kernel: unshare: unshare failed: Operation not permitted"
        );
        assert!(refusal("htb", b"").ends_with("gave no figures"));
    }
}
