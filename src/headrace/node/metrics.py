"""`/metrics` and `/health`: a node's numbers as Prometheus reads them.

Owns: names and help texts of metrics. prometheus_client is imported at the first scrape, so
that it costs a start nothing.
"""

import json
import resource
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from headrace.base import compiled
from headrace.broker.api.registry import BY_KEY as BROKER_APIS
from headrace.broker.broker import Broker
from headrace.broker.cordon import cordoned_paths
from headrace.broker.lifecycle import State
from headrace.cluster.listener_apis import BY_KEY as CONTROLLER_APIS
from headrace.cluster.metrics import cluster_metrics
from headrace.node.assembly import AssembledNode
from headrace.runtime.buffers import BufferPool
from headrace.runtime.http import Page
from headrace.runtime.tcp import TcpServer

LAG_SERIES_MAX = 10_000
"""Groups times partitions that are told of: a page must stay readable."""
REPLICA_LAG_SERIES_MAX = 1_000
"""Partitions that are told of one by one as lagging: those that lag most."""

Rows = Iterable[tuple[str, str, float]]


class LoopMetrics:
    """How well the loop keeps time."""

    __slots__ = ("loop_stall_ms_max", "loop_stalls")

    def __init__(self) -> None:
        self.loop_stalls = 0
        """Times that the loop was held up for more than 100 ms."""
        self.loop_stall_ms_max = 0


