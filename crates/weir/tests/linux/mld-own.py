# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A router's own MLD reports on its raw sockets; see mld-own.sh."""
import socket
import subprocess
import time

from mroute_family import *

index = socket.if_nametoindex("a0")
raw = socket.socket(socket.AF_INET6, socket.SOCK_RAW, 58)
members = []


def heard():
    # Reports are repeated once, after at most a second.
    time.sleep(2.5)
    found = set()
    while True:
        try:
            data, sender = raw.recvfrom(1000, socket.MSG_DONTWAIT)
        except BlockingIOError:
            break
        if data[0] in (131, 132, 143):
            mine = sender[0].startswith("fe80::") and sender[3] == index
            group = shown(data[8:24]) if data[0] != 143 else " ".join(shown(data[at + 4 : at + 20]) for at in range(8, len(data), 20))
            found.add(f"{data[0]} of {group}, {len(data)} bytes, {'from a0' if mine else sender[0]}")
    print("heard:", *(sorted(found) or ["nothing"]), sep="\n  ")


def change(name):
    print("#", name)
    sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    join(sock, "225.1.1.1", index)
    heard()
    sock.close()
    heard()


def version(number):
    subprocess.run(["sysctl", "-qw", f"net.ipv6.conf.a0.force_mld_version={number}"], check=True)


for number in (2, 1):
    version(number)
    change(f"version {number}, no daemon")
    member = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    for group in ("ff02::16", "ff02::2"):
        member.setsockopt(41, 20, socket.inet_pton(socket.AF_INET6, group) + struct.pack("I", index))
    heard()
    change(f"version {number}, no daemon, a member of the routers' groups")
    member.close()
    heard()
    daemon = daemon_socket()
    attempt("init", option(daemon, INIT, struct.pack("i", 1)))
    change(f"version {number}, a daemon")
    daemon.close()
    time.sleep(0.5)
