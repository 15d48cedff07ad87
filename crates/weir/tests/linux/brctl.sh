# SPDX-License-Identifier: Apache-2.0 OR MIT
# Bridges by ioctl: brctl of bridge-utils and of busybox. The ageing of entries is not printed.
t() { echo "+ $*"; "$@" 2>&1; s=$?; [ $s = 0 ] || echo "= $s"; }
b() { echo "+ busybox brctl $*"; busybox brctl "$@" 2>&1; s=$?; [ $s = 0 ] || echo "= $s"; }
links() { ip -br link | sed 's/ *$//' | grep -o '^[^ ]* *[A-Z]*'; }
macs() { echo "+ brctl showmacs $1"; brctl showmacs $1 2>&1 | awk '{ print $1, $2, $3 }'; }
ip link add d1 address 02:00:00:00:00:01 type dummy
ip link add d2 address 02:00:00:00:00:02 type dummy
ip link add vrf1 type vrf table 10
# On Linux /sys may show another namespace; elsewhere there is nothing to mount.
[ -e /sys/class/net/d1 ] || mount -t sysfs sysfs /sys 2>/dev/null
ip link add t0 type ipip remote 10.0.0.1 local 10.0.0.2
t brctl show
t brctl addbr br0
t brctl addbr br0
t brctl addbr lo
t brctl addbr ''
t brctl addbr a/b
t brctl addbr 0123456789abcde
t brctl delbr 0123456789abcde
t brctl addbr br%d
t brctl addbr all
t brctl delbr all
t ip link add all type dummy
t ip link add default type dummy
t ip link add v7 type veth peer name all
t ip link add d7 type dummy
t ip link set d7 name all
t ip link show dev all | cut -d: -f2 -s
t ip link del all
t brctl delbr nosuch
t brctl delbr d1
links
t brctl addif br0 d1
t brctl addif br0 d1
t brctl addif br0 d1 d2
t brctl addif br0 lo
t brctl addif br0 t0
t brctl addif br0 br0
t brctl addif br0 br1
t brctl addif br0 nosuch
t brctl addif d1 d2
t brctl addif nosuch d2
t brctl show
t brctl addbr br2
t brctl addif br2 d1
t brctl delif br2 d1
t brctl delif br0 nosuch
t brctl delif d1 d2
ip link set d2 nomaster
ip link set d2 master vrf1
t brctl addif br0 d2
ip link set d2 nomaster
ip link set br2 master vrf1
t brctl addif br0 br2
t brctl addif br0 d2
t brctl delif br0 d1
t brctl delif br0 d1
t brctl addif br0 d1
macs br0
bridge fdb add 02:aa:bb:cc:dd:ee dev d1 master static
bridge fdb add 02:aa:bb:cc:dd:01 dev d1 master dynamic
bridge fdb add 02:aa:bb:cc:dd:02 dev d1 vlan 7 master static
macs br0
macs d1
macs br2
ls -l /sys/class/net/br0/brforward | cut -c1-10
od -An -v -tx1 -w16 /sys/class/net/br0/brforward | cut -c1-27 | sort
ls /sys/class/net/br0/brforward /sys/class/net/d1/brforward 2>&1
t brctl setageing br0 100
t brctl setfd br0 4
t brctl sethello br0 1
t brctl setmaxage br0 10
t brctl setbridgeprio br0 4096
t brctl setportprio br0 d1 5
t brctl setpathcost br0 d1 50
t brctl hairpin br0 d1 on
t brctl stp br0 on
t brctl stp br0 off
ip -d link show br0 | grep -o 'forward_delay [0-9]* hello_time [0-9]* max_age [0-9]* ageing_time [0-9]*'
ip -d link show d1 | grep -o 'priority [0-9]* cost [0-9]* hairpin [a-z]*'
ip link set br0 up
t brctl delbr br0
ip link set br0 down
t brctl delbr br0
ip -br link show d1 | cut -d' ' -f1
b addbr br5
b addbr br5
b addif br5 d1
b delif br5 d1
b delbr br5
b delbr br5
b stp br2 on
b show
python3 - <<'P'
import socket, fcntl, struct, errno
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
def ioctl(what, number, *words):
    data = bytearray(struct.pack("%dQ" % len(words), *words))
    try:
        print(what, fcntl.ioctl(s, number, data))
    except OSError as error:
        print(what, errno.errorcode[error.errno])
import ctypes
room = (ctypes.c_int * 4)()
name = ctypes.create_string_buffer(b"br7", 16)
ioctl("version", 0x8940, 0, 0, 0)
ioctl("version", 0x8941, 0, 0, 0)
ioctl("list", 0x8940, 1, ctypes.addressof(room), 4)
print("one", sum(1 for n in room if n))
ioctl("list", 0x8940, 1, ctypes.addressof(room), 0)
ioctl("list", 0x8940, 1, ctypes.addressof(room), 1 << 20)
ioctl("list", 0x8940, 1, 1, 4)
ioctl("add", 0x8940, 2, ctypes.addressof(name), 0)
ioctl("add", 0x8940, 2, ctypes.addressof(name), 0)
ioctl("add", 0x8940, 2, 1, 0)
ioctl("delete", 0x8940, 3, ctypes.addressof(name), 0)
ioctl("delete", 0x8940, 3, ctypes.addressof(name), 0)
ioctl("unknown", 0x8940, 4, 0, 0)
for number in 0x89a0, 0x89a1:
    try:
        fcntl.ioctl(s, number, 1)
    except OSError as error:
        print(hex(number), errno.errorcode[error.errno])
# An ifreq: a name, and an index or the address of four words.
index = socket.if_nametoindex("d1")
def on(what, number, device, value):
    data = device.encode().ljust(16, b"\0") + value.ljust(24, b"\0")
    try:
        fcntl.ioctl(s, number, data)
        print(what, "done")
    except OSError as error:
        print(what, errno.errorcode[error.errno])
on("add port 0", 0x89a2, "br2", struct.pack("i", 0))
on("delete port 0", 0x89a3, "br2", struct.pack("i", 0))
on("add port -1", 0x89a2, "br2", struct.pack("i", -1))
on("to lo", 0x89a2, "lo", struct.pack("i", index))
on("from lo", 0x89a3, "lo", struct.pack("i", index))
on("from nosuch", 0x89a3, "nosuch", struct.pack("i", index))
P
links
