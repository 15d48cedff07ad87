# SPDX-License-Identifier: Apache-2.0 OR MIT
# Groups of bridges with sources: mcast_igmp_version 3, mcast_mld_version 2, reports with records, and bridge mdb add src.
# Its output on Linux 6.1 is bridge-mdb-sources.txt beside it; record makes it.
exec 2>&1
exec python3 - <<'PYTHON'
import re, socket, struct, subprocess, time
PORTS = range(1, 4)


def shell(command):
    done = subprocess.run(command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout


def timeless(text):
    """Returns text without times, which run."""
    return re.sub(r" *[0-9]+\.[0-9][0-9](?=[/ ,]|$)", " T", text, flags=re.M)


def checksum(data):
    data += bytes(len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def report(port, host, kind, group, *sources):
    """Sends a report of a host behind a port, with one record."""
    kinds = ["", "is_in", "is_ex", "to_in", "to_ex", "allow", "block"]
    six = ":" in group
    family = socket.AF_INET6 if six else socket.AF_INET
    address = lambda text: socket.inet_pton(family, text)
    record = struct.pack("!BBH", kinds.index(kind), 0, len(sources)) + address(group) + b"".join(map(address, sources))
    if six:
        body = struct.pack("!BBHHH", 143, 0, 0, 0, 1) + record
        ends = address(host) + address("ff02::16")
        sum = checksum(ends + struct.pack("!II", len(body), 58) + body)
        body = body[:2] + struct.pack("!H", sum) + body[4:]
        packet = struct.pack("!IHBB", 6 << 28, 8 + len(body), 0, 1) + ends + bytes([58, 0, 5, 2, 0, 0, 0, 0]) + body
        frame = bytes.fromhex("333300000016") + bytes([2, 0, 0, 0, 1, int(port[1])]) + b"\x86\xdd" + packet
    else:
        body = struct.pack("!BBHHH", 0x22, 0, 0, 0, 1) + record
        body = body[:2] + struct.pack("!H", checksum(body)) + body[4:]
        head = struct.pack("!BBHHHBBH", 0x46, 0xc0, 24 + len(body), 0, 0x4000, 1, 2, 0) + address(host) + address("224.0.0.22") + bytes([0x94, 4, 0, 0])
        head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
        frame = bytes.fromhex("01005e000016") + bytes([2, 0, 0, 0, 1, int(port[1])]) + b"\x08\x00" + head + body
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    sock.bind((port, 0))
    sock.send(frame)
    time.sleep(0.1)


def attributes(data):
    """Yields attributes, types without flags."""
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        yield kind & 0x3fff, data[4:length]
        data = data[(length + 3) & ~3:]


def request(kind, port, *more):
    """Sends a request about a port of a bridge. Returns the answer."""
    body = struct.pack("=BxHiII", socket.AF_BRIDGE if more else 0, 0, socket.if_nametoindex(port), 0, 0) + b"".join(more)
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    sock.send(struct.pack("=IHHII", 16 + len(body), kind, 5 if more else 1, 0, 0) + body)
    return sock.recv(65536)


def limit(port, hosts):
    """Sets the most hosts behind a port (IFLA_BRPORT_MCAST_EHT_HOSTS_LIMIT in IFLA_PROTINFO)."""
    nest = struct.pack("=HHHHI", 12, 0x8000 | 12, 8, 37, int(hosts))
    return struct.unpack_from("=i", request(19, port, nest), 16)[0]


def hosts(port):
    """Returns the most hosts behind a port and how many there are, in IFLA_INFO_SLAVE_DATA of IFLA_LINKINFO."""
    info = dict(attributes(dict(attributes(request(18, port)[32:]))[18]))
    data = dict(attributes(info[5]))
    return "limit %d count %d" % (*struct.unpack("=I", data[37]), *struct.unpack("=I", data[38]))


shell("sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1")
# The time after which a source is gone that nobody answers for is long, but shorter than that of a member.
print(shell("ip link add br0 address 02:00:00:00:00:10 type bridge mcast_igmp_version 3 mcast_mld_version 2 mcast_last_member_interval 10000"), end="")
for n in PORTS:
    shell(f"ip link add p{n} address 02:00:00:00:00:0{n} type veth peer name q{n} address 02:00:00:00:01:0{n};"
          f"ip link set p{n} master br0; ip link set p{n} up; ip link set q{n} arp off up")
shell("ip link set br0 up")
time.sleep(2)
monitor = subprocess.Popen(["stdbuf", "-oL", "bridge", "-d", "monitor", "mdb"], stdout=subprocess.PIPE, text=True)
time.sleep(2)
# r: a report; m: the mdb; c: a command; l, h: the hosts of a port; sleep: wait; others are comments.
for line in """
r q1 192.0.2.1 allow 239.1.1.1 10.0.0.1 10.0.0.2
m
r q1 192.0.2.1 is_in 239.1.1.1 10.0.0.1 10.0.0.3
r q2 192.0.2.1 to_ex 239.1.1.1
m
r q2 192.0.2.1 is_ex 239.1.1.1 10.0.0.2
m
r q1 192.0.2.1 block 239.1.1.1 10.0.0.3
r q1 192.0.2.1 to_in 239.1.1.1 10.0.0.1
m
r q2 192.0.2.1 allow 239.1.1.1 10.0.0.2
r q2 192.0.2.1 block 239.1.1.1 10.0.0.3 10.0.0.4
m
r q2 192.0.2.1 to_ex 239.1.1.1 10.0.0.1 10.0.0.2
r q2 192.0.2.1 to_in 239.1.1.1 10.0.0.5
m
r q1 192.0.2.1 to_ex 239.1.1.1 10.0.0.1 10.0.0.3
m
r q1 192.0.2.1 is_in 239.1.1.1
r q1 192.0.2.1 allow 239.1.1.1 0.0.0.0 239.1.1.2
r q3 192.0.2.1 to_in 239.1.1.1
r q3 192.0.2.1 is_in 224.0.0.251 10.0.0.1
m
# By hand.
c bridge mdb add dev br0 port p3 grp 239.1.1.1 src 10.0.0.1 permanent
c bridge mdb add dev br0 port p3 grp 239.1.1.1 src 10.0.0.9 temp
c bridge mdb add dev br0 port p3 grp 239.3.3.3 src 10.0.0.1
c bridge mdb add dev br0 port p1 grp 239.3.3.3 permanent
c bridge mdb add dev br0 port p3 grp 239.1.1.1 permanent
c bridge mdb add dev br0 port br0 grp 239.1.1.1
m
r q3 192.0.2.1 to_ex 239.1.1.1 10.0.0.1
r q3 192.0.2.1 allow 239.3.3.3 10.0.0.1 10.0.0.2
m
c bridge mdb del dev br0 port br0 grp 239.1.1.1
c bridge mdb del dev br0 port p3 grp 239.1.1.1
c bridge mdb del dev br0 port p3 grp 239.1.1.1 src 10.0.0.1
m
# The bridge and its ports with IPv6.
r q1 fe80::1 allow ff0e::1 2001:db8::1 2001:db8::2
r q2 fe80::2 is_ex ff0e::1 2001:db8::2
r q3 fe80::3 is_in ff0e::2 :: ff0e::1 2001:db8::3
m
# Hosts behind a port that leaves fast.
c bridge link set dev p1 fastleave on
r q1 192.0.2.7 allow 239.7.7.7 10.0.0.1 10.0.0.2
r q1 192.0.2.8 allow 239.7.7.7 10.0.0.2
h p1
m
r q1 192.0.2.7 block 239.7.7.7 10.0.0.2
r q1 192.0.2.7 block 239.7.7.7 10.0.0.1
m
r q1 192.0.2.9 to_ex 239.7.7.7 10.0.0.3
r q1 192.0.2.8 to_in 239.7.7.7
r q1 192.0.2.9 to_in 239.7.7.7
m
# No more hosts than the port may have.
l p1 0
h p1
l p1 2
h p1
r q1 192.0.2.7 allow 239.7.7.7 10.0.0.1
r q1 192.0.2.8 to_ex 239.7.7.8
r q1 192.0.2.9 allow 239.7.7.7 10.0.0.2
r q1 192.0.2.9 is_ex 239.7.7.9 10.0.0.3
r q1 192.0.2.7 allow 239.7.7.7 10.0.0.4
h p1
m
l p1 1
r q1 192.0.2.7 block 239.7.7.7 10.0.0.1 10.0.0.4
h p1
r q1 192.0.2.9 allow 239.7.7.7 10.0.0.2
h p1
r q1 192.0.2.8 to_in 239.7.7.8
r q1 192.0.2.9 allow 239.7.7.7 10.0.0.2
r q1 192.0.2.9 allow 239.7.7.8 10.0.0.2
h p1
l p1 4294967295
r q1 192.0.2.9 allow 239.7.7.8 10.0.0.2
h p1
m
# Short times: what nobody reports ends.
c ip link set br0 type bridge mcast_membership_interval 100
r q2 192.0.2.1 is_in 239.8.8.8 10.0.0.1
r q3 192.0.2.1 is_ex 239.8.8.8 10.0.0.2
m
sleep 2
m
# Without sources.
c ip link set br0 type bridge mcast_igmp_version 2 mcast_mld_version 1
m
c ip link set p2 down
c ip link set p1 nomaster
m
""".strip().split("\n"):
    word, _, rest = line.partition(" ")
    if word == "r":
        print("+ report", rest, flush=True)
        report(*rest.split())
    elif word == "m":
        print("+ bridge -d -s mdb show")
        print("".join(sorted(timeless(shell("bridge -d -s mdb show")).splitlines(True))), end="", flush=True)
    elif word == "l":
        print("+ limit", rest)
        print(limit(*rest.split()), flush=True)
    elif word == "h":
        print("+ hosts", rest)
        print(hosts(rest), flush=True)
    elif word == "c":
        print("+", rest)
        print(shell(rest), end="", flush=True)
    elif word == "sleep":
        time.sleep(float(rest))
time.sleep(1)
monitor.terminate()
print("+ monitor")
print(timeless(monitor.stdout.read()), end="")
PYTHON
