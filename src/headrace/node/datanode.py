"""A node with the role DataNode: wiring, start and stop.

Owns: the order in which things come up and go down, the ports, the signals.
Must not know: what a request does.

Up:   configuration → lock → ports bound → told → NameNode's version → volumes → registered
Down: no new connections → writers stopped → connections closed. Exit 0 within five seconds.

Replicas that are being written when the node ends are found again as RWR and recovered.
"""

import asyncio
import contextlib
import gc
import getpass
import json
import os
import random
import signal
import socket
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import uvloop
from google.protobuf.message import Message

from headrace.base.errors import HeadraceError, StorageError, UsageError
from headrace.base.events import EventLog
from headrace.base.promise import Promise
from headrace.base.web import WEBHDFS_PREFIX, WebRequest, WebResponse, WebStream
from headrace.datanode.commands import Commands
from headrace.datanode.context import Context, TransferSettings
from headrace.datanode.dataset import Dataset
from headrace.datanode.ipc import ClientDatanodeCalls, InterDatanodeCalls
from headrace.datanode.loading import load_replicas
from headrace.datanode.operations import OPERATIONS
from headrace.datanode.page_cache import CacheSettings
from headrace.datanode.pinning import PinnedReplicas
from headrace.datanode.scanner import BlockScanner, ScanSettings
from headrace.datanode.service import NameNodeService, ServiceSettings
from headrace.datanode.session import TransferSession
from headrace.datanode.throttle import Throttle
from headrace.datanode.volume import PoolIdentity
from headrace.node.datanode_pages import DatanodePages
from headrace.node.datanode_volumes import (
    DATA_DIR,
    TOLERATED,
    OpenedVolumes,
    open_volumes,
    parse_volumes,
)
from headrace.node.hdfs_settings import Superusers, load_config, parse_address, refuse_exposed
from headrace.node.system_groups import SystemGroups
from headrace.runtime.buffers import BufferPool
from headrace.runtime.clock import LoopTimers, SystemClock
from headrace.runtime.disk import DiskStorage
from headrace.runtime.hadoop_client import RpcClient
from headrace.runtime.http import Page
from headrace.runtime.page_cache import PAGE_BYTES, PinnedFile, SystemPageCache, lockable_bytes
from headrace.runtime.tcp import TcpLimits, TcpServer
from headrace.runtime.transfer import TransferPort
from headrace.runtime.web import Page as WebPage
from headrace.runtime.web import Stream, WebServer
from headrace.wire.hadoop.exceptions import RemoteError
from headrace.wire.hadoop.impersonation import require_impersonator
from headrace.wire.hadoop.protos.hdfs_pb2 import DatanodeIDProto, DatanodeInfoProto
from headrace.wire.hadoop.rpc_frames import OPENING_BYTES
from headrace.wire.hadoop.rpc_protocols import CLIENT_DATANODE, DATANODE, INTER_DATANODE
from headrace.wire.hadoop.rpc_session import RpcEndpoint, RpcSession

if TYPE_CHECKING:
    from headrace.runtime.dfs_client import DfsClient
    from headrace.runtime.webhdfs_data import WebHdfsData

_STREAMS_BEYOND_TRANSFERS = 1024
"""Connections that idle between operations do not count as transfers."""


def run(
    *,
    data: str,
    namenode: str,
    listen: str | None = None,
    ipc_listen: str | None = None,
    http_listen: str | None = None,
    config_file: str | None = None,
    settings: dict[str, str] | None = None,
    insecure: bool = False,
) -> int:
    """Run a DataNode until SIGTERM or SIGINT; the process's exit status."""
    flags = dict(settings or {})
    for key, value in (
        ("dfs.datanode.address", listen),
        ("dfs.datanode.ipc.address", ipc_listen),
        ("dfs.datanode.http.address", http_listen),
    ):
        if value is not None:
            flags[key] = value
    config = load_config(config_file, flags).values
    for key in ("dfs.datanode.address", "dfs.datanode.ipc.address", "dfs.datanode.http.address"):
        refuse_exposed(key, config[key], insecure)
    address = parse_address("--namenode", namenode)
    return asyncio.Runner(loop_factory=uvloop.new_event_loop).run(_main(config, data, address))


