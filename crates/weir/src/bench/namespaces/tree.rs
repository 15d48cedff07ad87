// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A fat tree of routers in virtual time: what its packets take, without its construction.
//!
//! The topology's script lets the first packets of each sender pass, which resolve the neighbours, and reads the
//! machine's clock before and after the others. A host in each pod sends to one in the next pod: five routers, six
//! links.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

/// A tree: the ports of a router, and the packets of all senders.
pub struct Tree {
    pub ports: u32,
    pub packets: u32,
}

/// Returns the number of routers.
pub fn routers(ports: u32) -> u32 {
    ports * ports * 5 / 4
}

/// The packets of each sender that are not measured.
const FIRST: u32 = 100;
/// The packets of a sender per second of virtual time.
const RATE: u32 = 100_000;
/// The flows of a sender, which spread over the tree.
const FLOWS: u32 = 64;

/// Returns the seconds that `tree.packets` packets take.
pub fn seconds(tree: &Tree) -> Result<f64, String> {
    let folder = Folder::new()?;
    let each = tree.packets / tree.ports;
    let played = play(&folder, tree.ports, FIRST + each)?;
    // The hosts receive ARP as well.
    let sent = f64::from((FIRST + each) * tree.ports);
    if played.arrived < sent {
        return Err(format!("of {sent} packets, {} arrived", played.arrived));
    }
    Ok(played.time)
}

/// A folder that is removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("weir-bench-{}", std::process::id()));
        fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The seconds of the measured part, and the packets that the hosts received.
struct Played {
    time: f64,
    arrived: f64,
}

/// Runs this program, which must succeed. Returns what it printed.
fn weir(fill: impl FnOnce(&mut Command)) -> Result<String, String> {
    let me = std::env::current_exe().map_err(|error| format!("this program: {error}"))?;
    let mut command = Command::new(me);
    fill(&mut command);
    let output = command.output().map_err(|error| format!("weir: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("weir: {}", said.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn play(folder: &Folder, ports: u32, each: u32) -> Result<Played, String> {
    let file = |name: &str| folder.0.join(name);
    let write = |name: &str, text: &str| {
        fs::write(file(name), text).map_err(|error| format!("{}: {error}", file(name).display()))
    };
    write(
        "tree.toml",
        &format!(
            "shape = {{ kind = \"fat-tree\", k = {ports}, hosts = 1 }}\nlink = {{ delay = \"50us\" }}\n"
        ),
    )?;
    let script = weir(|weir| {
        weir.args(["topology", "--print"]).arg(file("tree.toml"));
    })?;
    let warm = 1_000_000 + FIRST * (1_000_000 / RATE);
    let timed =
        format!("\nweir play --until {warm}us\ndate +%s%N\nweir play --until 5s\ndate +%s%N\n");
    write("tree.sh", &(script + &timed))?;
    let printed = weir(|weir| {
        weir.args(["run", "--quiet", "--json"])
            .arg(file("report.json"));
        for pod in 1..=ports {
            // The first edge router of a pod has the network 10.0.N.0/24, or 10.1.N.0/24 from 256 on.
            let host = |pod: u32| {
                let number = ports / 2 * (pod - 1);
                format!("10.{}.{}.3", number / 256, number % 256)
            };
            let (device, from, to) = (ports / 2, host(pod), host(pod % ports + 1));
            weir.arg("--gen").arg(format!(
                "e{pod}-1/eth{device}=src={from},dst={to},rate={RATE},count={each},flows={FLOWS},start=1s"
            ));
        }
        weir.arg(file("tree.sh"));
    })?;
    let times: Vec<f64> = printed
        .lines()
        .filter_map(|line| line.parse().ok())
        .collect();
    let [begin, end] = times[..] else {
        return Err(format!("there are no times in \"{printed}\""));
    };
    let text = fs::read(file("report.json")).map_err(|error| format!("the report: {error}"))?;
    let report: Value = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    let devices = report["devices"].as_array().into_iter().flatten();
    let hosts = devices.filter(|device| {
        let name = device["name"].as_str().unwrap_or_default();
        name.starts_with('h') && name.ends_with("-1.1/eth0")
    });
    let arrived = hosts
        .filter_map(|host| host["rx"]["packets"].as_f64())
        .sum();
    Ok(Played {
        time: (end - begin) / 1e9,
        arrived,
    })
}
