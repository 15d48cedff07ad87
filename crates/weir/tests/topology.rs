// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir topology` and topologies under `weir run`, with the real `ip` and `tc`.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

mod common;

use std::fs;
use std::process::Command;

use common::{Folder, User, has, output, text, users, weir};
use serde_json::Value;

const RING: &str = "shape = { kind = 'ring', nodes = 4, hosts = 1 }
link = { delay = '1ms' }
[nodes.r1]
sysctls = { 'net.ipv4.fib_multipath_hash_policy' = 1 }
";

/// Runs `weir ARGS` in a folder. Returns what it printed on both streams, and its status.
fn run(user: User, folder: &Folder, args: &[&str]) -> (String, String, i32) {
    let mut command = weir(user, args);
    let output = output(command.current_dir(&folder.0));
    let status = output.status.code().unwrap_or(-1);
    (text(&output.stdout), text(&output.stderr), status)
}

/// Returns the packets that a device has received (`rx`) or sent (`tx`), by a report.
#[track_caller]
fn counter(report: &Value, device: &str, key: &str) -> u64 {
    let devices = report["devices"].as_array().unwrap();
    let found = devices.iter().find(|entry| entry["name"] == device);
    let found = found.unwrap_or_else(|| panic!("no {device} in {devices:#?}"));
    found[key]["packets"]
        .as_u64()
        .unwrap_or_else(|| panic!("no {key} in {found:#?}"))
}

/// Runs a topology or script and returns its report as text.
#[track_caller]
fn report(user: User, folder: &Folder, script: &str, traffic: &[&str]) -> String {
    let mut args = vec!["run", "--quiet", "--json", "report.json"];
    for traffic in traffic {
        args.extend(["--gen", traffic]);
    }
    args.push(script);
    let (printed, errors, status) = run(user, folder, &args);
    assert_eq!(status, 0, "{user:?}: {printed}{errors}");
    fs::read_to_string(folder.file("report.json")).unwrap()
}

#[test]
fn packets_cross_a_ring_the_same_way_each_time() {
    for &user in users() {
        let folder = Folder::new();
        fs::write(folder.file("ring.toml"), RING).unwrap();
        let traffic = ["r1/eth2=src=10.0.0.3,dst=10.0.2.3,count=500,rate=10000,flows=50"];
        let first = report(user, &folder, "ring.toml", &traffic);
        let parsed: Value = serde_json::from_str(&first).unwrap();
        assert!(counter(&parsed, "h3.1/eth0", "rx") >= 500, "{first}");
        // Both ways around carry some of the flows.
        assert!(counter(&parsed, "r1/eth0", "tx") > 50, "{first}");
        assert!(counter(&parsed, "r1/eth1", "tx") > 50, "{first}");
        assert_eq!(first, report(user, &folder, "ring.toml", &traffic));
        // The printed commands do the same.
        let (script, _, status) = run(user, &folder, &["topology", "--print", "ring.toml"]);
        assert_eq!(status, 0);
        fs::write(folder.file("ring.sh"), script).unwrap();
        assert_eq!(first, report(user, &folder, "ring.sh", &traffic));
    }
}

#[test]
fn the_summary_counts() {
    let folder = Folder::new();
    fs::write(folder.file("ring.toml"), RING).unwrap();
    let (printed, errors, status) = run(User::Own, &folder, &["topology", "ring.toml"]);
    assert_eq!((errors.as_str(), status), ("", 0));
    assert_eq!(
        printed,
        "4 routers, 4 hosts, 0 switches, 8 links, 16 routes\n"
    );
}

const CLAB: &str = "name: lab
topology:
  nodes:
    sw: {kind: bridge}
    h1: {kind: linux, image: alpine}
    h2: {kind: linux, exec: ['ip link set eth1 alias far']}
  links:
    - endpoints: ['h1:eth1', 'sw:p1']
    - endpoints: [{node: h2, interface: eth1, mac: '02:00:00:00:00:02', ipv4: 10.0.0.2/24}, {node: sw, interface: p2}]
";

