"""A NameNode's process: wiring, start and stop.

Owns: the order in which things come up and go down, the periodic upkeep, the signals.
Must not know: what a call does.

Up:   configuration → edit log and checkpoint → listeners → told (`namenode.json`)
Down: no new connections → waiting calls answered → connections closed → the log flushed.

A failure of the journal, or a bug in its replay, stops the process at once with status 1: what it
would answer from then on could be wrong.
"""

import asyncio
import contextlib
import gc
import getpass
import json
import os
import random
import signal
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import uvloop

from headrace.base.errors import DiskFullError, HeadraceError, StorageError, UsageError
from headrace.base.events import EventLog
from headrace.base.limits import SHUTDOWN_TIMEOUT_MS
from headrace.base.network import Transport
from headrace.base.promise import Promise
from headrace.base.web import WEBHDFS_PREFIX
from headrace.log.file_budget import FileBudget
from headrace.namespace.checkpoint import check_gap, load_newest
from headrace.namespace.filesystem import Namespace
from headrace.namespace.host_orders import HostOrders
from headrace.namespace.journal import Journal, open_log
from headrace.namespace.leaving import Hosts
from headrace.namespace.namenode import NameNode
from headrace.namespace.racks import Racks
from headrace.namespace.room import Room
from headrace.namespace.rpc.endpoint import namenode_endpoint
from headrace.node.hdfs_settings import load_config, parse_address, refuse_exposed
from headrace.node.namenode_beans import NameNodeBeans
from headrace.node.namenode_checkpoint import Checkpoints
from headrace.node.namenode_pages import FSCK, NameNodePages, webhdfs_page
from headrace.node.namenode_salvage import Salvager
from headrace.node.namespace_settings import namespace_settings, read_hosts, read_racks
from headrace.node.system_groups import SystemGroups
from headrace.runtime.buffers import BufferPool
from headrace.runtime.clock import LoopTimers, SystemClock
from headrace.runtime.disk import DiskStorage
from headrace.runtime.rpc_connection import RpcConnection
from headrace.runtime.tcp import TcpLimits, TcpServer
from headrace.runtime.wakefulness import Wakefulness, core_keeper
from headrace.runtime.web import Chooser, Page, WebServer
from headrace.wire.hadoop.rpc_frames import OPENING_BYTES
from headrace.wire.hadoop.rpc_session import RpcEndpoint, RpcSession

if TYPE_CHECKING:
    from headrace.runtime.dfs_client import DfsClient

_SWITCH_INTERVAL_S = 0.0001
_DRAIN_STEP_S = 0.02
_ANNOUNCEMENT_RETRY_MS = 1000
_DRAIN_STEPS_MAX = int(SHUTDOWN_TIMEOUT_MS / 1000 / 2 / _DRAIN_STEP_S)


def run(
    *,
    data: str,
    config_file: str | None = None,
    settings: dict[str, str] | None = None,
    insecure: bool = False,
) -> int:
    """Run a NameNode until SIGTERM or SIGINT; the process's exit status."""
    config = load_config(config_file, settings or {}).values
    for key in ("dfs.namenode.rpc-address", "dfs.namenode.http-address"):
        refuse_exposed(key, config[key], insecure)
    return asyncio.Runner(loop_factory=uvloop.new_event_loop).run(_main(config, data))


async def _main(config: dict[str, Any], data: str) -> int:
    node = NameNodeProcess(config, data)
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


