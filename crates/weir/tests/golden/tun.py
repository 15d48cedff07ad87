# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Prints what the ioctls of /dev/net/tun answer."""
import errno
import fcntl
import os
import struct
import subprocess
import time

IOW, IOR = 0x40045400, 0x80045400
TUN, TAP, NO_PI, VNET_HDR, EXCL, MULTI_QUEUE = 1, 2, 0x1000, 0x4000, 0x8000, 0x100


def show(name, call):
    try:
        print(name, call())
    except OSError as error:
        print(name, errno.errorcode[error.errno])


def ifreq(name, flags):
    return struct.pack("16sH22x", name.encode(), flags)


def attach(file, name, flags):
    answer = fcntl.ioctl(file, IOW + 202, ifreq(name, flags))
    return answer[:16].rstrip(b"\0").decode(), hex(struct.unpack_from("H", answer, 16)[0])


def value(file, number, arg):
    return fcntl.ioctl(file, IOW + number, arg)


def put(file, number, arg):
    return struct.unpack("i", fcntl.ioctl(file, IOW + number, struct.pack("i", arg)))[0]


def get(file, number):
    return struct.unpack("i", fcntl.ioctl(file, IOR + number, bytes(4)))[0]


def link(name):
    time.sleep(1.2)  # Linux reports a change of the carrier at most once a second.
    text = subprocess.run(["ip", "-d", "link", "show", name], capture_output=True, text=True).stdout
    print(text.split("qdisc")[0], text[text.find("tun type") :].split("addrgenmode")[0])


f = os.open("/dev/net/tun", os.O_RDWR)
g = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
show("features", lambda: hex(get(f, 207)))
show("iff before", lambda: get(f, 210))
show("persist before", lambda: value(f, 203, 1))
show("queue before", lambda: fcntl.ioctl(f, IOW + 217, ifreq("", 0x200)))
show("neither", lambda: attach(f, "t1", NO_PI))
show("name", lambda: attach(f, "a/b", TUN))
show("loopback", lambda: attach(f, "lo", TUN))
show("tun", lambda: attach(f, "t1", TUN | NO_PI | VNET_HDR))
show("again", lambda: attach(f, "t1", TUN | NO_PI))
show("busy", lambda: attach(g, "t1", TUN | NO_PI))
show("exclusive", lambda: attach(g, "t1", TUN | EXCL))
show("other type", lambda: attach(g, "t1", TAP))
show("other queues", lambda: attach(g, "t1", TUN | MULTI_QUEUE))
show("iff", lambda: fcntl.ioctl(f, IOR + 210, bytes(40))[:18].hex())
show("header", lambda: get(f, 215))
show("set header", lambda: (put(f, 216, 12), get(f, 215)))
show("short header", lambda: put(f, 216, 9))
show("sndbuf", lambda: get(f, 211))
show("set sndbuf", lambda: (put(f, 212, 5000), get(f, 211)))
show("no sndbuf", lambda: put(f, 212, 0))
show("no checksum", lambda: value(f, 200, 1))
show("owner", lambda: value(f, 204, 5))
show("group", lambda: value(f, 206, 6))
show("offload", lambda: value(f, 208, 0xF))
show("ufo", lambda: value(f, 208, 0x10))
show("strange offload", lambda: value(f, 208, 0x100))
show("tso alone", lambda: value(f, 208, 2))
show("little", lambda: get(f, 221))
show("set little", lambda: (put(f, 220, 1), get(f, 221), put(f, 220, 0), get(f, 221)))
show("big", lambda: get(f, 223))
show("filter", lambda: value(f, 209, 0))
show("ifindex", lambda: put(f, 218, 77))
show("unknown", lambda: value(f, 236, 0))
show("link", lambda: value(f, 205, 1))
link("t1")
show("link", lambda: value(f, 205, 0xFFFE))
subprocess.run(["ip", "link", "set", "t1", "up"])
show("link when up", lambda: value(f, 205, 1))
show("carrier", lambda: put(f, 226, 0))
link("t1")
show("carrier", lambda: put(f, 226, 1))
link("t1")
show("persist", lambda: value(f, 203, 1))
os.close(f)
link("t1")
show("other flags", lambda: attach(g, "t1", TUN | 0x40))
link("t1")
show("not persistent", lambda: value(g, 203, 0))
os.close(g)
link("t1")
q = [os.open("/dev/net/tun", os.O_RDWR) for _ in range(3)]
for n, one in enumerate(q):
    show(f"queue {n}", lambda: attach(one, "q0", TUN | NO_PI | MULTI_QUEUE))
show("detach", lambda: fcntl.ioctl(q[0], IOW + 217, ifreq("", 0x400))[:0])
show("detach twice", lambda: fcntl.ioctl(q[0], IOW + 217, ifreq("", 0x400)))
show("iff", lambda: fcntl.ioctl(q[0], IOR + 210, bytes(40))[:18].hex())
link("q0")
show("attach", lambda: fcntl.ioctl(q[0], IOW + 217, ifreq("", 0x200))[:0])
show("attach twice", lambda: fcntl.ioctl(q[0], IOW + 217, ifreq("", 0x200)))
link("q0")
for one in q:
    os.close(one)
link("q0")
