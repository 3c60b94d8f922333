"""Clients that change files without end, and what they saw: calls for `check_file_history`.

Owns: `NativeWorker`, hdfs-native in a process of its own (`file_worker.py`), and `JavaWorker`,
Hadoop's client in the resident JVM. Must not know: what happens to the servers, and what is right.

Hadoop's client repeats a call under its own ids until it is answered: it must never see a refusal
nor be left in doubt. hdfs-native 0.14 repeats a call whose connection is lost once, under new ids,
so that the NameNode can't know it again: whatever error a call ends with that a kill fell into, it
may have been done. Any other call has its answer's meaning: refused in safe mode is surely not
done, and no other refusal is right.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from tests.faults.file_worker import (
    BLOCK_BYTES,
    FOLDERS,
    REPLICATION,
    SHARED,
    a_size,
    content_of,
)
from tests.interop.hadoop_tools import HadoopTools

from headrace.testing.file_history import FileOp, Verb
from headrace.testing.history import Outcome

CONNECTION = "OSError"
SAFE_MODE = "SafeModeException"
SCRIPT = Path(__file__).with_name("file_worker.py")
STOP_TIMEOUT_S = 30.0
JAVA_CLIENT = {
    "dfs.client.retry.policy.enabled": "true",
    "dfs.client.retry.policy.spec": "100,300",
    "dfs.replication": str(REPLICATION),
}


@dataclass(frozen=True, slots=True)
class Kill:
    """The server was there before `began`, and surely no more after `ended`."""

    began: float
    ended: float


class NativeWorker:
    def __init__(self, url: str, name: str, seed: int, on_answer: Callable[[], None]) -> None:
        self.name = name
        self._told: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._on_answer = on_answer
        self._process = subprocess.Popen(
            [sys.executable, str(SCRIPT), url, name, str(seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        begun: dict[str, Any] | None = None
        for line in self._process.stdout:
            told = json.loads(line)
            if told["event"] == "begin":
                begun = told
                continue
            assert begun is not None
            self._told.append((begun, told))
            begun = None
            if "error" not in told:
                self._on_answer()
        if begun is not None:
            lost = {"error": "let go", "is_open": True, "at": time.monotonic()}
            self._told.append((begun, lost))

    def ops(self, kills: list[Kill]) -> list[FileOp]:
        return [self._op(begun, ended, kills) for begun, ended in self._told]

    def _op(self, begun: dict[str, Any], ended: dict[str, Any], kills: list[Kill]) -> FileOp:
        content = None
        if "tag" in begun:
            content = content_of(begun["tag"], begun["size"])
        elif ended.get("content") is not None:
            content = ended["content"].encode("latin-1")
        return FileOp(
            self.name,
            Verb(begun["verb"]),
            begun["path"],
            content,
            begun.get("target", ""),
            _outcome(begun, ended, kills),
            begun["at"],
            ended["at"],
        )

    def begin_stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def stop(self) -> str | None:
        """What went wrong, if something did. One that stands still is let go."""
        process = self._process
        assert process.stderr is not None
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._thread.join()
        said = process.stderr.read().decode()
        process.stderr.close()
        assert process.stdout is not None
        process.stdout.close()
        return None if process.returncode == 0 else f"{self.name}: {process.returncode} {said}"


def _outcome(begun: dict[str, Any], ended: dict[str, Any], kills: list[Kill]) -> Outcome:
    is_struck = any(begun["at"] < kill.ended and ended["at"] > kill.began for kill in kills)
    error = ended.get("error")
    if error is None:
        is_missed = ended.get("is_found") is False and begun["path"] not in SHARED
        assert is_struck or not is_missed, f"{begun}: it was gone already"
        return Outcome.OK
    if is_struck or begun["verb"] == "read" or ended["is_open"] or CONNECTION in error:
        return Outcome.INFO
    assert SAFE_MODE in error, f"{begun}: {error}"
    return Outcome.FAIL


class JavaWorker:
    def __init__(
        self, hadoop: HadoopTools, url: str, seed: int, on_answer: Callable[[], None]
    ) -> None:
        self.name = "java"
        self.ops: list[FileOp] = []
        self._hadoop = hadoop
        self._random = Random(seed)
        self._on_answer = on_answer
        self._files: dict[str, int] = {}
        self._count = 0
        self._failure: BaseException | None = None
        self._stopped = threading.Event()
        settings = " ".join(f"{key}={value}" for key, value in JAVA_CLIENT.items())
        self._calls(f"client java {url} {settings}")
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                self._step()
        except BaseException as error:
            self._failure = error

    def begin_stop(self) -> None:
        self._stopped.set()

    def stop(self) -> str | None:
        self._thread.join()
        return None if self._failure is None else f"java: {self._failure!r}"

    def read(self, paths: list[str]) -> list[str]:
        """Of each file its length and CRC-32."""
        return self._calls(*(f"read java {path}" for path in paths))

    def _step(self) -> None:
        choice = self._random.random()
        if choice < 0.4 or not self._files:
            self._send(Verb.WRITE, self._new_path())
        elif choice < 0.6:
            self._send(Verb.APPEND, self._random.choice(sorted(self._files)))
        elif choice < 0.7:
            self._rename(self._new_path())
        elif choice < 0.9:
            self._rename(self._random.choice([*SHARED, *sorted(self._files)]))
        else:
            self._delete(self._random.choice(sorted(self._files)))

    def _new_path(self) -> str:
        self._count += 1
        return f"{self._random.choice(FOLDERS)}/java-{self._count}"

    def _send(self, verb: Verb, path: str) -> None:
        self._count += 1
        size = a_size(self._random)
        if verb is Verb.WRITE:
            flags = f"CREATE,OVERWRITE {REPLICATION} {BLOCK_BYTES} - -"
            opened = f"create w java {path} {flags}"
        else:
            opened = f"append w java {path} APPEND"
        seed = self._count
        lines = [opened, f"write w {size} {seed} {size or 1}", "close w"]
        self._done(verb, lines, path, java_bytes(seed, size))
        self._files.setdefault(path, 0)

    def _rename(self, target: str) -> None:
        path = self._random.choice(sorted(self._files.keys() - {target}) or [""])
        if path:
            self._done(Verb.RENAME, [f"replace java {path} {target}"], path, target=target)
            del self._files[path]
            if target not in SHARED:
                self._files[target] = 0

    def _delete(self, path: str) -> None:
        (told,) = self._done(Verb.DELETE, [f"delete java {path} -"], path)
        assert told == "true", f"{path} was gone already"
        del self._files[path]

    def _done(
        self,
        verb: Verb,
        lines: list[str],
        path: str,
        content: bytes | None = None,
        *,
        target: str = "",
    ) -> list[str]:
        started = time.monotonic()
        told = self._calls(*lines)
        ended = time.monotonic()
        self.ops.append(FileOp(self.name, verb, path, content, target, Outcome.OK, started, ended))
        self._on_answer()
        return told

    def _calls(self, *lines: str) -> list[str]:
        """Answers; none of them a refusal."""
        result = self._hadoop.run("file-calls", stdin="\n".join(lines), timeout_s=120)
        assert result.status == 0, result
        told = result.stdout.splitlines()
        refused = [
            f"{line}: {answer}"
            for line, answer in zip(lines, told, strict=True)
            if answer.startswith("!")
        ]
        assert not refused, refused
        return told


def java_bytes(seed: int, size: int) -> bytes:
    """What `new Random(seed).nextBytes` of that many bytes gives."""
    state = (seed ^ 0x5DEECE66D) & (1 << 48) - 1
    words = bytearray()
    for _ in range((size + 3) // 4):
        state = (state * 0x5DEECE66D + 0xB) & (1 << 48) - 1
        words += (state >> 16).to_bytes(4, "little")
    return bytes(words[:size])
