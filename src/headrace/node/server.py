"""A node as a process: broker, controller or both; start, upkeep and stop.

Owns: the order in which things come up and go down, the periodic upkeep, the signals.
Must not know: what a request does.

Up:   configuration → log directories → listeners bound → quorum → controllers' listener open →
      caught up, registered, unfenced → clients' listeners open → told
Down: leaderships handed over → no new connections → waiting requests answered → the quorum's
      leader resigns → connections closed → logs flushed and checkpointed → clean-shutdown marker.
      Exit 0 within five seconds.

A failure in `replay`, or of the metadata log's disk, stops the node at once with status 1: what
it would answer from then on could be wrong.
"""

import asyncio
import contextlib
import gc
import json
import os
import random
import resource
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import uvloop

from headrace.base.broker_config import BrokerConfig
from headrace.base.errors import HeadraceError, StorageError, UsageError
from headrace.base.events import EventLog
from headrace.base.limits import OPEN_SEGMENT_FILES_MAX, SHUTDOWN_TIMEOUT_MS
from headrace.base.network import Session, Transport
from headrace.base.promise import Promise
from headrace.broker.broker import Broker
from headrace.broker.replication.replication import COMMIT_LOOK_MS
from headrace.broker.session import KafkaSession
from headrace.cluster.listener import ControllerSession
from headrace.log.file_budget import FileBudget
from headrace.node.assembly import AssembledNode, assemble, open_directories
from headrace.node.configuration import load_config, refuse_exposed_listeners
from headrace.node.formatting import prepare
from headrace.node.metadata_quorum import FIRST_BOOTSTRAP_ID, bootstrap_addresses, quorum_settings
from headrace.node.metrics import LoopMetrics, MetricsPage
from headrace.node.seams import Seams
from headrace.runtime.buffers import BufferPool
from headrace.runtime.clock import LoopTimers, SystemClock
from headrace.runtime.data_server import DataServer
from headrace.runtime.disk import DiskStorage
from headrace.runtime.http import SidePort
from headrace.runtime.peers import PeerConnections
from headrace.runtime.tcp import TcpLimits, TcpServer

if TYPE_CHECKING:
    from headrace.broker.cleaner import LogCleaner

_UPKEEP_INTERVAL_MS = 1000
_CLEANER_LOOK_MS = 100
_STALL_PROBE_MS = 100
_STALL_MS = 100
_DRAIN_STEP_S = 0.02
_DRAIN_STEPS_MAX = int(SHUTDOWN_TIMEOUT_MS / 1000 / 2 / _DRAIN_STEP_S)
_LEAVE_TIMEOUT_MS = 1_500
"""Of a stop's five seconds, what the controller may take to let a broker go."""
_ALONE_S_MAX = 0.5
"""A broker that stops while nobody leads waits no longer than this for somebody who does."""
_RESIGN_TIMEOUT_S = 0.3
"""For the word that a leader resigns to reach the others."""
_NO_QUORUM_TOLD_EVERY_MS = 3_000

T = TypeVar("T")


def run(
    *,
    data: str,
    listen: str | None = None,
    controller_listen: str | None = None,
    config_file: str | None = None,
    settings: dict[str, str] | None = None,
    insecure: bool = False,
    node_id: int | None = None,
    metrics_listen: str | None = None,
) -> int:
    """Run a node until SIGTERM or SIGINT; the process's exit status."""
    config = load_config(
        data,
        listen=listen,
        controller_listen=controller_listen,
        config_file=config_file,
        settings=settings,
        node_id=node_id,
        metrics_listen=metrics_listen,
    )
    refuse_exposed_listeners(config, insecure)
    return asyncio.Runner(loop_factory=uvloop.new_event_loop).run(_main(config, data))


async def _main(config: BrokerConfig, data: str) -> int:
    node = Node(config, data)
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


