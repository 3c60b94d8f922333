"""A client that moves one file: hdfs-native, in pieces of 8 MiB.

    python -m bench.clients.hdfs_bytes URL write|read PATH BYTES REPLICATION

Prints one JSON object: bytes, seconds and its own CPU.
"""

import json
import os
import resource
import sys
import time

import hdfs_native

_PIECE_BYTES = 8 << 20


def write(client: hdfs_native.Client, path: str, size: int, replication: int) -> None:
    piece = os.urandom(_PIECE_BYTES)
    options = hdfs_native.WriteOptions(overwrite=True, replication=replication)
    with client.create(path, options) as file:
        for _ in range(size // _PIECE_BYTES):
            file.write(piece)


def read(client: hdfs_native.Client, path: str, size: int) -> None:
    taken = 0
    with client.read(path) as file:
        while piece := file.read(_PIECE_BYTES):
            taken += len(piece)
    assert taken == size // _PIECE_BYTES * _PIECE_BYTES, f"{taken} bytes of {size}"


def main() -> None:
    url, work, path, size, replication = sys.argv[1:]
    client = hdfs_native.Client(url)
    began_s = time.monotonic()
    if work == "write":
        write(client, path, int(size), int(replication))
    else:
        read(client, path, int(size))
    seconds = time.monotonic() - began_s
    used = resource.getrusage(resource.RUSAGE_SELF)
    moved = int(size) // _PIECE_BYTES * _PIECE_BYTES
    print(json.dumps({"bytes": moved, "seconds": seconds, "cpu_s": used.ru_utime + used.ru_stime}))


if __name__ == "__main__":
    main()
