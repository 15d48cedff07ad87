// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A bridge sends the same frames by the same ports as Linux 6.1: those that leave under the scripts in
//! `bridge-frames/`, whose comments name the frames that arrive, equal, to the byte, those that `record.py` there
//! recorded.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, process};

use weir_port::pcap::Reader;
use weir_port::{Frame, Source};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");
const PORTS: [&str; 4] = ["p1", "p2", "p3", "p4"];

/// The time stamp of the first frame, in seconds. All captures begin together.
const BEGIN: u64 = 1;

/// The destination of BPDUs.
const BPDU: &str = "0180c2000000";

/// The destination of LACPDUs.
const LACPDU: &str = "0180c2000002";

/// The start of requests of the ARP monitor.
const PROBE: &str = "ffffffffffff0200000000500806";
/// The start of a solicitation of the ARP monitor.
const SOLICITATION: &str = "3333ff00000202000000005086dd";
/// The start of reports of groups by MLDv2 of our own host, which leave after random delays.
const MLD_REPORT: &str = "3333000000160200000000";

/// The start of reports of the group that the bridge joins, 224.0.0.106, by our own host.
const OWN_REPORT: &str = "01005e00006a020000000099";
/// The same to a querier of IGMPv3.
const OWN_REPORT_V3: &str = "01005e000016020000000099";

/// The destination of queries.
const QUERY: &str = "01005e000001";

/// A frame that arrives: time in ms, port, octets.
type Arrival = (u64, String, Vec<u8>);

