// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tunnels send the same frames as Linux 6.1: those that leave under the scripts in `tunnel/`
//! equal, to the byte, those that `tunnel/record.py` recorded. The comparison excludes the
//! identification of an outer IPv4 header, which Linux draws at random, and the checksum that
//! depends on it; the checksum must be correct. It excludes the source ports of Geneve and the timestamps of ERSPAN.
#![allow(clippy::unwrap_used, reason = "a test may stop there")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, process};

use weir_packet::checksum;
use weir_port::pcap::Reader;
use weir_port::{Frame, Source};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tunnel")
}

/// Returns the frames of a capture.
fn read(path: &Path) -> Vec<Vec<u8>> {
    let mut reader = Reader::open(path.to_str().unwrap()).unwrap();
    let mut frame = Frame::new(0, Vec::new());
    let mut frames = Vec::new();
    while reader.read(&mut frame).unwrap() {
        frames.push(frame.data.clone());
    }
    frames
}

/// Checks the checksum of an IPv4 header, then zeroes it and the identification.
fn without_id(frame: &mut [u8]) {
    if frame[12..14] == [8, 0] {
        let header = &mut frame[14..34];
        assert!(checksum::verify(header), "{header:x?}");
        header[4..6].fill(0);
        header[10..12].fill(0);
    }
}

/// Zeroes the source port of an outer datagram, which Linux draws at random for each flow, and takes it out of the
/// checksum.
fn without_source_port(frame: &mut [u8]) {
    let at = if frame[12..14] == [8, 0] { 34 } else { 54 };
    let word = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let (port, check) = (word(at), word(at + 6));
    assert_ne!(port, 0);
    let without = match check {
        0 => 0,
        check => checksum::update_u16(check, port, 0),
    };
    frame[at..at + 2].fill(0);
    let without = if without == 0xffff { 0 } else { without };
    frame[at + 6..at + 8].copy_from_slice(&without.to_be_bytes());
}

/// Zeroes the timestamp of an ERSPAN packet of type III, unless the frame has a later fragment.
fn without_timestamp(frame: &mut [u8]) {
    let gre = match (&frame[12..14], frame[20]) {
        ([8, 0], _) if frame[20] & 0x1f != 0 || frame[21] != 0 => return,
        ([8, 0], _) => 34,
        // Destination options.
        (_, 60) => 62,
        _ => 54,
    };
    let version = frame.get(gre + 8).map(|first| first >> 4);
    if version == Some(2) && frame[gre..gre + 2] == [0x10, 0] {
        frame[gre + 12..gre + 16].fill(0);
    }
}

/// Zeroes the identification of the IPv4 packet in a frame of VXLAN, its checksum, and the sequence number of TCP, which
/// are random. The sum over the identification and the checksum is not.
fn without_inner_id(frame: &mut [u8]) {
    let inner = if frame[12..14] == [8, 0] { 50 } else { 70 };
    let tagged = frame[inner + 12..inner + 14] == [0x81, 0];
    let ip = inner + if tagged { 18 } else { 14 };
    if frame[ip - 2..ip] == [8, 0] {
        frame[ip + 4..ip + 6].fill(0);
        frame[ip + 10..ip + 12].fill(0);
        if frame[ip + 9] == 6 {
            frame[ip + 24..ip + 28].fill(0);
        }
    }
}

/// Returns whether a frame of VXLAN has ICMPv6 in it, also behind a hop-by-hop header.
fn has_icmp6(frame: &[u8]) -> bool {
    let inner = &frame[if frame[12..14] == [8, 0] { 50 } else { 70 }..];
    inner[12..14] == [0x86, 0xdd] && [0, 58].contains(&inner[20])
}

