"""What Prometheus sees of a running pipeline: /metrics on a port of its driver.

Owns: names, help texts, and the HTTP server. Must not know: where the numbers come from.
"""

from collections.abc import Iterable
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

from headrace.base.errors import UsageError
from headrace.pipeline.plan import Commit
from headrace.pipeline.status import PartitionLag

HOST = "127.0.0.1"


class PipelineMetrics:
    def __init__(self, pipeline: str) -> None:
        self.registry = CollectorRegistry()
        labels = ("pipeline",)
        where = ("pipeline", "topic", "partition")

        def counter(name: str, text: str) -> Counter:
            made = Counter(f"headrace_pipeline_{name}", text, labels, registry=self.registry)
            return made.labels(pipeline)

        def gauge(name: str, text: str) -> Gauge:
            made = Gauge(f"headrace_pipeline_{name}", text, labels, registry=self.registry)
            return made.labels(pipeline)

        self._pipeline = pipeline
        self._batches = counter("batches", "Batches that were committed.")
        self._records = counter("records", "Records in published files.")
        self._files = counter("files", "Files that were published.")
        self._bytes = counter("bytes", "Bytes of published files.")
        self.failures = counter("failures", "Failures of the query, each with a restart.")
        self._number = gauge("last_batch", "Number of the last batch.")
        self._duration = gauge("last_batch_seconds", "From the last batch's plan to its commit.")
        self._committed = gauge("last_commit_timestamp_seconds", "When the last batch was done.")
        self._lag_records = Gauge(
            "headrace_pipeline_lag_records",
            "Offsets between what is committed and the end that may be read.",
            where,
            registry=self.registry,
        )
        self._lag_seconds = Gauge(
            "headrace_pipeline_lag_seconds",
            "Age of the oldest record that is in no committed file.",
            where,
            registry=self.registry,
        )
        self._server: WSGIServer | None = None

    def serve(self, port: int) -> int:
        """On loopback; port 0 is a free one. Returns the port."""
        try:
            self._server, _ = start_http_server(port, HOST, self.registry)
        except OSError as error:
            raise UsageError(f"--metrics-port {port} on {HOST}: {error.strerror}") from None
        return int(self._server.server_port)

    def close(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def on_commit(self, commit: Commit) -> None:
        self._batches.inc()
        self._records.inc(commit.records)
        self._files.inc(commit.files)
        self._bytes.inc(commit.size_bytes)
        self._number.set(commit.number)
        self._duration.set(commit.duration_ms / 1000)
        self._committed.set(commit.committed_ms / 1000)

    def on_lags(self, lags: Iterable[PartitionLag]) -> None:
        for each in lags:
            where = (self._pipeline, each.topic, str(each.partition))
            self._lag_records.labels(*where).set(each.records)
            self._lag_seconds.labels(*where).set(each.seconds)
