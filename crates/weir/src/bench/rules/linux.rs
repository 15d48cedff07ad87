// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The peer: flower of Linux 6.1 in User-Mode Linux, which gets the same messages from the same
//! client.

use std::time::Instant;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::super::uml::{self, PEER};
use super::wire::{Client, Profile, Rules};
use super::{Found, of};

/// The number of rules in a run. User-Mode Linux has one CPU and keeps its memory in a file.
const RULES: u32 = 50_000;

/// Runs insertion and deletion once, if User-Mode Linux is installed.
pub fn insert(short: bool, profile: Profile, found: &mut Found) {
    let row = of(profile, "insert");
    if short {
        return found.note(&row, "Linux 6.1 is not measured with --short");
    }
    match boot(profile) {
        Ok((insert, delete)) => {
            found.push(&format!("{row} {PEER}"), insert);
            let row = of(profile, "delete");
            found.push(&format!("{row} {PEER}"), delete);
        }
        Err(why) => found.note(&row, why),
    }
}

/// Boots the kernel with this program as its only work. Returns thousands of rules inserted and
/// deleted per second.
fn boot(profile: Profile) -> Result<(f64, f64), String> {
    let letter = if profile == Profile::A { 'a' } else { 'b' };
    let script = format!(
        "load vxlan dummy sch_ingress cls_flower act_gact act_mirred act_tunnel_key\n\
         ip link show d0 >/dev/null 2>&1 || ip link add d0 type dummy\n\
         ip link add vxlan1 type vxlan dstport 4789 external\n\
         ip link set d0 up; ip link set vxlan1 up\n\
         tc qdisc add dev d0 clsact\n\
         d0=$(cat /sys/class/net/d0/ifindex); d1=$(cat /sys/class/net/vxlan1/ifindex)\n\
         \"$weir\" bench rules --part insert:{letter}:$d0:$d1"
    );
    let figures = uml::boot(&script, 90)?;
    match figures.first().map(Vec::as_slice) {
        Some(&[insert, delete]) => Ok((insert, delete)),
        _ => Err("Linux 6.1 left out: it printed other figures than two".into()),
    }
}

/// Runs the part inside: `PROFILE:IFINDEX:TARGET`.
pub fn here(what: &str) -> Result<String, String> {
    let wrong = || format!("insert:{what} is not insert:PROFILE:IFINDEX:TARGET");
    let parts: Vec<&str> = what.split(':').collect();
    let [letter, ifindex, target] = parts[..] else {
        return Err(wrong());
    };
    let rules = Rules {
        profile: if letter == "a" {
            Profile::A
        } else {
            Profile::B
        },
        ifindex: ifindex.parse().map_err(|_| wrong())?,
        target: target.parse().map_err(|_| wrong())?,
        prio: 1,
        plain: false,
    };
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        // NETLINK_ROUTE is 0, the default.
        None,
    );
    let client = Client(socket.map_err(|error| format!("cannot open a netlink socket: {error}"))?);
    let (add, delete) = (rules.add(0, RULES), rules.delete(0, RULES));
    let rate = |datagrams: &[Vec<u8>]| {
        let start = Instant::now();
        client.send_all(datagrams)?;
        Ok::<f64, String>(f64::from(RULES) / start.elapsed().as_secs_f64() / 1e3)
    };
    Ok(format!("figures {} {}\n", rate(&add)?, rate(&delete)?))
}
