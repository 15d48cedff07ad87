# SPDX-License-Identifier: Apache-2.0 OR MIT
# `ip vrf exec`, `identify` and `pids`: two networks with the same addresses, each between two VRFs.
import errno
import os
import socket
import subprocess
import sys
import time

DEVICE = socket.SO_BINDTODEVICE
INDEX = 62  # SO_BINDTOIFINDEX
GROUPS = "net.ipv4.ping_group_range=0 2147483647"  # who may create ping sockets


def device(s):
    """The device that a socket is bound to."""
    return s.getsockopt(socket.SOL_SOCKET, DEVICE, 16).rstrip(b"\0").decode()


def attempt(what, call, *arguments):
    try:
        done = call(*arguments)
        print(what, "->", "done" if done is None else done)
    except OSError as error:
        print(what, "->", errno.errorcode[error.errno])


def cgroup():
    with open("/proc/self/cgroup") as file:
        return "".join(line[3:].strip() for line in file if line.startswith("0::"))


def fetch():
    with socket.create_connection(("10.0.0.1", 80), 5) as s:
        return s.recv(100).decode()


def kinds():
    families = [(socket.AF_INET, 4), (socket.AF_INET6, 6)]
    for family, version in families:
        icmp = 1 if version == 4 else 58
        print(version, *(device(socket.socket(family, *kind)) for kind in [
            (socket.SOCK_STREAM, 0), (socket.SOCK_DGRAM, 0), (socket.SOCK_DGRAM, icmp), (socket.SOCK_RAW, icmp)]))
    packet = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    print("packet", packet.getsockname()[0], "unix", [device(s) for s in socket.socketpair()])


def override():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for name in [b"blue", b"", b"none"]:
        attempt(f"SO_BINDTODEVICE {name.decode()}", s.setsockopt, socket.SOL_SOCKET, DEVICE, name)
        print(device(s))
    attempt("sendto", s.sendto, b"x", ("10.0.0.1", 9))
    s.setsockopt(socket.SOL_SOCKET, INDEX, socket.if_nametoindex("blue"))
    attempt("sendto", s.sendto, b"x", ("10.0.0.1", 9))


def daemon():
    """A process whose parents have ended, in a session of its own."""
    read, write = os.pipe()
    if os.fork() == 0:
        os.setsid()
        parent = os.getpid()
        if os.fork() == 0:
            while os.getppid() == parent:
                time.sleep(0.01)
            os.write(write, f"{device(socket.socket())} {cgroup().rsplit('/')[-1]}".encode())
        os._exit(0)
    os.wait()
    print(os.read(read, 100).decode())


def inherited(number):
    old = socket.socket(fileno=int(number))
    return repr(device(old)), device(socket.socket())


def move(red):
    """Enters and leaves a cgroup by its file."""
    def sockets(what):
        print(what, repr(device(socket.socket())), cgroup().endswith("/vrf/red"))

    def write(value, path=red + "/cgroup.procs"):
        file = os.open(path, os.O_WRONLY)
        try:
            return os.write(file, value)
        finally:
            os.close(file)

    sockets("outside")
    attempt("write 0", write, b"0\n")
    sockets("inside")
    with open(red + "/cgroup.procs") as file:
        print(str(os.getpid()) + "\n" in file.readlines())
    for value in [b"x", b"-1", b"4194304", b""]:
        attempt(f"write {value.decode()}", write, value)
    attempt("mkdir", os.mkdir, red)
    attempt("mkdir below nothing", os.mkdir, red + "/none/below")
    attempt("rmdir", os.rmdir, red)
    attempt("create", os.open, red + "/file", os.O_CREAT | os.O_WRONLY)
    attempt("unlink", os.unlink, red + "/cgroup.procs")
    attempt("open", os.open, red + "/none", os.O_RDONLY)
    attempt("open for writing", os.open, red, os.O_WRONLY)
    attempt("mkdir", os.mkdir, red + "/below")
    own = str(os.getpid()).encode()
    attempt("write", lambda: write(own, red + "/below/cgroup.procs") == len(own))
    print("below", device(socket.socket()), cgroup().rsplit("/vrf/")[-1])
    attempt("rmdir", os.rmdir, red + "/below")
    attempt("write", write, b"0", os.path.dirname(red) + "/cgroup.procs")
    sockets("outside")
    attempt("rmdir", os.rmdir, red + "/below")
    print("below" in os.listdir(red), "red" in os.listdir(os.path.dirname(red)))
    # By a descriptor whose number is the program's choice.
    file = os.open(red + "/cgroup.procs", os.O_WRONLY)
    os.dup2(file, 7)
    os.close(file)
    attempt("write", lambda: os.write(7, own) == len(own))
    os.close(7)
    sockets("inside")


