"""The two servers under comparison as child processes: Apache Kafka 4.3.0 and ours.

Owns: how each is formatted, started, found and stopped, and what it has used (CPU, memory) as
the kernel counts it. Must not know: any work that is measured.

Kafka's jars are those of the interop tests. Its JVM is not: a control answers questions with
little memory and one compiler, a peer in a race gets what Kafka's own start script gives it.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / ".build" / "bench"
CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0

# What kafka-server-start.sh gives a broker, with a heap of 1 GiB.
JVM_FLAGS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)


class Server(Protocol):
    """What a work needs to know of the process it is sent to."""

    name: str
    data: Path

    @property
    def pid(self) -> int: ...
    @property
    def address(self) -> tuple[str, int]: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...


def cpu_seconds(pid: int) -> float:
    """User and system time of the process so far, all its threads, ended ones too."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def rss_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def kafka_jars() -> Path:
    """The folder of Kafka's jars; brought by Maven the first time."""
    from tests.interop import java_tools

    return java_tools.prepare()


def await_port(address: tuple[str, int], process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise SystemExit(f"server ended with {process.returncode}: {log.read_text()[-2000:]}")
        with contextlib.suppress(OSError), socket.create_connection(address, timeout=1):
            return
        time.sleep(0.02)
    raise SystemExit(f"server did not listen within {START_TIMEOUT_S:.0f} s, see {log}")


class _Process:
    """A child process with its log file; stopped by SIGTERM, killed when it does not listen."""

    name = ""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.process: subprocess.Popen[bytes] | None = None
        self.address = ("127.0.0.1", 0)

    @property
    def pid(self) -> int:
        assert self.process is not None, "not started"
        return self.process.pid

    def spawn(self, command: list[str], environment: Mapping[str, str] | None = None) -> Path:
        log = self.data.parent / f"{self.data.name}.out"
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=environment
            )
        return log

    def stop(self) -> None:
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def clear(self) -> None:
        shutil.rmtree(self.data, ignore_errors=True)


class KafkaServer(_Process):
    """Apache Kafka 4.3.0, one KRaft node that is broker and controller."""

    name = "kafka"

    def __init__(
        self, data: Path, settings: Mapping[str, str] | None = None, heap: str = "1g"
    ) -> None:
        super().__init__(data)
        self.settings = dict(settings or {})
        self.heap = heap

    def start(self) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        port, controller_port = free_port(), free_port()
        self.address = ("127.0.0.1", port)
        properties = self._write_properties(port, controller_port)
        java = ["java", "-cp", f"{kafka_jars()}/*"]
        if not (self.data / "log" / "meta.properties").exists():
            command = [*java, "kafka.tools.StorageTool", "format"]
            subprocess.run(
                [*command, "-t", CLUSTER_ID, "-c", str(properties)],
                check=True,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        flags = [f"-Xms{self.heap}", f"-Xmx{self.heap}", *JVM_FLAGS]
        log = self.spawn([java[0], *flags, *java[1:], "kafka.Kafka", str(properties)])
        assert self.process is not None
        await_port(self.address, self.process, log)

    def _write_properties(self, port: int, controller_port: int) -> Path:
        values = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.data / "log"),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **self.settings,
        }
        path = self.data / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        return path


class HeadraceServer(_Process):
    """Our broker, as its command starts it."""

    name = "headrace"

    def __init__(self, data: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(data)
        self.settings = dict(settings or {})

    def start(self) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        facts = self.data / "broker.json"
        facts.unlink(missing_ok=True)
        command = [sys.executable, "-m", "headrace", "broker", "--data", str(self.data)]
        command += ["--listen", "127.0.0.1:0"]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        log = self.spawn(command)
        assert self.process is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        while not facts.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"our broker did not start: {log.read_text()[-2000:]}")
            time.sleep(0.005)
        host, _, port = json.loads(facts.read_text())["listen"].rpartition(":")
        self.address = (host, int(port))
