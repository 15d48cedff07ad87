// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's side of `weir join`: namespaces, the device, and its configuration by rtnetlink.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::thread::{
    LinkNameSpaceType, UnshareFlags, capabilities, configure_capability_in_ambient_set,
    move_into_link_name_space, set_capabilities, unshare_unsafe,
};
use weir_netlink::{IfInfoMsg, Writer, ifla, messages, nlm, rtm};
use weir_port::keys::Keys;
use weir_port::kinds::kind;

use super::message::Setup;

/// The name of the veth end that the packet socket serves, in a namespace of its own.
const BEHIND: &str = "port";

/// Moves this thread into new namespaces.
#[allow(unsafe_code)] // unsafe for flags that this file does not use
fn unshare(flags: UnshareFlags) -> rustix::io::Result<()> {
    // SAFETY: the descriptors of the process stay shared (no `CLONE_FILES`).
    unsafe { unshare_unsafe(flags) }
}

/// Has the program keep the capabilities of the new user namespace, in which it stays the user it is:
/// as root, programs such as tcpdump would try to become somebody else, whom the namespace lacks.
fn keep_capabilities() -> rustix::io::Result<()> {
    let mut sets = capabilities(None)?;
    sets.inheritable = sets.permitted;
    set_capabilities(None, sets)?;
    for capability in sets.permitted {
        configure_capability_in_ambient_set(capability, true)?;
    }
    Ok(())
}

/// The namespaces of the program, entered by this process.
pub struct Kernel {
    name: String,
}