class NameNodeProcess:
    def __init__(self, config: dict[str, Any], data: str) -> None:
        self._config = config
        self._data = data
        self._loop = asyncio.get_running_loop()
        self._clock = SystemClock()
        self._timers = LoopTimers(self._loop)
        self.log = EventLog(_write_line, self._clock, config["headrace.log.level"])
        self._storage = DiskStorage(self._loop)
        self._pool = BufferPool()
        awake_us = config["headrace.namenode.busy.wait.us"]
        keeper = core_keeper() if awake_us else None
        self._wakefulness = Wakefulness(self._loop, awake_us, keeper)
        self._server: TcpServer | None = None
        self._web: WebServer | None = None
        self._dfs: DfsClient | None = None
        self._salvager: Salvager | None = None
        self._endpoint: RpcEndpoint | None = None
        self._namenode: NameNode | None = None
        self._checkpoints: Checkpoints | None = None
        self._stop = asyncio.Event()
        self._fatal: BaseException | None = None

    # -- up ----------------------------------------------------------------------------

    async def start(self) -> None:
        started_ms = self._clock.monotonic_ms()
        self._storage.make_directory(self._data)
        self._lock_names()
        with contextlib.suppress(FileNotFoundError):
            os.remove(self._announcement_path)
        rpc_address = self._listen()
        groups = SystemGroups(self._clock)
        namenode = self._namenode = await self._open_namenode(rpc_address[0])
        self._endpoint = namenode_endpoint(
            namenode, groups, self._on_handler_failure, forget_groups=groups.forget
        )
        beans = NameNodeBeans(
            namenode,
            self._endpoint,
            self._server,
            self._checkpoints,
            rpc_address,
            self._config["dfs.namenode.rpc-address"],
        )
        pages = NameNodePages(
            namenode, self._endpoint, self._server, self._wakefulness, self._config, beans
        )
        webhdfs = webhdfs_page(namenode, groups, address_text(rpc_address))
        streams = self._proxied_streams(rpc_address)
        self._salvager = Salvager(self._loop, rpc_address, namenode.settings)
        table: dict[str, Page] = {
            **pages.table(groups, self._salvager),
            WEBHDFS_PREFIX: webhdfs,
        }
        self._web = WebServer(table, self.log, streams=streams, patient={FSCK})
        http_address = await self._listen_http(self._web)
        assert self._server is not None
        self._server.start()
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 100)
        # The thread that syncs needs the interpreter twice a sync; a busy loop would let it wait
        # five milliseconds each time, and every client with it.
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        self._announce(rpc_address, http_address)
        namespace = namenode.ns
        self.log.info(
            "started",
            role="namenode",
            cluster_id=namespace.cluster_id,
            pool_id=namespace.pool_id,
            listen=address_text(rpc_address),
            http=address_text(http_address),
            inodes=len(namespace.inodes),
            took_ms=self._clock.monotonic_ms() - started_ms,
        )

    @property
    def _names(self) -> str:
        """The folder of the edit log and the checkpoints."""
        return str(self._config["dfs.namenode.name.dir"] or os.path.join(self._data, "name"))

    def _lock_names(self) -> None:
        """Two NameNodes on one log would be the end of it."""
        self._storage.make_directory(self._names)
        path = os.path.join(self._names, "in_use.lock")
        holder = self._storage.lock(path)
        if holder is not None:
            raise UsageError(f"{self._names} is in use by {holder}")

    async def _open_namenode(self, host: str) -> NameNode:
        """Load the namespace, or format an empty directory."""
        config = self._config
        directory = self._names
        settings = namespace_settings(config, getpass.getuser())
        log = open_log(self._storage, directory, self._clock, FileBudget(self._storage, 64))
        room = Room(self._storage, directory, settings.resource_reserved_bytes)

        def make_journal(ns: Namespace, on_durable: Callable[[], None]) -> Journal:
            check_gap(log, ns)
            return Journal(
                log,
                ns,
                self._clock,
                on_durable=on_durable,
                on_fatal=self._on_fatal,
                at_turn_end=self._wakefulness.at_turn_end,
                timers=self._timers,
            )

        namenode = NameNode(
            load_newest(self._storage, directory, settings, self._on_damaged_checkpoint),
            make_journal,
            clock=self._clock,
            timers=self._timers,
            random=random.Random(os.urandom(16)),
            events=self.log,
            room=room,
        )
        await self._settled(namenode.load(cluster_id=config["cluster.id"] or "", address=host))
        if config["net.topology.table.file.name"]:
            namenode.rack_of = racks = Racks(read_racks(config))
        else:
            racks = Racks()

        def read_lists() -> Hosts:
            racks.table = read_racks(config)
            return read_hosts(config)

        namenode.read_hosts = read_lists
        namenode.host_orders = HostOrders(self._storage, os.path.join(directory, "hosts.json"))
        reports = os.path.join(directory, "reports")

        def write_report(name: str, content: str) -> None:
            self._storage.make_directory(reports)
            self._storage.replace_file(os.path.join(reports, name), content.encode())

        namenode.write_report = write_report
        namenode.trash.zone = None  # the machine's own, as clients name checkpoints
        namenode.reload_hosts()
        namenode.start()
        self._checkpoints = Checkpoints(
            namenode.journal,
            directory,
            settings,
            room,
            storage=self._storage,
            clock=self._clock,
            timers=self._timers,
            events=self.log,
        )
        self._checkpoints.start()
        namenode.build_checkpoint = self._checkpoints.build
        return namenode

    def _on_damaged_checkpoint(self, path: str, reason: str) -> None:
        self.log.error("checkpoint_damaged", path=path, reason=reason)

    async def _settled(self, promise: Promise[Any]) -> Any:
        future: asyncio.Future[Any] = self._loop.create_future()

        def on_settled(settled: Promise[Any]) -> None:
            if settled.error is None:
                future.set_result(settled.value())
            else:
                future.set_exception(settled.error)

        promise.then(on_settled)
        return await future

    def _proxied_streams(self, rpc_address: tuple[str, int]) -> Chooser | None:
        """WebHDFS data through this process, for clients that can't reach DataNodes."""
        if not self._config["headrace.webhdfs.proxy"]:
            return None
        from headrace.runtime.dfs_client import DfsClient
        from headrace.runtime.webhdfs_data import WebHdfsData

        self._dfs = DfsClient(self._loop, *rpc_address)
        return WebHdfsData(self._dfs, rpc_address).chosen

    def _listen(self) -> tuple[str, int]:
        """Bind the RPC port (nobody is accepted yet)."""
        config = self._config
        limits = TcpLimits(
            frame_bytes_max=config["ipc.maximum.data.length"],
            connections_max=config["ipc.server.max.connections"],
            idle_timeout_ms=config["ipc.client.connection.idle-timeout"],
            keeps_shared_buffers=False,
        )
        self._server = TcpServer(
            self._loop,
            self._session,
            limits,
            self.log,
            self._pool,
            preamble_bytes=OPENING_BYTES,
            connection_class=partial(RpcConnection, wakefulness=self._wakefulness),
        )
        key = "dfs.namenode.rpc-address"
        host, port = parse_address(key, config[key])
        try:
            return self._server.listen(host, port)
        except OSError as error:
            raise UsageError(f"can't listen on {host}:{port}: {error.strerror}") from error

    def _session(self, transport: Transport) -> RpcSession:
        assert self._endpoint is not None
        return RpcSession(self._endpoint, transport)

    async def _listen_http(self, web: WebServer) -> tuple[str, int]:
        key = "dfs.namenode.http-address"
        host, port = parse_address(key, self._config[key])
        try:
            return await web.listen(host, port)
        except OSError as error:
            raise UsageError(f"can't listen on {host}:{port}: {error.strerror}") from error

    @property
    def _announcement_path(self) -> str:
        return os.path.join(self._data, "namenode.json")

    def _announce(
        self, rpc_address: tuple[str, int], http_address: tuple[str, int], *, is_told: bool = False
    ) -> None:
        """`namenode.json`: where this process is, for those who started it."""
        told = {
            "pid": os.getpid(),
            "listen": address_text(rpc_address),
            "http": address_text(http_address),
        }
        path = self._announcement_path
        if self._stop.is_set():
            return
        try:
            self._storage.replace_file(path, json.dumps(told).encode() + b"\n", sync=False)
        except DiskFullError as error:
            if not is_told:
                self.log.warning("announcement_unwritten", path=path, error=str(error.cause))
            again = partial(self._announce, rpc_address, http_address, is_told=True)
            self._timers.call_later(_ANNOUNCEMENT_RETRY_MS, again)

    # -- down --------------------------------------------------------------------------

    def request_stop(self) -> None:
        self._stop.set()

    def _on_handler_failure(self, peer: str, error: BaseException) -> None:
        assert self._server is not None
        self._server.counters.handler_failures += 1
        self.log.error("handler_failed", peer=peer, error=repr(error))

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
        assert self._server is not None
        started_ms = self._clock.monotonic_ms()
        with contextlib.suppress(FileNotFoundError):
            os.remove(self._announcement_path)
        self._server.stop_accepting()
        for _ in range(_DRAIN_STEPS_MAX):
            if not self._server.busy:
                break
            await asyncio.sleep(_DRAIN_STEP_S)
        self.abandon()
        status = self._close_namenode()
        self.log.info("stopped", status=status, took_ms=self._clock.monotonic_ms() - started_ms)
        return status

    def _close_namenode(self) -> int:
        assert self._namenode is not None
        try:
            self._namenode.journal.close()
        except DiskFullError as error:  # all that was answered is there; the next start reads it
            self.log.warning("closed_without_room", path=error.path, error=str(error.cause))
        except StorageError as error:
            self.log.error("close_failed", path=error.path, error=str(error.cause))
            return 1
        finally:
            self._storage.close()
        return 0

    def abandon(self) -> None:
        """Close every door, without a word to the disk."""
        if self._server is not None:
            self._server.close()
        if self._web is not None:
            self._web.close()
        if self._dfs is not None:
            self._dfs.close()
        if self._salvager is not None:
            self._salvager.close()
        if self._checkpoints is not None:
            self._checkpoints.close()


def _write_line(line: str) -> None:
    sys.stderr.write(line)
    sys.stderr.flush()


def address_text(address: tuple[str, int]) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
