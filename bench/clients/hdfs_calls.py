"""Clients that ask for little at a time, each in its own process: hdfs-native, one call at a time.

    python -m bench.clients.hdfs_calls URL WORK CLIENTS COUNT FOLDER

WORK: create (create and close), stat, mixed (create+close, stat, rename, stat, delete), small (a
file of 10 KiB, three replicas), pread (64 KiB somewhere in the file `LARGE`, which must be there).
Prints one JSON object: calls, seconds, and the clients' CPU. The clock runs from when all have
connected until all have had their last answer.
"""

import json
import multiprocessing
import os
import random
import resource
import sys
import time
from collections.abc import Callable
from functools import cache
from multiprocessing.synchronize import Barrier

import hdfs_native

Act = Callable[[hdfs_native.Client, str, int], int]
_SMALL = os.urandom(10 * 1024)
_PREAD_BYTES = 64 * 1024
_WARM = 20
_READY_TIMEOUT_S = 120
_DONE_TIMEOUT_S = 600


def data_path(replication: int) -> str:
    """The large file that is written with so many replicas."""
    return f"/bench/data-{replication}"


LARGE = data_path(3)


def create(client: hdfs_native.Client, folder: str, number: int) -> int:
    client.create(f"{folder}/{number}").close()
    return 1


def stat(client: hdfs_native.Client, folder: str, _: int) -> int:
    client.get_file_info(folder)
    return 1


def mixed(client: hdfs_native.Client, folder: str, number: int) -> int:
    path = f"{folder}/{number}"
    client.create(path).close()
    client.get_file_info(path)
    client.rename(path, path + "-renamed", False)
    client.get_file_info(path + "-renamed")
    client.delete(path + "-renamed", False)
    return 5


def small(client: hdfs_native.Client, folder: str, number: int) -> int:
    options = hdfs_native.WriteOptions(replication=3)
    with client.create(f"{folder}/{number}", options) as file:
        file.write(_SMALL)
    return 1


@cache
def _large(client: hdfs_native.Client) -> tuple[hdfs_native.FileReader, int]:
    return client.read(LARGE), client.get_file_info(LARGE).length


def pread(client: hdfs_native.Client, _folder: str, _number: int) -> int:
    file, size = _large(client)
    got = file.read_range(random.randrange(size - _PREAD_BYTES), _PREAD_BYTES)
    assert len(got) == _PREAD_BYTES
    return 1


ACTS: dict[str, Act] = {
    "create": create,
    "stat": stat,
    "mixed": mixed,
    "small": small,
    "pread": pread,
}


def run(url: str, work: str, count: int, folder: str, ready: Barrier, done: Barrier) -> None:
    client = hdfs_native.Client(url)
    client.mkdirs(folder, 0o755, True)
    act = ACTS[work]
    for number in range(_WARM):
        act(client, folder, -1 - number)
    ready.wait(_READY_TIMEOUT_S)
    for number in range(count):
        act(client, folder, number)
    done.wait(_DONE_TIMEOUT_S)


def main() -> None:
    url, work, clients, count, folder = sys.argv[1:]
    context = multiprocessing.get_context("spawn")
    ready, done = (context.Barrier(int(clients) + 1) for _ in range(2))
    children = [
        context.Process(target=run, args=(url, work, int(count), f"{folder}/{index}", ready, done))
        for index in range(int(clients))
    ]
    for child in children:
        child.start()
    ready.wait(_READY_TIMEOUT_S)
    began_s = time.monotonic()
    done.wait(_DONE_TIMEOUT_S)
    seconds = time.monotonic() - began_s
    for child in children:
        child.join(_READY_TIMEOUT_S)
    assert all(child.exitcode == 0 for child in children), "a client failed"
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    calls = int(clients) * int(count) * (5 if work == "mixed" else 1)
    print(json.dumps({"calls": calls, "seconds": seconds, "cpu_s": used.ru_utime + used.ru_stime}))


if __name__ == "__main__":
    main()
