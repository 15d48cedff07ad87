# SPDX-License-Identifier: Apache-2.0 OR MIT
# `ip tunnel` and `ip -6 tunnel`, which use ioctls: SIOCGETTUNNEL, SIOCADDTUNNEL, SIOCCHGTUNNEL, SIOCDELTUNNEL, and
# those of sit for 6rd and ISATAP. Its output on Linux 6.1 is tunnel-ioctl.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
# A kernel without CONFIG_RPS does not show receive queues.
l() { echo "+ ip -d link show $1"; ip -d link show $1 | sed 's/numrxqueues 1 //;s/^[0-9]*: //;s/ addrgenmode [a-z0-9]*//;s/ permaddr [0-9a-f:]*//'; }
ip link add u0 address 02:00:00:00:00:10 type dummy
ip link set u0 addrgenmode none
ip link add u1 mtu 1400 address 02:00:00:00:00:11 type dummy
ip link set u1 addrgenmode none
ip addr add 10.0.0.1/24 dev u0
ip addr add 2001:db8::1/64 dev u0 nodad
ip link set u0 up
# Nothing is there before the first request, which makes the fallback device.
c ip tunnel show
c ip tunnel show nosuch
c ip tunnel show tunl0
c ip tunnel show
# IPv4 in IPv4.
c ip tunnel add i1 mode ipip remote 10.0.0.2 local 10.0.0.1 ttl 9 tos 4
l i1
c ip tunnel add i1 mode ipip remote 10.0.0.3
c ip tunnel add i2 mode ipip remote 10.0.0.2 local 10.0.0.1
c ip tunnel add i2 mode ipip remote 10.0.0.2 local 10.0.0.1 dev u1
l i2
c ip tunnel add mode ipip remote 10.0.0.4 nopmtudisc tos inherit
c ip tunnel add i3 mode ipip
c ip tunnel add i3 mode ipip local 10.0.0.1
c ip tunnel add i4 mode ipip remote 10.0.0.5 ttl 5 nopmtudisc
c ip tunnel add i4 mode ipip remote 10.0.0.5 key 5
c ip tunnel show
c ip tunnel show i1
c ip -s tunnel show i1
c ip -j -p tunnel show i1
c ip tunnel show remote 10.0.0.4
c ip tunnel show mode ipip dev u1
l ipip0
c ip tunnel change i1 mode ipip remote 10.0.0.2 local 10.0.0.1 ttl 20
c ip tunnel change i1 remote 10.0.0.9 ttl 21
c ip tunnel change i1 remote 10.0.0.9 local 10.0.0.1 dev u1
l i1
c ip tunnel show i1
c ip tunnel change i1 remote 10.0.0.4
c ip tunnel change i1 remote any local 10.0.0.1
c ip tunnel change i3 remote 10.0.0.8
c ip tunnel change nosuch remote 10.0.0.8
c ip tunnel change mode ipip remote 10.0.0.4 ttl 44
c ip tunnel change mode ipip remote 10.0.0.44 ttl 44
c ip tunnel show ipip0
c ip tunnel change tunl0 ttl 7 tos 8
c ip tunnel show tunl0
c ip tunnel change tunl0 mode ipip tos 8
c ip tunnel show tunl0
c ip tunnel change tunl0 mode ipip remote 10.0.0.7
c ip tunnel change tunl0 mode ipip remote any tos 0 nopmtudisc
c ip tunnel del mode ipip remote 10.0.0.4
c ip tunnel del mode ipip remote 10.0.0.4
c ip tunnel del i2
c ip tunnel del i2
c ip tunnel del tunl0
c ip tunnel change u0 mode ipip ttl 4
c ip tunnel del u0
c ip tunnel show u0
# One made by netlink.
c ip link add n1 type ipip remote 10.0.0.20 local 10.0.0.1 fwmark 5
c ip tunnel show n1
c ip tunnel change n1 remote 10.0.0.20 local 10.0.0.1 ttl 3
l n1
c ip tunnel del n1
c ip link add x1 type ipip external
c ip tunnel show x1
c ip link del x1
# GRE.
c ip tunnel show gre0
c ip tunnel add g1 mode gre remote 10.0.0.2 local 10.0.0.1 key 5
c ip tunnel add g2 mode gre remote 10.0.0.2 local 10.0.0.1 ikey 6 okey 7 iseq oseq icsum ocsum ttl 3
c ip tunnel add g3 mode gre remote 10.0.0.2 local 10.0.0.1 key 5
c ip tunnel add g3 mode gre remote 10.0.0.2 local 10.0.0.1
c ip tunnel add g4 mode gre remote 10.0.0.2 local 10.0.0.1 key 1.2.3.4 dev u1 csum
c ip tunnel show
for d in g1 g2 g3 g4; do l $d; done
c ip tunnel change g1 mode gre remote 10.0.0.2 local 10.0.0.1 key 9 csum
c ip tunnel show g1
l g1
c ip tunnel change g1 mode gre remote 10.0.0.2 local 10.0.0.1
c ip tunnel change g1 mode gre remote 10.0.0.3 local 10.0.0.1 seq
c ip tunnel show g1
l g1
c ip tunnel change g1 mode ipip remote 10.0.0.4
c ip tunnel del g1 mode gre
c ip tunnel del gre0
c ip link add t1 address 02:00:00:00:00:01 type gretap remote 10.0.0.30
c ip tunnel show t1
c ip tunnel change t1 ttl 5
c ip tunnel del t1
c ip link del t1
# IPv6 in IPv4.
c ip tunnel show sit0
c ip tunnel add s1 mode sit remote 10.0.0.2 local 10.0.0.1 ttl 64
c ip tunnel add s2 mode sit remote 10.0.0.2 local 10.0.0.1
c ip tunnel add s1 mode sit remote 10.0.0.3
c ip tunnel add mode sit remote 10.0.0.4 dev u1
c ip tunnel show
l s1
l sit1
c ip tunnel change s1 remote 10.0.0.7 local 10.0.0.1 ttl 5
c ip tunnel show s1
c ip tunnel change s1 remote any
c ip tunnel change s1 mode sit remote 10.0.0.4 dev u1
c ip tunnel change sit0 ttl 9
c ip tunnel show sit0
c ip tunnel change sit0 remote 10.0.0.99
c ip tunnel del s1
c ip tunnel del sit0
c ip tunnel del mode sit remote 10.0.0.4 dev u1
c ip tunnel del mode sit remote 10.0.0.4 dev u1
c ip tunnel change sit0 ttl 9 pmtudisc
c ip tunnel change sit0 remote 10.0.0.98 ttl 9 pmtudisc
c ip tunnel show sit0
c ip -d tunnel show sit0
c ip tunnel add s3 mode sit remote 10.0.0.12
c ip tunnel prl dev s3 prl-delete 10.0.0.3
c ip tunnel prl dev sit0 prl-delete 10.0.0.3
c ip tunnel 6rd dev s3 6rd-reset
c ip tunnel 6rd dev tunl0 6rd-reset
c ip tunnel del s3
# Over IPv6.
c ip -6 tunnel show
c ip -6 tunnel show ip6tnl0
c ip -6 tunnel add a1 mode ip6ip6 remote 2001:db8::2 local 2001:db8::1
c ip -6 tunnel add a2 mode ipip6 remote 2001:db8::2 local 2001:db8::1
c ip -6 tunnel add a2 mode any remote 2001:db8::3 local 2001:db8::1 encaplimit none hoplimit 7 tclass 0x20 flowlabel 0x12345 dev u0
c ip -6 tunnel add a1 mode any remote 2001:db8::4 local 2001:db8::1
c ip -6 tunnel add mode any remote 2001:db8::5 local 2001:db8::1 tclass inherit flowlabel inherit dscp inherit
c ip -6 tunnel show
c ip -6 tunnel show a2
for d in a1 a2 ip6tnl1; do l $d; done
c ip -6 tunnel change a1 mode any remote 2001:db8::22 local 2001:db8::1 hoplimit 9
c ip -6 tunnel show a1
l a1
c ip -6 tunnel change a1 mode any remote 2001:db8::5 local 2001:db8::1
c ip -6 tunnel change a1 mode any remote :: local 2001:db8::1
l a1
c ip -6 tunnel change ip6tnl0 mode ip6ip6
c ip -6 tunnel show ip6tnl0
c ip -6 tunnel change ip6tnl0 remote 2001:db8::66 local 2001:db8::1 mode any
c ip -6 tunnel show ip6tnl0
l ip6tnl0
c ip -6 tunnel change nosuch remote 2001:db8::5
c ip -6 tunnel del a1
c ip -6 tunnel del a1
c ip -6 tunnel del ip6tnl0
c ip -6 tunnel del mode any remote 2001:db8::5 local 2001:db8::1
c ip -6 tunnel show
# GRE over IPv6.
c ip -6 tunnel show ip6gre0
c ip -6 tunnel add b1 mode ip6gre remote 2001:db8::2 local 2001:db8::1 key 5
c ip -6 tunnel add b2 mode ip6gre remote 2001:db8::2 local 2001:db8::1 key 5
c ip -6 tunnel add b2 mode ip6gre remote 2001:db8::2 local 2001:db8::1 ikey 6 okey 7 csum seq hoplimit 4 dev u0
c ip -6 tunnel add b1 mode ip6gre remote 2001:db8::7 local 2001:db8::1
c ip -6 tunnel show
for d in b1 b2; do l $d; done
c ip -6 tunnel change b1 mode ip6gre remote 2001:db8::9 local 2001:db8::1 key 8
c ip -6 tunnel show b1
l b1
c ip -6 tunnel change b1 mode ip6gre remote 2001:db8::2 local 2001:db8::1 key 6 dev u0
c ip -6 tunnel change b1 mode ip6gre remote 2001:db8::9 local 2001:db8::1 key 8 hoplimit 77
c ip -6 tunnel show b1
c ip -6 tunnel change ip6gre0 mode ip6gre hoplimit 3
c ip -6 tunnel show ip6gre0
c ip -6 tunnel del b1
c ip -6 tunnel del ip6gre0
c ip tunnel show
# Requests as no client makes them, to the kind's fallback device.
echo "+ structures"
python3 - <<'END'
import ctypes, errno, fcntl, socket, struct
def ask(family, request, name, data):
    s = socket.socket(family, socket.SOCK_DGRAM)
    data = ctypes.create_string_buffer(data, len(data))
    ifreq = struct.pack("=16sQ16x", name.encode(), ctypes.addressof(data) if len(data) else 0)
    try:
        fcntl.ioctl(s, request, ifreq)
        return data.raw.rstrip(b"\0").hex()
    except OSError as error:
        return errno.errorcode[error.errno]
