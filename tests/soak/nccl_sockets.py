#!/usr/bin/env python3
"""What another user of the machine can do to the socket on which NCCL's ranks meet: nccl_sockets.py LIBNCCL [USER_ID]

Has the real libnccl.so.2 open the root's socket on the loopback interface (which needs no GPU), and connects to it as another user, so
that it has to be started as root. Prints what happened.
"""

import ctypes
import os
import socket
import struct
import sys
import time

BOOTSTRAP = 1
PATIENCE_S = 25


class Root:
    """The socket of a communicator's root, in a process of its own: it is gone with it."""

    def __init__(self, library):
        read, write = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            unique = (ctypes.c_char * 128)()
            if ctypes.CDLL(library).ncclGetUniqueId(ctypes.byref(unique)) != 0:
                os._exit(1)
            os.write(write, bytes(unique))
            time.sleep(3600)
        os.close(write)
        self.unique = os.read(read, 128)
        if len(self.unique) != 128:
            raise SystemExit(f"{library} made no communicator's id: NCCL_DEBUG=INFO says why")
        (self.number,) = struct.unpack_from("<Q", self.unique)
        (self.port,) = struct.unpack_from(">H", self.unique, 10)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.kill(self.process, 9)
        os.waitpid(self.process, 0)

    def connect(self, number=None):
        """A connection that says this number, or nothing."""
        connection = socket.socket()
        connection.settimeout(2)
        connection.connect(("127.0.0.1", self.port))
        if number is not None:
            # What the root is told next is longer than a rank's address: it says so and ends.
            connection.sendall(struct.pack("<Qii", number, BOOTSTRAP, 1_000_000))
        return connection

    def ends_within(self, seconds):
        """Whether the root has stopped listening, as it does after a message that cannot be."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with open("/proc/net/tcp") as table:
                if not any(f":{self.port:04X} 00000000:0000 0A" in line for line in table):
                    return True
            time.sleep(0.05)
        return False


def ended(connection):
    connection.settimeout(2)
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True
    except socket.timeout:
        return False


def main():
    library, user = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 65534
    os.environ["NCCL_SOCKET_IFNAME"] = "lo"
    with Root(library) as wrong, Root(library) as silent:
        os.seteuid(user)
        dropped = sum(ended(wrong.connect(wrong.number ^ (1 << bit))) for bit in range(64))
        wrong.connect(wrong.number)
        print(f"numbers that differ in one bit: {dropped} of 64 dropped; then the right one: "
              f"{'read' if wrong.ends_within(5) else 'not read'}")
        first = silent.connect()
        time.sleep(0.5)
        second = silent.connect(silent.number)
        held = not silent.ends_within(PATIENCE_S)
        first.close()
        begun = time.monotonic()
        read = silent.ends_within(5)
        print(f"one that says nothing, then the right number: {'not read' if held else 'read'} within {PATIENCE_S} s; "
              f"{'read' if read else 'not read'} {time.monotonic() - begun:.1f} s after the silent one was gone")
        second.close()
        os.seteuid(0)


if __name__ == "__main__":
    main()
