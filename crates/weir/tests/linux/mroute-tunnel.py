# SPDX-License-Identifier: Apache-2.0 OR MIT
"""VIFs with tunnel devices; see mroute-tunnel.sh."""
import socket
import struct
import subprocess
import time

from mroute_family import *

wires = {}
for name in DEVICES:
    wires[name] = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE))
    wires[name].bind((name + "1", ETHERTYPE))


def seen():
    """What came out of the wires since the last time: the headers of packets that are not for a group of one link."""
    time.sleep(0.1)
    found = []
    for name, wire in wires.items():
        while True:
            try:
                frame, sender = wire.recvfrom(4096, socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            data = frame[14:]
            inner = {47: data[24:], 4: data[20:]}.get(data[9])
            if sender[2] == socket.PACKET_OUTGOING or is_noise(group_of(inner or data)):
                continue
            if inner:
                # The identification of the outer header is anything.
                outer = f"protocol {data[9]} ttl {ttl_of(data)} DF {data[6] >> 6} tos {data[1]} with "
                data = inner
            else:
                outer = ""
            found.append(f"{name} {outer}{shown(group_of(data))} ttl {ttl_of(data)} length {len(data)}")
    return found


def send(name, what, outer=None):
    mac = mac_of(group_of(what))
    if outer is not None:
        head = b"\0\0\x08\0" if outer == 47 else b""
        body = head + what
        what = packet("10.0.2.2", "10.0.2.1", ttl=9, length=20 + len(body), protocol=outer, payload=body)
        mac = bytes((2, 0, 0, 0, 0, 2))
    wires[name].send(mac + bytes((2, 0, 0, 0, 1, 0)) + struct.pack("!H", ETHERTYPE) + what)
    print(f"sent by {name}:", "; ".join(seen()) or "nothing")


daemon = daemon_socket()
attempt("init", option(daemon, INIT, number(1)))
attempt("vif 0", option(daemon, ADD_VIF, vif(0, "10.0.1.1")))
attempt("vif 1", option(daemon, ADD_VIF, vif(1, "10.1.1.1")))
attempt("vif 2", option(daemon, ADD_VIF, vif(2, socket.if_nametoindex("ipip1"), IFINDEX)))
attempt("mfc", option(daemon, ADD_MFC, mfc("10.0.1.2", "225.1.1.1", 0, {1: 1, 2: 1})))
attempt("mfc", option(daemon, ADD_MFC, mfc("10.9.9.9", "225.1.1.2", 1, {0: 1, 2: 1})))
attempt("mfc", option(daemon, ADD_MFC, mfc("10.9.9.9", "225.1.1.3", 2, {0: 1, 1: 1})))
for name in ("all", "gre1", "ipip1"):
    open(f"/proc/sys/net/ipv4/conf/{name}/rp_filter", "w").write("0")
send("a", packet("10.0.1.2", "225.1.1.1"))
send("a", packet("10.0.1.2", "225.1.1.1", df=True))
send("a", packet("10.0.1.2", "225.1.1.1", length=1500))
send("a", packet("10.0.1.2", "225.1.1.1", length=1500, df=True))
for protocol in (47, 4):
    for group in ("225.1.1.2", "225.1.1.3", "225.1.1.4"):
        send("b", packet("10.9.9.9", group), outer=protocol)
for index in range(3):
    attempt(f"counts of vif {index}", lambda: counts(daemon, index))
for name in FILES:
    print(open("/proc/net/" + name).read(), end="")
subprocess.run(["ip", "mroute"], check=True)
subprocess.run(["ip", "link", "del", "gre1"], check=True)
print(open("/proc/net/ip_mr_vif").read(), end="")
