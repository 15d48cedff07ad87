# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Three Mininet hosts in a row, linked without switches; prints their addresses, routes and qdiscs."""
from mininet.link import Link, TCLink
from mininet.log import setLogLevel
from mininet.net import Mininet

setLogLevel("error")
net = Mininet(controller=None, build=False)
left, middle, right = (net.addHost(name, ip=ip) for name, ip in
                       [("left", "10.0.0.1/24"), ("middle", "10.0.0.2/24"), ("right", "10.0.1.2/24")])
net.addLink(left, middle, cls=TCLink, bw=10, delay="5ms", loss=1, max_queue_size=100)
net.addLink(middle, right, cls=Link, params1={"ip": "10.0.1.1/24"})
net.build()
middle.cmd("sysctl -w net.ipv4.ip_forward=1")
left.cmd("ip route add default via 10.0.0.2")
for host in net.hosts:
    host.cmd("export LC_ALL=C")
    print(f"{host.name} {host.IP()} {host.cmd('sysctl -n net.ipv4.ip_forward').strip()}")
    for interface in host.intfList():
        print(host.cmd(f"ip -4 -o addr show dev {interface} | awk '{{ print $2, $4 }}'").strip())
    print(host.cmd("ip route | sed 's/ *$//'").strip())
print(left.cmd("tc qdisc show dev left-eth0; tc class show dev left-eth0").strip())
net.stop()
