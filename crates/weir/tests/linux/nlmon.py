# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs commands while a packet socket watches nlmon0, and prints the netlink messages it saw.

Each line is a message: the protocol of its packet, the packet's type, the device's type, and the message's type, flags,
length unless it describes a link, whether it has a sequence number and a port id, and of an error the errno."""
import socket
import struct
import subprocess
import sys

ETH_P_ALL = 3
RTM_NEWLINK = 16
GENERIC = 16
GENL_ID_CTRL = 16


def watch(kind, commands, group=None):
    watcher = socket.socket(socket.AF_PACKET, kind, socket.htons(ETH_P_ALL))
    watcher.bind(("nlmon0", 0))
    hearer = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    if group:
        hearer.bind((0, group))
    watcher.settimeout(0.5)
    for command in commands:
        print("+", command, flush=True)
        subprocess.run(command, shell=True)
        while True:
            try:
                data, (_, protocol, pkttype, hatype, address) = watcher.recvfrom(1 << 16)
            except OSError as error:
                if not isinstance(error, socket.timeout):
                    print(error, flush=True)
                    continue
                break
            for message in messages(protocol, data):
                print("protocol", protocol, "type", pkttype, hatype, address.hex(), message, flush=True)
    hearer.close()
    watcher.close()


def messages(protocol, data):
    found = []
    while len(data) >= 16:
        length, ty, flags, seq, pid = struct.unpack_from("=IHHII", data)
        if protocol == GENERIC and ty > GENL_ID_CTRL:
            ty = "family"
        text = f"{ty} flags {flags:#x}{' seq' if seq else ''}{' pid' if pid else ''}"
        if ty != RTM_NEWLINK or flags & 1:
            text += f" length {length}"
        if ty == 2:
            text += f" errno {struct.unpack_from('=i', data, 16)[0]}"
        found.append(text)
        if length < 16:
            break
        data = data[(length + 3) & ~3:]
    if data:
        found.append(f"{len(data)} bytes")
    return found


watch(socket.SOCK_RAW, ["ip link set lo mtu 60000", "ip link set lo mtu 65535 type nlmon", "ip addr add 127.0.0.9/8 dev lo",
                        "ip addr show dev lo >/dev/null", "ip route get 127.0.0.9 >/dev/null",
                        "ip link show nothere", "ethtool -k lo >/dev/null"])
# Groups 1 and 5: links and IPv4 addresses.
watch(socket.SOCK_DGRAM, ["ip link set lo mtu 50000", "ip addr del 127.0.0.9/8 dev lo", "ip link set lo mtu 50000"],
      group=1 | 1 << 4)
print("+ a batch", flush=True)
watch(socket.SOCK_RAW, ["printf 'link set lo mtu 61000\\nlink set lo mtu 62000\\nlink set lo type nlmon\\n' | ip -batch -"])
