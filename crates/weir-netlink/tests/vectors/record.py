#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Records the requests that ip and tc send: writes NAME.vec from NAME.cmd, for each NAME given or for all.

Usage: unshare -nm record.py [FOLDER] [NAME...]     (as root, or with unshare -rnm; needs strace)

FOLDER holds the vectors; the default is this script's folder.

A .cmd file holds one command per line. `#` starts a comment; `!` marks a set-up command, which is
not recorded. ` ;; ` separates commands on one line that are recorded as one. Each file runs in a
network namespace of its own. A .vec file holds, for each command, its line after `$ ` and the
messages it sent, one datagram per line, in hexadecimal. Sequence numbers (the clock, in iproute2)
are replaced by 1, 2, ... and port ids by 0, so that recordings can be compared. The devices are
veth pairs, which every kernel has. The kernel's reply to a command does not matter and is not
recorded.
"""
import ctypes, os, re, shlex, struct, subprocess, sys

NAMES = sys.argv[1:]
HERE = NAMES.pop(0) if NAMES and os.path.isdir(NAMES[0]) else os.path.dirname(os.path.abspath(__file__))


def datagrams(trace):
    """Returns the buffers of the sendmsg and sendto calls in a trace made with -e write=all."""
    sent, data = [], None
    for line in trace.splitlines():
        line = re.sub(r"^\[pid +\d+\] ", "", line)
        row = re.match(r" \| [0-9a-f]+  ((?:[0-9a-f]{2} {1,2})+)", line)
        if row:
            data += bytes.fromhex(row.group(1).replace(" ", ""))
            continue
        if not line.startswith(" * "):
            if data:
                sent.append(bytes(data))
            data = bytearray()
    if data:
        sent.append(bytes(data))
    return sent


def normal(datagram, seq):
    """Returns the datagram with sequence numbers counted from seq and no port ids, and the next number."""
    out, at = bytearray(datagram), 0
    while at + 16 <= len(out):
        (length,) = struct.unpack_from("=I", out, at)
        if length < 16 or at + length > len(out):
            break
        struct.pack_into("=I", out, at + 8, seq)
        struct.pack_into("=I", out, at + 12, 0)
        seq += 1
        at += (length + 3) & ~3
    return bytes(out), seq


def record(name):
    if ctypes.CDLL(None, use_errno=True).unshare(0x40000000):  # CLONE_NEWNET
        sys.exit("unshare: " + os.strerror(ctypes.get_errno()))
    out = [f"# Made by record.py from {name}.cmd with {subprocess.check_output(['ip', '-V'], text=True).strip()}."]
    for line in open(f"{HERE}/{name}.cmd"):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if line.startswith("!"):
            subprocess.run(line[1:], shell=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            continue
        trace = f"/tmp/record.{os.getpid()}"
        out.append(f"$ {line}")
        seq = 1
        for command in line.split(" ;; "):
            subprocess.run(
                ["strace", "-qq", "-o", trace, "-e", "trace=sendmsg,sendto", "-e", "write=all"] + shlex.split(command),
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=20,
            )
            for datagram in datagrams(open(trace).read()):
                datagram, seq = normal(datagram, seq)
                out.append("> " + datagram.hex())
            os.unlink(trace)
    open(f"{HERE}/{name}.vec", "w").write("\n".join(out) + "\n")
    print(f"{name}: {sum(l.startswith('$') for l in out)} commands, {sum(l.startswith('>') for l in out)} datagrams")


def main():
    names = NAMES or sorted(f[:-4] for f in os.listdir(HERE) if f.endswith(".cmd"))
    for name in names:
        record(name)


main()
