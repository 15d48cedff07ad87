// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The peer: network namespaces of this machine's kernel, made from the namespace in which this process
//! was started (`unshare -n`).

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Instant;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};
use rustix::thread::UnshareFlags;
use weir_netlink::{Writer, nlm};

use super::{Figures, What, peers, peers_up, router};

/// Makes `count` objects, then deletes them.
pub fn here(what: What, count: u32) -> Result<Figures, String> {
    let hub = namespace()?;
    let hub_socket = socket()?;
    let mut found = Figures::default();
    let mut all = Vec::with_capacity(count as usize);
    let before = kernel_memory()?;
    let start = Instant::now();
    for number in 0..count {
        unshare()?;
        if what == What::Router {
            make_router((&hub, &hub_socket), number)?;
        }
        all.push(namespace()?);
    }
    found.made = f64::from(count) / start.elapsed().as_secs_f64();
    found.bytes = (kernel_memory()? - before) / f64::from(count);
    rustix::thread::move_into_link_name_space(
        std::os::fd::AsFd::as_fd(&hub),
        Some(rustix::thread::LinkNameSpaceType::Network),
    )
    .map_err(|error| format!("the hub: {error}"))?;
    let start = Instant::now();
    drop(all);
    // The kernel deletes namespaces in the background, in batches. A batch has ended once the devices of
    // its routers are gone. Bare namespaces leave no trace, so a last one is waited for by its memory.
    match what {
        What::Router => wait_until(|| Ok(devices()? <= 1))?,
        What::Bare => {
            let target = before + found.bytes * f64::from(count) * 0.1;
            wait_until(|| Ok(kernel_memory()? <= target))?;
        }
    }
    found.deleted = f64::from(count) / start.elapsed().as_secs_f64();
    Ok(found)
}

fn wait_until(mut done: impl FnMut() -> Result<bool, String>) -> Result<(), String> {
    let start = Instant::now();
    while !done()? {
        if start.elapsed().as_secs() > 60 {
            return Err("the kernel did not delete the namespaces within a minute".into());
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    Ok(())
}

/// The number of devices in this thread's namespace.
fn devices() -> Result<usize, String> {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev")
        .map_err(|error| format!("/proc/thread-self/net/dev: {error}"))?;
    Ok(text.lines().filter(|line| line.contains(':')).count())
}

#[allow(unsafe_code)] // unshare is unsafe only for file descriptors, which this call does not touch
fn unshare() -> Result<(), String> {
    // SAFETY: only CLONE_FILES makes descriptors of other threads invalid, and it is not given.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }
        .map_err(|error| format!("a network namespace: {error}"))
}

/// Opens this thread's namespace.
fn namespace() -> Result<File, String> {
    let path = "/proc/thread-self/ns/net";
    File::open(path).map_err(|error| format!("{path}: {error}"))
}

/// Opens a netlink socket in this thread's namespace.
fn socket() -> Result<OwnedFd, String> {
    // NETLINK_ROUTE is 0, the default.
    socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(|error| format!("netlink: {error}"))
}

/// Sends requests, which must succeed.
fn request(socket: &OwnedFd, mut requests: Writer) -> Result<(), String> {
    let failed = |error| format!("netlink: {error}");
    super::message(&mut requests, nlm::NOOP, nlm::F_ACK, |_| ())?;
    send(socket, requests.bytes(), SendFlags::empty()).map_err(failed)?;
    let mut answer = [0; 8192];
    let (_, len) = recv(socket, &mut answer[..], RecvFlags::empty()).map_err(failed)?;
    match weir_netlink::refusal(answer.get(..len).unwrap_or_default()) {
        Some(error) => Err(format!("a request was refused: {error}")),
        None => Ok(()),
    }
}

fn make_router(hub: (&File, &OwnedFd), number: u32) -> Result<(), String> {
    let peers = peers(number);
    request(&socket()?, router(hub.0.as_raw_fd() as u32, &peers)?)?;
    request(hub.1, peers_up(&peers)?)?;
    let path = "/proc/sys/net/ipv4/ip_forward";
    std::fs::write(path, "1").map_err(|error| format!("{path}: {error}"))
}

/// The kernel's own memory in bytes: slabs, per-CPU data, page tables and stacks.
fn kernel_memory() -> Result<f64, String> {
    let text = std::fs::read_to_string("/proc/meminfo")
        .map_err(|error| format!("/proc/meminfo: {error}"))?;
    let all = ["Slab:", "Percpu:", "VmallocUsed:", "KernelStack:"];
    let kilobytes = text.lines().filter_map(|line| {
        let (name, rest) = line.split_once(char::is_whitespace)?;
        let number = rest.split_whitespace().next()?.parse::<f64>().ok()?;
        all.contains(&name).then_some(number)
    });
    Ok(kilobytes.sum::<f64>() * 1024.0)
}