def v4(name=b"", link=0, iflags=0, oflags=0, ikey=0, okey=0, version=0x45, tos=0, off=0, ttl=0, proto=4, local=0, remote=0):
    return struct.pack("=16siHHIIBBHHHBBHII", name, link, socket.htons(iflags), socket.htons(oflags), ikey, okey, version, tos, 0, 0, socket.htons(off), ttl, proto, 0, local, socket.htonl(remote))
GET, ADD, DEL, CHG = range(0x89f0, 0x89f4)
INET, INET6 = socket.AF_INET, socket.AF_INET6
R = 0x0a000063
for what, device, data in [
    ("version", "tunl0", v4(b"z1", remote=R, version=0x46)), ("protocol", "tunl0", v4(b"z1", remote=R, proto=6)),
    ("fragment", "tunl0", v4(b"z1", remote=R, off=0x2000)), ("name", "tunl0", v4(b"z/1", remote=R)),
    ("long name", "tunl0", v4(b"z" * 16, remote=R)), ("pattern", "tunl0", v4(b"z%d", remote=R, proto=0)),
    ("gre protocol", "gre0", v4(b"z1", remote=R)), ("gre version", "gre0", v4(b"z1", remote=R, proto=47, iflags=1)),
    ("gre routing", "gre0", v4(b"z1", remote=R, proto=47, oflags=0x4000)),
    ("gre key without flag", "gre0", v4(b"z2", remote=R, proto=47, ikey=7, oflags=0x1000, okey=7)),
    ("ipip keys", "tunl0", v4(b"z5", remote=R + 2, iflags=0x2000, ikey=7, ttl=3)),
    ("sit protocol", "sit0", v4(b"z3", remote=R, proto=17)), ("sit name", "sit0", v4(b"z/3", remote=R, proto=41)),
    ("sit any", "sit0", v4(b"z3", remote=R, proto=0)), ("by another device", "z0", v4(b"z4", remote=R + 1)),
]:
    print(what, ask(INET, ADD, device, data))