#[track_caller]
fn same_as_linux(name: &str, (inlet, input): (&str, &str), outlet: &str) {
    let folder = folder();
    let answer = env::temp_dir().join(format!("weir-tunnel-{name}-{}.pcapng", process::id()));
    let shown = answer.with_extension("txt");
    let script = folder.join(format!("{name}.sh"));
    let run = Command::new(WEIR)
        .args(["run", "-q"])
        .arg("--in")
        .arg(format!("{inlet}={}", folder.join(input).display()))
        .arg("--out")
        .arg(format!("{outlet}={}", answer.display()))
        .arg(folder.join("show.sh"))
        .env("SCRIPT", &script)
        .env("SHOWN", &shown)
        .env("WEIR", WEIR)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}");
    let mut found = read(&answer);
    let _ = fs::remove_file(&answer);
    let mut wanted = read(&folder.join(format!("{name}.pcap")));
    if outlet == "u0" || outlet == "in0" {
        found.retain(|frame| match outlet {
            "in0" => is_error(frame),
            _ => is_datagram(frame) && !(name == "remcsum" && has_icmp6(frame)),
        });
        for frame in wanted.iter_mut().chain(&mut found) {
            without_id(frame);
            if name.starts_with("geneve") {
                without_source_port(frame);
            }
            if name == "remcsum" {
                without_inner_id(frame);
            }
            if name.contains("erspan") {
                without_timestamp(frame);
            }
        }
    }
    for (number, (wanted, found)) in wanted.iter().zip(&found).enumerate() {
        let number = number + 1;
        assert!(
            found == wanted,
            "{name}: frame {number}: {found:02x?}, on Linux {wanted:02x?}"
        );
    }
    assert_eq!(found.len(), wanted.len(), "{name}");
    let found = fs::read_to_string(&shown).unwrap();
    let _ = fs::remove_file(&shown);
    let wanted = fs::read_to_string(folder.join(format!("{name}.txt"))).unwrap();
    assert_eq!(found, wanted, "{name}.txt");
}

fn is_datagram(frame: &[u8]) -> bool {
    let of = [17, 4, 41, 47, 60, 137];
    (frame[12..14] == [8, 0] && of.contains(&frame[23]))
        || (frame[12..14] == [0x86, 0xdd] && of.contains(&frame[20]))
}

/// Returns whether a frame has an ICMP or ICMPv6 error.
fn is_error(frame: &[u8]) -> bool {
    (frame[12..14] == [8, 0] && frame[23] == 1)
        || (frame[12..14] == [0x86, 0xdd] && frame[20] == 58 && frame[54] < 128)
}

#[test]
fn metadata_decide_how_frames_are_sent() {
    same_as_linux("external", ("in0", "inner.pcap"), "u0");
}

#[test]
fn remotes_decide_how_frames_are_sent() {
    same_as_linux("classic", ("in0", "inner.pcap"), "u0");
}

#[test]
fn neighbours_of_a_device_answer_requests() {
    same_as_linux("vxlan-proxy", ("in0", "proxyinner.pcap"), "out0");
}

#[test]
fn packets_for_a_router_go_to_the_host_behind_it() {
    same_as_linux("vxlan-rsc", ("in0", "ipinner.pcap"), "u0");
}

#[test]
fn remotes_are_groups() {
    same_as_linux("vxlan-group", ("in0", "ipinner.pcap"), "u0");
    same_as_linux("vxlan-group-decap", ("u0", "groupouter.pcap"), "out0");
}

#[test]
fn nexthop_objects_decide_how_frames_are_sent() {
    same_as_linux("fdb-nexthop", ("in0", "ipinner.pcap"), "u0");
}

/// All frames of a flow go to one remote of a group, and the flows are spread by weight.
#[test]
fn flows_choose_remotes_of_nexthop_objects() {
    let answer = env::temp_dir().join(format!("weir-tunnel-spread-{}.pcapng", process::id()));
    let run = Command::new(WEIR)
        .args(["run", "-q", "--gen"])
        .arg("in0=rate=8mbit,size=100,flows=200,stop=500ms")
        .arg("--out")
        .arg(format!("u0={}", answer.display()))
        .arg(folder().join("fdb-spread.sh"))
        .env("WEIR", WEIR)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    let entry = "00:00:00:00:00:00 nhid 10 self permanent\n";
    assert_eq!(said, entry, "{}", String::from_utf8_lossy(&run.stderr));
    let mut frames = read(&answer);
    let _ = fs::remove_file(&answer);
    frames.retain(|frame| is_datagram(frame));
    let mut remotes: BTreeMap<Vec<u8>, u8> = BTreeMap::new();
    let mut counts = [0; 2];
    for frame in &frames {
        let remote = frame[33];
        // Addresses and ports of the inner packet.
        let flow = frame[76..88].to_vec();
        assert_eq!(*remotes.entry(flow).or_insert(remote), remote);
        counts[usize::from(remote - 2)] += 1;
    }
    assert_eq!(remotes.len(), 200);
    let share = f64::from(counts[1]) / frames.len() as f64;
    assert!((0.65..0.85).contains(&share), "{counts:?}");
}

