# SPDX-License-Identifier: Apache-2.0 OR MIT
# Multiple spanning trees: VLAN 10 in instance 1, which p3 blocks, VLAN 20 in instance 2, in which p2 learns, and VLAN 30
# in instance 0, which follows the states of ports: p3 is blocked. iproute2 6.1 has no words for instances.
# frame: 100 p1 ff:ff:ff:ff:ff:ff 02:00:00:00:01:01 8100000a
# frame: 200 p1 ff:ff:ff:ff:ff:ff 02:00:00:00:01:01 81000014
# frame: 300 p2 ff:ff:ff:ff:ff:ff 02:00:00:00:01:02 81000014
# frame: 400 p1 02:00:00:00:01:02 02:00:00:00:01:01 81000014
# frame: 500 p3 ff:ff:ff:ff:ff:ff 02:00:00:00:01:03 8100000a
# frame: 600 p1 02:00:00:00:01:03 02:00:00:00:01:01 8100000a
# frame: 700 p3 ff:ff:ff:ff:ff:ff 02:00:00:00:01:03 81000014
# frame: 800 p1 02:00:00:00:01:03 02:00:00:00:01:01 81000014
# frame: 900 p4 ff:ff:ff:ff:ff:ff 02:00:00:00:01:04 8100001e
# frame: 1000 p1 02:00:00:00:01:04 02:00:00:00:01:01 8100001e
# frame: 1100 p3 ff:ff:ff:ff:ff:ff 02:00:00:00:01:33 8100001e
# frame: 1200 p4 02:00:00:00:01:33 02:00:00:00:01:04 8100001e
# frame: 1300 p2 02:00:00:00:01:01 02:00:00:00:01:02 8100000a
ip link add br0 address 02:00:00:00:00:99 type bridge mcast_snooping 0 vlan_filtering 1 vlan_default_pvid 0
ip link set br0 up
for port in p1 p2 p3 p4; do ip link set $port master br0; done
python3 - <<'END'
import socket, struct, subprocess
def attr(ty, data):
    return struct.pack("=HH", 4 + len(data), ty) + data + bytes(-len(data) % 4)
def ask(ty, body):
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    sock.send(struct.pack("=IHHII", 16 + len(body), ty, 5, 1, 0) + body)
    assert struct.unpack_from("=i", sock.recv(4096), 16)[0] == 0
def link(family, name):
    return struct.pack("=BxHiII", family, 0, socket.if_nametoindex(name), 0, 0)
# mst_enable
bits = attr(1, b"bridge\0") + attr(0x8002, attr(46, struct.pack("=II", 4, 4)))
ask(16, link(0, "br0") + attr(0x8012, bits))
for port in ["p1", "p2", "p3", "p4"]:
    for vid in [10, 20, 30]:
        subprocess.run(["bridge", "vlan", "add", "dev", port, "vid", str(vid)], check=True)
# The instances of VLANs, and the states of ports.
for vid, msti in [(10, 1), (20, 2)]:
    options = attr(1, struct.pack("=H", vid)) + attr(18, struct.pack("=H", msti))
    ask(112, struct.pack("=BBHI", 7, 0, 0, socket.if_nametoindex("br0")) + attr(0x8002, options))
for port, states in [("p1", [3, 3]), ("p2", [3, 2]), ("p3", [4, 3])]:
    entries = [attr(1, struct.pack("=H", n)) + attr(2, bytes([state])) for n, state in enumerate(states, 1)]
    entries = b"".join(attr(0x8001, entry) for entry in entries)
    ask(19, link(7, port) + attr(0x801A, attr(0x8006, entries)))
END
bridge link set dev p3 state 4
