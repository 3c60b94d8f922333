"""One file system and its three clients: Hadoop's by HDFS and by WebHDFS, and hdfs-native.

Owns: the conversation with `FileCalls.java`, and what hdfs-native is asked in its place. Must not
know: which file system it is.
"""

import random
import zlib
from collections.abc import Iterable

import hdfs_native
from tests.interop.hadoop_tools import HadoopTools
from tests.interop.hdfs.conftest import FileSystem
from tests.interop.hdfs.file_calls import client_lines

ASK_TIMEOUT_S = 600.0


def is_native(line: str) -> bool:
    """Hadoop's clients have other names."""
    words = line.split(" ")
    return any(word.endswith(".native") for word in words[1:3])


class Side:
    """A running file system, and who calls it."""

    def __init__(self, dfs: FileSystem) -> None:
        self._dfs = dfs
        self._tools = HadoopTools()
        self._native = hdfs_native.Client(dfs.url)
        self._writers: dict[str, hdfs_native.FileWriter] = {}

    def close(self) -> None:
        self._tools.close()

    def run(self, seed: int, lines: Iterable[str]) -> list[str]:
        """An answer a line."""
        prefix = f"s{seed}."
        self._ask(client_lines(prefix, self._dfs.url, self._dfs.http_address))
        answers: list[str] = []
        waiting: list[str] = []
        for line in lines:
            if not self._is_native(line):
                waiting.append(line)
                continue
            answers += self._ask(waiting)
            waiting = []
            answers.append(self._call(line))
        answers += self._ask(waiting)
        self._ask([f"drop {prefix}"])
        self._writers.clear()
        return answers

    def _is_native(self, line: str) -> bool:
        return is_native(line) or line.split(" ")[1] in self._writers

    def _ask(self, lines: list[str]) -> list[str]:
        if not lines:
            return []
        told = self._tools.run("file-calls", stdin="\n".join(lines), timeout_s=ASK_TIMEOUT_S)
        answers = told.check().stdout.splitlines()
        assert len(answers) == len(lines), told
        return answers

    def _call(self, line: str) -> str:
        try:
            return self._make(line.split(" "))
        except Exception as error:  # whatever it is, it is the answer
            return f"! {type(error).__name__}\t{str(error).splitlines()[0]}"

    def _make(self, words: list[str]) -> str:
        match words:
            case ["create", writer, _, path, flags, replication, block_size, *_]:
                options = hdfs_native.WriteOptions(
                    block_size=int(block_size),
                    replication=int(replication),
                    overwrite="OVERWRITE" in flags,
                )
                self._writers[writer] = self._native.create(path, options)
            case ["append", writer, _, path, _]:
                self._writers[writer] = self._native.append(path)
            case ["write", writer, size, seed, _]:
                self._writers[writer].write(random.Random(int(seed)).randbytes(int(size)))
            case ["close", writer]:
                self._writers[writer].close()
            case ["read", _, path]:
                with self._native.read(path) as file:
                    return _digest(file.read(-1))
            case ["pread", _, path, position, size]:
                with self._native.read(path) as file:
                    return _digest(_read_at(file, int(position), int(size)))
            case ["seek", _, path, *places]:
                with self._native.read(path) as file:
                    return " ".join(_digest(_read_at(file, int(at), 3000)) for at in places)
            case _:
                raise AssertionError(f"hdfs-native was asked for {words}")
        return "done"


def _read_at(file: hdfs_native.FileReader, position: int, size: int) -> bytes:
    # Beyond the end it panics.
    file.seek(min(position, len(file)))
    return file.read(size)


def _digest(data: bytes) -> str:
    return f"{len(data)}:{zlib.crc32(data):x}"
