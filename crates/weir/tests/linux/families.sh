# SPDX-License-Identifier: Apache-2.0 OR MIT
# Requests of types that Linux serves for one address family only, with each family; and types of multicast routing.
# Its output on Linux 6.1 is families.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
# Linux serves groups and VLANs of bridges, and VNIs, once their modules have been loaded.
ip link add br0 type bridge mcast_snooping 0
ip link add vx0 type vxlan id 1 dstport 4789
ip link del vx0
python3 - <<'PYTHON'
import socket, struct
TYPES = {"ADDRLABEL": (72, 12), "MDB": (84, 8), "VLAN": (112, 8), "TUNNEL": (120, 8)}
FAMILIES = {"UNSPEC": 0, "INET": 2, "BRIDGE": 7, "INET6": 10, "MPLS": 28, "IPMR": 128, "IP6MR": 129, "130": 130}
ERROR, DONE, BULK, DUMP, REQUEST, ACK = 2, 3, 0x200, 0x300, 1, 4


def answer(kind, flags, body):
    """Returns the errors and the number of other messages."""
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    sock.setsockopt(270, 11, 1)  # NETLINK_EXT_ACK
    sock.send(struct.pack("=IHHII", 16 + len(body), kind, flags, 0, 0) + body)
    others = 0
    while True:
        data = sock.recv(65536)
        while data:
            length, kind, flags = struct.unpack_from("=IHH", data)
            if kind in (ERROR, DONE):
                code = struct.unpack_from("=i", data, 16)[0]
                # The text is the last attribute, behind a copy of the request.
                text = data[length - 60:length].decode("latin-1").strip("\0") if flags & 0x200 else ""
                return ["error", "done"][kind - 2], code, others, text[text.rfind("\0") + 1:]
            others += 1
            data = data[(length + 3) & ~3:]


for name, (first, head) in TYPES.items():
    for family, number in FAMILIES.items():
        body = bytes([number]) + bytes(head - 1)
        # Requests of the family itself are the subject of other scripts.
        if name == "ADDRLABEL" and family == "INET6" or name != "ADDRLABEL" and family == "BRIDGE":
            continue
        for word, kind, flags in (("NEW", first, ACK), ("DEL", first + 1, ACK), ("DEL bulk", first + 1, ACK | BULK),
                                  ("GET", first + 2, ACK), ("GET dump", first + 2, DUMP)):
            print(word, name, family, *answer(kind, REQUEST | flags, body))
print("GET VLAN BRIDGE", *answer(114, REQUEST, bytes([7]) + bytes(7)))
PYTHON
c ip link del br0
ip link add d0 up type dummy
c ip -6 mroute
c ip -6 mroute show table all
c ip -6 mroute show table 10
c ip -6 mrule
c ip -4 mrule
c ip mroute show table all