for device in "z0", "z2", "z3", "z4":
    print(device, ask(INET, GET, device, v4()))
print("label", ask(INET, GET, "z0:1", v4()))
for request in range(0x89f4, 0x8a00):
    kinds = [ask(INET, request, device, bytes(16)) for device in ("tunl0", "gre0", "sit0", "ip6tnl0", "ip6gre0", "u0", "none")]
    if request not in (0x89f5, 0x89f6, 0x89f7, 0x89f9, 0x89fb):
        print(hex(request), *kinds)
for request in 0x89f4, 0x89f6, 0x89f7, 0x89f8, 0x89fa:
    print(hex(request), ask(INET, request, "z3", bytes(24)))
for device in "tunl0", "ip6tnl0", "ip6gre0":
    print("no structure", *[ask(INET6, request, device, b"") for request in (GET, ADD, DEL, CHG)])
six = struct.pack("=16siBBB1xII16s16s", b"y1", 0, 6, 4, 64, 0, 0, bytes(16), bytes([0x20] * 16))
print("ip6tnl protocol", ask(INET6, ADD, "ip6tnl0", six))
six = struct.pack("=16siBBB1xII16s16s", b"y/1", 0, 0, 4, 64, 0, 0, bytes(16), bytes([0x20] * 16))
print("ip6tnl name", ask(INET6, ADD, "ip6tnl0", six), "ip6gre name", ask(INET6, ADD, "ip6gre0", six + bytes(12)))
six = struct.pack("=16siBBB1xII16s16s", b"", 0, 0, 4, 64, 0, 0, bytes(16), bytes([0x20] * 16))
print("ip6tnl", ask(INET6, ADD, "ip6tnl0", six), "ip6gre", ask(INET6, ADD, "ip6gre0", six + struct.pack(">HHII", 0x2000, 1, 9, 9)))
print("ip6gre", ask(INET6, ADD, "ip6gre0", six + struct.pack(">HHII", 0x2000, 0, 9, 9)))
print("ip6tnl1", ask(INET6, GET, "ip6tnl1", bytes(64)), "ip6gre1", ask(INET6, GET, "ip6gre1", bytes(76)))
END
c ip -br link show type ipip
