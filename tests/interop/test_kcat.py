"""kcat as Debian ships it: librdkafka 2.0.2, which turns features on by exact old versions."""

import json
import subprocess
from collections.abc import Callable

import pytest
from tests.interop.confluent import create_topic
from tests.interop.conftest import Target

from headrace.wire.kafka.compression import Compression
from headrace.wire.kafka.record_batch import read_header

Unique = Callable[[str], str]


def run(kcat: str, target: Target, *arguments: str, stdin: str = "") -> str:
    done = subprocess.run(
        [kcat, "-b", target.bootstrap_servers, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_lines_go_in_and_come_out(target: Target, unique: Unique, kcat: str, codec: str) -> None:
    topic = unique(f"kcat-{codec}")
    create_topic(target.bootstrap_servers, topic)
    lines = "".join(f"k{n}:value {n} {'x' * 50}\n" for n in range(300))
    run(kcat, target, "-P", "-t", topic, "-K:", "-z", codec, stdin=lines)
    out = run(kcat, target, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-K:")
    assert out == lines
    # This old library stops compressing, silently, where it misses old versions of Produce.
    (log,) = next(target.data.rglob(f"{topic}-0")).glob("*.log")
    assert read_header(log.read_bytes()).compression == Compression[codec.upper()]


def test_json_shows_headers_time_and_offset(target: Target, unique: Unique, kcat: str) -> None:
    topic = unique("kcat-json")
    create_topic(target.bootstrap_servers, topic)
    run(kcat, target, "-P", "-t", topic, "-k", "key", "-H", "who=kcat", stdin="value\n")
    out = run(kcat, target, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-J")
    record = json.loads(out)
    assert (record["key"], record["payload"], record["offset"]) == ("key", "value", 0)
    assert record["headers"] == ["who", "kcat"]
    assert record["ts"] > 1_600_000_000_000


def test_metadata_is_listed(target: Target, unique: Unique, kcat: str) -> None:
    topic = unique("kcat-list")
    create_topic(target.bootstrap_servers, topic, partitions=3)
    listed = json.loads(run(kcat, target, "-L", "-J", "-t", topic))
    assert [broker["name"] for broker in listed["brokers"]] == [target.bootstrap_servers]
    (described,) = listed["topics"]
    assert len(described["partitions"]) == 3


def test_group_reads_everything_once(target: Target, unique: Unique, kcat: str) -> None:
    topic, group = unique("kcat-group"), unique("kcat-group")
    create_topic(target.bootstrap_servers, topic, partitions=2)
    run(kcat, target, "-P", "-t", topic, stdin="".join(f"{n}\n" for n in range(50)))
    arguments = ["-G", group, "-X", "auto.offset.reset=earliest", "-e", "-q", topic]
    out = run(kcat, target, *arguments)
    assert sorted(map(int, out.split())) == list(range(50))
    assert run(kcat, target, *arguments) == ""


def test_offset_by_time(target: Target, unique: Unique, kcat: str) -> None:
    topic = unique("kcat-time")
    create_topic(target.bootstrap_servers, topic)
    run(kcat, target, "-P", "-t", topic, stdin="a\nb\n")
    assert run(kcat, target, "-Q", "-t", f"{topic}:0:1").split()[-1] == "0"


def test_idempotent_producer(target: Target, unique: Unique, kcat: str) -> None:
    topic = unique("kcat-idempotent")
    create_topic(target.bootstrap_servers, topic)
    run(kcat, target, "-P", "-t", topic, "-X", "enable.idempotence=true", stdin="a\nb\n")
    assert run(kcat, target, "-C", "-t", topic, "-e", "-q") == "a\nb\n"
