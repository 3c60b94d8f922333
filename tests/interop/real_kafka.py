"""The real Apache Kafka 4.3.0 as one process: the control of our tests.

A test that our broker passes and Kafka fails is a wrong test. Kafka also writes the partition
folders that our broker must be able to open.

Owns: the formatted data directory, the JVM, its ports. Has the same face as
`headrace.testing.cluster.LocalBroker`, so that a test need not know which one it talks to.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from tests.interop import java_tools

CLUSTER_ID = "aGVhZHJhY2UtY29udHJvbA"
START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 60.0

DEFAULTS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    # After a kill the new incarnation is not taken before the old one's session ends.
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "300",
}


class RealKafka:
    """One KRaft node, broker and controller in one, on 127.0.0.1."""

    def __init__(
        self,
        data: str | os.PathLike[str] | None = None,
        *,
        settings: Mapping[str, str] | None = None,
        heap_mb: int = 512,
    ) -> None:
        java_tools.prepare()
        self._temporary = tempfile.mkdtemp(prefix="headrace-kafka-") if data is None else None
        self.data = Path(data if data is not None else os.path.join(str(self._temporary), "data"))
        self.log_path = self.data.with_name(self.data.name + ".log")
        self.settings = dict(settings or {})
        self._heap_mb = heap_mb
        self._port, self._controller_port = _free_ports(2)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self._port

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> "RealKafka":
        properties = self._write_properties()
        if not (self.data / "meta.properties").exists():
            self._run("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties))
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._java(), "kafka.Kafka", str(properties)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.data.parent,
                start_new_session=True,
            )
        self._await_port()
        return self

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def restart(self) -> "RealKafka":
        self.stop()
        return self.start()

    def __enter__(self) -> "RealKafka":
        try:
            return self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.stop()
        finally:
            self.kill()
            if self._temporary is not None:
                shutil.rmtree(self._temporary, ignore_errors=True)

    def _java(self) -> list[str]:
        return [
            "java",
            f"-Xmx{self._heap_mb}m",
            "-XX:+UseSerialGC",
            # A control is asked for answers, not for speed: no time goes into the last compiler.
            "-XX:TieredStopAtLevel=1",
            "-cp",
            java_tools.class_path(),
        ]

    def _run(self, *words: str) -> None:
        done = subprocess.run(
            [*self._java(), *words], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _write_properties(self) -> Path:
        self.data.mkdir(parents=True, exist_ok=True)
        properties = {
            **DEFAULTS,
            "log.dirs": str(self.data),
            "listeners": f"PLAINTEXT://127.0.0.1:{self._port},"
            f"CONTROLLER://127.0.0.1:{self._controller_port}",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            **self.settings,
        }
        path = self.data.with_name(self.data.name + ".properties")
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        return path

    def _await_port(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if not self.is_alive:
                break
            with contextlib.suppress(OSError), socket.create_connection(self.address, timeout=1):
                return
            time.sleep(0.05)
        tail = self.log_path.read_text(errors="replace").splitlines()[-30:]
        raise AssertionError("\n".join(["Kafka did not start:", *tail]))


def _free_ports(count: int) -> list[int]:
    """Ports nobody holds now; held together until all are known, so that they differ."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
