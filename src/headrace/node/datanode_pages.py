"""A DataNode's pages: `/metrics`, `/health` and `/jmx`.

Owns: names and help texts. prometheus_client is imported at the first scrape, so that it costs a
start nothing. `/jmx` has the few beans that HDFS's tools look for.
"""

import json
from collections.abc import Iterator
from typing import Any

from headrace.base import compiled
from headrace.base.web import WebRequest, WebResponse
from headrace.datanode.context import Context
from headrace.datanode.pinning import PinnedReplicas
from headrace.datanode.service import NameNodeService
from headrace.node import jmx
from headrace.runtime.disk import DiskStorage
from headrace.runtime.http import Page
from headrace.runtime.transfer import TransferPort

_COUNTERS = {
    "bytes_written": "Bytes of blocks written here.",
    "bytes_read": "Bytes of blocks sent from here.",
    "blocks_written": "Blocks received whole.",
    "blocks_read": "Reads sent whole.",
    "blocks_replicated": "Blocks copied to other nodes.",
    "checksum_failures": "Packets whose checksums were wrong.",
    "refusals": "Operations refused.",
    "syncs": "Syncs asked for by writers.",
    "mirror_failures": "Next nodes of a pipeline that failed.",
    "blocks_scanned": "Blocks checked by the scanner.",
    "bytes_scanned": "Bytes checked by the scanner.",
}


class DatanodePages:
    def __init__(
        self, context: Context, service: NameNodeService, port: TransferPort, storage: DiskStorage
    ) -> None:
        self._context = context
        self._storage = storage
        self._service = service
        self._port = port
        self._registry: Any = None

    @property
    def _pinned(self) -> PinnedReplicas | None:
        commands = self._service.commands
        return None if commands is None else commands.pinned

    def metrics(self) -> Page:
        import prometheus_client

        if self._registry is None:
            self._registry = prometheus_client.CollectorRegistry()
            self._registry.register(self)
            prometheus_client.ProcessCollector(registry=self._registry)
        body = prometheus_client.generate_latest(self._registry)
        return Page(200, prometheus_client.CONTENT_TYPE_LATEST, body)

    def health(self) -> Page:
        """200 while registered and every volume is in service, 503 otherwise."""
        dataset = self._context.dataset
        failed = [volume.path for volume in dataset.volumes if volume.failed]
        status = "registering" if not self._service.registered else "degraded" if failed else "ok"
        body = {
            "status": status,
            "datanode_uuid": self._context.identity.datanodeUuid,
            "block_pool": dataset.pool.pool_id if dataset.pool else None,
            "replicas": len(dataset.replicas),
            "failed_volumes": failed,
        }
        return _json(200 if status == "ok" else 503, body)

    def jmx(self, request: WebRequest) -> WebResponse:
        context, dataset = self._context, self._context.dataset
        live, pinned = dataset.live_volumes(), self._pinned
        capacity = sum(volume.capacity_bytes() for volume in live)
        remaining = sum(volume.free_bytes() for volume in live)
        beans = [
            {
                "name": "Hadoop:service=DataNode,name=FSDatasetState",
                "Capacity": capacity,
                "DfsUsed": sum(volume.used_bytes for volume in live),
                "Remaining": remaining,
                "NumFailedVolumes": len(dataset.volumes) - len(live),
                "NumBlocks": len(dataset.replicas),
                "CacheCapacity": 0 if pinned is None else pinned.capacity_bytes,
                "CacheUsed": 0 if pinned is None else pinned.used_bytes,
                "NumBlocksCached": 0 if pinned is None else len(pinned.block_ids()),
                "NumBlocksFailedToCache": 0 if pinned is None else pinned.refusals,
            },
            {
                "name": "Hadoop:service=DataNode,name=DataNodeInfo",
                "XceiverCount": context.active,
                "DatanodeHostname": context.identity.hostName,
                "RpcPort": str(context.identity.ipcPort),
                "HttpPort": str(context.identity.infoPort),
                "DataPort": str(context.identity.xferPort),
            },
            {
                "name": "Hadoop:service=DataNode,name=DataNodeActivity",
                "BytesWritten": context.counters.bytes_written,
                "BytesRead": context.counters.bytes_read,
                "BlocksWritten": context.counters.blocks_written,
                "BlocksRead": context.counters.blocks_read,
                "BlocksReplicated": context.counters.blocks_replicated,
            },
        ]
        return jmx.page(beans, request)

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        context, port, dataset = self._context, self._port, self._context.dataset
        for name, words in _COUNTERS.items():
            value = getattr(context.counters, name)
            yield CounterMetricFamily(f"headrace_datanode_{name}", words, value)
        by_ring, by_threads = self._storage.done_beside
        for name, words, value in (
            ("disk_by_ring", "Writes and syncs that the kernel did beside us (io_uring).", by_ring),
            ("disk_by_threads", "Writes and syncs of threads: no ring, or none left.", by_threads),
            ("connections_accepted", "Transfer connections accepted.", port.accepted),
            ("connections_refused", "Transfer connections over the limit.", port.refused),
            ("protocol_errors", "Peers that broke the protocol.", port.protocol_errors),
            ("handler_failures", "Unexpected failures of a handler.", port.handler_failures),
            ("heartbeats", "Heartbeats answered.", self._service.heartbeats),
            ("registrations", "Times registered.", self._service.registrations),
        ):
            yield CounterMetricFamily(f"headrace_datanode_{name}", words, value)
        live, pinned = dataset.live_volumes(), self._pinned
        held = 0 if pinned is None else pinned.used_bytes
        for name, words, value in (
            ("pinned_bytes", "Memory taken by blocks that cache directives name.", held),
            ("replicas", "Replicas here, whole and unfinished.", len(dataset.replicas)),
            ("transfers", "Operations under way.", context.active),
            ("streams", "Transfer connections open.", len(port.streams)),
            ("volumes_failed", "Volumes out of service.", len(dataset.volumes) - len(live)),
            ("used_bytes", "Bytes of blocks.", sum(volume.used_bytes for volume in live)),
            ("registered", "1 while the NameNode knows us.", int(self._service.registered)),
        ):
            yield GaugeMetricFamily(f"headrace_datanode_{name}", words, value)
        name, words = compiled.GAUGE
        yield GaugeMetricFamily(f"headrace_{name}", words, compiled.is_compiled())


def _json(status: int, body: dict[str, Any]) -> Page:
    return Page(status, "application/json", json.dumps(body).encode() + b"\n")