#[test]
fn frames_come_out_and_filters_see_the_tunnel() {
    same_as_linux("decap", ("u0", "outer.pcap"), "out0");
}

#[test]
fn next_protocols_say_what_is_in_datagrams() {
    same_as_linux("gpe", ("in0", "ipinner.pcap"), "u0");
    same_as_linux("gpe-decap", ("u0", "gpeouter.pcap"), "out0");
}

#[test]
fn checksums_are_left_to_the_receiver() {
    same_as_linux("remcsum", ("in0", "ipinner.pcap"), "u0");
    same_as_linux("remcsum-decap", ("u0", "remcsumouter.pcap"), "out0");
}

#[test]
fn vnis_have_remotes_and_counters() {
    same_as_linux("vni", ("in0", "ipinner.pcap"), "u0");
    same_as_linux("vni-decap", ("u0", "outer.pcap"), "out0");
}

#[test]
fn vlans_of_bridges_go_into_tunnels() {
    same_as_linux("vlan-tunnel", ("in0", "ipinner.pcap"), "u0");
    same_as_linux("vlan-tunnel-decap", ("u0", "outer.pcap"), "out0");
}

#[test]
fn packets_go_into_ip_tunnels() {
    same_as_linux("iptun", ("in0", "ipinner.pcap"), "u0");
}

#[test]
fn metadata_decide_how_ip_tunnels_send() {
    same_as_linux("iptun-external", ("in0", "ipinner.pcap"), "u0");
}

#[test]
fn routes_decide_how_packets_are_encapsulated() {
    same_as_linux("route-encap", ("in0", "ipinner.pcap"), "u0");
}

#[test]
fn labels_decide_where_packets_go() {
    same_as_linux("mpls", ("u0", "mplsouter.pcap"), "out0");
}

#[test]
fn routes_decide_which_labels_packets_get() {
    same_as_linux("mpls-encap", ("in0", "ipinner.pcap"), "out0");
}

#[test]
fn packets_come_out_of_ip_tunnels() {
    same_as_linux("iptun-decap", ("u0", "ipouter.pcap"), "out0");
}

#[test]
fn ipv6_goes_into_ipv4() {
    same_as_linux("sit", ("in0", "ipinner.pcap"), "u0");
}

#[test]
fn ipv6_comes_out_of_ipv4() {
    same_as_linux("sit-decap", ("u0", "ipouter.pcap"), "out0");
}

#[test]
fn next_hops_decide_where_packets_go() {
    same_as_linux("sit-hop", ("in0", "hopinner.pcap"), "u0");
}

#[test]
fn senders_decide_what_comes_out_of_ipv4() {
    same_as_linux("sit-senders", ("u0", "sitouter.pcap"), "out0");
}

#[test]
fn packets_go_into_ipv6() {
    same_as_linux("ip6tnl", ("in0", "ip6inner.pcap"), "u0");
}

#[test]
fn metadata_decide_how_packets_go_into_ipv6() {
    same_as_linux("ip6tnl-external", ("in0", "ip6inner.pcap"), "u0");
}

#[test]
fn packets_come_out_of_ipv6() {
    same_as_linux("ip6tnl-decap", ("u0", "ip6outer.pcap"), "out0");
}

#[test]
fn frames_go_into_gre_over_ipv6() {
    same_as_linux("ip6gre", ("in0", "ip6inner.pcap"), "u0");
}

#[test]
fn metadata_decide_how_gre_over_ipv6_sends() {
    same_as_linux("ip6gre-external", ("in0", "ip6inner.pcap"), "u0");
    same_as_linux("ip6gretap-external", ("in0", "ip6inner.pcap"), "u0");
}

#[test]
fn frames_come_out_of_gre_over_ipv6() {
    same_as_linux("ip6gre-decap", ("u0", "ip6outer.pcap"), "out0");
}

#[test]
fn inner_senders_hear_of_errors_of_gre_over_ipv6() {
    same_as_linux("ip6gre-route", ("in0", "ip6route.pcap"), "in0");
}

