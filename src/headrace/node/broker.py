"""A node with the roles broker and controller: wiring, start and stop.

Owns: the order in which things come up and go down, the periodic upkeep, the signals.
Must not know: what a request does.

Up:   configuration → log directories → metadata log → partitions → groups → listeners → told
Down: no new connections → waiting requests answered → connections closed → logs flushed and
      checkpointed → clean-shutdown marker. Exit 0 within five seconds.

A failure in `replay`, or of the metadata log's disk, stops the node at once with status 1: what
it would answer from then on could be wrong.
"""

import asyncio
import contextlib
import gc
import ipaddress
import json
import os
import random
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import uvloop

from headrace.base.broker_config import BrokerConfig
from headrace.base.config_sources import read_config_text
from headrace.base.errors import HeadraceError, StorageError, UsageError
from headrace.base.events import EventLog
from headrace.base.limits import OPEN_SEGMENT_FILES_MAX, SHUTDOWN_TIMEOUT_MS
from headrace.base.network import Transport
from headrace.base.promise import Promise
from headrace.broker.broker import Broker
from headrace.broker.session import KafkaSession
from headrace.log.file_budget import FileBudget
from headrace.node.assembly import AssembledBroker, Seams, assemble, open_directories
from headrace.node.metrics import MetricsPage
from headrace.runtime.buffers import BufferPool
from headrace.runtime.clock import LoopTimers, SystemClock
from headrace.runtime.disk import DiskStorage
from headrace.runtime.http import SidePort
from headrace.runtime.tcp import TcpLimits, TcpServer

_UPKEEP_INTERVAL_MS = 1000
_STALL_PROBE_MS = 100
_STALL_MS = 100
_DRAIN_STEP_S = 0.02
_DRAIN_STEPS_MAX = int(SHUTDOWN_TIMEOUT_MS / 1000 / 2 / _DRAIN_STEP_S)


def run(
    *,
    data: str,
    listen: str | None = None,
    config_file: str | None = None,
    settings: dict[str, str] | None = None,
    insecure: bool = False,
    node_id: int | None = None,
    metrics_listen: str | None = None,
) -> int:
    """Run a broker until SIGTERM or SIGINT; the process's exit status."""
    config = load_config(data, listen, config_file, settings or {}, node_id, metrics_listen)
    refuse_exposed_listeners(config, insecure)
    return asyncio.Runner(loop_factory=uvloop.new_event_loop).run(_main(config, data))


def load_config(
    data: str,
    listen: str | None,
    config_file: str | None,
    settings: dict[str, str],
    node_id: int | None,
    metrics_listen: str | None,
) -> BrokerConfig:
    """Flags over environment over file over defaults."""
    from_file = None
    if config_file is not None:
        try:
            from_file = read_config_text(Path(config_file).read_text(), config_file)
        except OSError as error:
            raise UsageError(f"can't read {config_file}: {error.strerror}") from error
    flags = dict(settings)
    if listen is not None:
        flags["listeners"] = f"PLAINTEXT://{listen}"
    if node_id is not None:
        flags["node.id"] = str(node_id)
    if metrics_listen is not None:
        flags["headrace.metrics.listener"] = metrics_listen
    config = BrokerConfig.of(flags, environment=os.environ, file=from_file)
    if config.log_dirs:
        return config
    flags["log.dirs"] = os.path.join(data, "log")
    return BrokerConfig.of(flags, environment=os.environ, file=from_file)


def refuse_exposed_listeners(config: BrokerConfig, insecure: bool) -> None:
    """Without authentication only loopback is served, unless somebody insists."""
    for name, host, port in config.listeners:
        if not _is_loopback(host) and not insecure:
            raise UsageError(
                f"listener {name}://{host}:{port} is open to the network and nothing "
                "authenticates clients yet; listen on 127.0.0.1, or say --insecure"
            )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # a name: nobody knows what it will mean tomorrow


async def _main(config: BrokerConfig, data: str) -> int:
    node = BrokerNode(config, data)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, node.request_stop)
    try:
        await node.start()
    except HeadraceError as error:
        node.log.error("start_failed", error=str(error))
        node.abandon()
        return 1
    return await node.run()


