"""A topic of our broker and a folder of our file system, for tests that flush one into the other.

Owns: producing, running a pipeline in the session there is, and reading as a stranger would. Must
not know: what a test is about.
"""

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import confluent_kafka
import confluent_kafka.admin
import pyarrow
import pyarrow.dataset
from tests.interop.confluent import admin_of

from headrace.fs import FileSystem
from headrace.pipeline.job import Pipeline
from headrace.pipeline.settings import Settings
from headrace.pipeline.target_files import split_url
from headrace.testing.cluster import LocalBroker
from headrace.testing.filesystem import LocalFileSystem

PARTITIONS = 2
TIMEOUT_S = 240


class Case:
    def __init__(self, broker: LocalBroker, dfs: LocalFileSystem, spark) -> None:  # type: ignore[no-untyped-def]
        self.topic = f"orders-{uuid.uuid4().hex[:6]}"
        self.broker, self.dfs, self.spark = broker, dfs, spark
        self.target = f"{dfs.url}/lake-{self.topic}"
        self.said: list[str] = []
        producer = confluent_kafka.admin.AdminClient(
            {"bootstrap.servers": broker.bootstrap_servers}
        )
        made = producer.create_topics([confluent_kafka.admin.NewTopic(self.topic, PARTITIONS, 1)])
        made[self.topic].result(30)

    def settings(self, **more: object) -> Settings:
        chosen: dict[str, object] = {
            "topics": (self.topic,),
            "available_now": True,
            "metrics_port": -1,
            **more,
        }
        return Settings(self.broker.bootstrap_servers, self.target, **chosen)  # type: ignore[arg-type]

    def produce(self, count: int, *, commit: bool = True, first: int = 0) -> None:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self.broker.bootstrap_servers,
                "transactional.id": f"tx-{self.topic}",
                "compression.type": "lz4",
            }
        )
        producer.init_transactions(30)
        producer.begin_transaction()
        for number in range(first, first + count):
            producer.produce(
                self.topic,
                key=b"%d" % number,
                value=None if number % 50 == 0 else b'{"id": %d}' % number,
                partition=number % PARTITIONS,
                headers={"n": b"%d" % number},
            )
        producer.flush(60)
        if commit:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)

    def run(self, **more: object) -> Pipeline:
        pipeline = Pipeline(self.settings(**more), spark=self.spark, say=self.said.append)
        pipeline.run()
        return pipeline

    def keys(self) -> list[int]:
        """Read as a stranger would: by folder, without Spark."""
        return sorted(int(key) for key in self.table(["key"]).column("key").to_pylist())

    def table(self, columns: list[str] | None = None) -> pyarrow.Table:
        found = pyarrow.dataset.dataset(
            split_url(self.target)[1],
            filesystem=FileSystem(self.dfs.url),
            format="parquet",
            partitioning="hive",
        )
        return found.to_table(columns=columns)

    def group(self) -> dict[tuple[str, int], int]:
        """Where the pipeline's group stands, by Kafka's admin client."""
        asked = confluent_kafka.ConsumerGroupTopicPartitions(self.settings().group)
        admin = admin_of(self.broker.bootstrap_servers)
        answer = admin.list_consumer_group_offsets([asked])[asked.group_id].result(30)
        return {(each.topic, each.partition): each.offset for each in answer.topic_partitions}

    @contextmanager
    def running(self, **more: object) -> "Iterator[Running]":
        """A pipeline in a thread of its own; it is stopped at the end, whatever comes."""
        chosen = {"available_now": False, "trigger_s": 0.5, **more}
        made = Running(Pipeline(self.settings(**chosen), spark=self.spark, say=self.said.append))
        made.start()
        try:
            yield made
        finally:
            made.pipeline.stop()
            made.join(TIMEOUT_S)


class Running(threading.Thread):
    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__(daemon=True)
        self.pipeline = pipeline
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            self.pipeline.run()
        except BaseException as error:
            self.failure = error


def until(reached: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not reached():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.1)
