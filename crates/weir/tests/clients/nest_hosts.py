# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Two NeST hosts with a router between them; prints their addresses, routes and qdiscs."""
import os
import subprocess

# NeST looks for the distributions of netem where other systems than Debian have them.
listdir = os.listdir
os.listdir = lambda path=".": [] if path == "/usr/lib/tc" else listdir(path)

from nest.topology import Node, Router, connect  # noqa: E402

left, router, right = Node("left"), Router("router"), Node("right")
a, b = connect(left, router)
c, d = connect(router, right)
for interface, address in [(a, "10.0.0.1/24"), (b, "10.0.0.2/24"), (c, "10.0.1.1/24"), (d, "10.0.1.2/24")]:
    interface.set_address(address)
a.set_attributes("10mbit", "5ms")
c.set_attributes("5mbit", "10ms", "fq_codel")
left.add_route("DEFAULT", a)
right.add_route("DEFAULT", d)
names = {interface.id: name for interface, name in zip((a, b, c, d), "abcd")}
for node in (left, router, right):
    command = "ip -4 -o addr | awk '{ print $2, $4 }'; ip route; tc qdisc; sysctl -n net.ipv4.ip_forward"
    shown = subprocess.run(["ip", "netns", "exec", node.id, "sh", "-c", command], capture_output=True, text=True, check=True)
    text = shown.stdout
    for number, name in names.items():
        text = text.replace(number, name)
    print(text, end="")