#[test]
fn inner_senders_hear_of_errors() {
    same_as_linux("ip6tnl-route", ("in0", "ip6route.pcap"), "in0");
}

#[test]
fn mirrored_frames_go_into_erspan() {
    same_as_linux("erspan", ("in0", "ip6inner.pcap"), "u0");
    same_as_linux("ip6erspan", ("in0", "ip6inner.pcap"), "u0");
}

#[test]
fn metadata_decide_how_erspan_sends() {
    same_as_linux("erspan-external", ("in0", "ip6inner.pcap"), "u0");
    same_as_linux("ip6erspan-external", ("in0", "ip6inner.pcap"), "u0");
}

#[test]
fn mirrored_frames_come_out_of_erspan() {
    same_as_linux("erspan-decap", ("u0", "erspanouter.pcap"), "out0");
}

#[test]
fn frames_go_into_geneve() {
    same_as_linux("geneve", ("in0", "ipinner.pcap"), "u0");
}

#[test]
fn metadata_decide_how_geneve_sends() {
    same_as_linux("geneve-external", ("in0", "ipinner.pcap"), "u0");
}

#[test]
fn frames_come_out_of_geneve() {
    same_as_linux("geneve-decap", ("u0", "geneveouter.pcap"), "out0");
}

#[test]
fn learned_entries_age() {
    let folder = folder();
    let run = Command::new(WEIR)
        .args(["run", "-q", "--in"])
        .arg(format!("u0={}", folder.join("outer.pcap").display()))
        .arg(folder.join("ageing.sh"))
        .env("WEIR", WEIR)
        .output()
        .unwrap();
    let default = "00:00:00:00:00:00 dev vx1 dst 192.0.2.9 self permanent\n";
    // The source of the last frame with this address.
    let learned = "02:00:00:00:00:01 dev vx1 dst 192.0.2.3 self \n";
    let said = String::from_utf8_lossy(&run.stdout);
    assert_eq!(
        said,
        [default, learned, default, learned, default].concat(),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
}

/// A device without a link-layer header: captures show its packets behind an Ethernet header without addresses, and
/// take that away from frames that are injected.
#[test]
fn captures_of_devices_without_a_link_layer_header() {
    let place = env::temp_dir().join(format!("weir-tunnel-bare-{}", process::id()));
    fs::create_dir_all(&place).unwrap();
    let path = |name: &str| place.join(name);
    let mut inner = vec![0; 12];
    inner.extend_from_slice(&[8, 0]);
    let payload = [7; 8];
    inner.extend(weir_packet::header::ipv4::ipv4(
        [10, 1, 0, 1],
        [10, 1, 0, 2],
        253,
        64,
        0,
        0,
        0,
        payload.len(),
    ));
    inner.extend_from_slice(&payload);
    let mut file = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    file.extend_from_slice(&[0, 0, 4, 0, 1, 0, 0, 0]);
    for word in [0, 0, inner.len() as u32, inner.len() as u32] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    file.extend_from_slice(&inner);
    fs::write(path("inner.pcap"), file).unwrap();
    let script = format!(
        "ip link add d0 type dummy; ip addr add 10.0.0.1/24 dev d0; ip link set d0 up
         ip neigh add 10.0.0.2 lladdr 2:0:0:0:0:2 dev d0
         ip link add t0 type ipip local 10.0.0.1 remote 10.0.0.2; ip link set t0 up
         {WEIR} inject --topspeed t0 {file}
         {WEIR} inject --topspeed --receive t0 {file}
         ip -s -s link show t0 | grep -A1 RX:",
        file = path("inner.pcap").display()
    );
    let run = Command::new(WEIR)
        .args(["run", "-q", "--link-chatter", "--capture-all"])
        .arg(path("all.pcapng"))
        .args(["--", "sh", "-c", &script])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}");
    let frames = read(&path("all.pcapng"));
    // Sent by t0, and received by it.
    assert_eq!(frames.iter().filter(|frame| **frame == inner).count(), 2);
    let outer = frames.iter().find(|frame| frame.len() == inner.len() + 20);
    let outer = outer.unwrap();
    assert_eq!(
        (outer[..6].to_vec(), outer[23]),
        (vec![2, 0, 0, 0, 0, 2], 4)
    );
    assert_eq!(outer[34..], inner[14..]);
    let _ = fs::remove_dir_all(&place);
}
