# SPDX-License-Identifier: Apache-2.0 OR MIT
"""sendfile to a socket of datagrams. Prints what the calls return and what arrives."""
import errno, os, socket, tempfile, time

HERE = "127.0.0.1"


def tried(what, *arguments):
    try:
        return what(*arguments)
    except OSError as error:
        return errno.errorcode.get(error.errno, error)


file = tempfile.TemporaryFile()
file.write(bytes(range(251)) * 800)
file.flush()
peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
peer.bind((HERE, 0))
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
print("without a peer", tried(os.sendfile, s.fileno(), file.fileno(), 0, 10), tried(os.sendfile, s.fileno(), file.fileno(), 1 << 30, 10))
s.connect(peer.getsockname())
for offset, count in (0, 1), (3, 1000), (0, 4096), (5, 4097), (0, 10000), (0, 60000), (7, 65507), (0, 0), (200790, 20), (1 << 30, 9):
    sent = tried(os.sendfile, s.fileno(), file.fileno(), offset, count)
    got = []
    while isinstance(part := tried(peer.recv, 1 << 16, socket.MSG_DONTWAIT), bytes):
        got.append(part)
    whole = b"".join(got) == os.pread(file.fileno(), sum(map(len, got)), offset)
    print(offset, count, sent, [len(part) for part in got], whole)
os.lseek(file.fileno(), 100, 0)
print("from its offset", os.sendfile(s.fileno(), file.fileno(), None, 50), os.lseek(file.fileno(), 0, 1), len(peer.recv(99)))
r, w = os.pipe()
print("a pipe", tried(os.sendfile, s.fileno(), r, None, 5), tried(os.sendfile, s.fileno(), r, 0, 5))
print("itself", tried(os.sendfile, s.fileno(), s.fileno(), None, 5), tried(os.sendfile, s.fileno(), 1 << 20, None, 5))
peer.close()
time.sleep(0.1)
s.send(b"x")
print("refused", tried(os.sendfile, s.fileno(), file.fileno(), 0, 10))
