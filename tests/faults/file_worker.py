"""A client of its own process that changes files without end: `file_worker.py URL NAME SEED`.

Writes down each call twice, as JSON lines on its standard output: when it begins, and how it ended,
by an answer or an error. Ends when its standard input does. Imports nothing of ours: hdfs-native is
the client. A path whose fate it can't know is left alone from then on.
"""

import json
import sys
import threading
import time
from collections.abc import Callable
from random import Random

import hdfs_native
from hdfs_native import WriteOptions

BLOCK_BYTES = 1 << 20
SHARED = [f"/shared/{name}" for name in ("a", "b", "c")]
FOLDERS = ["/d0", "/d1"]
REPLICATION = 2
TRY_AGAIN_S = 0.1


def content_of(tag: str, size: int) -> bytes:
    """Unique by `tag`, from its first bytes on."""
    line = f"{tag}\n".encode()
    return (line * (size // len(line) + 1))[:size]


def a_size(random: Random) -> int:
    if random.random() < 0.15:
        return random.randrange(BLOCK_BYTES - 1, 2 * BLOCK_BYTES + BLOCK_BYTES // 2)
    return random.choice((0, 1, 511, 512, 513, random.randrange(20_000), random.randrange(20_000)))


class Worker:
    def __init__(self, url: str, name: str, seed: int) -> None:
        self.client = hdfs_native.Client(url)
        self.name = name
        self.random = Random(seed)
        self.files: list[str] = []
        self.count = 0

    def step(self) -> None:
        choice = self.random.random()
        if choice < 0.35 or not self.files:
            self.write(self.new_path())
        elif choice < 0.5:
            self.append(self.random.choice(self.files))
        elif choice < 0.6:
            self.rename(self.random.choice(self.files), self.new_path())
        elif choice < 0.65 and len(self.files) > 1:
            self.rename(*self.random.sample(self.files, 2))
        elif choice < 0.8:
            self.rename(self.random.choice(self.files), self.random.choice(SHARED))
        elif choice < 0.85:
            self.delete(self.random.choice(SHARED))
        elif choice < 0.92:
            self.read(self.random.choice([*SHARED, *self.files]))
        else:
            self.delete(self.random.choice(self.files))

    def new_path(self) -> str:
        self.count += 1
        return f"{self.random.choice(FOLDERS)}/{self.name}-{self.count}"

    def tag(self) -> str:
        self.count += 1
        return f"{self.name}.{self.count}"

    # -- the calls ---------------------------------------------------------------------------

    def write(self, path: str) -> None:
        tag, size = self.tag(), a_size(self.random)
        options = WriteOptions(
            block_size=BLOCK_BYTES, replication=REPLICATION, create_parent=False, overwrite=True
        )
        self.send("write", path, tag, size, lambda: self.client.create(path, options))

    def append(self, path: str) -> None:
        tag, size = self.tag(), a_size(self.random)
        self.send("append", path, tag, size, lambda: self.client.append(path))

    def send(
        self, verb: str, path: str, tag: str, size: int, begin: Callable[[], hdfs_native.FileWriter]
    ) -> None:
        tell(event="begin", verb=verb, path=path, tag=tag, size=size)
        is_open = False
        try:
            file = begin()
            is_open = True
            file.write(content_of(tag, size))
            file.close()
        except Exception as error:
            self.on_error(error, path, is_open=is_open)
            return
        tell(event="end")
        if verb == "write":
            self.files.append(path)

    def rename(self, path: str, target: str) -> None:
        tell(event="begin", verb="rename", path=path, target=target)
        try:
            self.client.rename(path, target, True)
        except Exception as error:
            self.on_error(error, path, target)
            return
        tell(event="end")
        self.forget(path)
        if target not in SHARED and target not in self.files:
            self.files.append(target)

    def delete(self, path: str) -> None:
        tell(event="begin", verb="delete", path=path)
        try:
            is_found = self.client.delete(path, False)
        except Exception as error:
            self.on_error(error, path)
            return
        tell(event="end", is_found=is_found)
        self.forget(path)

    def read(self, path: str) -> None:
        tell(event="begin", verb="read", path=path)
        try:
            with self.client.read(path) as file:
                data = bytes(file.read())
        except FileNotFoundError:
            tell(event="end", content=None)
        except Exception as error:
            self.on_error(error)
        else:
            tell(event="end", content=data.decode("latin-1"))

    def on_error(self, error: Exception, *paths: str, is_open: bool = False) -> None:
        """`is_open`: the first call of several was answered."""
        tell(event="end", error=f"{type(error).__name__}: {error}", is_open=is_open)
        self.forget(*paths)
        time.sleep(TRY_AGAIN_S)  # as clients do, so that not all of a restart is refusals

    def forget(self, *paths: str) -> None:
        self.files = [path for path in self.files if path not in paths]


def tell(**what: object) -> None:
    print(json.dumps({**what, "at": time.monotonic()}), flush=True)


def main() -> None:
    url, name, seed = sys.argv[1:]
    worker = Worker(url, name, int(seed))
    stopped = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        stopped.set()

    threading.Thread(target=listen, daemon=True).start()
    while not stopped.is_set():
        worker.step()


if __name__ == "__main__":
    main()