#[test]
fn a_containerlab_file_runs() {
    for &user in users() {
        let folder = Folder::new();
        fs::write(folder.file("lab.clab.yml"), CLAB).unwrap();
        let traffic = ["sw/p1=eth_dst=02:00:00:00:00:02,src=10.0.0.1,dst=10.0.0.2,count=20"];
        let report = report(user, &folder, "lab.clab.yml", &traffic);
        let report: Value = serde_json::from_str(&report).unwrap();
        assert!(counter(&report, "h2/eth1", "rx") >= 20, "{report:#}");
        let (_, errors, _) = run(user, &folder, &["topology", "lab.clab.yml"]);
        let expected = "weir: lab.clab.yml: image: nodes are namespaces and have none\n";
        assert_eq!(errors, expected);
    }
}

const MININET: &str = r#"{
    "application": {"ipBase": "10.0.0.0/8"},
    "controllers": [],
    "hosts": [{"number": "1", "opts": {"hostname": "h1"}}, {"number": "2", "opts": {"hostname": "h2"}}],
    "switches": [{"number": "1", "opts": {"hostname": "s1"}}],
    "links": [{"src": "h1", "dest": "s1", "opts": {"delay": "5ms"}}, {"src": "h2", "dest": "s1", "opts": {"bw": 10}}]
}
"#;

#[test]
fn a_mininet_file_runs() {
    for &user in users() {
        let folder = Folder::new();
        fs::write(folder.file("net.mn"), MININET).unwrap();
        let traffic = ["s1/eth0=eth_dst=ff:ff:ff:ff:ff:ff,src=10.0.0.1,dst=10.0.0.2,count=20"];
        let report = report(user, &folder, "net.mn", &traffic);
        let report: Value = serde_json::from_str(&report).unwrap();
        assert!(counter(&report, "h2/eth0", "rx") >= 20, "{report:#}");
    }
}

#[test]
fn a_wrong_file_is_refused_with_its_line() {
    let folder = Folder::new();
    let write = |name: &str, text: &str| fs::write(folder.file(name), text).unwrap();
    write(
        "a.toml",
        "shape = { kind = 'ring', nodes = 3 }\ncolour = 1\n",
    );
    write("b.clab.yml", &CLAB.replace("sw:p1", "sx:p1"));
    write("c.mn", "{\"hosts\": [}");
    write("d.txt", "");
    for (name, expected) in [
        ("a.toml", "weir: a.toml:2: unknown field `colour`"),
        (
            "b.clab.yml",
            "weir: b.clab.yml:8: topology.links[0].endpoints[1]: there is no node \"sx\"",
        ),
        ("c.mn", "weir: c.mn:1: "),
        ("d.txt", "weir: d.txt: not a topology"),
        ("none.toml", "weir: none.toml: No such file"),
    ] {
        let (printed, errors, status) = run(User::Own, &folder, &["topology", name]);
        assert!(errors.starts_with(expected), "{name}: {errors}");
        assert_eq!((printed.as_str(), status), ("", 125), "{name}");
    }
    let (_, errors, status) = run(User::Own, &folder, &["run", "a.toml"]);
    assert!(errors.starts_with("weir: a.toml:2: "), "{errors}");
    assert_eq!(status, 125);
}

/// The same commands make the same network on the kernel: ping crosses it.
#[test]
fn the_script_runs_on_linux() {
    if !has("ping", "iputils-ping") {
        return;
    }
    let folder = Folder::new();
    fs::write(
        folder.file("ring.toml"),
        "shape = { kind = 'ring', nodes = 4, hosts = 1 }\n",
    )
    .unwrap();
    let (script, _, status) = run(User::Own, &folder, &["topology", "--print", "ring.toml"]);
    assert_eq!(status, 0);
    let script = format!(
        "mount -t tmpfs tmpfs /run && mkdir /run/netns || exit 77\n{script}
ip netns exec h1.1 ping -c 1 -W 5 10.0.2.3
ip netns exec r1 ping -c 1 -W 5 10.0.2.1
"
    );
    fs::write(folder.file("ring.sh"), script).unwrap();
    let mut command = Command::new("unshare");
    command
        .args(["-rnm", "sh", "ring.sh"])
        .current_dir(&folder.0);
    let output = output(&mut command);
    let said = text(&output.stdout) + &text(&output.stderr);
    if output.status.code() == Some(77) || said.contains("unshare failed") {
        return common::skip(&format!("a namespace of the kernel: {said}"));
    }
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches(" 0% packet loss").count(), 2, "{said}");
}
