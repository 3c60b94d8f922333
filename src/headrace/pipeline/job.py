"""The pipeline as a running job: a Spark query that plans batches and has its tasks write them.

    from headrace.pipeline.job import Pipeline
    from headrace.pipeline.settings import Settings

    Pipeline(Settings("127.0.0.1:9092", "hdfs://127.0.0.1:8020/lake", topics=("orders",))).run()

Owns: the query's life, restarts with back-off, and what is said while it runs. Must not know: the
order of publication (`publication`), how a file is written (`flush`).

Spark says when there is work, keeps the offsets it saw in its checkpoint, schedules and retries the
tasks. Which records are in which batch is decided by our own plans: a Spark checkpoint that is
lost or older repeats nothing and skips nothing.
"""

import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.base.errors import HeadraceError
from headrace.client.errors import ClientError
from headrace.pipeline import preflight, transform
from headrace.pipeline.admission import records_per_file
from headrace.pipeline.batches import Batches
from headrace.pipeline.compact import CannotCompact
from headrace.pipeline.decode.compiled import is_likely_compiled
from headrace.pipeline.errors import DataLost
from headrace.pipeline.failures import FINAL, is_final, sentence
from headrace.pipeline.fence import Driver, Fence
from headrace.pipeline.inferred_schema import INFER, InferredSchema, SchemaPin
from headrace.pipeline.inspection import compact, oldest_ms, unflushed
from headrace.pipeline.log_client import LogClient
from headrace.pipeline.metrics import PipelineMetrics
from headrace.pipeline.plan import FileFacts, Plan, Positions, SliceFacts
from headrace.pipeline.publication import Done, Publication, Wanted
from headrace.pipeline.ranges import OffsetRange
from headrace.pipeline.settings import Settings, checked
from headrace.pipeline.spark import start_session
from headrace.pipeline.staging import stage
from headrace.pipeline.status import lags_of
from headrace.pipeline.target_files import FilesError, HdfsFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

POLL_S_MAX = 1.0
PAUSE_S_MIN = 1.0
PAUSE_S_MAX = 60.0
LAG_INTERVAL_S = 5.0
ASIDE_KEPT_MS = 3_600_000
_WATCH_S = 1

Say = Callable[[str], None]


class PipelineFailed(HeadraceError):
    """The query failed, and restarts did not help."""