class MetricsPage:
    def __init__(
        self,
        node: AssembledNode,
        servers: Iterable[TcpServer],
        pool: BufferPool,
        loop: LoopMetrics,
    ) -> None:
        self._node = node
        self._servers = list(servers)
        self._pool = pool
        self._loop = loop
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
        node, replica = self._node, self._node.replica
        body: dict[str, Any] = {
            "status": "ok",
            "node_id": node.config.node_id,
            "cluster_id": node.cluster_id,
            "roles": sorted(node.config.roles),
            "quorum": {
                "leader_id": replica.leader_id,
                "epoch": replica.epoch,
                "high_watermark": node.host.high_watermark,
                "is_voter": replica.node.me.key in replica.voters,
            },
        }
        if replica.leader_id < 0:
            body["status"] = "no quorum"
        if node.broker is not None:
            self._judge_broker(node.broker, body)
        ok = body["status"] == "ok"
        return Page(200 if ok else 503, "application/json", json.dumps(body).encode() + b"\n")

    def _judge_broker(self, broker: Broker, body: dict[str, Any]) -> None:
        lifecycle = self._node.lifecycle
        assert lifecycle is not None
        offline = broker.partitions.offline_names()
        offline_log_dirs = broker.partitions.offline_paths()
        body["broker"] = {"state": lifecycle.state.value, "fenced": lifecycle.is_fenced}
        body["offline_partitions"] = offline[:100]
        body["offline_log_dirs"] = offline_log_dirs
        if broker.stopping or lifecycle.state in (State.LEAVING, State.ENDED):
            body["status"] = "stopping"
        elif body["status"] == "ok" and lifecycle.state is not State.RUNNING:
            body["status"] = "starting"
        elif body["status"] == "ok" and (offline or offline_log_dirs or lifecycle.is_fenced):
            body["status"] = "degraded"

    def collect(self) -> Iterator[Any]:
        broker = self._node.broker
        yield from self._requests()
        yield from _counters(self._network_counters())
        yield from _gauges(self._network_gauges())
        yield from self._quorum()
        if self._node.controller is not None:
            yield from self._controller()
        if broker is not None:
            yield from _counters(self._broker_counters(broker))
            yield from _gauges(self._broker_gauges(broker))
            yield from self._partitions(broker)
            yield from self._groups(broker)
            yield from self._transactions(broker)
            yield from self._shares(broker)
            yield from self._replication(broker)
            yield from self._cleaner(broker)
            yield from self._telemetry(broker)

    def _requests(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily

        requests = CounterMetricFamily(
            "headrace_requests", "Requests by API, answered or refused.", labels=["api"]
        )
        counts: Counter[str] = Counter()
        if self._node.broker is not None:
            for key, count in self._node.broker.metrics.requests.items():
                counts[BROKER_APIS[key].name] += count
        if self._node.listener is not None:
            for key, count in self._node.listener.requests.items():
                counts[CONTROLLER_APIS[key].name] += count
        for name, count in sorted(counts.items()):
            requests.add_metric([name], count)
        yield requests

    def _network_counters(self) -> Rows:
        broker, listener = self._node.broker, self._node.listener
        failures = 0 if broker is None else broker.metrics.handler_failures
        failures += 0 if listener is None else listener.handler_failures
        return (
            ("handler_failures", "Requests that met a bug.", failures),
            ("loop_stalls", "Times the loop was held up over 100 ms.", self._loop.loop_stalls),
            ("connections_accepted", "Connections accepted.", self._sum("accepted")),
            ("connections_refused", "Connections over max.connections.", self._sum("refused")),
            ("protocol_errors", "Peers that broke the protocol.", self._sum("protocol_errors")),
            ("received_bytes", "Bytes received from clients.", self._sum("bytes_received")),
            ("sent_bytes", "Bytes sent to clients.", self._sum("bytes_sent")),
        )

    def _network_gauges(self) -> Rows:
        connections = sum(len(server.connections) for server in self._servers)
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return (
            ("connections", "Open client connections.", connections),
            ("request_buffer_bytes", "Half-read requests.", self._pool.private_bytes),
            ("loop_stall_max_ms", "The longest stall.", self._loop.loop_stall_ms_max),
            ("rss_max_bytes", "Peak memory.", usage.ru_maxrss * 1024),
            (*compiled.GAUGE, compiled.is_compiled()),
        )

    def _broker_counters(self, broker: Broker) -> Rows:
        lifecycle = self._node.lifecycle
        assert lifecycle is not None
        errors = broker.partitions.storage_error_count
        refused = lifecycle.refused_heartbeats
        return (
            ("storage_errors", "Disk operations that failed.", errors),
            ("heartbeats_refused", "Heartbeats without a good answer.", refused),
            ("throttled_requests", "Requests above a quota.", broker.quotas.throttled_count),
            ("throttled_ms", "Time they were told to wait.", broker.quotas.throttled_ms),
            ("controller_retries", "Requests to it asked again.", self._node.channel.retry_count),
        )

    def _broker_gauges(self, broker: Broker) -> Rows:
        lifecycle, channel = self._node.lifecycle, self._node.channel
        assert lifecycle is not None
        late_ms, late_ms_max = lifecycle.heartbeat_late_ms, lifecycle.heartbeat_late_ms_max
        offline_log_dirs = len(broker.partitions.offline_paths())
        return (
            ("waiting_fetches", "Long polls that wait for data.", len(broker.waiting_fetches)),
            ("fetch_sessions", "Incremental fetch sessions.", len(broker.fetch_sessions)),
            ("topics", "Topics.", len(broker.image.topics_by_name)),
            ("offline_log_dirs", "Failed directories.", offline_log_dirs),
            ("cordoned_log_dirs", "Without new replicas.", len(cordoned_paths(broker.config))),
            ("full_log_dirs", "Directories without room.", len(broker.partitions.full_paths())),
            ("broker_fenced", "1 if this broker is fenced.", lifecycle.is_fenced),
            ("heartbeat_late_ms", "How late the last heartbeat was answered.", late_ms),
            ("heartbeat_late_max_ms", "The latest of all.", late_ms_max),
            ("controller_waiting", "Requests that wait for a controller.", channel.waiting_count),
        )

    def _quorum(self) -> Iterator[Any]:
        from prometheus_client.core import GaugeMetricFamily

        replica, host = self._node.replica, self._node.host
        role = GaugeMetricFamily(
            "headrace_quorum_role", "1 for the role in the metadata quorum.", labels=["role"]
        )
        role.add_metric([replica.node.role.NAME], 1)
        yield role
        lag = max(0, replica.node.log.end_offset - host.high_watermark)
        yield from _gauges(
            (
                ("quorum_epoch", "Epoch of the metadata quorum: its elections.", replica.epoch),
                ("quorum_leader_id", "Who leads it; -1 nobody known.", replica.leader_id),
                ("quorum_voters", "How many vote.", len(replica.voters)),
                ("quorum_high_watermark", "Committed and replayed.", host.high_watermark),
                ("quorum_log_end_offset", "End of the log here.", replica.node.log.end_offset),
                ("quorum_uncommitted_records", "In the log and not committed.", lag),
            )
        )

    def _controller(self) -> Iterator[Any]:
        controller = self._node.controller
        assert controller is not None
        yield from _gauges((("controller_active", "1 if it decides.", controller.is_active),))
        yield from _counters(
            (
                ("leader_elections", "Partitions led by another.", controller.leader_elections),
                ("unclean_elections", "Leaders not in sync.", controller.unclean_elections),
            )
        )
        if not controller.is_active:
            return
        counted = cluster_metrics(self._node.host.committed)
        yield from _gauges(
            (
                ("cluster_active_brokers", "Brokers in service.", counted.active_brokers),
                ("cluster_fenced_brokers", "Brokers out of service.", counted.fenced_brokers),
                ("cluster_cordoned_brokers", "Without room.", counted.cordoned_brokers),
                ("cluster_reassigning_partitions", "On the move.", counted.reassigning_partitions),
                ("cluster_partitions", "Partitions of all topics.", counted.partitions),
                ("cluster_offline_partitions", "Without a leader.", counted.offline_partitions),
                (
                    "cluster_under_replicated_partitions",
                    "With replicas out of sync.",
                    counted.under_replicated_partitions,
                ),
                (
                    "cluster_preferred_imbalance",
                    "Led by others than the preferred.",
                    counted.preferred_imbalance,
                ),
            )
        )

    def _partitions(self, broker: Broker) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        labels = ["topic", "partition"]
        end = GaugeMetricFamily("headrace_log_end_offset", "Next offset.", labels=labels)
        start = GaugeMetricFamily("headrace_log_start_offset", "First offset.", labels=labels)
        size = GaugeMetricFamily("headrace_log_size_bytes", "Bytes on disk.", labels=labels)
        received = CounterMetricFamily(
            "headrace_partition_received_bytes", "Written by clients.", labels=labels
        )
        sent = CounterMetricFamily(
            "headrace_partition_sent_bytes", "Read by clients.", labels=labels
        )
        for partition in broker.partitions.in_use():  # ten thousand unused ones say nothing
            values = [partition.topic, str(partition.index)]
            end.add_metric(values, partition.high_watermark)
            start.add_metric(values, partition.log.log_start_offset)
            size.add_metric(values, partition.log.size_bytes)
            if partition.received_bytes:
                received.add_metric(values, partition.received_bytes)
            if partition.sent_bytes:
                sent.add_metric(values, partition.sent_bytes)
        yield end
        yield start
        yield size
        yield received
        yield sent
        yield GaugeMetricFamily(
            "headrace_offline_partitions",
            "Partitions out of service.",
            value=len(broker.partitions.offline_names()),
        )

    def _groups(self, broker: Broker) -> Iterator[Any]:
        from prometheus_client.core import GaugeMetricFamily

        groups = GaugeMetricFamily(
            "headrace_groups", "Groups by type and state.", labels=["type", "state"]
        )
        counts = broker.groups.counts()
        for (type_, state), count in counts.by_type_and_state.items():
            groups.add_metric([type_, state], count)
        yield groups
        yield GaugeMetricFamily(
            "headrace_group_members", "Members of all groups.", value=counts.members
        )
        yield GaugeMetricFamily(
            "headrace_group_offsets", "Committed offsets of all groups.", value=counts.offsets
        )
        labels = ["group", "topic", "partition"]
        records = GaugeMetricFamily(
            "headrace_group_lag_records", "Records a group has not read yet.", labels=labels
        )
        seconds = GaugeMetricFamily(
            "headrace_group_lag_seconds",
            "Age of the oldest record that a group has not read.",
            labels=labels,
        )
        now_ms = broker.clock.now_ms()
        for lag in broker.groups.lags(broker.partitions.find, now_ms, LAG_SERIES_MAX):
            values = [lag.group_id, lag.topic, str(lag.partition)]
            records.add_metric(values, lag.records)
            if lag.seconds is not None:
                seconds.add_metric(values, lag.seconds)
        yield records
        yield seconds

    def _transactions(self, broker: Broker) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        coordinator = broker.transactions
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
            value=sum(len(log.producers.ongoing) for log in broker.partitions.made_logs()),
        )

    def _shares(self, broker: Broker) -> Iterator[Any]:
        shares, counted = broker.shares, broker.shares.metrics
        hosted = shares.all()
        in_flight = sum(each.state.in_flight_count for each in hosted if each.state is not None)
        yield from _gauges(
            (
                ("share_sessions", "Share sessions.", len(shares.sessions)),
                ("share_partitions", "Share-partitions led here.", len(hosted)),
                ("share_in_flight_records", "Records delivered and not settled.", in_flight),
                ("share_waiting_fetches", "Share fetches that wait.", len(shares.waiting)),
            )
        )
        yield from _counters(
            (
                ("share_acquired_records", "Records handed out.", counted.acquired),
                ("share_accepted_records", "Records acknowledged.", counted.accepted),
                ("share_released_records", "Records given back.", counted.released),
                ("share_rejected_records", "Records rejected.", counted.rejected),
                ("share_renewed_records", "Locks prolonged.", counted.renewed),
                ("share_archived_records", "Delivered too often, given up.", counted.archived),
                ("share_lock_timeouts", "Records whose lock ended.", counted.lock_timeouts),
                ("share_state_writes", "Writes of state asked for.", counted.writes),
                ("share_state_write_failures", "Those refused.", counted.failed_writes),
            )
        )

    def _replication(self, broker: Broker) -> Iterator[Any]:
        replication = broker.replication
        fetchers = replication.fetchers
        yield from _gauges(
            (
                (
                    "under_replicated_partitions",
                    "Led here, with replicas out of sync.",
                    replication.under_replicated(),
                ),
                (
                    "under_min_isr_partitions",
                    "Led here, with too few replicas in sync to be written with acks=all.",
                    replication.under_min_isr(),
                ),
                ("replica_fetchers", "Leaders that are followed.", len(fetchers)),
                ("followed_partitions", "Partitions that are followed.", sum(map(len, fetchers))),
            )
        )
        yield from _counters(
            (
                ("isr_shrinks", "ISRs led here that lost replicas.", replication.isr_shrinks),
                ("isr_expands", "ISRs led here that gained some.", replication.isr_expands),
                ("replica_fetches", "Fetches that were answered.", replication.fetch_count),
                ("replica_fetched_bytes", "Bytes followed.", replication.bytes_fetched),
                ("replica_fetch_failures", "Fetches that failed.", replication.fetch_failures),
            )
        )
        yield from self._replica_lags(broker)
        yield from self._throttles(broker)

    def _replica_lags(self, broker: Broker) -> Iterator[Any]:
        from prometheus_client.core import GaugeMetricFamily

        lags = broker.replication.lags()
        yield from _gauges(
            (
                (
                    "replica_lag_records_max",
                    "Committed records that the followed partition lacks that lacks most.",
                    lags[0][0] if lags else 0,
                ),
                ("lagging_partitions", "Followed, and lacking some.", len(lags)),
            )
        )
        lag = GaugeMetricFamily(
            "headrace_replica_lag_records",
            "Committed records that a followed partition lacks; those that lack none are left out.",
            labels=["topic", "partition"],
        )
        for records, partition in lags[:REPLICA_LAG_SERIES_MAX]:
            lag.add_metric([partition.topic, str(partition.index)], records)
        yield lag

    def _throttles(self, broker: Broker) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        rate = GaugeMetricFamily(
            "headrace_replication_throttle_bytes_per_second",
            "What throttled replicas may take; -1 is no limit.",
            labels=["side"],
        )
        taken = CounterMetricFamily(
            "headrace_replication_throttled_bytes",
            "Bytes of throttled partitions, in sync or not.",
            labels=["side"],
        )
        held = CounterMetricFamily(
            "headrace_replication_throttled_waits",
            "Times that a replica out of sync had to wait.",
            labels=["side"],
        )
        for side, throttle in (
            ("leader", broker.replication.leader_throttle),
            ("follower", broker.replication.follower_throttle),
        ):
            rate.add_metric([side], throttle.rate_bytes_max if throttle.is_set else -1)
            taken.add_metric([side], throttle.byte_count)
            held.add_metric([side], throttle.held_count)
        yield from (rate, taken, held)

    def _telemetry(self, broker: Broker) -> Iterator[Any]:
        from prometheus_client.core import GaugeMetricFamily

        telemetry = broker.telemetry
        pushed = GaugeMetricFamily(
            "headrace_client_metric",
            "What clients told of themselves (KIP-714), the newest of each.",
            labels=["client_id", "software", "metric"],
        )
        for client_id, software, name, value in telemetry.rows(broker.clock.monotonic_ms()):
            pushed.add_metric([client_id, software, name], value)
        yield pushed
        yield from _gauges(
            (("telemetry_clients", "Clients with a subscription.", telemetry.client_count),)
        )
        yield from _counters(
            (
                ("telemetry_pushes", "Pushes taken.", telemetry.pushes),
                ("telemetry_refused", "Pushes refused.", telemetry.refused),
            )
        )

    def _cleaner(self, broker: Broker) -> Iterator[Any]:
        cleaner = broker.cleaner
        if cleaner is None:
            return
        yield from _gauges(
            (
                ("cleaner_busy", "Logs that are being compacted.", cleaner.busy_count),
                ("cleaner_dirty_ratio_max", "Dirtiest compacted log.", cleaner.dirty_ratio_max),
                ("uncleanable_partitions", "Damaged, not compacted.", len(cleaner.uncleanable)),
            )
        )
        yield from _counters(
            (
                ("cleanings", "Logs compacted.", cleaner.cleanings),
                ("cleaner_failures", "Compactions that failed.", cleaner.failures),
                ("cleaner_read_bytes", "Bytes read by compaction.", cleaner.read_bytes),
                ("cleaner_written_bytes", "Bytes written by it.", cleaner.written_bytes),
                ("cleaner_read_records", "Records met by it.", cleaner.records_read),
                ("cleaner_kept_records", "Records that stayed.", cleaner.records_kept),
                ("cleaner_ms", "Time spent compacting.", cleaner.elapsed_ms),
            )
        )

    def _sum(self, counter: str) -> int:
        return sum(getattr(server.counters, counter) for server in self._servers)


def _counters(rows: Rows) -> Iterator[Any]:
    from prometheus_client.core import CounterMetricFamily

    for name, help_text, value in rows:
        yield CounterMetricFamily(f"headrace_{name}", help_text, value=value)


def _gauges(rows: Rows) -> Iterator[Any]:
    from prometheus_client.core import GaugeMetricFamily

    for name, help_text, value in rows:
        yield GaugeMetricFamily(f"headrace_{name}", help_text, value=value)