def serve(name, ready):
    s = socket.socket(socket.AF_INET6)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("::", 80))
    s.listen()
    os.write(int(ready), b"x")
    while True:
        peer, _ = s.accept()
        peer.send(f"{name}, accepted by a socket of {device(peer)}".encode())
        peer.close()


def ip(arguments, **options):
    return subprocess.run(["ip", *arguments.split()], capture_output=True, text=True, **options)


def run(arguments, **options):
    """Runs ip, and prints what it prints."""
    sys.stdout.flush()
    done = ip(arguments, **options)
    shown = arguments.replace(f"{sys.executable} -SE {__file__}", "vrf.py")
    print("+ ip", shown)
    print(done.stdout + done.stderr, end="")
    if done.returncode:
        print("status", done.returncode)


def main():
    subprocess.run(["sysctl", "-qw", GROUPS])
    for table, (vrf, port) in enumerate([("red", "r0"), ("rpeer", "r1"), ("blue", "b0"), ("bpeer", "b1")]):
        if port.endswith("0"):
            ip(f"link add {port} type veth peer name {port[0]}1")
        ip(f"link add {vrf} type vrf table {100 + table}")
        ip(f"link set {vrf} up")
        ip(f"link set {port} master {vrf} up")
        ip(f"addr add 10.0.0.{port[1]}/24 dev {port}".replace("0.0/", "0.3/"))
    me = f"{sys.executable} -SE {__file__}"
    # Before any: no cgroup, no members.
    run("vrf identify")
    run("vrf pids red")
    run("vrf exec nothing true")
    run("vrf exec r0 true")
    run("vrf exec red")
    run("vrf exec red /no-such-program")
    run("vrf exec red false")
    run("vrf exec red ip vrf identify")
    run("vrf exec red ip vrf exec blue ip vrf identify")
    run("vrf exec red ip vrf exec default ip vrf identify")
    run("vrf exec default ip vrf identify")
    run("vrf identify 4194304")
    for vrf in ["red", "rpeer", "default"]:
        sys.stdout.flush()
        done = ip(f"vrf exec {vrf} ping -c 1 -W 1 -q 10.0.0.1")
        line = [line for line in done.stdout.splitlines() if "transmitted" in line]
        print(vrf, *(line[0].split(", ")[:3] if line else done.stderr.split()), done.returncode)
    servers = []
    for vrf in ["rpeer", "bpeer"]:
        read, write = os.pipe()
        arguments = ["ip", "vrf", "exec", vrf, sys.executable, "-SE", __file__, f"serve:{vrf}:{write}"]
        servers.append(subprocess.Popen(arguments, pass_fds=[write]))
        os.read(read, 1)
    run(f"vrf exec red {me} kinds fetch override daemon")
    run(f"vrf exec blue {me} kinds fetch")
    run(f"vrf exec default {me} kinds fetch")
    for vrf, server in zip(["rpeer", "bpeer"], servers):
        pids = ip(f"vrf pids {vrf}").stdout.split()
        print(ip(f"vrf identify {server.pid}").stdout.strip(), pids[0] == str(server.pid), len(pids))
    run("vrf pids nothing")
    for server in servers:
        server.kill()
        server.wait()
    run("vrf pids rpeer")
    old = socket.socket()
    done = ip(f"vrf exec red {me} inherited:{old.fileno()} cgroup", pass_fds=[old.fileno()]).stdout
    devices, path = done.splitlines()
    print(devices)
    path = path.split()[-1]
    sys.stdout.flush()
    if os.fork() == 0:
        move("/run/cgroup2" + path)
        sys.stdout.flush()
        os._exit(0)
    os.wait()
    # A namespace has VRFs of its own, and `ip netns exec` leaves the VRF.
    ip("netns add n1")
    ip("-n n1 link add red type vrf table 10")
    subprocess.run(["ip", "netns", "exec", "n1", "sysctl", "-qw", GROUPS])
    run("vrf exec red ip netns exec n1 ip vrf identify")
    run("netns exec n1 ip vrf exec red ip vrf identify")
    run(f"netns exec n1 ip vrf exec red {me} kinds")
    run("netns exec n1 ip vrf exec blue true")
    ip("netns del n1")
    # A device that has gone: sockets are bound to its number.
    ip("link del blue")
    run("vrf exec blue true")


for role in sys.argv[1:]:
    name, *arguments = role.split(":")
    attempt(name, globals()[name], *arguments)
if len(sys.argv) == 1:
    main()
