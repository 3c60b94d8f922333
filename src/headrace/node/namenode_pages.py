"""The NameNode's pages for machines and people: /metrics, /health, /jmx and /fsck.

Owns: names and help texts of metrics. Must not know: beans (`namenode_beans`), how they are asked
for (`jmx`). prometheus_client is imported at the first scrape, and what serves /fsck and WebHDFS
with the first request, so that they cost a start nothing.
"""

import json
import resource
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from headrace.base import compiled
from headrace.base.promise import Promise
from headrace.base.web import JSON, WebRequest, WebResponse
from headrace.namespace.namenode import NameNode
from headrace.namespace.rpc.translation import Groups
from headrace.node import jmx
from headrace.node.namenode_beans import NameNodeBeans, safe_mode_tip
from headrace.runtime.tcp import TcpServer
from headrace.runtime.wakefulness import Wakefulness
from headrace.runtime.web import Page
from headrace.wire.hadoop.rpc_session import RpcEndpoint

if TYPE_CHECKING:
    from headrace.namespace.http.fsck_repairs import Salvage

FSCK = "/fsck"


class LatePage:
    """A page whose code is loaded when it is first asked for."""

    def __init__(self, make: Callable[[], Page]) -> None:
        self._make = make
        self._page: Page | None = None

    def __call__(self, request: WebRequest) -> WebResponse | Promise[WebResponse]:
        if self._page is None:
            self._page = self._make()
        return self._page(request)


def _fsck(namenode: NameNode, groups: Groups, salvage: "Salvage") -> Page:
    from headrace.namespace.http.fsck import Fsck

    return Fsck(namenode, groups, salvage)


def webhdfs_page(namenode: NameNode, groups: Groups, rpc_address: str) -> Page:
    def make() -> Page:
        from headrace.namespace.http.webhdfs import WebHdfs

        return WebHdfs(namenode, groups, rpc_address)

    return LatePage(make)