class Pipeline:
    """One pipeline; `run` returns when it is stopped, or with everything done (`available_now`)."""

    def __init__(
        self,
        settings: Settings,
        *,
        spark: "SparkSession | None" = None,
        say: Say = lambda _: None,
        on_batch: Callable[[Done], None] = lambda _: None,
    ) -> None:
        self.settings = checked(settings)
        self._spark = spark
        self._owns_spark = spark is None
        self._say = say
        self._on_batch = on_batch
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._batches_done = 0
        self._attempts = 0
        self._bytes_per_record: dict[str, float] = {}
        self._nonce = secrets.token_hex(6)
        self._clients = ExitStack()
        self._metrics = PipelineMetrics(settings.name)
        self._lag_due_s = 0.0
        self._positions: Positions = {}
        self._compact_due_s = time.monotonic() + settings.compact_every_s

    # -- its life ------------------------------------------------------------------------------

    def run(self) -> None:
        began_s = time.monotonic()
        topics = preflight.check(self.settings)
        settings = self.settings = preflight.sized(self.settings)
        self._say(f"pipeline {settings.name}: {', '.join(topics)} → {settings.target}")
        try:
            if settings.metrics_port >= 0:
                port = self._metrics.serve(settings.metrics_port)
                self._say(f"metrics on http://127.0.0.1:{port}/metrics")
            self._prepare()
            # From here on a driver before this one is out: nothing that can be known earlier
            # may keep this one from its work.
            self._open()
            self._say(f"ready after {time.monotonic() - began_s:.1f} s")
            self._run_with_restarts()
        finally:
            self._close()

    def _prepare(self) -> None:
        """Spark is up and takes the transformation."""
        settings = self.settings
        if self._spark is None:
            self._say("starting Spark …")
            compiler = _compile_aside()
            name = f"headrace-{settings.name}"
            try:
                self._spark = start_session(
                    name, settings.master, settings.spark, is_light=settings.is_raw
                )
            finally:
                if compiler is not None:
                    compiler.wait()
        if settings.schema == INFER:
            with closing(HdfsFiles(settings.checkpoint_url)) as files:
                pinned = SchemaPin(files, settings.rooms, self._nonce).read()
            settings = replace(settings, schema=pinned or INFER)
        if not settings.is_raw and settings.schema != INFER:
            transform.check(self._spark, settings)

    def stop(self) -> None:
        """Ends `run` soon, from any thread. A batch under way is completed by the next driver."""
        self._stopping.set()

    def _open(self) -> None:
        settings = self.settings
        rooms = settings.rooms
        self._checkpoint_files = self._opened(settings.checkpoint_url)
        self._files = (
            self._checkpoint_files
            if settings.target_url == settings.checkpoint_url
            else self._opened(settings.target_url)
        )
        self._log = self._clients.enter_context(LogClient(settings.log))
        # Asked while a batch is running in Spark's thread: a client serves one at a time.
        self._lag_log = self._clients.enter_context(LogClient(settings.log))
        self._batches = Batches(self._checkpoint_files, rooms, self._nonce)
        self._pin = SchemaPin(self._checkpoint_files, rooms, self._nonce)
        driver = Driver(socket.gethostname(), os.getpid(), self._nonce, int(time.time() * 1000))
        self._fence = Fence(self._checkpoint_files, rooms, driver)
        epoch = self._fence.claim()
        self._publication = Publication(self._files, self._batches, rooms, self._fence, self._stage)
        if settings.schema == INFER:
            assert self._spark is not None
            self._inferred = InferredSchema(
                self._spark, settings, self._pin, check_fence=self._fence.check, say=self._say
            )
        self._set_damaged_aside(epoch)
        self._sweep_aside()

    def _opened(self, url: str) -> HdfsFiles:
        """Closed with the rest."""
        return self._clients.enter_context(closing(HdfsFiles(url)))

    def _close(self) -> None:
        self._metrics.close()
        self._clients.close()
        if self._owns_spark and self._spark is not None:
            self._spark.stop()
            self._spark = None

    def _set_damaged_aside(self, epoch: int) -> None:
        """A power cut may leave an empty file in Spark's checkpoint, with which it would not start.

        Nothing is lost with it: the plans know where everything stands.
        """
        rooms = self.settings.rooms
        found = [
            entry
            for folder in ("", "/offsets", "/commits")
            for entry in self._checkpoint_files.list(rooms.spark + folder)
        ]
        if any(not e.is_folder and e.size_bytes == 0 for e in found):
            aside = f"{rooms.spark}.damaged-{epoch}"
            self._checkpoint_files.rename(rooms.spark, aside)
            self._say(f"Spark's checkpoint was damaged and is now {aside}")

    def _sweep_aside(self) -> None:
        """Records that a death kept from their place. By age: another driver may be writing one."""
        kept_ms = int(time.time() * 1000) - ASIDE_KEPT_MS
        for entry in self._checkpoint_files.list(self.settings.rooms.aside):
            if entry.modified_ms < kept_ms:
                self._checkpoint_files.delete(entry.path)

    # -- the query -----------------------------------------------------------------------------

    def _run_with_restarts(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            done_before = self._batches_done
            failure = self._run_query()
            if failure is None:
                return
            # Another driver explains any failure, and is the better sentence. A file system that
            # can't be asked is no reason to end: the next attempt asks again before it writes.
            with suppress(FilesError):
                self._fence.check()
            if is_final(failure):
                raise failure if isinstance(failure, FINAL) else PipelineFailed(sentence(failure))
            if self._batches_done > done_before:
                failures = 0
            failures += 1
            if failures > self.settings.restarts_max:
                raise PipelineFailed(
                    f"pipeline {self.settings.name} failed {failures} times: {sentence(failure)}"
                )
            self._metrics.failures.inc()
            pause_s = min(PAUSE_S_MAX, PAUSE_S_MIN * 2 ** (failures - 1))
            self._say(f"failed: {sentence(failure)}; again in {pause_s:.0f} s")
            self._stopping.wait(pause_s)

    def _run_query(self) -> BaseException | None:
        """Until it is stopped, done, or failed; a failure is returned."""
        self._failure = None
        try:
            query = self._start_query()
        except Exception as error:  # Py4J's and Spark's have no common type
            return error
        try:
            while not self._stopping.is_set():
                if query.awaitTermination(_WATCH_S):
                    return None
                self._maybe_tell_lag()
        except Exception as error:
            return self._failure or error
        finally:
            _stop_quietly(query)
        return None

    def _tell_group(self) -> None:
        if not self._positions:
            return
        try:
            self._log.commit_group(self.settings.group, self._positions)
        except ClientError as error:
            # Only what others see of us: the next batch's commit says it again.
            self._say(f"group {self.settings.group}: {error}")

    def _start_query(self) -> "StreamingQuery":
        from headrace.pipeline.range_stream import FORMAT, OPTION, RangeSource

        settings = self.settings
        assert self._spark is not None
        self._spark.dataSource.register(RangeSource)
        # What a death left half done is completed at once, also if nothing new ever comes.
        for done in self._publication.advance(Wanted({}, {}, {})):
            self._after(done)
        last = self._batches.standing().last
        self._positions = {} if last is None else last.positions
        # Whoever committed the last batch may have died before the group heard of it.
        self._tell_group()
        for batch in self._batches.recent(1):
            self._learn_sizes(batch.manifest.files)
        if settings.schema == INFER and self._pin.read() is None:
            self._say("no schema yet: it is inferred from the first records that come")
        options = replace(
            preflight.watch_options(settings),
            known=self._positions,
            topic_ids={} if last is None else last.topic_ids,
            bytes_per_record=self._bytes_per_record,
            leader_epochs={} if last is None else last.leader_epochs,
        )
        rows = self._spark.readStream.format(FORMAT).option(OPTION, options.to_json()).load()
        writer = (
            rows.writeStream.foreachBatch(self._batch)
            .queryName(f"headrace-{settings.name}")
            .option("checkpointLocation", f"{settings.checkpoint_url}{settings.rooms.spark}")
        )
        if settings.available_now:
            return writer.trigger(availableNow=True).start()
        poll_ms = int(min(POLL_S_MAX, settings.trigger_s) * 1000)
        return writer.trigger(processingTime=f"{poll_ms} milliseconds").start()

    def _batch(self, rows: "DataFrame", batch_id: int) -> None:
        """Called by Spark, in a thread of its own, for every batch and again after a failure."""
        try:
            self._run_batch(rows.collect(), batch_id)
        except BaseException as error:
            # Spark would only hand on its text.
            self._failure = error
            raise

    def _run_batch(self, rows: Sequence[Any], batch_id: int) -> None:
        new = {row.topic for row in rows} - {topic for topic, _ in self._positions}
        if new:
            # Of a pattern, found while it runs: they may have been flushed here before.
            preflight.check_target(self._files, self._batches, self.settings, new)
        wanted = Wanted(
            ends={(row.topic, row.partition): row.end for row in rows},
            starts={(row.topic, row.partition): row.start for row in rows},
            topic_ids={row.topic: row.topic_id for row in rows},
            records_per_file=self._rooms_of(rows),
            settings={**self._settled(rows).file_settings, "spark_batch": batch_id},
            leader_epochs={(row.topic, row.partition): row.leader_epoch for row in rows},
        )
        for done in self._publication.advance(wanted):
            self._after(done)

    def _settled(self, rows: Sequence[Any]) -> Settings:
        """The settings with the schema of this batch, if it is to be inferred."""
        settings = self.settings
        if settings.schema != INFER:
            return settings
        starts = {(r.topic, r.partition): r.start for r in rows} | self._positions
        ranges = [
            OffsetRange(r.topic, r.partition, starts[r.topic, r.partition], r.end, r.topic_id)
            for r in rows
            if r.end > starts[r.topic, r.partition]
        ]
        last = self._batches.recent(1)
        had_dead = any(each.dead for batch in last for each in batch.manifest.slices)
        return replace(settings, schema=self._inferred.of(ranges, had_dead=had_dead))

    def _learn_sizes(self, files: Sequence[FileFacts]) -> None:
        for topic in {each.topic for each in files}:
            of_topic = [each for each in files if each.topic == topic]
            records = sum(each.records for each in of_topic)
            self._bytes_per_record[topic] = sum(each.size_bytes for each in of_topic) / records

    def _rooms_of(self, rows: Sequence[Any]) -> dict[str, int]:
        """Records a file: by the files written before, else by what the log says."""
        rooms = {row.topic: int(row.per_file) for row in rows if row.per_file}
        for topic, size in self._bytes_per_record.items():
            rooms[topic] = records_per_file(self.settings.file_bytes, size)
        return rooms

    def _after(self, done: Done) -> None:
        self._batches_done += 1
        self._positions = done.plan.positions
        self._learn_sizes(done.manifest.files)
        self._tell_group()
        self._batches.fold()
        commit = done.commit
        self._say(
            f"batch {commit.number}: {commit.records} records in {commit.files} files, "
            f"{commit.size_bytes} bytes, {commit.duration_ms} ms{self._told_late(done)}"
        )
        self._metrics.on_commit(commit)
        self._maybe_compact()
        self._on_batch(done)

    def _told_late(self, done: Done) -> str:
        late = sum(each.late for each in done.manifest.slices)
        fate = done.plan.settings.get("late")
        return f"; {late} late ({fate})" if late else ""

    def _maybe_compact(self) -> None:
        """Between batches, in their thread: what a batch finds is never moved under it."""
        every_s = self.settings.compact_every_s
        if every_s <= 0 or time.monotonic() < self._compact_due_s:
            return
        self._compact_due_s = time.monotonic() + every_s
        try:
            done = compact(self.settings, self._say)
        except CannotCompact as error:
            self._compact_due_s = float("inf")
            self._say(str(error))
            return
        except (FilesError, preflight.CannotStart) as error:
            # The batch is committed; another compaction may have been at the same files.
            self._say(f"compaction: {error}; again in {every_s:.0f} s")
            return
        if done.files_before:
            self._say(f"compacted {done.files_before} files into {done.files_after}")

    def _maybe_tell_lag(self) -> None:
        """For the metrics, now and then; what does not answer now is asked later."""
        if self.settings.metrics_port < 0 or time.monotonic() < self._lag_due_s:
            return
        self._lag_due_s = time.monotonic() + LAG_INTERVAL_S
        with suppress(ClientError, DataLost):
            positions = self._positions
            positions = positions | unflushed(self.settings, self._lag_log, positions)
            self._metrics.on_lags(
                lags_of(
                    positions,
                    self._lag_log.latest(sorted(positions)),
                    lambda where, start, end: oldest_ms(self.settings, where, start, end),
                    int(time.time() * 1000),
                )
            )

    def _stage(self, plan: Plan) -> list[SliceFacts]:
        assert self._spark is not None
        self._attempts += 1
        return stage(self._spark, self.settings, plan, f"{self._fence.epoch}-{self._attempts}")


def _compile_aside() -> "subprocess.Popen[bytes] | None":
    """The first start on a machine compiles the decoder: while Java starts, not after it."""
    if is_likely_compiled():
        return None
    code = "from headrace.pipeline.log_reader import warm; warm()"
    return subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.DEVNULL)


def _stop_quietly(query: "StreamingQuery") -> None:
    try:
        query.stop()
    except Exception:
        # It is over either way; a JVM that died can't stop anything.
        return
