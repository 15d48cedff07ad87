# SPDX-License-Identifier: Apache-2.0 OR MIT
# Tunnels of ISATAP: `ip link ... type sit isatap`, `ip tunnel ... mode isatap` and `ip tunnel prl`, with the ioctls for
# potential routers. Its output on Linux 6.1 is isatap.txt beside it; record makes it.
exec 2>&1
c() { echo "+ $*"; "$@"; }
# A kernel without CONFIG_RPS does not show receive queues.
l() { echo "+ ip -d link show $1"; ip -d link show $1 | sed 's/numrxqueues 1 //;s/^[0-9]*: //'; }
a() { echo "+ ip -6 addr show $1"; ip -6 addr show dev $1 | sed 's/^[0-9]*: //'; ip -6 route show dev $1; ip -6 route show table local dev $1; }
sysctl -qw net.ipv6.conf.default.disable_ipv6=0
ip link add u0 address 02:00:00:00:00:10 type dummy
ip link set u0 addrgenmode none
ip addr add 10.0.0.1/24 dev u0
ip addr add 203.0.113.1/24 dev u0
ip link set u0 up
# By netlink.
c ip link add i1 type sit local 10.0.0.1 isatap
l i1
c ip link add i2 type sit local 203.0.113.1 isatap ttl 9 dev u0
l i2
c ip link set i2 type sit local 203.0.113.1 ttl 10 dev u0
l i2
c ip link add i3 type sit local 203.0.113.2
c ip link set i3 type sit local 203.0.113.2 isatap
l i3
c ip link add i4 type sit isatap remote 10.0.0.7
l i4
c ip link add i5 type sit isatap
c ip link add i5 type sit isatap dev u0
l i5
for d in i1 i2 i3 i4 i5; do ip link set $d up; done
for d in i1 i2 i4 i5; do a $d; done
c ip link set i1 down
c ip link set i1 addrgenmode eui64 up
c ip link del i3
c ip link del i5
# By ioctl.
c ip tunnel add j1 mode isatap local 10.0.0.9
l j1
c ip tunnel add j2 mode isatap local 10.0.0.9
c ip tunnel add j2 mode isatap local 10.0.0.10 remote 10.0.0.11 ttl 7
l j2
c ip tunnel show
c ip tunnel show mode isatap
c ip tunnel show mode sit
c ip tunnel change j1 mode isatap local 10.0.0.12 ttl 4
l j1
c ip tunnel change j1 mode sit local 10.0.0.12 ttl 5
l j1
c ip tunnel change j2 mode isatap local 10.0.0.10
c ip -d tunnel show j1
c ip -j tunnel show j1
# Potential routers.
c ip tunnel prl dev i1
c ip tunnel prl dev i1 prl-default 10.0.0.2
c ip tunnel prl dev i1 prl-nodefault 10.0.0.3
c ip tunnel prl dev i1 prl-default 10.0.0.3
c ip tunnel prl dev i1
c ip tunnel show i1
c ip tunnel prl dev i1 prl-delete 10.0.0.2
c ip tunnel prl dev i1 prl-delete 10.0.0.2
c ip tunnel prl dev i1
c ip tunnel show i1
c ip tunnel prl dev sit0 prl-default 10.0.0.2
c ip tunnel prl dev u0 prl-default 10.0.0.2
c ip tunnel prl dev nosuch prl-default 10.0.0.2
c ip tunnel prl dev j1 prl-default 10.0.0.2
c ip tunnel prl dev j1 prl-nodefault 10.0.0.3
c ip tunnel show j1
c ip -j tunnel show j1
# Not one of ISATAP.
ip link add s1 type sit local 10.0.0.30
c ip tunnel prl dev s1 prl-default 10.0.0.2
c ip tunnel show s1
# Requests as no client makes them.
echo "+ structures"
python3 - <<'END'
import ctypes, errno, fcntl, socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
GETPRL, ADDPRL, DELPRL, CHGPRL = range(0x89f4, 0x89f8)
def ask(request, name, data):
    data = ctypes.create_string_buffer(data, len(data))
    ifreq = struct.pack("=16sQ16x", name.encode(), ctypes.addressof(data) if len(data) else 0)
    try:
        fcntl.ioctl(s, request, ifreq)
        return data.raw.hex()
    except OSError as error:
        return errno.errorcode[error.errno]
def prl(addr, flags=0, length=0):
    return struct.pack("=4sHHII", socket.inet_aton(addr), flags, 0x1234, length, 0)
for what, request, data in [
    ("add", ADDPRL, prl("10.0.0.4")), ("again", ADDPRL, prl("10.0.0.4", 1)), ("change", CHGPRL, prl("10.0.0.4", 1)),
    ("other", CHGPRL, prl("10.0.0.5")), ("any", ADDPRL, prl("0.0.0.0")), ("change any", CHGPRL, prl("0.0.0.0")),
    ("flags", ADDPRL, prl("10.0.0.6", 0xff02)),
    ("get none", GETPRL, prl("0.0.0.0")), ("get one", GETPRL, prl("0.0.0.0", 0, 16) + bytes(16)),
    ("get all", GETPRL, prl("0.0.0.0", 0, 64) + bytes(64)), ("get by address", GETPRL, prl("10.0.0.4", 0, 48) + bytes(48)),
    ("get absent", GETPRL, prl("10.0.0.9", 0, 48) + bytes(48)), ("get odd", GETPRL, prl("0.0.0.0", 0, 33) + bytes(33)),
    ("delete absent", DELPRL, prl("10.0.0.9")), ("delete one", DELPRL, prl("10.0.0.4")),
    ("get all", GETPRL, prl("0.0.0.0", 0, 64) + bytes(64)), ("delete all", DELPRL, prl("0.0.0.0")),
    ("get all", GETPRL, prl("0.0.0.0", 0, 64) + bytes(64)), ("delete all", DELPRL, prl("0.0.0.0")),
]:
    print(what, ask(request, "i1", data))
END
c ip tunnel del i1
c ip tunnel del j1
ip -o link | sed 's/[0-9]*: //;s/:.*//' | grep -v -e '^lo'
