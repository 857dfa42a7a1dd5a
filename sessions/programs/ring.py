"""Bandwidth of TCP between ranks in a ring: each sends to the next while it receives from the one before.

The ranks find each other at MASTER_ADDR, as torchrun's do; Python's own library is enough. Arguments: megabytes of a message, steps.
"""
import json, os, socket, sys, threading, time

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
first = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
size, steps = int(float(sys.argv[1]) * 1e6), int(sys.argv[2])


def line(connection):
    return json.loads(connection.makefile("r").readline())


def connected(address):
    """A connection to an address that may not listen yet."""
    until = time.monotonic() + 60
    while True:
        try:
            return socket.create_connection(address, 5)
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def addresses(own):
    """The addresses of all ranks, which the first one collects and passes on."""
    if rank > 0:
        connection = connected(first)
        # The address by which the first rank is reached is one by which others reach this rank.
        connection.sendall((json.dumps([rank, [connection.getsockname()[0], own]]) + "\n").encode())
        return line(connection)
    known, peers = {0: [first[0], own]}, []
    server = socket.create_server(("", first[1]), backlog=world)
    while len(known) < world:
        peers.append(server.accept()[0])
        number, address = line(peers[-1])
        known[number] = address
    everyone = [known[number] for number in range(world)]
    for peer in peers:
        peer.sendall((json.dumps(everyone) + "\n").encode())
    return everyone


server = socket.create_server(("", 0))
everyone = addresses(server.getsockname()[1])
following = connected(tuple(everyone[(rank + 1) % world]))
before = server.accept()[0]
message, received = bytes(size), memoryview(bytearray(size))
for step in range(1, steps + 1):
    begun = time.perf_counter()
    sending = threading.Thread(target=following.sendall, args=(message,))
    sending.start()
    got = 0
    while got < size:
        count = before.recv_into(received[got:])
        if count == 0:
            sys.exit("the rank before rank %d is gone" % rank)
        got += count
    sending.join()
    took = time.perf_counter() - begun
    if rank == 0:
        print("step %d/%d duration_s: %.6f bandwidth_gb_per_s: %.4f" % (step, steps, took, size / took / 1e9), flush=True)
