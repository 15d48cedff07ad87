# SPDX-License-Identifier: Apache-2.0 OR MIT
# Tunnels with a device and a remote without a route: on the link of the device over IPv4. In a VRF they have no route.
# Its output on Linux 6.1 is tunnel-on-link.txt beside it; record makes it.
exec 2>&1
exec python3 - <<'PYTHON'
import json, socket, subprocess

ETHERNET, IPV4 = bytes.fromhex("020000000009 020000000008 88b5") + bytes(50), bytes.fromhex("4500001400000000400100000a0505010a050502")


def shell(command):
    done = subprocess.run(command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout


def run(command):
    print("+", command)
    print(shell(command), end="")


def drain():
    """Returns the frames on the link."""
    frames = []
    try:
        while True:
            frames.append(link.recv(2000))
    except OSError:
        return frames


def sends(options, frame=ETHERNET):
    """Sends a frame by a tunnel."""
    run(f"ip link add x0 type {options}")
    shell("ip link set x0 addrgenmode none; ip link set x0 up")
    drain()
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM if frame is IPV4 else socket.SOCK_RAW)
    sock.bind(("x0", 0x800))
    sock.sendto(frame, ("x0", 0x800)) if frame is IPV4 else sock.send(frame)
    for got in drain():
        print("to", got[:6].hex(":"), "from", socket.inet_ntoa(got[26:30]), len(got))
    sent = json.loads(shell("ip -s -j link show dev x0"))[0]["stats64"]["tx"]
    print({key: value for key, value in sent.items() if value and key != "bytes"}, flush=True)
    shell("ip link del x0")


# A neighbour is known.
known = "ip neigh replace 192.0.2.2 lladdr 02:00:00:00:00:02 dev v0"
shell("ip link add v0 address 02:00:00:00:00:01 type veth peer name v1 address 02:00:00:00:00:02;"
      "ip link set v0 addrgenmode none; ip link set v1 addrgenmode none; ip link set v1 up; ip link set v0 up;"
      "ip addr add 10.0.0.1/32 dev v0; ip addr add fd00::1/128 dev v0 nodad;" + known)
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
link.bind(("v1", 3))
link.settimeout(0.1)
VXLAN, REMOTE = "vxlan id 1 dstport 4789 remote", "192.0.2.2"
sends(f"{VXLAN} {REMOTE} dev v0")
sends(f"{VXLAN} {REMOTE}")
sends(f"{VXLAN} fd99::2 dev v0")
sends(f"geneve id 1 dstport 6081 remote {REMOTE}")
sends(f"gretap remote {REMOTE} local 10.0.0.1 dev v0")
sends(f"gretap remote {REMOTE} dev v0")
sends(f"gretap remote {REMOTE} local 10.0.0.9 dev v0")
sends(f"ipip remote {REMOTE} local 10.0.0.1 dev v0", IPV4)
sends(f"ipip remote {REMOTE} dev v0", IPV4)
run(f"ip route get {REMOTE} oif v0")
run("ip route get 239.1.1.1 oif v0")
print("# In a VRF")
shell("ip link add vr type vrf table 10; ip link set vr up; ip link set v0 master vr;" + known)
sends(f"{VXLAN} {REMOTE} dev v0")
sends(f"{VXLAN} {REMOTE} dev vr")
run(f"ip route get {REMOTE} oif v0")
run(f"ip route get {REMOTE} oif vr")
for group in ["239.1.1.1", "224.0.0.5"]:
    run(f"ip route get {group} oif v0")
    run(f"ip route get {group} oif vr")
print("# A route of another type")
shell("ip link set v0 nomaster; ip route add blackhole 192.0.2.0/24;" + known)
sends(f"{VXLAN} {REMOTE} dev v0")
run(f"ip route get {REMOTE} oif v0")
print("# Without an address, and with one of another device")
shell("ip route del blackhole 192.0.2.0/24; ip addr flush dev v0;" + known)
sends(f"{VXLAN} {REMOTE} dev v0")
shell("ip addr add 10.0.0.2/32 dev lo")
sends(f"{VXLAN} {REMOTE} dev v0")
print("# Down")
shell("ip link set v0 down")
sends(f"{VXLAN} {REMOTE} dev v0")
PYTHON