async def _main(config: dict[str, Any], data: str, namenode: tuple[str, int]) -> int:
    node = DatanodeNode(config, data, namenode)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, node.request_stop)
    try:
        await node.start()
    except HeadraceError as error:
        node.log.error("start_failed", error=str(error))
        node.close()
        return 1
    return await node.run()


class DatanodeNode:
    def __init__(self, config: dict[str, Any], data: str, namenode: tuple[str, int]) -> None:
        self._config = config
        self._data = data
        self._loop = asyncio.get_running_loop()
        self._clock = SystemClock()
        self._timers = LoopTimers(self._loop)
        self._started_ms = self._clock.monotonic_ms()
        self._user = getpass.getuser()
        self._superusers = Superusers(config, self._user, SystemGroups(self._clock))
        self.log = EventLog(_write_line, self._clock, config["headrace.log.level"])
        self._storage = DiskStorage(self._loop, syncs_by_ring=True)
        self._pool = BufferPool()
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="remove")
        self._namenode_address = namenode
        self._namenode = RpcClient(self._loop, *namenode, self._user)
        self._peers: dict[tuple[str, int], RpcClient] = {}
        self._transfer_port = TransferPort(
            self._loop,
            self.log,
            self._pool,
            config["dfs.datanode.max.transfer.threads"] + _STREAMS_BEYOND_TRANSFERS,
        )
        self._ipc: TcpServer | None = None
        self._web: WebServer | None = None
        self._dfs: DfsClient | None = None
        self._webhdfs: WebHdfsData | None = None
        self._service: NameNodeService | None = None
        self._scanner: BlockScanner | None = None
        self._context: Context | None = None
        self._pinned: PinnedReplicas | None = None
        self._pinning: ThreadPoolExecutor | None = None
        self._inter: InterDatanodeCalls | None = None
        self._uuid = ""
        self._stop = asyncio.Event()
        self._fatal: BaseException | None = None

    # -- up ----------------------------------------------------------------------------

    async def start(self) -> None:
        self._storage.make_directory(self._data)
        with contextlib.suppress(FileNotFoundError):
            os.remove(self._announcement_path)
        opened = self._open_volumes()
        dataset = Dataset(self._storage, opened.volumes, self._in_background)
        context = self._context = Context(
            dataset,
            self._transfer_port.connect,
            self._clock,
            self._timers,
            self.log,
            self._transfer_settings(),
        )
        context.page_cache = SystemPageCache()
        context.balancing = Throttle(
            self._clock, self._config["dfs.datanode.balance.bandwidthPerSec"]
        )
        self._inter = InterDatanodeCalls(context)
        service = self._service = NameNodeService(
            context,
            self._service_settings(),
            self._call_namenode,
            random.Random(os.urandom(16)),
            self._on_pool,
            self._on_fatal,
        )
        for volume, error in opened.failed:
            dataset.volume_failed(volume, error)
        service.commands = Commands(
            context,
            self._call_peer,
            lambda request: self._call_namenode("commitBlockSynchronization", request),
            service.register_again,
            self.request_stop,
            self._pinned_replicas(dataset),
        )
        if self._pinned is not None:
            self._pinned.on_changed = service.report_cache
        self._scanner = BlockScanner(context, self._scan_settings())
        context.suspect = self._scanner.suspect
        await self._open_ports(context, service)
        service.start()
        self._scanner.start()
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 100)
        self.log.info(
            "started",
            datanode=self._uuid,
            listen=self._told["listen"],
            ipc=self._told["ipc"],
            http=self._told["http"],
            took_ms=self._clock.monotonic_ms() - self._started_ms,
        )

    def _open_volumes(self) -> OpenedVolumes:
        """The volumes, locked; this node's uuid is what they say, or a new one."""
        config = self._config
        paths = parse_volumes(config[DATA_DIR] or "") or [os.path.join(self._data, "data")]
        opened = open_volumes(
            self._storage,
            paths,
            reserved_bytes=config["dfs.datanode.du.reserved"],
            tolerated=config[TOLERATED],
        )
        self._uuid = opened.datanode_uuid or str(uuid.uuid4())
        return opened

    def _pinned_replicas(self, dataset: Dataset) -> PinnedReplicas | None:
        """What cache directives ask for, where memory is set aside for it."""
        capacity = self._config["dfs.datanode.max.locked.memory"]
        if not capacity:
            return None
        allowed = lockable_bytes()
        if allowed is not None and capacity > allowed:
            raise UsageError(
                f"dfs.datanode.max.locked.memory={capacity}, but this process may lock {allowed} "
                "bytes: raise its limit (ulimit -l), or ask for less"
            )
        self._pinning = ThreadPoolExecutor(1, thread_name_prefix="pin")
        self._pinned = PinnedReplicas(
            dataset,
            self.log,
            capacity_bytes=capacity,
            page_bytes=PAGE_BYTES,
            pin_file=PinnedFile,
            off_the_loop=self._off_the_loop,
        )
        return self._pinned

    def _off_the_loop(self, action: Callable[[], Any], on_done: Callable[[Any], None]) -> None:
        def run() -> None:
            try:
                outcome = action()
            except (HeadraceError, OSError) as error:
                outcome = error
            # On a loop that has been closed nobody waits any more.
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(on_done, outcome)

        assert self._pinning is not None
        self._pinning.submit(run)

    def _transfer_settings(self) -> TransferSettings:
        config = self._config
        return TransferSettings(
            socket_timeout_ms=config["dfs.client.socket-timeout"],
            socket_write_timeout_ms=config["dfs.datanode.socket.write.timeout"],
            transfers_max=config["dfs.datanode.max.transfer.threads"],
            sync_on_close=config["dfs.datanode.synconclose"],
            direct_writes=config["headrace.datanode.direct.writes"],
            caching=CacheSettings(
                readahead_bytes=config["dfs.datanode.readahead.bytes"],
                drop_behind_reads=config["dfs.datanode.drop.cache.behind.reads"],
                drop_behind_writes=config["dfs.datanode.drop.cache.behind.writes"],
                sync_behind_writes=config["dfs.datanode.sync.behind.writes"],
            ),
        )

    def _service_settings(self) -> ServiceSettings:
        config = self._config
        return ServiceSettings(
            heartbeat_ms=config["dfs.heartbeat.interval"] * 1000,
            block_report_ms=config["dfs.blockreport.intervalMsec"],
            incremental_report_ms=config["dfs.blockreport.incremental.intervalMsec"],
            failed_volumes_tolerated=config[TOLERATED],
            cache_report_ms=config["dfs.cachereport.intervalMsec"],
            min_namenode_version=config["dfs.datanode.min.supported.namenode.version"],
        )

    def _scan_settings(self) -> ScanSettings:
        config = self._config
        return ScanSettings(
            bytes_per_second=config["dfs.block.scanner.volume.bytes.per.second"],
            period_ms=config["dfs.datanode.scan.period.hours"] * 3_600_000,
            cursor_save_ms=config["dfs.block.scanner.cursor.save.interval.ms"],
        )

    def _address(self, key: str) -> tuple[str, int]:
        return parse_address(key, self._config[key])

    def _webhdfs_stream(self, request: WebRequest) -> Stream | None:
        """WebHDFS's data; its other operations are refused."""
        return self._serve_webhdfs if request.path.startswith(WEBHDFS_PREFIX) else None

    async def _serve_webhdfs(
        self, request: WebRequest, body: AsyncIterator[bytes]
    ) -> WebResponse | WebStream:
        """Loaded with the first request: most DataNodes never have one."""
        if self._webhdfs is None:
            from headrace.runtime.dfs_client import DfsClient
            from headrace.runtime.webhdfs_data import WebHdfsData

            self._dfs = DfsClient(self._loop, *self._namenode_address)
            self._webhdfs = WebHdfsData(self._dfs, self._namenode_address)
        return await self._webhdfs(request, body)

    async def _open_ports(self, context: Context, service: NameNodeService) -> None:
        try:
            host, transfer_port = self._transfer_port.listen(*self._address("dfs.datanode.address"))
            ipc_host, ipc_port = self._listen_ipc(context, service)
            pages = DatanodePages(context, service, self._transfer_port, self._storage)
            self._web = WebServer(
                {
                    "/metrics": _without_request(pages.metrics),
                    "/health": _without_request(pages.health),
                    "/jmx": pages.jmx,
                },
                self.log,
                streams=self._webhdfs_stream,
            )
            http_host, http_port = await self._web.listen(
                *self._address("dfs.datanode.http.address")
            )
        except OSError as error:
            raise UsageError(f"can't listen: {error}") from error
        context.identity.CopyFrom(
            DatanodeIDProto(
                ipAddr=_reachable(host),
                hostName=self._config["dfs.datanode.hostname"] or _reachable(host),
                datanodeUuid=self._uuid,
                xferPort=transfer_port,
                infoPort=http_port,
                ipcPort=ipc_port,
            )
        )
        self._transfer_port.start(lambda: TransferSession(context, OPERATIONS))
        assert self._ipc is not None
        self._ipc.start()
        self._told = {
            "listen": f"{host}:{transfer_port}",
            "ipc": f"{ipc_host}:{ipc_port}",
            "http": f"{http_host}:{http_port}",
        }
        self._announce()

    def _listen_ipc(self, context: Context, service: NameNodeService) -> tuple[str, int]:
        assert self._inter is not None
        assert service.commands is not None
        commands = service.commands
        client = ClientDatanodeCalls(
            context,
            uptime_s=lambda: (self._clock.monotonic_ms() - self._started_ms) // 1000,
            shut_down=self.request_stop,
            report_blocks=lambda incremental: service.report(incremental=incremental),
            balancer_bandwidth=lambda: (
                commands.balancer_bandwidth or self._config["dfs.datanode.balance.bandwidthPerSec"]
            ),
            may_administer=self._superusers,
        )
        endpoint = RpcEndpoint(self._on_handler_failure)
        endpoint.authorize = partial(require_impersonator, is_superuser=self._superusers)
        endpoint.serve(INTER_DATANODE, self._inter.handlers())
        endpoint.serve(CLIENT_DATANODE, client.handlers())
        limits = TcpLimits(
            frame_bytes_max=self._config["ipc.maximum.data.length"],
            connections_max=self._config["ipc.server.max.connections"],
            idle_timeout_ms=self._config["ipc.client.connection.idle-timeout"],
            keeps_shared_buffers=False,
        )
        self._ipc = TcpServer(
            self._loop,
            lambda transport: RpcSession(endpoint, transport),
            limits,
            self.log,
            self._pool,
            preamble_bytes=OPENING_BYTES,
        )
        return self._ipc.listen(*self._address("dfs.datanode.ipc.address"))

    @property
    def _announcement_path(self) -> str:
        return os.path.join(self._data, "datanode.json")

    def _announce(self) -> None:
        """`datanode.json`: where this process is, for those who started it."""
        told = {"pid": os.getpid(), "uuid": self._uuid, **self._told}
        self._storage.replace_file(
            self._announcement_path, json.dumps(told).encode() + b"\n", sync=False
        )

    # -- for the service ---------------------------------------------------------------

    def _on_pool(self, pool: PoolIdentity) -> None:
        """The NameNode said whose blocks we keep: open the volumes and look what is there."""
        assert self._context is not None
        dataset = self._context.dataset
        for volume in dataset.live_volumes():
            try:
                volume.format(pool, self._uuid, lambda: str(uuid.uuid4()))
            except StorageError as error:
                dataset.volume_failed(volume, error)
        started_ms = self._clock.monotonic_ms()
        load_replicas(dataset, self.log)
        dataset.pool = pool
        self.log.info(
            "replicas_loaded",
            pool=pool.pool_id,
            replicas=len(dataset.replicas),
            took_ms=self._clock.monotonic_ms() - started_ms,
        )

    def _call_namenode(self, method: str, request: Message) -> Promise[Any]:
        return self._namenode.call(DATANODE, method, request)

    def _call_peer(self, node: DatanodeInfoProto, method: str, request: Message) -> Promise[Any]:
        assert self._context is not None
        assert self._inter is not None
        if node.id.datanodeUuid == self._context.identity.datanodeUuid:
            promise: Promise[Any] = Promise()
            try:
                answer = self._inter.handlers()[method](request, None)  # type: ignore[arg-type]
            except (RemoteError, StorageError) as error:
                promise.reject(error)
                return promise
            if isinstance(answer, Promise):
                return answer
            promise.resolve(answer)
            return promise
        address = (node.id.ipAddr, node.id.ipcPort)
        client = self._peers.get(address)
        if client is None:
            client = self._peers[address] = RpcClient(self._loop, *address, self._user)
        return client.call(INTER_DATANODE, method, request)

    def _in_background(self, action: Callable[[], object]) -> None:
        self._threads.submit(self._tell_failure, action)

    def _tell_failure(self, action: Callable[[], object]) -> None:
        try:
            action()
        except (HeadraceError, OSError) as error:
            self._loop.call_soon_threadsafe(self._on_background_failure, error)

    def _on_background_failure(self, error: Exception) -> None:
        self.log.warning("background_failed", error=error)

    def _on_handler_failure(self, peer: str, error: BaseException) -> None:
        self.log.error("handler_failed", peer=peer, error=repr(error))

    # -- down --------------------------------------------------------------------------

    def request_stop(self) -> None:
        self._stop.set()

    def _on_fatal(self, error: BaseException) -> None:
        self._fatal = error
        self.log.error("fatal", error=str(error))
        self._stop.set()

    async def run(self) -> int:
        """Serve until asked to stop; the exit status."""
        await self._stop.wait()
        started_ms = self._clock.monotonic_ms()
        with contextlib.suppress(FileNotFoundError):
            os.remove(self._announcement_path)
        # An answer to the call that stops us may still be on its way.
        await asyncio.sleep(0.01)
        self.close()
        status = 1 if self._fatal is not None else 0
        self.log.info("stopped", status=status, took_ms=self._clock.monotonic_ms() - started_ms)
        return status

    def close(self) -> None:
        if self._service is not None:
            self._service.stop()
        if self._scanner is not None:
            self._scanner.stop()
        self._transfer_port.close()
        if self._ipc is not None:
            self._ipc.close()
        if self._web is not None:
            self._web.close()
        if self._dfs is not None:
            self._dfs.close()
        self._namenode.close()
        for client in self._peers.values():
            client.close()
        self._threads.shutdown()
        if self._pinning is not None:
            self._pinning.shutdown(cancel_futures=True)
        if self._pinned is not None:
            self._pinned.close()
        self._storage.close()


def _without_request(page: Callable[[], Page]) -> WebPage:
    def answer(_: object) -> WebResponse:
        made = page()
        return WebResponse(made.status, made.body, made.content_type)

    return answer


def _reachable(host: str) -> str:
    """What peers connect to: an address of this machine where every interface is served."""
    if host in ("0.0.0.0", "::"):
        with contextlib.suppress(OSError):
            return socket.gethostbyname(socket.gethostname())
        return "127.0.0.1"
    return host


def _write_line(line: str) -> None:
    sys.stderr.write(line)
    sys.stderr.flush()