fn octets(hex: &str) -> Vec<u8> {
    let digits = hex.replace(':', "");
    let pairs = digits.as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// Returns the frames that a script's comments name; see `record.py`.
fn arrivals(script: &str) -> Vec<Arrival> {
    let mut found = Vec::new();
    for line in script.lines() {
        let Some(rest) = line.strip_prefix("# frame: ") else {
            continue;
        };
        let words: Vec<&str> = rest.split(' ').collect();
        let (mut kind, mut data) = ("88b5", format!("{:04x}", found.len()));
        let mut tags = String::new();
        for word in &words[4..] {
            match word.split_once('=') {
                Some(("type", hex)) => kind = hex,
                Some((_, hex)) => data = hex.to_owned(),
                None => tags.push_str(word),
            }
        }
        let mut frame = octets(&format!("{}{}{tags}{kind}{data}", words[2], words[3]));
        frame.resize(frame.len().max(60 + tags.len() / 2), 0);
        found.push((words[0].parse().unwrap(), words[1].to_owned(), frame));
    }
    found
}

/// Writes a capture of the frames that arrive at a port.
fn write(path: &Path, port: &str, arrivals: &[Arrival]) {
    let mut file = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    file.extend_from_slice(&[0, 0, 4, 0, 1, 0, 0, 0]);
    for (ms, _, frame) in arrivals.iter().filter(|arrival| arrival.1 == port) {
        let len = frame.len() as u32;
        let second = (BEGIN + ms / 1000) as u32;
        for word in [second, (ms % 1000) as u32 * 1000, len, len] {
            file.extend_from_slice(&word.to_le_bytes());
        }
        file.extend_from_slice(frame);
    }
    fs::write(path, file).unwrap();
}

fn to_hex(frame: &[u8]) -> String {
    frame.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// Sets the age in a configuration BPDU to 0 or 1; see `record.py`.
fn settle_age(hex: &mut String) {
    let is_config = hex.get(28..34) == Some("424203") && hex.get(40..42) == Some("00");
    if is_config && hex.get(88..92).is_some_and(|age| age != "0000") {
        hex.replace_range(88..92, "0001");
    }
}

#[track_caller]
fn same_as_linux(name: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bridge-frames");
    let script = fs::read_to_string(folder.join(format!("{name}.sh"))).unwrap();
    let arrivals = arrivals(&script);
    let place = env::temp_dir().join(format!("weir-bridge-{name}-{}", process::id()));
    fs::create_dir_all(&place).unwrap();
    // Without IPv6, hosts and bridge send nothing of their own.
    let mut whole = String::from(
        "sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1\n",
    );
    for (number, port) in (1..).zip(PORTS) {
        whole += &format!(
            "ip link add {port} address 02:00:00:00:00:{number:02x} type veth peer name q{number}\n\
             ip link set {port} up\nip link set q{number} arp off up\n"
        );
    }
    whole += &script;
    fs::write(place.join("script"), whole).unwrap();
    let mut command = Command::new(WEIR);
    command.args(["run", "-q"]);
    let output = |port: &str| -> PathBuf { place.join(format!("{port}.out")) };
    for port in PORTS {
        let input = place.join(format!("{port}.in"));
        if arrivals.iter().any(|arrival| arrival.1 == port) {
            write(&input, port, &arrivals);
            command
                .arg("--in")
                .arg(format!("{port}={}", input.display()));
        }
        command
            .arg("--out")
            .arg(format!("{port}={}", output(port).display()));
    }
    let run = command.arg(place.join("script")).output().unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}");
    let mut found = Vec::new();
    for port in PORTS {
        let mut reader = Reader::open(output(port).to_str().unwrap()).unwrap();
        let mut frame = Frame::new(0, Vec::new());
        while reader.read(&mut frame).unwrap() {
            let since = frame.time_ns - BEGIN * 1_000_000_000;
            let number = arrivals.partition_point(|arrival| arrival.0 * 1_000_000 <= since) - 1;
            found.push((number, port, to_hex(&frame.data)));
        }
    }
    // Our host reports the groups of the bridge itself after a random delay; `record.py` leaves these out as well.
    let own = [OWN_REPORT, OWN_REPORT_V3, MLD_REPORT];
    found.retain(|(.., hex)| !own.iter().any(|report| hex.starts_with(report)));
    if script.lines().any(|line| line == "# set") {
        found.retain(|(number, ..)| *number + 1 < arrivals.len());
        for (number, _, hex) in &mut found {
            settle_age(hex);
            if hex.starts_with(LACPDU) {
                let mut before = (0..=*number).rev();
                let slow = |n: &usize| to_hex(&arrivals[*n].2).starts_with(LACPDU);
                *number = before.find(slow).unwrap_or(0);
            } else if hex.starts_with(PROBE) || hex.starts_with(SOLICITATION) {
                let mut before = (0..=*number).rev();
                let kind = |n: &usize| arrivals[*n].2.get(12..14).map(<[u8]>::to_vec);
                let other = |n: &usize| !matches!(kind(n).as_deref(), Some([8, 6] | [0x86, 0xdd]));
                *number = before.find(other).unwrap_or(0);
            }
        }
        found.sort();
        found.dedup_by(|one, next| {
            one == next
                && [BPDU, LACPDU, PROBE, SOLICITATION, QUERY]
                    .iter()
                    .any(|to| one.2.starts_with(to))
        });
    }
    if script.lines().any(|line| line == "# data") {
        found.retain(|(.., hex)| !hex.starts_with(BPDU));
    }
    found.sort();
    let found: Vec<String> = found
        .into_iter()
        .map(|(number, port, hex)| format!("{number} {port} {hex}"))
        .collect();
    let wanted = fs::read_to_string(folder.join(format!("{name}.txt"))).unwrap();
    let wanted: Vec<&str> = wanted.lines().collect();
    for (wanted, found) in wanted.iter().zip(&found) {
        assert_eq!(found, wanted, "{name}");
    }
    assert_eq!(found.len(), wanted.len(), "{name}");
    let _ = fs::remove_dir_all(&place);
}

#[test]
fn learning_and_flooding() {
    same_as_linux("learn");
}

#[test]
fn flags_of_ports() {
    same_as_linux("flags");
}

#[test]
fn ageing() {
    same_as_linux("ageing");
}

#[test]
fn states_of_ports() {
    same_as_linux("states");
}

#[test]
fn forwarded_groups() {
    same_as_linux("group");
}

#[test]
fn vlans() {
    same_as_linux("vlans");
}

#[test]
fn states_of_vlans() {
    same_as_linux("vlan-states");
}

#[test]
fn service_tags() {
    same_as_linux("provider");
}

#[test]
fn tags_without_filtering() {
    same_as_linux("transparent");
}

#[test]
fn filters() {
    same_as_linux("tc");
}

#[test]
fn spanning_tree() {
    same_as_linux("stp");
}

#[test]
fn a_loop_of_three_bridges() {
    same_as_linux("loop");
}

#[test]
fn groups_of_igmp_and_mld() {
    same_as_linux("groups");
}

#[test]
fn groups_by_hand() {
    same_as_linux("mdb");
}

#[test]
fn states_of_spanning_tree_instances() {
    same_as_linux("mst");
}

#[test]
fn copies_for_each_listener() {
    same_as_linux("unicast");
}

#[test]
fn a_querier() {
    same_as_linux("querier");
}

#[test]
fn groups_by_vlan() {
    same_as_linux("vlan-groups");
    same_as_linux("vlan-querier");
}

/// Listeners that include and exclude sources, and the queries for these.
#[test]
fn groups_by_source() {
    same_as_linux("sources");
    same_as_linux("source-queries");
}

/// Bonds as ports of a bridge, with each hash policy.
#[test]
fn hash_policies_of_bonds() {
    for policy in [
        "layer2",
        "layer2-3",
        "layer3-4",
        "encap2-3",
        "encap3-4",
        "vlan-srcmac",
    ] {
        same_as_linux(&format!("bond-{policy}"));
    }
}

#[test]
fn lacp_of_bonds() {
    same_as_linux("bond-lacp");
}

/// The port that the ARP monitor chooses, with and without validation, and ports of a balanced mode.
#[test]
fn arp_monitors_of_bonds() {
    same_as_linux("bond-arp");
    same_as_linux("bond-arp-validate");
    same_as_linux("bond-arp-rr");
    same_as_linux("bond-ns");
    same_as_linux("bond-ns-validate");
}

#[test]
fn arp_requests_answered_by_a_bridge() {
    same_as_linux("proxyarp");
}

#[test]
fn questions_answered_and_suppressed_by_a_bridge() {
    same_as_linux("suppress");
}

#[test]
fn bonds_in_turn_and_by_all_ports() {
    same_as_linux("bond-rr");
    same_as_linux("bond-rr-share");
    same_as_linux("bond-broadcast");
}

#[test]
fn active_and_backup_ports_of_bonds() {
    same_as_linux("bond-active");
    same_as_linux("bond-all-active");
}
