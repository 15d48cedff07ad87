// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Unmodified `tc -b` against the stack, against a socket that only acknowledges, and, for
//! comparison, u32 with mirred on this machine's kernel.

use std::process::{Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;

use weir_intercept::Launcher;

use super::super::folder::Folder;
use super::bed::Bed;
use super::wire::Profile;

/// The load of the `tc` processes.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    pub processes: u32,
    /// Lines of all processes together.
    pub lines: u32,
}

impl Load {
    fn each(self) -> u32 {
        self.lines / self.processes
    }
}

/// Returns a script that runs all batches at once and records when they began and ended.
fn script(folder: &Folder) -> String {
    format!(
        "cd {}; date +%s%N >start; failed=0; pids=; for f in batch.*; do tc -b $f >/dev/null & pids=\"$pids $!\"; done; \
         for p in $pids; do wait $p || failed=1; done; date +%s%N >end; exit $failed",
        folder.path().display()
    )
}

/// Returns whether there is a `tc`.
pub fn available() -> Result<(), String> {
    match Command::new("tc").arg("-V").stdout(Stdio::null()).status() {
        Ok(_) => Ok(()),
        Err(_) => Err("tc left out: iproute2 is not installed".into()),
    }
}

/// Returns rules of profile A per second through `tc -b`. `only_acknowledge` excludes everything
/// but the socket.
pub fn weir(bed: &Bed, load: Load, only_acknowledge: bool) -> Result<f64, String> {
    let folder = Folder::new("tc")?;
    let rules = bed.rules(Profile::A, 1, false);
    for process in 0..load.processes {
        let lines = process * load.each()..(process + 1) * load.each();
        let text: String = lines.map(|n| rules.tc_line(n, "d0")).collect();
        folder.write(&format!("batch.{process}"), &text)?;
    }
    bed.engine.acknowledge_only.store(only_acknowledge, Relaxed);
    let launched = Launcher::new("sh", ["-c", &script(&folder)]).spawn(bed.engine.clone());
    let status = launched.map(|mut child| child.wait().code());
    bed.engine.acknowledge_only.store(false, Relaxed);
    match status {
        Ok(0) => {}
        Ok(status) => return Err(format!("tc ended with status {status}")),
        Err(error) => return Err(error.to_string()),
    }
    if !only_acknowledge {
        bed.clsact(false)?;
        bed.clsact(true)?;
    }
    Ok(f64::from(load.each() * load.processes) / folder.seconds()? / 1e3)
}

/// Returns rules of u32 and mirred per second through `tc -b` on this machine's kernel, in a
/// namespace of its own. Each process has its priority with 16 hash tables, so that no chain is
/// long.
pub fn host_u32(load: Load) -> Result<f64, String> {
    let folder = Folder::new("u32")?;
    let mut set_up = String::new();
    for process in 0..load.processes {
        let prio = process + 1;
        let table = |n: u32| process * 16 + n % 16 + 1;
        for n in 0..16 {
            set_up += &format!(
                "filter add dev d0 parent ffff: protocol ip prio {prio} handle {:x}: u32 divisor 256\n",
                table(n)
            );
        }
        let line = |n: u32| {
            let (bucket, node) = (n & 255, n / 4096 + 1);
            let [_, a, b, c] = n.to_be_bytes();
            format!(
                "filter add dev d0 parent ffff: protocol ip prio {prio} handle ::{node:x} u32 ht {:x}:{bucket:x}: \
                 match ip src {}.{a}.{b}.{c}/32 action mirred egress redirect dev d1\n",
                table(n >> 8),
                10 + process,
            )
        };
        let text: String = (0..load.each()).map(line).collect();
        folder.write(&format!("batch.{process}"), &text)?;
    }
    folder.write("tables", &set_up)?;
    let prepared = format!(
        "set -e; ip link add d0 type veth peer name p0; ip link add d1 type veth peer name p1; \
         tc qdisc add dev d0 ingress; tc -b {}/tables; set +e; {}",
        folder.path().display(),
        script(&folder)
    );
    let status = Command::new("unshare")
        .args(["-n", "sh", "-c", &prepared])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match status {
        Ok(status) if status.success() => {
            Ok(f64::from(load.each() * load.processes) / folder.seconds()? / 1e3)
        }
        _ => Err(
            "u32 on this machine's kernel left out: not privileged, or the kernel lacks it".into(),
        ),
    }
}
