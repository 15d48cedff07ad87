# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Sends frames from q1 to p1, and prints what p1 counts as received and as dropped."""
import socket
import time

ETH_P_ALL = 3
ETH_P_LLDP = 0x88CC
HOST, OTHER = "020000000001", "020000000077"

q1 = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
q1.bind(("q1", 0))


def counts():
    with open("/proc/net/dev") as file:
        values = next(line.split() for line in file if line.strip().startswith("p1:"))
    return int(values[2]), int(values[4])


def send(what, header, count=1, body=bytes(46), to=HOST):
    before = counts()
    for _ in range(count):
        q1.send(bytes.fromhex(to + "020000000011" + header) + body)
    time.sleep(0.2)
    received, dropped = (after - at for after, at in zip(counts(), before))
    print(f"{what}: received {received} dropped {dropped}", flush=True)


send("LLDP", "88cc", 3)
send("LLDP to another host", "88cc", to=OTHER)
send("LLDP to a group", "88cc", to="0180c200000e")
send("an EtherType that nobody has", "4242", 2)
send("IPv4 to another host", "0800", to=OTHER)
send("an incomplete IPv4 header", "0800")
send("ARP", "0806")
send("a priority tag, LLDP", "8100000088cc")
send("a VLAN without a device, LLDP", "8100000788cc")
send("a VLAN without a device, IPv4", "810000070800")
send("a slow protocol", "8809")


def watched(what, protocol, device):
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as watcher:
        watcher.bind((device, protocol))
        send(f"LLDP, watched by {what}", "88cc")
    time.sleep(0.2)


watched("a socket for all at its device", ETH_P_ALL, "p1")
watched("a socket for LLDP at its device", ETH_P_LLDP, "p1")
watched("a socket for another EtherType at its device", 0x4242, "p1")
watched("a socket for all at another device", ETH_P_ALL, "d0")
watched("a socket for nothing", 0, "p1")
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) as watcher:
    send("LLDP, watched by a socket for all everywhere", "88cc")
time.sleep(0.2)
with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_LLDP)) as watcher:
    send("LLDP, watched by a socket for LLDP everywhere", "88cc")
time.sleep(0.2)
send("LLDP again", "88cc")
