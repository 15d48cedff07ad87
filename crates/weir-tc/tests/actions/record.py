#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Records how Linux's actions process frames: writes NAME.vec from NAME.cmd, and frames.vec.

Usage: examples/on-linux.sh python3 crates/weir-tc/tests/actions/record.py [--new] [NAME...]
With --new, existing recordings of unchanged lines are kept.
(as root on a Linux 6.1 with the actions: for gate, one of examples/make-linux.sh; needs strace and tc)

A .cmd file holds one command per line; `#` starts a comment. A line is one of
  HOOK [PREFIX...]: ACTIONS    adds matchall with these actions at a hook of d0, in the syntax of
                               `tc filter` after `action`, and sends the frames whose names begin
                               with a PREFIX (default: all) through it. HOOK is
                                 ingress: received by d0; the packets that the actions pipe are
                                   redirected to d1
                                 egress: sent by d0
                                 tagged: sent by d0 for its VLAN device with id 5, with a tag in the
                                   metadata
  tc ...                       any command of tc about actions or filters
  raw KIND [TYPE:HEX...]       a new action with these options, including some that tc never sends.
                               In HEX, G stands for a tc_gen with control action pipe, B for one with
                               an invalid control action. `flat KIND ...` leaves out NLA_F_NESTED,
                               `none KIND` the options.
Each line with a hook, and each run of tc and raw lines between blank lines, starts with a fresh d0 with
clsact.

A .vec file holds, for each line:
  $ LINE                       the line
  > HEX                        a message that tc sent, one datagram per line, with sequence number 0
  = ERRNO TEXT                 errno and extended acknowledgement of the last message
and for a line with a hook:
  dump KIND HEX                the options of each action as Linux shows them
  NAME RESULT                  for each frame its name and the frame that left, with a tag of the
                               metadata inserted: `=` unchanged, `-` none, else `A HEX B`: the first A
                               bytes of the original, then HEX, then the last B bytes of the original
  meta NAME ...                the packet's mark and queue, if not both are 0
  psample NAME ...             the attributes of the message about the sampled packet, with time 0
  stats KIND ...               bytes, packets, drops and overlimits of each action