class NameNodePages:
    def __init__(
        self,
        namenode: NameNode,
        endpoint: RpcEndpoint,
        server: TcpServer | None,
        wakefulness: Wakefulness,
        config: dict[str, Any],
        beans: NameNodeBeans,
    ) -> None:
        self._namenode = namenode
        self._endpoint = endpoint
        self._server = server
        self._wakefulness = wakefulness
        self._config = config
        self._beans = beans
        self._registry: Any = None

    def table(self, groups: Groups, salvage: "Salvage") -> dict[str, Page]:
        return {
            "/metrics": self.metrics,
            "/health": self.health,
            "/jmx": self.jmx,
            "/conf": self.conf,
            FSCK: LatePage(lambda: _fsck(self._namenode, groups, salvage)),
        }

    # -- /health, /conf ------------------------------------------------------------------

    def health(self, _: WebRequest) -> WebResponse:
        """200 while everything is in service, 503 with the reason otherwise."""
        namenode = self._namenode
        stats = namenode.fs_stats()
        safe_mode = namenode.safe_mode
        status = "degraded" if stats.missing_blocks or safe_mode.lack_of_room else "ok"
        body = {
            "status": status,
            "role": "namenode",
            "state": "active",
            "cluster_id": namenode.ns.cluster_id,
            "safe_mode": safe_mode.is_on,
            "safe_mode_tip": safe_mode_tip(namenode),
            "name_dir_full": bool(safe_mode.lack_of_room),
            "live_datanodes": len(namenode.datanodes.live()),
            "doubtful_datanodes": len(namenode.datanodes.doubtful()),
            "missing_blocks": stats.missing_blocks,
        }
        return _json(body, 200 if status == "ok" else 503)

    def conf(self, _: WebRequest) -> WebResponse:
        properties = [{"key": key, "value": value} for key, value in self._config.items()]
        return _json({"properties": properties})

    # -- /jmx ----------------------------------------------------------------------------

    def jmx(self, request: WebRequest) -> WebResponse:
        return jmx.page(self._beans.all(), request)

    # -- /metrics ------------------------------------------------------------------------

    def metrics(self, _: WebRequest) -> WebResponse:
        import prometheus_client

        if self._registry is None:
            self._registry = prometheus_client.CollectorRegistry()
            self._registry.register(self)
            prometheus_client.ProcessCollector(registry=self._registry)
        body = prometheus_client.generate_latest(self._registry)
        return WebResponse(200, body, prometheus_client.CONTENT_TYPE_LATEST)

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        calls = CounterMetricFamily(
            "headrace_namenode_calls", "RPC calls by method.", labels=["method"]
        )
        for method, count in sorted(self._endpoint.calls.items()):
            calls.add_metric([method], count)
        yield calls
        refused = CounterMetricFamily(
            "headrace_namenode_refusals", "Refused RPC calls by exception.", labels=["exception"]
        )
        for name, count in sorted(self._endpoint.refused.items()):
            refused.add_metric([name.rpartition(".")[2]], count)
        yield refused
        if self._server is not None:
            counters = self._server.counters
            for name, help_text, value in (
                ("handler_failures", "Calls that met a bug.", counters.handler_failures),
                ("connections_accepted", "Connections accepted.", counters.accepted),
                ("connections_refused", "Connections over the limit.", counters.refused),
                ("protocol_errors", "Peers that broke the protocol.", counters.protocol_errors),
                ("received_bytes", "Bytes received.", counters.bytes_received),
                ("sent_bytes", "Bytes sent.", counters.bytes_sent),
                (
                    "namenode_busy_wait_turns",
                    "How often the loop looked for the next call instead of sleeping.",
                    self._wakefulness.turns,
                ),
                (
                    "namenode_core_keeper_seconds",
                    "CPU time that kept a core awake while calls waited for the disk.",
                    self._wakefulness.kept_s,
                ),
            ):
                yield CounterMetricFamily(f"headrace_{name}", help_text, value=value)
        for name, help_text, value in self._namenode.trash.counters():
            yield CounterMetricFamily(f"headrace_{name}", help_text, value=value)
        for name, help_text, value in self._gauges():
            yield GaugeMetricFamily(f"headrace_{name}", help_text, value=value)

    def _gauges(self) -> list[tuple[str, str, int]]:
        namenode = self._namenode
        stats = namenode.fs_stats()
        resident_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return [
            (*compiled.GAUGE, compiled.is_compiled()),
            ("namespace_inodes", "Files, directories and symlinks.", len(namenode.ns.inodes)),
            ("namespace_blocks", "Blocks.", len(namenode.ns.blocks)),
            ("datanodes_live", "DataNodes that are heard of.", len(namenode.datanodes.live())),
            (
                "datanodes_doubtful",
                "Live DataNodes that nobody is sent to: disconnected or stale.",
                len(namenode.datanodes.doubtful()),
            ),
            ("datanodes_known", "DataNodes that ever registered.", len(namenode.datanodes)),
            ("dfs_capacity_bytes", "Bytes of all volumes.", stats.capacity),
            ("dfs_used_bytes", "Bytes of replicas.", stats.used),
            ("dfs_remaining_bytes", "Bytes free for replicas.", stats.remaining),
            ("blocks_under_replicated", "Blocks short of replicas.", stats.under_replicated),
            (
                "blocks_highest_priority",
                "Of them, those that the next failure would lose.",
                stats.highest_priority_blocks,
            ),
            (
                "blocks_badly_placed",
                "Blocks with all their replicas on one rack.",
                stats.badly_placed_blocks,
            ),
            (
                "blocks_in_future_bytes",
                "Bytes of replicas from the future: leaving safe mode by force would delete them.",
                stats.future_bytes,
            ),
            ("blocks_corrupt", "Blocks with a corrupt replica.", stats.corrupt_blocks),
            ("blocks_missing", "Blocks without a good replica.", stats.missing_blocks),
            ("safe_mode", "1 while writes are refused.", int(namenode.safe_mode.is_on)),
            *self._room_gauges(),
            ("resident_bytes_max", "Most memory ever resident.", resident_kib * 1024),
        ]

    def _room_gauges(self) -> list[tuple[str, str, int]]:
        room = self._namenode.room
        if room is None:
            return []
        return [
            ("name_dir_full", "1 while too little room is left for edits.", int(room.is_short)),
            ("name_dir_free_bytes", "Bytes left where the edit log is.", room.free_bytes),
        ]


def _json(value: Any, status: int = 200) -> WebResponse:
    return WebResponse(status, json.dumps(value).encode() + b"\n", JSON)
