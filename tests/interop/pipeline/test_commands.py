"""`headrace pipeline …` as processes against a real broker and file system, without Spark.

Batches are flushed here in one process by what Spark's tasks would run: the commands that look at
them, merge them and send back what did not fit must not care.
"""

import json
import os
import shutil
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import confluent_kafka
import pyarrow
import pyarrow.parquet
import pytest
from tests.interop.confluent import create_topic

from headrace.cli.main import run
from headrace.pipeline import dead_letters, inspection, submit
from headrace.pipeline.batches import Batches
from headrace.pipeline.fence import Driver, Fence
from headrace.pipeline.flush import FileSettings, FlushTask, flush_slice
from headrace.pipeline.layout import topic_folder
from headrace.pipeline.log_client import LogClient
from headrace.pipeline.parquet_file import ATTRIBUTE, footer_facts
from headrace.pipeline.plan import Plan, SliceFacts
from headrace.pipeline.publication import Publication, Wanted
from headrace.pipeline.settings import Settings
from headrace.pipeline.target_files import HdfsFiles
from headrace.testing.cluster import LocalBroker
from headrace.testing.filesystem import LocalFileSystem

# Spark may live on from tests before: PySpark leaves sockets to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

TIMEOUT_S = 240
BATCHES = 4
RECORDS = 30


def command(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-P", "-m", "headrace", "pipeline", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def produce(broker: LocalBroker, topic: str, first: int) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(first, first + RECORDS):
        producer.produce(topic, value=b"v%d" % number, key=b"%d" % number, partition=0)
    assert producer.flush(60) == 0


def flush(settings: Settings, files: HdfsFiles, nonce: str) -> None:
    """One batch of all there is."""
    rooms = settings.rooms

    def stage(plan: Plan) -> list[SliceFacts]:
        return [
            flush_slice(
                FlushTask(
                    log=settings.log,
                    work=work,
                    topic_id=plan.topic_ids[work.topic],
                    target_url=settings.target_url,
                    staging=rooms.staging_of(plan.number),
                    label=str(index),
                    pipeline=settings.name,
                    number=plan.number,
                    file=FileSettings("zstd"),
                ),
                "0",
            )
            for index, work in enumerate(plan.slices)
        ]

    fence = Fence(files, rooms, Driver("here", 1, nonce, 0))
    fence.claim()
    publication = Publication(files, Batches(files, rooms, nonce), rooms, fence, stage)
    where = (settings.topics[0], 0)
    with LogClient(settings.log) as log:
        ends = log.latest([where])
    publication.advance(Wanted(ends, {where: 0}, {where[0]: ""}))


class Lister(threading.Thread):
    """A reader that knows nothing of pipelines: it lists, again and again."""

    def __init__(self, files: HdfsFiles, folder: str) -> None:
        super().__init__(daemon=True)
        self._files, self._folder = files, folder
        self._ending = threading.Event()
        self.seen: list[frozenset[str]] = []

    def run(self) -> None:
        # A pause, so that the one who is watched gets the processor too.
        while not self._ending.wait(0.005):
            found = frozenset(each.path for each in self._files.list(self._folder))
            if not self.seen or self.seen[-1] != found:
                self.seen.append(found)

    def end(self) -> list[frozenset[str]]:
        self._ending.set()
        self.join(TIMEOUT_S)
        assert not self.is_alive()
        return self.seen


def test_compact_shows_a_reader_the_old_files_or_the_new_ones(
    broker: LocalBroker, dfs: LocalFileSystem, capsys: pytest.CaptureFixture[str]
) -> None:
    create_topic(broker.bootstrap_servers, "small", partitions=1)
    settings = Settings(broker.bootstrap_servers, f"{dfs.url}/small", topics=("small",))
    with closing(HdfsFiles(dfs.url)) as files, closing(HdfsFiles(dfs.url)) as other:
        check_compaction(settings, broker, files, other)
        check_wrong_files(settings, broker, files, capsys)


def check_compaction(
    settings: Settings, broker: LocalBroker, files: HdfsFiles, other: HdfsFiles
) -> None:
    for number in range(BATCHES):
        produce(broker, "small", number * RECORDS)
        flush(settings, files, f"n{number}")
    published = settings.rooms.published(topic_folder("small"))
    before = frozenset(each.path for each in files.walk(published))
    assert len(before) >= BATCHES
    check_facts(files, sorted(before), settings.name)
    folder = sorted(before)[0].rsplit("/", 1)[0]
    lister = Lister(other, folder)
    lister.start()
    try:
        where = ("-b", broker.bootstrap_servers, "--target", settings.target)
        done = command("compact", *where, "--json")
    finally:
        seen = lister.end()
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    after = frozenset(each.path for each in files.walk(published))
    assert told["files_before"] > told["files_after"] >= 1
    assert len(after) == len(before) - told["files_before"] + told["files_after"]
    here = [frozenset(p for p in each if p.startswith(folder + "/")) for each in (before, after)]
    assert set(seen) <= set(here), "a reader saw neither the old set nor the new one"
    assert seen[0] == here[0]
    report = inspection.verify(settings)
    assert report.is_right, report.all_problems
    assert sum(each.records for each in report.partitions) == BATCHES * RECORDS
    check_facts(files, sorted(after), settings.name)
    # There is nothing left to merge.
    assert inspection.compact(settings).files_before == 0


def check_facts(files: HdfsFiles, paths: list[str], pipeline: str) -> None:
    """The attribute says what the footer says, and both what the file holds."""
    held = 0
    for path in paths:
        content = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(files.read(path)))
        offsets = content.read(["offset"]).column("offset").to_pylist()
        attribute = files.facts(path, ATTRIBUTE)
        assert attribute is not None, path
        told = {key: str(value) for key, value in json.loads(attribute).items()}
        assert told == footer_facts(content.metadata.metadata)
        assert (told["pipeline"], told["topic"], told["partition"]) == (pipeline, "small", "0")
        assert (told["first"], told["last"]) == (str(min(offsets)), str(max(offsets)))
        assert told["records"] == str(len(offsets))
        assert len(told["checksum"]) == 8
        held += len(offsets)
    assert held == BATCHES * RECORDS


