// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The peer: flower of Linux 6.1 in User-Mode Linux, which gets the same messages from the same
//! client.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Instant;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::tools::Folder;
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
            found.push(&format!("{row} linux 6.1 (UML)"), insert);
            let row = of(profile, "delete");
            found.push(&format!("{row} linux 6.1 (UML)"), delete);
        }
        Err(why) => found.note(&row, why),
    }
}

/// Boots the kernel with this program as its only work. Returns thousands of rules inserted and
/// deleted per second.
fn boot(profile: Profile) -> Result<(f64, f64), String> {
    let left_out = |why: &str| format!("Linux 6.1 left out: {why}");
    let me = std::env::current_exe().map_err(|error| left_out(&error.to_string()))?;
    let folder = Folder::new("uml")?;
    let init = folder.path().join("init");
    let letter = if profile == Profile::A { 'a' } else { 'b' };
    let here = folder.path().display();
    let script = format!(
        "#!/bin/bash\n\
         export PATH=/usr/sbin:/usr/bin:/sbin:/bin\n\
         mount -t proc proc /proc; mount -t sysfs sys /sys\n\
         modules=/usr/lib/uml/modules/$(uname -r)/kernel\n\
         for m in net/ipv4/udp_tunnel net/ipv6/ip6_udp_tunnel drivers/net/vxlan/vxlan drivers/net/dummy \
         net/sched/sch_ingress net/sched/cls_flower net/sched/act_gact net/sched/act_mirred \
         net/sched/act_tunnel_key; do insmod $modules/$m.ko; done\n\
         ip link show d0 >/dev/null 2>&1 || ip link add d0 type dummy; ip link add vxlan1 type vxlan dstport 4789 external\n\
         ip link set d0 up; ip link set vxlan1 up\n\
         tc qdisc add dev d0 clsact\n\
         d0=$(cat /sys/class/net/d0/ifindex); d1=$(cat /sys/class/net/vxlan1/ifindex)\n\
         {} bench rules --part insert:{letter}:$d0:$d1 >{here}/figures\n\
         sync; poweroff -f\n",
        me.display()
    );
    let write = || -> std::io::Result<()> {
        let mut file = std::fs::File::create(&init)?;
        file.write_all(script.as_bytes())?;
        file.set_permissions(std::fs::Permissions::from_mode(0o755))
    };
    write().map_err(|error| left_out(&error.to_string()))?;
    let ran = Command::new("timeout")
        .args([
            "-k",
            "5",
            "90",
            "linux.uml",
            "mem=1G",
            "rootfstype=hostfs",
            "rootflags=/",
            "rw",
        ])
        .arg(format!("init={}", init.display()))
        .args(["con=null", "con0=null,null", "quiet"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if ran.is_err() {
        return Err(left_out(
            "User-Mode Linux (package user-mode-linux) is not installed",
        ));
    }
    let text = std::fs::read_to_string(folder.path().join("figures")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("figures "));
    let words = line.unwrap_or_default().split_whitespace();
    let figures: Vec<f64> = words.filter_map(|n| n.parse().ok()).collect();
    match figures[..] {
        [insert, delete] => Ok((insert, delete)),
        _ => Err(left_out(
            "User-Mode Linux did not run here; it needs the packages user-mode-linux, kmod and iproute2",
        )),
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
