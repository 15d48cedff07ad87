# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs `weir top` on a pseudo terminal: it draws, resizes, obeys keys, ends and restores the terminal.

    top.py END COMMAND...      END is a key, or the name of a signal
"""

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time

PATIENCE = 100


def size(fd, lines, columns):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


def read_until(fd, words, seen):
    """Reads until all words were seen since the last call."""
    start, text = time.monotonic(), b""
    while not all(word in text for word in words):
        if time.monotonic() - start > PATIENCE:
            sys.exit(f"not drawn: {words} in {text!r}")
        if select.select([fd], [], [], 1)[0]:
            text += os.read(fd, 65536)
    seen.append(text)


end, command = sys.argv[1], sys.argv[2:]
ours, theirs = pty.openpty()
size(ours, 30, 100)
before = termios.tcgetattr(theirs)
pid = os.fork()
if pid == 0:
    os.setsid()
    fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
    for fd in range(3):
        os.dup2(theirs, fd)
    os.execvp(command[0], command)
seen = []
read_until(ours, [b"\x1b[?1049h", b"Devices", b"Queues", b"CPUs", b"edge/in0", b"quit"], seen)
raw = termios.tcgetattr(theirs)
assert not raw[3] & termios.ICANON, "the terminal is not in raw mode"
size(ours, 40, 140)
os.kill(pid, signal.SIGWINCH)
# The last line of the new size, at its place.
read_until(ours, [b"\x1b[40;1H", b"quit"], seen)
# Lets the redraw for the new size end: a key pressed in the middle of it can be lost.
time.sleep(1)
os.write(ours, b"p")
read_until(ours, [b"paused"], seen)
for key in (b"\t", b"s", b"s", b"\x1b[B", b"\x1b[A", b"\x1b[D", b"p"):
    os.write(ours, key)
    time.sleep(0.1)
if end.startswith("SIG"):
    os.kill(pid, getattr(signal, end))
else:
    os.write(ours, end.encode())
read_until(ours, [b"\x1b[?1049l"], seen)
_, status = os.waitpid(pid, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
assert termios.tcgetattr(theirs) == before, "the terminal is not restored"
print("restored")