def check_wrong_files(
    settings: Settings, broker: LocalBroker, files: HdfsFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    """One file more is published, and goes; then something lies there that is no file of ours."""
    verify = ["pipeline", "verify", "-b", broker.bootstrap_servers, "--target", settings.target]
    first = BATCHES * RECORDS
    produce(broker, "small", first)
    flush(settings, files, "last")
    published = settings.rooms.published(topic_folder("small"))
    (path,) = [e.path for e in files.walk(published) if f"small-0-{first}-" in e.path]
    assert run(verify) == 0
    told = capsys.readouterr()
    assert "right" in told.out
    assert "every record below the checkpoint is in exactly one file" in told.err
    # A topic of somebody else is no lag of ours.
    create_topic(broker.bootstrap_servers, "others", 1)
    produce(broker, "others", 0)
    words = ["-b", broker.bootstrap_servers, "--target", settings.target, "--json"]
    assert run(["pipeline", "status", *words]) == 0
    standing = json.loads(capsys.readouterr().out)
    assert standing["lag_records"] == 0
    assert {each["topic"] for each in standing["partitions"]} == {"small"}
    bytes_of_it = files.read(path)
    files.delete(path)
    gone = f"small-0: in the log, but in no file: {first}-{first + RECORDS - 1} ({RECORDS} offsets)"
    assert run(verify) == 1
    told = capsys.readouterr()
    assert "WRONG" in told.out
    assert gone in told.err.splitlines()
    assert "pipeline small: the files are not the log" in told.err
    assert "Traceback" not in told.err
    assert run([*verify, "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["right"], report["problems"]) == (False, [gone])
    assert report["records"] == first
    # Back again under two names: the records are there twice.
    for copy in (path, path.replace(f"small-0-{first}-", f"small-0-{first + 1}-")):
        writer = files.create(copy)
        writer.write(bytes_of_it)
        writer.close()
    assert run([*verify, "--json"]) == 1
    problems = json.loads(capsys.readouterr().out)["problems"]
    assert any(f"more than once: {first}-{first + RECORDS - 1}" in each for each in problems)
    assert any("its name says other offsets than it holds" in each for each in problems)


def test_redrive_sends_a_selection_back_as_it_was(
    broker: LocalBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    create_topic(broker.bootstrap_servers, "origin", partitions=1)
    target = "hdfs://127.0.0.1:1/redriven"
    settings = Settings(broker.bootstrap_servers, target, topics=("origin",))
    letters = [
        dead_letters.DeadLetter(
            topic="origin",
            partition=0,
            offset=offset,
            timestamp_ms=1_772_366_400_000 + offset,
            key=b"k%d" % offset,
            value=b"v%d" % offset,
            headers=(("h", b"1"),),
            cause="late: at" if offset % 2 else "the value does not fit",
            pipeline=settings.name,
        )
        for offset in range(10)
    ]
    create_topic(broker.bootstrap_servers, settings.dead_letters, partitions=1)
    dead_letters.send(settings.log, settings.dead_letters, [*letters, *letters[:3]])
    words = ("-b", broker.bootstrap_servers, "--target", target)
    selection = ("--origin", "origin", "--from", "2", "--to", "7", "--cause", "fit", "--json")
    assert run(["pipeline", "redrive", *words, *selection, "--dry-run"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [each["offset"] for each in shown["letters"]] == [2, 4, 6]
    with LogClient(settings.log) as log:
        assert log.latest([("origin", 0)]) == {("origin", 0): 0}
    sent = command("redrive", *words, *selection)
    assert sent.returncode == 0, sent.stderr
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "redrive-reader"}
    )
    consumer.assign([confluent_kafka.TopicPartition("origin", 0, 0)])
    try:
        found = consumer.consume(3, TIMEOUT_S)
    finally:
        consumer.close()
    assert [(each.key(), each.value(), each.headers(), each.timestamp()[1]) for each in found] == [
        (b"k%d" % n, b"v%d" % n, [("h", b"1")], 1_772_366_400_000 + n) for n in (2, 4, 6)
    ]


def test_what_can_not_work_is_a_sentence_before_spark(
    broker: LocalBroker, dfs: LocalFileSystem, capsys: pytest.CaptureFixture[str]
) -> None:
    create_topic(broker.bootstrap_servers, "there", partitions=1)
    log, target = ("-b", broker.bootstrap_servers), f"{dfs.url}/nothing"
    for words, sentence in (
        ((*log, "-t", "nowhere", "--target", target), "topic nowhere does not exist"),
        ((*log, "--topic-pattern", "no.*", "--target", target), "no topic fits"),
        ((*log, "-t", "there", "--target", "hdfs://127.0.0.1:1/x"), "hdfs://127.0.0.1:1 does not"),
    ):
        assert run(["pipeline", "run", *words]) == 1
        told = capsys.readouterr().err
        assert sentence in told
        assert "Traceback" not in told
        assert "Spark" not in told
    with closing(HdfsFiles(dfs.url)) as files:
        assert not files.exists("/nothing")


@pytest.mark.long
def test_a_full_disk_is_a_sentence_and_nothing_is_published(broker: LocalBroker) -> None:
    create_topic(broker.bootstrap_servers, "much", partitions=1)
    produce(broker, "much", 0)
    # All of the volume is kept for others: no block finds a place.
    with LocalFileSystem(datanodes=1, settings={"dfs.datanode.du.reserved": 1 << 60}) as full:
        target = f"{full.url}/full"
        done = command("run", "-b", broker.bootstrap_servers, "-t", "much", "--target", target)
        assert done.returncode == 1, done.stderr
        last = done.stderr.strip().splitlines()[-1]
        assert "/full/_headrace/full" in last
        assert "no DataNode has room or takes the block" in last
        assert "Traceback" not in done.stderr
        with closing(HdfsFiles(full.url)) as files:
            assert list(files.walk("/full/topic=much")) == []


@pytest.mark.long
@pytest.mark.java
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark's launcher needs a whole Java")
def test_sparks_own_launcher_flushes_and_says_what_is_wrong(
    broker: LocalBroker, dfs: LocalFileSystem, tmp_path: Path
) -> None:
    launcher = Path(sys.executable).with_name("spark-submit")
    config = tmp_path / "pipeline.toml"
    config.write_text(
        f'bootstrap-servers = "{broker.bootstrap_servers}"\ntopic = ["submitted"]\n'
        f'target = "{dfs.url}/submitted"\navailable-now = true\nmetrics-port = -1\n'
    )
    words = [str(launcher), "--master", "local[2]", "--conf", "spark.ui.enabled=false"]

    def launch() -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*words, submit.__file__, str(config)],
            stdin=subprocess.DEVNULL,
            # The launcher hands on what the job says to stderr as its own stdout.
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=2 * TIMEOUT_S,
            check=False,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        )

    missing = launch()
    assert missing.returncode == 1, missing.stdout
    assert "headrace: topic submitted does not exist" in missing.stdout
    create_topic(broker.bootstrap_servers, "submitted", partitions=1)
    produce(broker, "submitted", 0)
    done = launch()
    assert done.returncode == 0, done.stdout
    settings = Settings(broker.bootstrap_servers, f"{dfs.url}/submitted", topics=("submitted",))
    report = inspection.verify(settings)
    assert report.is_right, report.all_problems
    assert sum(each.records for each in report.partitions) == RECORDS
