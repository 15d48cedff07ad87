// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The script of a measurement, for Weir and for this machine's kernel.

use std::process::{Command, Stdio};

use crate::bench::folder::Folder;

/// Who runs the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// `weir run --real-time`
    Weir,
    /// `unshare` into a user and a network namespace.
    Linux,
}

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub enum Measure {
    /// One TCP stream of iperf3.
    Stream { loopback: bool },
    /// A client and a server of [`super::programs`].
    Pair(&'static str),
    /// `tc -b` beside so many open sockets.
    Tc { sockets: u32, lines: u32 },
}

/// Two hosts and a router between them.
const TOPOLOGY: &str = "
ip netns add a; ip netns add r; ip netns add b
ip link add a0 netns a type veth peer name r0 netns r
ip link add b0 netns b type veth peer name r1 netns r
ip -n a addr add 10.0.1.1/24 dev a0; ip -n r addr add 10.0.1.2/24 dev r0
ip -n b addr add 10.0.2.1/24 dev b0; ip -n r addr add 10.0.2.2/24 dev r1
for n in a r b; do ip -n $n link set lo up; done
ip -n a link set a0 up; ip -n r link set r0 up
ip -n b link set b0 up; ip -n r link set r1 up
ip -n a route add default via 10.0.1.2; ip -n b route add default via 10.0.2.2
ip netns exec r sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
";

/// Runs a measurement of so many seconds, and returns its figure.
pub fn measure(side: Side, measure: Measure, seconds: f64) -> Result<f64, String> {
    let folder = Folder::new("sockets")?;
    let me = std::env::current_exe().map_err(|error| error.to_string())?;
    let me = format!("'{}' bench sockets --part", me.display());
    let out = folder.path().join("out");
    let body = match measure {
        Measure::Stream { loopback } => {
            available("iperf3")?;
            let (at, address) = if loopback {
                ("b", "127.0.0.1")
            } else {
                ("a", "10.0.2.1")
            };
            // The server may need a moment.
            format!(
                "ip netns exec b iperf3 -s -1 >/dev/null &\n\
                 for try in 1 2 3 4 5 6 7 8 9; do sleep 0.2; \
                 ip netns exec {at} iperf3 -J -t {seconds:.1} -c {address} >out && break; done; wait\n",
                seconds = seconds.max(1.0).round(),
            )
        }
        Measure::Pair(kind) => format!(
            "ip netns exec b {me} serve-{kind} & server=$!\n\
             ip netns exec a {me} {kind}:{seconds}:10.0.2.1 >out\n\
             kill $server 2>/dev/null || :\n"
        ),
        Measure::Tc { sockets, lines } => {
            let text: String = (0..lines).map(filter).collect();
            let batch = folder.path().join("batch");
            std::fs::write(&batch, text)
                .map_err(|error| format!("{}: {error}", batch.display()))?;
            format!(
                "ip -n a link add d0 type dummy; tc -n a qdisc add dev d0 clsact\n\
                 ip netns exec a {me} hold:{sockets}:held & holder=$!\n\
                 until [ -e held ]; do kill -0 $holder; sleep 0.05; done\n\
                 ip netns exec a sh -c 'date +%s%N >start; tc -b batch; date +%s%N >end'\n\
                 kill $holder\n"
            )
        }
    };
    let script = folder.path().join("script");
    let text = format!("set -e\ncd '{}'\n{TOPOLOGY}{body}", folder.path().display());
    std::fs::write(&script, text).map_err(|error| format!("{}: {error}", script.display()))?;
    execute(side, &script)?;
    match measure {
        Measure::Tc { lines, .. } => Ok(f64::from(lines) / folder.seconds()? / 1e3),
        Measure::Pair(_) => {
            let figures = super::figures(&read(&out)?)?;
            figures.first().copied().ok_or_else(|| "no figure".into())
        }
        Measure::Stream { .. } => {
            let report: serde_json::Value =
                serde_json::from_str(&read(&out)?).map_err(|error| format!("iperf3: {error}"))?;
            let rate = report["end"]["sum_received"]["bits_per_second"].as_f64();
            rate.map(|rate| rate / 1e9)
                .ok_or_else(|| "iperf3 measured nothing".into())
        }
    }
}

fn read(path: &std::path::Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// A line of `tc -b`: a filter on a MAC address.
fn filter(number: u32) -> String {
    let [_, a, b, c] = number.to_be_bytes();
    format!(
        "filter add dev d0 ingress protocol ip pref 1 handle {:#x} flower dst_mac 02:00:00:{a:02x}:{b:02x}:{c:02x} action drop\n",
        number + 1
    )
}

/// Returns whether a program is installed.
fn available(program: &str) -> Result<(), String> {
    let tried = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    tried
        .map(drop)
        .map_err(|_| format!("{program} is not installed"))
}

fn execute(side: Side, script: &std::path::Path) -> Result<(), String> {
    let me = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = match side {
        Side::Weir => {
            let mut command = Command::new(me);
            command.args(["run", "--real-time", "--quiet"]).arg(script);
            command
        }
        Side::Linux => {
            let mut command = Command::new("unshare");
            // The names of `ip netns` are files of /run.
            let inside = format!("mount -t tmpfs none /run && exec sh '{}'", script.display());
            command.args(["-Urnm", "sh", "-c", &inside]);
            command
        }
    };
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(said
        .lines()
        .last()
        .unwrap_or("the script failed")
        .to_owned())
}
