"""`/metrics` and `/health`: the broker's numbers as Prometheus reads them.

Owns: names and help texts of metrics. prometheus_client is imported at the first scrape, so
that it costs a start nothing.
"""

import json
import resource
from collections.abc import Iterable, Iterator
from typing import Any

from headrace.broker.api.registry import BY_KEY
from headrace.broker.broker import Broker
from headrace.runtime.buffers import BufferPool
from headrace.runtime.http import Page
from headrace.runtime.tcp import TcpServer


class MetricsPage:
    def __init__(self, broker: Broker, servers: Iterable[TcpServer], pool: BufferPool) -> None:
        self._broker = broker
        self._servers = list(servers)
        self._pool = pool
        self._registry: Any = None

    def metrics(self) -> Page:
        import prometheus_client

        if self._registry is None:
            self._registry = prometheus_client.CollectorRegistry()
            self._registry.register(self)
            prometheus_client.ProcessCollector(registry=self._registry)
        body = prometheus_client.generate_latest(self._registry)
        return Page(200, prometheus_client.CONTENT_TYPE_LATEST, body)

    def health(self) -> Page:
        """200 while everything is in service, 503 with the reason otherwise."""
        broker = self._broker
        offline = broker.partitions.offline_names()
        offline_log_dirs = broker.partitions.offline_paths()
        degraded = bool(offline or offline_log_dirs)
        status = "stopping" if broker.stopping else "degraded" if degraded else "ok"
        body = {
            "status": status,
            "node_id": broker.node_id,
            "cluster_id": broker.cluster_id,
            "offline_partitions": offline[:100],
            "offline_log_dirs": offline_log_dirs,
        }
        return Page(
            200 if status == "ok" else 503, "application/json", json.dumps(body).encode() + b"\n"
        )

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        broker, metrics = self._broker, self._broker.metrics
        requests = CounterMetricFamily(
            "headrace_requests", "Requests by API, answered or refused.", labels=["api"]
        )
        for key, count in sorted(metrics.requests.items()):
            requests.add_metric([BY_KEY[key].name], count)
        yield requests
        for name, help_text, value in (
            ("handler_failures", "Requests that met a bug.", metrics.handler_failures),
            (
                "storage_errors",
                "Disk operations that failed.",
                broker.partitions.storage_error_count,
            ),
            ("loop_stalls", "Times the loop was held up over 100 ms.", metrics.loop_stalls),
            ("connections_accepted", "Connections accepted.", self._sum("accepted")),
            ("connections_refused", "Connections over max.connections.", self._sum("refused")),
            ("protocol_errors", "Peers that broke the protocol.", self._sum("protocol_errors")),
            ("received_bytes", "Bytes received from clients.", self._sum("bytes_received")),
            ("sent_bytes", "Bytes sent to clients.", self._sum("bytes_sent")),
        ):
            yield CounterMetricFamily(f"headrace_{name}", help_text, value=value)
        connections = sum(len(server.connections) for server in self._servers)
        for name, help_text, value in (
            ("connections", "Open client connections.", connections),
            ("waiting_fetches", "Long polls that wait for data.", len(broker.waiting_fetches)),
            ("fetch_sessions", "Incremental fetch sessions.", len(broker.fetch_sessions)),
            ("request_buffer_bytes", "Half-read requests.", self._pool.private_bytes),
            ("topics", "Topics.", len(broker.image.topics_by_name)),
            ("offline_log_dirs", "Failed directories.", len(broker.partitions.offline_paths())),
            ("loop_stall_max_ms", "The longest stall.", metrics.loop_stall_ms_max),
            (
                "rss_max_bytes",
                "Peak memory.",
                resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            ),
        ):
            yield GaugeMetricFamily(f"headrace_{name}", help_text, value=value)
        yield from self._partitions()
        yield from self._groups()
        yield from self._transactions()

    def _partitions(self) -> Iterator[Any]:
        from prometheus_client.core import GaugeMetricFamily

        labels = ["topic", "partition"]
        end = GaugeMetricFamily("headrace_log_end_offset", "Next offset.", labels=labels)
        start = GaugeMetricFamily("headrace_log_start_offset", "First offset.", labels=labels)
        size = GaugeMetricFamily("headrace_log_size_bytes", "Bytes on disk.", labels=labels)
        for partition in self._broker.partitions.in_service():
            values = [partition.topic, str(partition.index)]
            end.add_metric(values, partition.high_watermark)
            start.add_metric(values, partition.log.log_start_offset)
            size.add_metric(values, partition.log.size_bytes)
        yield end
        yield start
        yield size
        yield GaugeMetricFamily(
            "headrace_offline_partitions",
            "Partitions out of service.",
            value=len(self._broker.partitions.offline_names()),
        )

    def _groups(self) -> Iterator[Any]:
        from prometheus_client.core import GaugeMetricFamily

        groups = GaugeMetricFamily("headrace_groups", "Consumer groups by state.", labels=["state"])
        counts = self._broker.groups.counts()
        for state, count in counts.by_state.items():
            groups.add_metric([state], count)
        yield groups
        yield GaugeMetricFamily(
            "headrace_group_members", "Members of all groups.", value=counts.members
        )
        yield GaugeMetricFamily(
            "headrace_group_offsets", "Committed offsets of all groups.", value=counts.offsets
        )

    def _transactions(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        coordinator = self._broker.transactions
        ids = GaugeMetricFamily(
            "headrace_transactional_ids", "Transactional ids coordinated here.", labels=["state"]
        )
        for state, count in coordinator.counts().items():
            ids.add_metric([state], count)
        yield ids
        ended = CounterMetricFamily(
            "headrace_transactions_ended", "Transactions that ended here.", labels=["outcome"]
        )
        counters = coordinator.counters
        ended.add_metric(["committed"], counters.committed)
        ended.add_metric(["aborted"], counters.aborted)
        yield ended
        for name, help_text, value in (
            ("transactions_timed_out", "Aborted because they ran too long.", counters.timed_out),
            ("transactions_fenced", "Aborted by a newer producer.", counters.fenced),
            ("transactions_ids_expired", "Transactional ids forgotten.", counters.expired_ids),
        ):
            yield CounterMetricFamily(f"headrace_{name}", help_text, value=value)
        yield GaugeMetricFamily(
            "headrace_open_transactions",
            "Transactions that hold back read_committed readers, over all partitions.",
            value=sum(len(p.log.producers.ongoing) for p in self._broker.partitions.in_service()),
        )

    def _sum(self, counter: str) -> int:
        return sum(getattr(server.counters, counter) for server in self._servers)