/// A kind of port, its keys and its files.
type Opened = (&'static str, String, Vec<OwnedFd>);

fn failed(what: &str) -> impl FnOnce(rustix::io::Errno) -> String {
    move |error| format!("{what}: {error}")
}

impl Kernel {
    /// Moves this process, which must have one thread, into a new network namespace, and into a new user
    /// namespace unless it is root's. The program's device will have this name.
    pub fn enter(name: &str) -> Result<Self, String> {
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        let network = UnshareFlags::NEWNET | UnshareFlags::NEWNS;
        if uid.is_root() {
            unshare(network).map_err(failed("a new network namespace"))?;
        } else {
            unshare(network | UnshareFlags::NEWUSER)
                .map_err(failed("a new user and network namespace"))?;
            let map = |file: &str, text: &str| {
                fs::write(file, text).map_err(|error| format!("{file}: {error}"))
            };
            map("/proc/self/setgroups", "deny")?;
            map("/proc/self/uid_map", &format!("{0} {0} 1", uid.as_raw()))?;
            map("/proc/self/gid_map", &format!("{0} {0} 1", gid.as_raw()))?;
            keep_capabilities().map_err(failed("capabilities"))?;
        }
        // Shows the namespace's devices in /sys/class/net, as `ip netns exec` does. Programs that do not
        // look there do not mind if it fails.
        let private = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
        if mount_change("/", private).is_ok() {
            let _ = mount("sysfs", "/sys", "sysfs", MountFlags::empty(), None);
        }
        Ok(Self { name: name.into() })
    }

    /// Makes the device and opens the port behind it.
    pub fn port(&self) -> Result<Opened, String> {
        match open("tap", &format!("name={}", self.name)) {
            Ok(files) => Ok(("tap", String::new(), files)),
            Err(error) => self
                .veth()
                .map_err(|other| format!("{error}; and without it: {other}")),
        }
    }

    /// Makes a veth pair with one end in another new namespace, and a packet socket on that end.
    fn veth(&self) -> Result<Opened, String> {
        let here = fs::File::open("/proc/self/ns/net").map_err(|error| error.to_string())?;
        let enter = |ns: &fs::File| {
            move_into_link_name_space(ns.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(failed("a network namespace"))
        };
        unshare(UnshareFlags::NEWNET).map_err(failed("a network namespace for the port"))?;
        let made = Rtnl::open().and_then(|rtnl| {
            rtnl.request(rtm::NEWLINK, nlm::F_CREATE | nlm::F_EXCL, |out| {
                out.fixed(&IfInfoMsg::default());
                out.put_str(ifla::IFNAME, BEHIND);
                let info = out.nest(ifla::LINKINFO);
                out.put_str(ifla::info::KIND, "veth");
                let data = out.nest(ifla::info::DATA);
                let peer = out.nest(ifla::veth::PEER);
                out.fixed(&IfInfoMsg::default());
                out.put_str(ifla::IFNAME, &self.name);
                use std::os::fd::AsRawFd;
                out.put_u32(ifla::NET_NS_FD, here.as_raw_fd() as u32);
                out.end(peer);
                out.end(data);
                out.end(info);
            })?;
            rtnl.set_up(BEHIND)?;
            open("af_packet", &format!("dev={BEHIND}"))
        });
        enter(&here)?;
        Ok(("af_packet", format!("dev={BEHIND}"), made?))
    }

    /// Sets addresses, MTU and routes, and brings the device and the loopback up.
    pub fn configure(&self, setup: &Setup) -> Result<(), String> {
        let rtnl = Rtnl::open()?;
        rtnl.set_up("lo")?;
        let index = rtnl.index(&self.name)?;
        rtnl.request(rtm::NEWLINK, 0, |out| {
            out.fixed(&IfInfoMsg {
                index,
                ..IfInfoMsg::default()
            });
            out.put_u32(ifla::MTU, setup.mtu);
            if setup.mac.len() == 6 {
                out.put(ifla::ADDRESS, &setup.mac);
            }
        })?;
        for address in &setup.addresses {
            rtnl.request(rtm::NEWADDR, nlm::F_CREATE | nlm::F_REPLACE, |out| {
                address.write(out, index as u32);
            })?;
        }
        rtnl.set_up(&self.name)?;
        for route in &setup.routes {
            rtnl.request(rtm::NEWROUTE, nlm::F_CREATE | nlm::F_REPLACE, |out| {
                route.write(out, index as u32);
            })
            .map_err(|error| format!("{route}: {error}"))?;
        }
        Ok(())
    }
}

/// Opens a port here, with this process's privileges.
fn open(name: &str, keys: &str) -> Result<Vec<OwnedFd>, String> {
    let kind = kind(name).map_err(|error| error.to_string())?;
    let keys = Keys::parse(kind.name, kind.keys, keys).map_err(|error| error.to_string())?;
    (kind.open)(&keys).map_err(|error| error.to_string())
}

/// An rtnetlink socket of the kernel.
struct Rtnl(OwnedFd);

impl Rtnl {
    fn open() -> Result<Self, String> {
        let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
        let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)
            .map_err(failed("rtnetlink"))?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, 0)).map_err(failed("rtnetlink"))?;
        Ok(Self(socket))
    }

    /// Sends a request and returns the first message of the answer; an error of the kernel is an error.
    fn ask(&self, ty: u16, flags: u16, write: impl FnOnce(&mut Writer)) -> Result<Vec<u8>, String> {
        let mut out = Writer::new();
        let message = out.message(ty, nlm::F_REQUEST | flags, 1, 0);
        write(&mut out);
        out.finish(message)
            .map_err(|_| "the request is too long".to_owned())?;
        rustix::net::send(&self.0, out.bytes(), SendFlags::empty()).map_err(failed("rtnetlink"))?;
        let mut buffer = vec![0; 32 << 10];
        let (len, _) = rustix::net::recv(&self.0, &mut buffer, RecvFlags::empty())
            .map_err(failed("rtnetlink"))?;
        buffer.truncate(len);
        if messages(&buffer).next().is_none() {
            return Err("rtnetlink: no answer".into());
        }
        match weir_netlink::refusal(&buffer) {
            Some(error) => Err(error.quiet().to_string()),
            None => Ok(buffer),
        }
    }

    fn request(&self, ty: u16, flags: u16, write: impl FnOnce(&mut Writer)) -> Result<(), String> {
        self.ask(ty, flags | nlm::F_ACK, write).map(drop)
    }

    fn index(&self, name: &str) -> Result<i32, String> {
        let answer = self
            .ask(rtm::GETLINK, 0, |out| {
                out.fixed(&IfInfoMsg::default());
                out.put_str(ifla::IFNAME, name);
            })
            .map_err(|error| format!("{name}: {error}"))?;
        let message = messages(&answer).next().ok_or("rtnetlink: no answer")?;
        let link: IfInfoMsg = message.fixed().map_err(|error| error.to_string())?;
        Ok(link.index)
    }

    fn set_up(&self, name: &str) -> Result<(), String> {
        let index = self.index(name)?;
        self.request(rtm::NEWLINK, 0, |out| {
            out.fixed(&IfInfoMsg {
                index,
                flags: ifla::iff::UP,
                change: ifla::iff::UP,
                ..IfInfoMsg::default()
            });
        })
        .map_err(|error| format!("{name}: {error}"))
    }
}
