#!/usr/bin/env python3
"""What another user of the machine can do to NCCL's ranks once they have met: nccl_ranks.py LIBNCCL LIBCUDART [USER_ID]

Two ranks on GPU 0 (each says it is a host of its own, by NCCL_HOSTID, so that NCCL takes them), and connections of another user to every
port that they listen on. To be started as root. Prints, for each kind of connection, whether the ranks' sums were right afterwards, and
whether they could make a second communicator out of the first.
"""

import ctypes
import os
import random
import select
import socket
import sys
import time

from nccl_sockets import Root

PATIENCE_S = 25
FLOATS = 1 << 20
FLOAT32, SUM = 7, 0


def rank_of_two(rank, libraries, unique, orders, answers):
    """Does what `orders` says, one word a line, and answers each."""
    os.environ["NCCL_HOSTID"] = f"rank{rank}"
    nccl, cuda = (ctypes.CDLL(library) for library in libraries)

    class Id(ctypes.Structure):
        _fields_ = [("bytes", ctypes.c_char * 128)]

    def must(status, what):
        if status != 0:
            raise RuntimeError(f"{what}: {status}")

    def summed(communicator):
        numbers = (ctypes.c_float * FLOATS)(*([rank + 1.0] * FLOATS))
        place = ctypes.c_void_p()
        must(cuda.cudaMalloc(ctypes.byref(place), ctypes.sizeof(numbers)), "cudaMalloc")
        must(cuda.cudaMemcpy(place, numbers, ctypes.sizeof(numbers), 1), "copying to the GPU")
        must(nccl.ncclAllReduce(place, place, ctypes.c_size_t(FLOATS), FLOAT32, SUM, communicator, None), "ncclAllReduce")
        must(cuda.cudaDeviceSynchronize(), "waiting for the sum")
        must(cuda.cudaMemcpy(numbers, place, ctypes.sizeof(numbers), 2), "copying from the GPU")
        must(cuda.cudaFree(place), "cudaFree")
        if set(numbers) != {3.0}:
            raise RuntimeError("wrong sum")

    communicator = ctypes.c_void_p()
    nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, Id, ctypes.c_int]
    for order in os.fdopen(orders):
        try:
            if order == "meet\n":
                must(cuda.cudaSetDevice(0), "cudaSetDevice")
                must(nccl.ncclCommInitRank(ctypes.byref(communicator), 2, Id.from_buffer_copy(unique), rank), "ncclCommInitRank")
            elif order == "sum\n":
                summed(communicator)
            elif order == "split\n":
                second = ctypes.c_void_p()
                must(nccl.ncclCommSplit(communicator, 0, rank, ctypes.byref(second), None), "ncclCommSplit")
                summed(second)
                must(nccl.ncclCommDestroy(second), "ncclCommDestroy")
            os.write(answers, b"done\n")
        except RuntimeError as error:
            os.write(answers, f"{error}\n".encode())


class Rank:
    """A rank in a process of its own."""

    def __init__(self, rank, libraries, unique):
        read_orders, self.orders = os.pipe()
        self.answers, write_answers = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            rank_of_two(rank, libraries, unique, read_orders, write_answers)
            os._exit(0)
        os.close(read_orders)
        os.close(write_answers)

    def say(self, order):
        os.write(self.orders, f"{order}\n".encode())

    def answer(self, until):
        ready, _, _ = select.select([self.answers], [], [], max(0, until - time.monotonic()))
        return os.read(self.answers, 1000).decode().strip() or "gone" if ready else f"no answer in {PATIENCE_S} s"

    def ports(self):
        """TCP ports that the process listens on, with the address as the kernel prints it."""
        folder = f"/proc/{self.process}/fd"
        inodes = {os.readlink(f"{folder}/{fd}")[8:-1] for fd in os.listdir(folder) if os.readlink(f"{folder}/{fd}").startswith("socket:[")}
        with open("/proc/net/tcp") as table:
            rows = [line.split() for line in table][1:]
        return sorted((row[1].split(":")[0], int(row[1].split(":")[1], 16)) for row in rows if row[3] == "0A" and row[9] in inodes)


class Two:
    """Two ranks that have met."""

    def __init__(self, libraries):
        self.root = Root(libraries[0])
        self.ranks = [Rank(rank, libraries, self.root.unique) for rank in range(2)]

    def do(self, order):
        for rank in self.ranks:
            rank.say(order)
        begun = time.monotonic()
        answers = {rank.answer(begun + PATIENCE_S) for rank in self.ranks}
        return f"{' and '.join(sorted(answers))} ({time.monotonic() - begun:.2f} s)"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in [self.root.process] + [rank.process for rank in self.ranks]:
            os.kill(process, 9)
            os.waitpid(process, 0)


def connected(port):
    connection = socket.socket()
    connection.settimeout(2)
    connection.connect(("127.0.0.1", port))
    return connection


def says_nothing(port):
    return [connected(port)]


def says_noise(port):
    connection = connected(port)
    connection.sendall(random.Random(port).randbytes(4096))
    return [connection]


def says_little_and_stays(port):
    connection = connected(port)
    connection.sendall(b"\x00\x01\x02")
    return [connection]


def many(port):
    return [connected(port) for _ in range(200)]


def main():
    libraries, user = sys.argv[1:3], int(sys.argv[3]) if len(sys.argv) > 3 else 65534
    os.environ["NCCL_SOCKET_IFNAME"] = "lo"
    for kind in [says_noise, says_little_and_stays, says_nothing, many]:
        with Two(libraries) as two:
            print(f"{kind.__name__}: before: met {two.do('meet')}, sum {two.do('sum')}, split {two.do('split')}")
            ports = [port for rank in two.ranks for port in rank.ports()]
            held, refused = [], 0
            os.seteuid(user)
            for _, port in ports:
                try:
                    held += kind(port)
                except OSError:
                    refused += 1
            os.seteuid(0)
            print(f"  {len(ports)} ports listen ({', '.join(sorted({address for address, _ in ports}))}), {refused} refused")
            print(f"  while they stay: sum {two.do('sum')}, split {two.do('split')}")
            for connection in held:
                connection.close()
            print(f"  when they are gone: sum {two.do('sum')}, split {two.do('split')}", flush=True)


if __name__ == "__main__":
    main()
