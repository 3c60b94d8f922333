"""Apache Kafka's jars and its command-line tools, run in one resident JVM.

Owns: `.build/java` (jars copied by Maven at first use, compiled `ToolServer`), the JVM process
and its pipe. Must not know: brokers. The framing of the pipe is drawn in `ToolServer.java`.

Invariants: preparing is idempotent and safe for several processes at once (a file lock);
a tool that passes its time limit costs the JVM its life, the next call starts a new one.
"""

import contextlib
import fcntl
import os
import select
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path(__file__).resolve().parent / "java"
BUILD = ROOT / ".build" / "java"
LIBRARY = BUILD / "lib"
CLASSES = BUILD / "classes"

MAVEN_TIMEOUT_S = 600
TOOL_TIMEOUT_S = 60.0

TOOLS = {
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-share-consumer-perf-test": "org.apache.kafka.tools.ShareConsumerPerformance",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "kafka-verifiable-share-consumer": "org.apache.kafka.tools.VerifiableShareConsumer",
}


class JavaMissingError(Exception):
    """No Java, or no way to get Kafka's jars: the tests that need them do not run."""


class ToolTimeoutError(AssertionError):
    """A tool did not end within its time limit."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    status: int
    stdout: str
    stderr: str

    def check(self) -> "ToolResult":
        assert self.status == 0, f"exit {self.status}\n{self.stdout}\n{self.stderr}"
        return self


def prepare() -> Path:
    """The folder with Kafka's jars; copied by Maven once, reused afterwards."""
    for program in ("java", "javac", "mvn"):
        if shutil.which(program) is None:
            raise JavaMissingError(f"{program} is not installed")
    BUILD.mkdir(parents=True, exist_ok=True)
    with _locked(BUILD / "lock"):
        if not _is_newer(LIBRARY, SOURCES / "pom.xml"):
            _copy_jars()
        if not all(
            _is_newer(CLASSES / f"{source.stem}.class", source) for source in SOURCES.glob("*.java")
        ):
            _compile()
    return LIBRARY


def class_path() -> str:
    return f"{LIBRARY}/*:{CLASSES}"


def _copy_jars() -> None:
    # Copied aside and renamed: an interrupted copy never looks like a whole library.
    fresh = BUILD / "lib.fresh"
    shutil.rmtree(fresh, ignore_errors=True)
    command = ["mvn", "-q", "-B", "-f", str(SOURCES / "pom.xml")]
    command += ["dependency:copy-dependencies", f"-DoutputDirectory={fresh}"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=MAVEN_TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        raise JavaMissingError(f"Maven could not bring Kafka's jars:\n{done.stdout}{done.stderr}")
    shutil.rmtree(LIBRARY, ignore_errors=True)
    fresh.rename(LIBRARY)
    os.utime(LIBRARY)


def _compile() -> None:
    CLASSES.mkdir(exist_ok=True)
    command = ["javac", "-cp", f"{LIBRARY}/*", "-d", str(CLASSES)]
    sources = sorted(map(str, SOURCES.glob("*.java")))
    subprocess.run([*command, *sources], check=True, timeout=120)


def _is_newer(built: Path, source: Path) -> bool:
    return built.exists() and built.stat().st_mtime >= source.stat().st_mtime


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class JavaTools:
    """Runs Kafka's tools by the names of their scripts, one at a time."""

    def __init__(self) -> None:
        prepare()
        self._process: subprocess.Popen[bytes] | None = None

    def run(
        self,
        tool: str,
        *arguments: str,
        stdin: str | bytes = b"",
        timeout_s: float = TOOL_TIMEOUT_S,
    ) -> ToolResult:
        words = [TOOLS.get(tool, tool), *arguments]
        text = stdin.encode() if isinstance(stdin, str) else stdin
        process = self._process or self._start()
        assert process.stdin is not None
        process.stdin.write(_request(words, text))
        process.stdin.flush()
        deadline = time.monotonic() + timeout_s
        try:
            (status,) = struct.unpack(">i", self._read(process, 4, deadline))
            stdout = self._read_sized(process, deadline)
            stderr = self._read_sized(process, deadline)
        except (ToolTimeoutError, EOFError) as error:
            self.close()
            raise ToolTimeoutError(f"{tool} {' '.join(arguments)}: {error}") from None
        return ToolResult(status, stdout, stderr)

    def run_alone(
        self, tool: str, *arguments: str, timeout_s: float = TOOL_TIMEOUT_S
    ) -> ToolResult:
        """In a JVM of its own: for tools that tell their result from a shutdown hook."""
        try:
            done = subprocess.run(
                [*java_command(), TOOLS.get(tool, tool), *arguments],
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            raise ToolTimeoutError(f"{tool}: did not end in time\n{late.stdout!r}") from None
        return ToolResult(done.returncode, done.stdout, done.stderr)

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def _start(self) -> subprocess.Popen[bytes]:
        self._process = subprocess.Popen(
            [*java_command(), "ToolServer"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=BUILD,
            start_new_session=True,
        )
        return self._process

    def _read_sized(self, process: subprocess.Popen[bytes], deadline: float) -> str:
        (size,) = struct.unpack(">i", self._read(process, 4, deadline))
        return self._read(process, size, deadline).decode(errors="replace")

    def _read(self, process: subprocess.Popen[bytes], size: int, deadline: float) -> bytes:
        assert process.stdout is not None
        parts = bytearray()
        while len(parts) < size:
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not select.select([process.stdout], [], [], left_s)[0]:
                raise ToolTimeoutError("did not end in time")
            part = os.read(process.stdout.fileno(), size - len(parts))
            if not part:
                raise EOFError("the JVM ended")
            parts += part
        return bytes(parts)


def java_command() -> list[str]:
    # Short lives: the last compiler would cost more than it brings.
    flags = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    return ["java", *flags, "-cp", class_path()]


def _request(words: list[str], stdin: bytes) -> bytes:
    request = bytearray(struct.pack(">i", len(words)))
    for part in [*(word.encode() for word in words), stdin]:
        request += struct.pack(">i", len(part)) + part
    return bytes(request)