class Node:
    def __init__(self, config: BrokerConfig, data: str) -> None:
        self._config = config
        self._data = data
        self._loop = asyncio.get_running_loop()
        self._clock = SystemClock()
        self._timers = LoopTimers(self._loop)
        self.log = EventLog(_write_line, self._clock, config["headrace.log.level"])
        self._storage = DiskStorage(self._loop)
        self._pool = BufferPool()
        self._servers: dict[str, TcpServer] = {}
        self._side_port: SidePort | None = None
        self._peers: PeerConnections | None = None
        self._broker_peers: PeerConnections | None = None
        self._node: AssembledNode | None = None
        self._metrics = LoopMetrics()
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
        node = self._node = self._assemble()
        for name, server in self._servers.items():
            if self._is_controllers(name):
                server.start()
        metrics_address = await self._open_side_port(node)
        self._every(_NO_QUORUM_TOLD_EVERY_MS, self._tell_of_no_quorum)
        if node.broker is not None:
            node.broker.on_settings = self._take_limits
        if not await self._settled(node.start()):
            return
        for name, server in self._servers.items():
            if not self._is_controllers(name):
                server.start()
        self._schedule_upkeep(node)
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 100)
        self._announce(node, metrics_address)
        log.info(
            "started",
            node_id=config.node_id,
            roles=",".join(sorted(config.roles)),
            cluster_id=node.cluster_id,
            listen=",".join(map(_text, node.addresses.values())),
            metrics=_text(metrics_address),
            partitions=0 if node.broker is None else sum(1 for _ in node.broker.partitions.all()),
            took_ms=self._clock.monotonic_ms() - started_ms,
        )

    def _assemble(self) -> AssembledNode:
        config, log = self._config, self.log
        seams = Seams(
            self._storage,
            self._clock,
            self._timers,
            random.Random(os.urandom(16)),
            log,
            self._on_fatal,
        )
        files = FileBudget(self._storage, _open_files_max())
        prepare(self._storage, config, seams.random)
        cluster_id, directories = open_directories(config, seams, files)
        advertised = self._listen()
        self._peers = PeerConnections(
            self._loop,
            self._clock,
            self._resolve,
            log,
            client_id=f"headrace-node-{config.node_id}",
            request_timeout_ms=quorum_settings(config).request_timeout_ms,
            forward_timeout_ms=int(config["request.timeout.ms"]),
        )
        self._broker_peers = PeerConnections(
            self._loop,
            self._clock,
            self._resolve_broker,
            log,
            client_id=f"headrace-node-{config.node_id}",
            request_timeout_ms=int(config["replica.socket.timeout.ms"]),
        )
        return assemble(
            config,
            seams,
            files,
            cluster_id,
            directories,
            advertised,
            self._peers,
            self._broker_peers,
        )

    def _resolve_broker(self, node_id: int) -> tuple[str, int] | None:
        """A broker's listener for brokers, as it registered."""
        if self._node is None:
            return None
        broker = self._node.host.committed.brokers.get(node_id)
        if broker is None:
            return None
        name = self._config["inter.broker.listener.name"] or "PLAINTEXT"
        for endpoint in broker.endpoints:
            if endpoint.listener_name == name:
                return endpoint.host, endpoint.port
        return None

    def _resolve(self, node_id: int) -> tuple[str, int] | None:
        if node_id <= FIRST_BOOTSTRAP_ID:
            addresses = bootstrap_addresses(self._config)
            index = FIRST_BOOTSTRAP_ID - node_id
            return addresses[index] if index < len(addresses) else None
        return None if self._node is None else self._node.replica.endpoint_of(node_id)

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
            # What controllers say to each other and to brokers goes ahead of records.
            kind = TcpServer if self._is_controllers(name) else DataServer
            server = kind(self._loop, self._session_factory(name), limits, self.log, self._pool)
            try:
                bound_host, bound_port = server.listen(host or "0.0.0.0", port)
            except OSError as error:
                raise UsageError(f"can't listen on {host}:{port}: {error.strerror}") from error
            self._servers[name] = server
            told_host, told_port = told.get(name, (host, port))
            advertised[name] = (told_host or bound_host, told_port or bound_port)
        return advertised

    def _take_limits(self) -> None:
        """Connections that are there stay, however many they are; the next one is judged anew."""
        for server in self._servers.values():
            server.limits.connections_max = int(self._config["max.connections"])

    def _is_controllers(self, listener_name: str) -> bool:
        return any(name == listener_name for name, _, _ in self._config.controller_listeners)

    def _session_factory(self, listener_name: str) -> Callable[[Transport], Session]:
        is_controllers = self._is_controllers(listener_name)

        def session(transport: Transport) -> Session:
            assert self._node is not None
            if is_controllers and self._node.listener is not None:
                return ControllerSession(self._node.listener, transport)
            assert self._node.broker is not None
            return KafkaSession(self._node.broker, transport, listener_name)

        return session

    async def _settled(self, promise: Promise[T]) -> bool:
        """True once it is resolved, False if the node was told to stop before."""
        done = asyncio.Event()
        promise.then(lambda _: done.set())
        if not done.is_set():
            waiting = [
                self._loop.create_task(done.wait(), name="started"),
                self._loop.create_task(self._stop.wait(), name="stopped before"),
            ]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in waiting:
                task.cancel()
        if not promise.settled:
            return False
        promise.value()
        return True

    async def _open_side_port(self, node: AssembledNode) -> tuple[str, int]:
        page = MetricsPage(node, self._servers.values(), self._pool, self._metrics)
        self._side_port = SidePort({"/metrics": page.metrics, "/health": page.health})
        listener: str | None = self._config["headrace.metrics.listener"]
        host, _, port = (listener or "127.0.0.1:0").rpartition(":")
        try:
            return await self._side_port.listen(host, int(port))
        except OSError as error:
            raise UsageError(f"can't listen on {host}:{port}: {error.strerror}") from error

    def _tell_of_no_quorum(self) -> None:
        node = self._node
        if node is None or node.replica.leader_id >= 0:
            return
        assert self._peers is not None
        tried = [f"{address} ({reason})" for address, reason in self._peers.failing().items()]
        known = [_text(address) for address in bootstrap_addresses(self._config)]
        self.log.warning(
            "no_quorum",
            epoch=node.replica.epoch,
            voters=",".join(str(key.id) for key in node.replica.voters.keys),
            tried="; ".join(tried) or ",".join(known) or "nobody",
        )

    @property
    def _announcement_path(self) -> str:
        return os.path.join(self._data, "broker.json")

    def _announce(self, node: AssembledNode, metrics_address: tuple[str, int]) -> None:
        """`broker.json`: where this process is, for those who started it."""
        controllers = [
            _text(at) for name, at in node.addresses.items() if self._is_controllers(name)
        ]
        brokers = [
            _text(at) for name, at in node.addresses.items() if not self._is_controllers(name)
        ]
        told = {
            "pid": os.getpid(),
            "listen": (brokers or controllers)[0],
            "controller_listen": controllers[0] if controllers else None,
            "metrics": _text(metrics_address),
        }
        path = self._announcement_path
        self._storage.replace_file(path, json.dumps(told).encode() + b"\n", sync=False)

    # -- upkeep ------------------------------------------------------------------------

    def _schedule_upkeep(self, node: AssembledNode) -> None:
        config = self._config
        if node.broker is not None:
            partitions = node.broker.partitions
            self._every(_UPKEEP_INTERVAL_MS, partitions.flush_due)
            self._every(_UPKEEP_INTERVAL_MS, partitions.sweep)
            self._every(_UPKEEP_INTERVAL_MS, partitions.look_for_room)
            self._every(COMMIT_LOOK_MS, node.broker.replication.tick)
            self._every(int(config["log.retention.check.interval.ms"]), partitions.retain)
            checkpoint_ms = int(config["replica.high.watermark.checkpoint.interval.ms"])
            self._every(checkpoint_ms, partitions.checkpoint)
            self._every(_CLEANER_LOOK_MS, self._make_cleaner(node.broker).tick)
        self._probed_ms = self._clock.monotonic_ms()
        self._every(_STALL_PROBE_MS, self._probe_stall)

    def _make_cleaner(self, broker: Broker) -> "LogCleaner":
        # Imported now, when clients are let in already: a start is measured.
        from headrace.broker.cleaner import LogCleaner
        from headrace.runtime.cleaner import ChildCleaners

        worker = ChildCleaners(self._loop)
        broker.cleaner = LogCleaner(broker.partitions, self._config, self._clock, self.log, worker)
        return broker.cleaner

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
        now_ms = self._clock.monotonic_ms()
        late_ms = now_ms - self._probed_ms - _STALL_PROBE_MS
        self._probed_ms = now_ms
        metrics = self._metrics
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
        node = self._node
        assert node is not None
        started_ms = self._clock.monotonic_ms()
        with contextlib.suppress(FileNotFoundError):
            os.remove(self._announcement_path)
        await self._leave(node)
        for server in self._servers.values():
            server.stop_accepting()
        if node.broker is not None:
            node.broker.prepare_stop()
        self._end_cleaner()
        await self._drain(lambda name: not self._is_controllers(name), _DRAIN_STEPS_MAX)
        await self._resign(node)
        for server in self._servers.values():
            server.close()
        if self._side_port is not None:
            self._side_port.close()
        status = self._close_logs()
        for peers in (self._peers, self._broker_peers):
            if peers is not None:
                peers.close()
        self.log.info("stopped", status=status, took_ms=self._clock.monotonic_ms() - started_ms)
        return status

    def _end_cleaner(self) -> None:
        broker = None if self._node is None else self._node.broker
        if broker is not None and broker.cleaner is not None:
            broker.cleaner.close()

    async def _leave(self, node: AssembledNode) -> None:
        """Wait for the controller's word, unless there is nobody to give it."""
        leaving = node.leave(_LEAVE_TIMEOUT_MS)
        alone_steps = 0
        for _ in range(int(_LEAVE_TIMEOUT_MS / 1000 / _DRAIN_STEP_S)):
            alone_steps = alone_steps + 1 if node.replica.leader_id < 0 else 0
            if leaving.settled or alone_steps * _DRAIN_STEP_S >= _ALONE_S_MAX:
                return
            await asyncio.sleep(_DRAIN_STEP_S)

    async def _resign(self, node: AssembledNode) -> None:
        """Let the other voters know before the connections to them are closed."""
        assert self._peers is not None
        was_followed = node.replica.is_leader and len(node.replica.voters) > 1
        node.resign()
        for _ in range(int(_RESIGN_TIMEOUT_S / _DRAIN_STEP_S) if was_followed else 0):
            if not self._peers.in_flight:
                return
            await asyncio.sleep(_DRAIN_STEP_S)

    async def _drain(self, is_awaited: Callable[[str], bool], steps_max: int) -> None:
        """Wait until these listeners' connections owe nothing, for a bounded time."""
        servers = [server for name, server in self._servers.items() if is_awaited(name)]
        for _ in range(steps_max):
            if not any(server.busy for server in servers):
                return
            await asyncio.sleep(_DRAIN_STEP_S)

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
        self._end_cleaner()
        for server in self._servers.values():
            server.close()
        for peers in (self._peers, self._broker_peers):
            if peers is not None:
                peers.close()
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