The devices are those of src/testing.rs: lo, pd0, d0, pd1, d1, with indices 1 to 5.
"""
import ctypes, errno, os, re, shlex, socket, struct, subprocess, sys, tempfile, time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from frames import frames  # noqa: E402

NEWNET = 0x40000000
PACKET_AUXDATA, SO_RCVMARK, SO_ATTACH_FILTER = 8, 75, 26
RTM_GETACTION, DUMP = 50, 0x301
LIBC = ctypes.CDLL(None, use_errno=True)


def run(command, fail=True):
    done = subprocess.run(command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if fail and done.returncode:
        sys.exit(f"{command}: {done.stdout}")
    return done.stdout


def namespace():
    if LIBC.unshare(NEWNET):
        sys.exit("unshare: " + os.strerror(ctypes.get_errno()))
    run("ip link set lo up")
    run("ip link add d0 numtxqueues 8 numrxqueues 8 type veth peer name pd0")
    run("ip link add d1 type veth peer name pd1")
    for device in ("d0", "pd0", "d1", "pd1"):
        run(f"sysctl -qw net.ipv6.conf.{device}.disable_ipv6=1")
        run(f"ip link set {device} up")
    run("ip link add link d0 name d0.5 type vlan id 5")
    run("sysctl -qw net.ipv6.conf.d0/5.disable_ipv6=1")
    run("ip link set d0.5 up")
    return os.open("/proc/self/ns/net", os.O_RDONLY)


def enter(ns):
    if LIBC.setns(ns, NEWNET):
        sys.exit("setns: " + os.strerror(ctypes.get_errno()))


def fresh():
    """Deletes all filters and actions and adds clsact. Returns the messages that add it."""
    tcm = struct.pack("=BxxxiIII", 0, 3, 0xffff0000, 0xfffffff1, 0)
    RTNETLINK.answer(struct.pack("=IHHII", 36, 37, 1, 0, 0) + tcm)
    time.sleep(0.1)  # the actions of a filter are freed after a grace period
    for kind in ("gact", "mirred", *NAMES):
        body = attribute(1, attribute(1, attribute(1, kind.encode() + b"\0")))
        RTNETLINK.answer(struct.pack("=IHHII", 20 + len(body), 49, 0x101, 0, 0) + bytes(4) + body)
    for data in CLSACT:
        error, text = RTNETLINK.answer(data)
        if error:
            sys.exit(f"clsact: {os.strerror(error)} {text}")
    return CLSACT


def sent(command):
    """Returns the traffic control messages that a command of tc sends, with sequence number and port 0."""
    handle, trace = tempfile.mkstemp()
    os.close(handle)
    subprocess.run(
        ["strace", "-qq", "-o", trace, "-e", "trace=sendmsg,sendto", "-e", "write=all"] + shlex.split(command),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=30)
    datagrams, data = [], None
    for line in open(trace):
        row = re.match(r" \| [0-9a-f]+  ((?:[0-9a-f]{2} {1,2})+)", line)
        if row:
            data += bytes.fromhex(row.group(1).replace(" ", ""))
        elif not line.startswith(" * "):
            datagrams.append(data)
            data = bytearray()
    os.unlink(trace)
    out = []
    for data in datagrams + [data]:
        if data and 36 <= struct.unpack_from("=H", data, 4)[0] <= 50:
            data[8:16] = bytes(8)
            out.append(bytes(data))
    return out


def attribute(ty, payload):
    return struct.pack("=HH", 4 + len(payload), ty) + payload + bytes(-len(payload) % 4)


def raw(how, kind, options):
    """Returns a request that adds an action."""
    gen = lambda control: struct.pack("=IIiii", 0, 0, control, 0, 0).hex()
    body = b""
    for option in options:
        ty, payload = option.split(":")
        nested = 0x8000 if ty.endswith("n") else 0
        body += attribute(int(ty.rstrip("n")) | nested, bytes.fromhex(payload.replace("G", gen(3)).replace("B", gen(99))))
    body = attribute(1, kind.encode() + b"\0") + (
        b"" if how == "none" else attribute(2 | (0x8000 if how == "raw" else 0), body))
    body = bytes(4) + attribute(1, attribute(1, body))
    return struct.pack("=IHHII", 16 + len(body), 48, 0x605, 0, 0) + body


def attributes(data):
    at = 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        yield kind & 0x3fff, data[at + 4:at + length]
        at += (length + 3) & ~3


class Rtnetlink:
    def __init__(self):
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
        for option in (1, 11):  # SOL_NETLINK: CAP_ACK, EXT_ACK
            self.socket.setsockopt(270, 10 if option == 1 else 11, 1)
        self.socket.bind((0, 0))

    def answer(self, request):
        """Sends a request. Returns errno and text of the acknowledgement; errno is 0 for a dump."""
        flags = struct.unpack_from("=H", request, 6)[0]
        self.socket.send(request[:6] + struct.pack("=H", flags | 4) + request[8:])
        while True:
            data = self.socket.recv(1 << 16)
            at = 0
            while at < len(data):
                length, kind, flags, _, _ = struct.unpack_from("=IHHII", data, at)
                if kind == 2:
                    error = -struct.unpack_from("=i", data, at + 16)[0]
                    text = ""
                    if flags & 0x200:
                        text = dict(attributes(data[at + 36:at + length])).get(1, b"").rstrip(b"\0").decode()
                    return error, text
                if kind == 3:
                    return 0, ""
                at += (length + 3) & ~3

    def actions(self, hook):
        """Returns kind, options and statistics of each action of the filter at a hook."""
        parent = {"ingress": 0xfffffff2, "egress": 0xfffffff3, "tagged": 0xfffffff3}[hook]
        tcm = struct.pack("=BxxxiIII", 0, 3, 0, parent, 0)
        self.socket.send(struct.pack("=IHHII", 36, 46, 0x301, 0, 0) + tcm)
        found, done = [], False
        while not done:
            data = self.socket.recv(1 << 16)
            at = 0
            while at < len(data):
                length, kind = struct.unpack_from("=IH", data, at)
                done |= kind == 3
                if kind == 44:
                    options = dict(attributes(data[at + 36:at + length])).get(2)
                    nest = dict(attributes(options or b"")).get(2)
                    if nest:
                        found = [dict(attributes(action)) for _, action in attributes(nest)]
                at += (length + 3) & ~3
        out = []
        for action in found:
            stats = dict(attributes(action[4]))
            octets, packets = struct.unpack_from("=QI", stats[1])
            _, _, drops, _, overlimits = struct.unpack_from("=5I", stats[3])
            kind = action[1].rstrip(b"\0").decode()
            out.append((kind, action[2], (octets, packets, drops, overlimits)))
        return out


def tap(device, queue=False):
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    s.setsockopt(263, PACKET_AUXDATA, 1)
    s.setsockopt(socket.SOL_SOCKET, SO_RCVMARK, 1)
    if queue:  # SKF_AD_QUEUE: truncates a frame to the number of the queue plus 16 bytes
        program = [(0x20, 0, 0, 0xfffff000 + 24), (0x04, 0, 0, 16), (0x16, 0, 0, 0)]
        code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *row) for row in program))
        s.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HxxxxxxP", len(program), ctypes.addressof(code)))
    s.bind((device, 3))
    s.setblocking(False)
    return s


def received(s):
    """Returns each frame that the device sent, with its tag inserted, and its mark."""
    out = []
    while True:
        try:
            data, control, _, address = s.recvmsg(70000, 1000)
        except BlockingIOError:
            return out
        if address[2] != 4:  # PACKET_OUTGOING
            continue
        mark = 0
        for level, kind, value in control:
            if (level, kind) == (263, PACKET_AUXDATA):
                status, _, _, _, _, tci, tpid = struct.unpack_from("=IIIHHHH", value)
                if status & 0x10:
                    proto = tpid if status & 0x40 else 0x8100
                    data = data[:12] + struct.pack("!HH", proto, tci) + data[12:]
            if (level, kind) == (socket.SOL_SOCKET, 36):
                mark = struct.unpack("=I", value)[0]
        out.append((data, mark))


class Psample:
    """A listener to the group `packets` of the generic netlink family psample."""

    def __init__(self):
        run("tc actions add action sample rate 1 group 99 && tc actions flush action sample")  # loads the module
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16)
        self.socket.bind((0, 0))
        body = struct.pack("=BBH", 3, 1, 0) + attribute(2, b"psample\0")  # CTRL_CMD_GETFAMILY by name
        self.socket.send(struct.pack("=IHHII", 16 + len(body), 16, 1, 0, 0) + body)
        family = dict(attributes(self.socket.recv(1 << 16)[20:]))
        groups = [dict(attributes(group)) for _, group in attributes(family[7])]
        number = next(struct.unpack("=I", group[2])[0] for group in groups if group[1] == b"packets\0")
        self.socket.setsockopt(270, 1, number)  # SOL_NETLINK, NETLINK_ADD_MEMBERSHIP
        self.socket.setblocking(False)

    def heard(self):
        out = []
        while True:
            try:
                data = self.socket.recv(1 << 16)
            except BlockingIOError:
                return out
            rows = [(kind, bytes(8) if kind == 13 else value) for kind, value in attributes(data[20:]) if value]
            out.append(" ".join(f"{kind}:{value.hex()}" for kind, value in rows))


def difference(frame, data):
    if data == frame:
        return "="
    most = min(len(data), len(frame))
    start = len(os.path.commonprefix([data, frame]))
    end = min(len(os.path.commonprefix([data[::-1], frame[::-1]])), most - start)
    return f"{start} {data[start:len(data) - end].hex() or '.'} {end}"


def through(hook, prefixes, choose, out):
    source = {"ingress": "pd0", "egress": "d0", "tagged": "d0.5"}[hook]
    target = "d1" if hook == "ingress" else "d0"
    sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    taps = tap(target), tap(target, queue=True)
    PSAMPLE.heard()
    for name, frame in frames().items():
        if prefixes and not name.startswith(tuple(prefixes)):
            continue
        try:
            sender.sendto(frame, (source, 0))
        except OSError as error:  # a drop at egress
            if error.errno != errno.ENOBUFS:
                raise
        seen, queues = (received(s) for s in taps)
        for _ in range(3):
            if not seen:
                time.sleep(0.01)
                seen, queues = (received(s) for s in taps)
        if hook == "tagged":
            frame = frame[:12] + struct.pack("!HH", 0x8100, 5) + frame[12:]
        samples = [f"psample {name} {message}" for message in PSAMPLE.heard()]
        if not seen:
            out += [f"{name} -", *samples]
            continue
        if len(seen) > 1:
            return print(f"{name}: a frame arrived late, repeating:")
        data, mark = seen[0]
        out.append(f"{name} {difference(frame, data)}")
        # Without an action that sets the queue, the socket chooses one.
        queue = len(queues[0][0]) - 16 if choose else 0
        if mark or queue:
            out.append(f"meta {name} mark {mark} queue {queue}")
        out += samples
    return True


HOOK = re.compile(r"(ingress|egress|tagged)((?: \S+)*): (.*)")


def groups(name):
    """Returns the lines of a .cmd file in groups: each line with a hook alone, the others in runs."""
    found, run = [], None
    for line in open(f"{HERE}/{name}.cmd"):
        line = line.strip()
        if not line or HOOK.match(line):
            run = None
        if not line or line.startswith("#"):
            continue
        if run is None or HOOK.match(line):
            found.append([])
            run = None if HOOK.match(line) else True
        found[-1].append(line)
    return found


def recorded(name):
    """Returns the lines of a .vec file with the rows recorded for each."""
    found = []
    if os.path.exists(f"{HERE}/{name}.vec"):
        for line in open(f"{HERE}/{name}.vec"):
            if line.startswith("$ "):
                found.append([line[2:-1], []])
            elif found:
                found[-1][1].append(line[:-1])
    return found


def requests(line):
    """Returns the messages of a line."""
    made = re.match(r"(raw|flat|none) (\S+)(.*)", line)
    if made:
        return [raw(made[1], made[2], made[3].split())]
    hook = HOOK.match(line)
    if not hook:
        return sent(line)
    side = "ingress" if hook[1] == "ingress" else "egress"
    command = f"tc filter add dev d0 {side} protocol all prio 1 matchall action {hook[3]}"
    if side == "ingress":
        command += " action mirred egress redirect dev d1"
    return sent(command)


def measure(name, group, messages, out):
    """Records a group of lines with the given messages. Returns False if frames were late."""
    clsact, rows = fresh(), []
    for line, messages in zip(group, messages):
        if not messages:
            print(f"{name}: nothing sent: {line}")
            continue
        rows.append(f"$ {line}")
        rows += ["> " + data.hex() for data in clsact + messages]
        clsact = []
        error, text = [RTNETLINK.answer(data) for data in messages][-1]
        rows.append(f"= {error} {text}".rstrip())
        hook = HOOK.match(line)
        if hook and not error:
            rows += [f"dump {kind} {options.hex()}" for kind, options, _ in RTNETLINK.actions(hook[1])]
            if not through(hook[1], hook[2].split(), "queue_mapping" in line, rows):
                return False
            rows += [f"stats {kind} " + " ".join(map(str, stats)) for kind, _, stats in RTNETLINK.actions(hook[1])]
    out += rows
    return True


def record(name, reuse):
    out = [f"# Made by record.py from {name}.cmd on Linux {os.uname().release} with "
           + run("tc -V").strip().removeprefix("tc utility, ") + "."]
    old = recorded(name) if reuse else []
    for group in groups(name):
        at = next((i for i in range(len(old)) if [row[0] for row in old[i:i + len(group)]] == group), None)
        if at is not None:
            for line, rows in old[at:at + len(group)]:
                out += [f"$ {line}", *rows]
            continue
        enter(SCRATCH)
        messages = [requests(line) for line in group]
        enter(MEASURED)
        while not measure(name, group, messages, out):
            pass
    open(f"{HERE}/{name}.vec", "w").write("\n".join(out) + "\n")
    print(f"{name}: {sum(l.startswith('$') for l in out)} commands, {len(out)} lines")


NAMES = sorted(f[:-4] for f in os.listdir(HERE) if f.endswith(".cmd"))
with open(f"{HERE}/frames.vec", "w") as file:
    file.write("# Made by record.py from frames.py.\n")
    file.writelines(f"{name} {frame.hex()}\n" for name, frame in frames().items())
# tc runs in the first namespace; its messages are replayed and measured in the second.
SCRATCH = namespace()
CLSACT = sent("tc qdisc add dev d0 clsact")
MEASURED = namespace()
RTNETLINK = Rtnetlink()
PSAMPLE = Psample()
for name in [name for name in sys.argv[1:] if name != "--new"] or NAMES:
    record(name, "--new" in sys.argv)