class BrokerNode:
    def __init__(self, config: BrokerConfig, data: str) -> None:
        self._config = config
        self._data = data
        self._loop = asyncio.get_running_loop()
        self._clock = SystemClock()
        self._timers = LoopTimers(self._loop)
        self.log = EventLog(_write_line, self._clock, config["headrace.log.level"])
        self._storage = DiskStorage(self._loop)
        self._pool = BufferPool()
        self._servers: list[TcpServer] = []
        self._side_port: SidePort | None = None
        self._node: AssembledBroker | None = None
        self._broker: Broker | None = None
        self._stop = asyncio.Event()
        self._fatal: BaseException | None = None
        self._probed_ms = 0

    # -- up ----------------------------------------------------------------------------

    async def start(self) -> None:
        config, log = self._config, self.log
        started_ms = self._clock.monotonic_ms()
        self._storage.make_directory(self._data)
        with contextlib.suppress(FileNotFoundError):
            os.remove(self._announcement_path)
        for name in config.without_effect():
            log.warning("setting_without_effect", key=name)
        seams = Seams(
            self._storage,
            self._clock,
            self._timers,
            random.Random(os.urandom(16)),
            log,
            self._on_fatal,
        )
        files = FileBudget(self._storage, _open_files_max())
        cluster_id, directories = open_directories(config, seams, files)
        advertised = self._listen()
        node = assemble(config, seams, files, cluster_id, directories, advertised)
        self._node = node
        broker = self._broker = node.broker
        await self._settled(node.register(seams, advertised))
        for server in self._servers:
            server.start()
        metrics_address = await self._open_side_port(broker)
        self._schedule_upkeep(broker)
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 100)
        self._announce(advertised, metrics_address)
        log.info(
            "started",
            node_id=broker.node_id,
            cluster_id=cluster_id,
            listen=",".join(map(_text, advertised.values())),
            metrics=_text(metrics_address),
            partitions=sum(1 for _ in broker.partitions.all()),
            took_ms=self._clock.monotonic_ms() - started_ms,
        )

    def _listen(self) -> dict[str, tuple[str, int]]:
        """Bind every listener (nobody is accepted yet); what clients are told to connect to."""
        config = self._config
        limits = TcpLimits(
            frame_bytes_max=config.socket_request_max_bytes,
            connections_max=int(config["max.connections"]),
            idle_timeout_ms=int(config["connections.max.idle.ms"]),
            send_buffer_bytes=int(config["socket.send.buffer.bytes"]),
            receive_buffer_bytes=int(config["socket.receive.buffer.bytes"]),
        )
        told = {name: (host, port) for name, host, port in config.advertised_listeners}
        advertised: dict[str, tuple[str, int]] = {}
        for name, host, port in config.listeners:
            server = TcpServer(
                self._loop, self._session_factory(name), limits, self.log, self._pool
            )
            try:
                bound_host, bound_port = server.listen(host or "0.0.0.0", port)
            except OSError as error:
                raise UsageError(f"can't listen on {host}:{port}: {error.strerror}") from error
            self._servers.append(server)
            told_host, told_port = told.get(name, (host, port))
            advertised[name] = (told_host or bound_host, told_port or bound_port)
        return advertised

    def _session_factory(self, listener_name: str) -> Callable[[Transport], KafkaSession]:
        def session(transport: Transport) -> KafkaSession:
            assert self._broker is not None
            return KafkaSession(self._broker, transport, listener_name)

        return session

    async def _settled(self, promise: Promise[int]) -> int:
        future: asyncio.Future[int] = self._loop.create_future()

        def on_settled(settled: Promise[int]) -> None:
            if settled.error is None:
                future.set_result(settled.value())
            else:
                future.set_exception(settled.error)

        promise.then(on_settled)
        return await future

    async def _open_side_port(self, broker: Broker) -> tuple[str, int]:
        page = MetricsPage(broker, self._servers, self._pool)
        self._side_port = SidePort({"/metrics": page.metrics, "/health": page.health})
        listener: str | None = self._config["headrace.metrics.listener"]
        host, _, port = (listener or "127.0.0.1:0").rpartition(":")
        try:
            return await self._side_port.listen(host, int(port))
        except OSError as error:
            raise UsageError(f"can't listen on {host}:{port}: {error.strerror}") from error

    @property
    def _announcement_path(self) -> str:
        return os.path.join(self._data, "broker.json")

    def _announce(
        self, advertised: dict[str, tuple[str, int]], metrics_address: tuple[str, int]
    ) -> None:
        """`broker.json`: where this process is, for those who started it."""
        told = {
            "pid": os.getpid(),
            "listen": _text(next(iter(advertised.values()))),
            "metrics": _text(metrics_address),
        }
        path = self._announcement_path
        self._storage.replace_file(path, json.dumps(told).encode() + b"\n", sync=False)

    # -- upkeep ------------------------------------------------------------------------

    def _schedule_upkeep(self, broker: Broker) -> None:
        config, partitions = self._config, broker.partitions
        self._every(_UPKEEP_INTERVAL_MS, partitions.flush_due)
        self._every(_UPKEEP_INTERVAL_MS, partitions.sweep)
        self._every(int(config["log.retention.check.interval.ms"]), partitions.retain)
        checkpoint_ms = int(config["replica.high.watermark.checkpoint.interval.ms"])
        self._every(checkpoint_ms, partitions.checkpoint)
        self._probed_ms = self._clock.monotonic_ms()
        self._every(_STALL_PROBE_MS, self._probe_stall)

    def _every(self, interval_ms: float, action: Callable[[], None]) -> None:
        def turn() -> None:
            if self._stop.is_set():
                return
            try:
                action()
            except Exception as error:  # a bug: upkeep must not end silently
                self.log.error("upkeep_failed", error=repr(error))
                self._on_fatal(error)
                return
            self._timers.call_later(interval_ms, turn)

        self._timers.call_later(interval_ms, turn)

    def _probe_stall(self) -> None:
        assert self._broker is not None
        now_ms = self._clock.monotonic_ms()
        late_ms = now_ms - self._probed_ms - _STALL_PROBE_MS
        self._probed_ms = now_ms
        metrics = self._broker.metrics
        if late_ms > _STALL_MS:
            metrics.loop_stalls += 1
            metrics.loop_stall_ms_max = max(metrics.loop_stall_ms_max, late_ms)

    # -- down --------------------------------------------------------------------------

    def request_stop(self) -> None:
        self._stop.set()

    def _on_fatal(self, error: BaseException) -> None:
        self._fatal = error
        self.log.error("fatal", error=repr(error))
        self._stop.set()

    async def run(self) -> int:
        """Serve until asked to stop; the exit status."""
        await self._stop.wait()
        if self._fatal is not None:
            self.abandon()
            return 1
        return await self._shut_down()

    async def _shut_down(self) -> int:
        assert self._broker is not None
        started_ms = self._clock.monotonic_ms()
        with contextlib.suppress(FileNotFoundError):
            os.remove(self._announcement_path)
        for server in self._servers:
            server.stop_accepting()
        self._broker.prepare_stop()
        for _ in range(_DRAIN_STEPS_MAX):
            if not any(server.busy for server in self._servers):
                break
            await asyncio.sleep(_DRAIN_STEP_S)
        for server in self._servers:
            server.close()
        if self._side_port is not None:
            self._side_port.close()
        status = self._close_logs()
        self.log.info("stopped", status=status, took_ms=self._clock.monotonic_ms() - started_ms)
        return status

    def _close_logs(self) -> int:
        assert self._node is not None
        try:
            if not self._node.close():
                self.log.warning("not_marked_clean", next_start="recovers")
        except StorageError as error:
            self.log.error("close_failed", path=error.path, error=str(error.cause))
            return 1
        finally:
            self._storage.close()
        return 0

    def abandon(self) -> None:
        """Leave without a word to the disk: the next start recovers."""
        for server in self._servers:
            server.close()
        if self._side_port is not None:
            self._side_port.close()


def _write_line(line: str) -> None:
    sys.stderr.write(line)
    sys.stderr.flush()


def _text(address: tuple[str, int]) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _open_files_max() -> int:
    """Raise the soft limit of descriptors; a third of it may be segments."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return max(16, min(OPEN_SEGMENT_FILES_MAX, soft // 3))
