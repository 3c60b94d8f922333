"""Apache Kafka's own command-line tools, version 4.3.0, against the broker."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.interop.conftest import Target
from tests.interop.java_tools import JavaTools, ToolResult

pytestmark = pytest.mark.java

Unique = Callable[[str], str]
Tool = Callable[..., ToolResult]


@pytest.fixture
def tool(target: Target, java: JavaTools) -> Tool:
    """`tool("kafka-topics", "--list")`, with the broker's address and a checked exit status."""

    def run(name: str, *arguments: str, stdin: str = "") -> ToolResult:
        servers = ("--bootstrap-server", target.bootstrap_servers)
        return java.run(name, *servers, *arguments, stdin=stdin).check()

    return run


def create(tool: Tool, topic: str, partitions: int = 1, *more: str) -> None:
    words = ["--create", "--topic", topic, "--partitions", str(partitions)]
    tool("kafka-topics", *words, "--replication-factor", "1", *more)
    # Kafka answers before all its parts know of the topic; a busy one needs a moment.
    for _ in range(50):
        if topic in tool("kafka-topics", "--list").stdout.split():
            return
    raise AssertionError(f"{topic} was made but is not listed")


def fill(tool: Tool, topic: str, count: int, *more: str) -> list[str]:
    lines = [f"line {number}" for number in range(count)]
    text = "".join(f"{line}\n" for line in lines)
    tool("kafka-console-producer", "--topic", topic, *more, stdin=text)
    return lines


def test_topics(tool: Tool, java: JavaTools, target: Target, unique: Unique) -> None:
    topic = unique("jt-topics")
    create(tool, topic, 3, "--config", "retention.ms=100000")
    assert topic in tool("kafka-topics", "--list").stdout.split()
    described = tool("kafka-topics", "--describe", "--topic", topic).stdout
    assert re.search(rf"Topic: {topic}\s+TopicId: \S{{22}}\s+PartitionCount: 3", described)
    assert "retention.ms=100000" in described
    assert (
        len(re.findall(r"Partition: \d+\s+Leader: \d+\s+Replicas: \d+\s+Isr: \d+", described)) == 3
    )
    tool("kafka-topics", "--alter", "--topic", topic, "--partitions", "5")
    assert "PartitionCount: 5" in tool("kafka-topics", "--describe", "--topic", topic).stdout
    again = ["--bootstrap-server", target.bootstrap_servers, "--create", "--topic", topic]
    refused = java.run("kafka-topics", *again)
    assert refused.status == 1
    assert "already exists" in refused.stdout + refused.stderr
    tool("kafka-topics", "--create", "--topic", topic, "--if-not-exists")
    for option in ("--under-replicated-partitions", "--unavailable-partitions"):
        assert tool("kafka-topics", "--describe", option).stdout.strip() == ""
    tool("kafka-topics", "--delete", "--topic", topic)
    assert topic not in tool("kafka-topics", "--list").stdout.split()


def test_describe_pages_over_many_topics(tool: Tool, unique: Unique) -> None:
    topic = unique("jt-paging")
    create(tool, topic, 40)
    paged = ("--describe", "--topic", topic, "--partition-size-limit-per-response", "7")
    described = tool("kafka-topics", *paged).stdout
    assert re.findall(r"Partition: (\d+)", described) == [str(n) for n in range(40)]


def test_configs_of_a_topic(tool: Tool, unique: Unique) -> None:
    topic = unique("jt-configs")
    create(tool, topic)
    entity = ("--entity-type", "topics", "--entity-name", topic)
    tool("kafka-configs", *entity, "--alter", "--add-config", "retention.ms=5000,flush.ms=7")
    described = tool("kafka-configs", *entity, "--describe").stdout
    assert "retention.ms=5000" in described
    assert "DYNAMIC_TOPIC_CONFIG:retention.ms=5000" in described
    tool("kafka-configs", *entity, "--alter", "--delete-config", "retention.ms")
    described = tool("kafka-configs", *entity, "--describe").stdout
    assert "retention.ms" not in described
    assert "flush.ms=7" in described
    everything = tool("kafka-configs", *entity, "--describe", "--all").stdout
    assert "segment.bytes=1073741824" in everything
    assert "DEFAULT_CONFIG:log.segment.bytes=1073741824" in everything


def test_configs_of_the_broker(tool: Tool) -> None:
    entity = ("--entity-type", "brokers", "--describe", "--all")
    described = tool("kafka-configs", *entity).stdout
    for key in ("log.retention.ms", "num.partitions", "message.max.bytes"):
        assert f"{key}=" in described


def test_unknown_config_is_refused(
    tool: Tool, java: JavaTools, target: Target, unique: Unique
) -> None:
    topic = unique("jt-bad-config")
    create(tool, topic)
    words = ["--bootstrap-server", target.bootstrap_servers, "--entity-type", "topics"]
    words += ["--entity-name", topic, "--alter", "--add-config", "no.such.key=1"]
    refused = java.run("kafka-configs", *words)
    assert refused.status == 1
    assert "no.such.key" in refused.stdout + refused.stderr


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_console_producer_and_consumer(tool: Tool, unique: Unique, codec: str) -> None:
    topic = unique(f"jt-console-{codec}")
    create(tool, topic)
    text = "".join(f"key{n}:{'v' * 40}{n}\n" for n in range(100))
    parse = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    words = ("--topic", topic, "--compression-codec", codec)
    tool("kafka-console-producer", *words, *parse, stdin=text)
    show = ["--formatter-property", "print.key=true", "--formatter-property", "key.separator=:"]
    read = tool(
        "kafka-console-consumer",
        *("--topic", topic, "--from-beginning", "--max-messages", "100", *show),
    )
    assert read.stdout == text


def test_console_consumer_by_offset_pattern_and_isolation(tool: Tool, unique: Unique) -> None:
    topic = unique("jt-reading")
    create(tool, topic)
    lines = fill(tool, topic, 20)
    offset = ("--partition", "0", "--offset", "15", "--max-messages", "5")
    read = tool("kafka-console-consumer", "--topic", topic, *offset)
    assert read.stdout.splitlines() == lines[15:]
    committed = ("--isolation-level", "read_committed", "--from-beginning")
    words = ("--include", f"{topic[:-2]}.*", *committed, "--max-messages", "20")
    assert tool("kafka-console-consumer", *words).stdout.splitlines() == lines


def test_console_producer_makes_its_topic(tool: Tool, unique: Unique) -> None:
    topic = unique("jt-auto")
    lines = fill(tool, topic, 3, "--request-required-acks", "1")
    words = ("--topic", topic, "--from-beginning", "--max-messages", "3")
    assert tool("kafka-console-consumer", *words).stdout.splitlines() == lines


def test_console_consumer_in_a_group_and_consumer_groups(tool: Tool, unique: Unique) -> None:
    topic, group = unique("jt-groups"), unique("jt-group")
    create(tool, topic)
    fill(tool, topic, 10)
    words = ("--topic", topic, "--group", group, "--from-beginning", "--max-messages", "10")
    tool("kafka-console-consumer", *words)
    assert group in tool("kafka-consumer-groups", "--list").stdout.split()
    fill(tool, topic, 5)
    described = tool("kafka-consumer-groups", "--describe", "--group", group).stdout
    row = next(line.split() for line in described.splitlines() if topic in line)
    assert row[:6] == [group, topic, "0", "10", "15", "5"]
    state = tool("kafka-consumer-groups", "--describe", "--group", group, "--state").stdout
    assert "Empty" in state
    reset = ("--group", group, "--topic", topic, "--reset-offsets", "--to-earliest", "--execute")
    tool("kafka-consumer-groups", *reset)
    described = tool("kafka-consumer-groups", "--describe", "--group", group, "--offsets").stdout
    row = next(line.split() for line in described.splitlines() if topic in line)
    assert row[3:6] == ["0", "15", "15"]
    forget = ("--delete-offsets", "--group", group, "--topic", topic)
    tool("kafka-consumer-groups", *forget)
    tool("kafka-consumer-groups", "--delete", "--group", group)
    assert group not in tool("kafka-consumer-groups", "--list").stdout.split()


def test_get_offsets(tool: Tool, unique: Unique) -> None:
    topic = unique("jt-offsets")
    create(tool, topic)
    fill(tool, topic, 25)
    for time, offset in (("earliest", 0), ("latest", 25), ("1", 0)):
        words = ("--topic", topic, "--time", time)
        assert tool("kafka-get-offsets", *words).stdout.strip() == f"{topic}:0:{offset}"


def test_delete_records(tool: Tool, unique: Unique, tmp_path: Path) -> None:
    topic = unique("jt-delete")
    create(tool, topic)
    fill(tool, topic, 10)
    plan = tmp_path / "plan.json"
    parts = [{"topic": topic, "partition": 0, "offset": 6}]
    plan.write_text(json.dumps({"version": 1, "partitions": parts}))
    done = tool("kafka-delete-records", "--offset-json-file", str(plan)).stdout
    assert f"partition: {topic}-0\tlow_watermark: 6" in done
    words = ("--topic", topic, "--time", "earliest")
    assert tool("kafka-get-offsets", *words).stdout.strip() == f"{topic}:0:6"


def test_log_dirs(tool: Tool, unique: Unique) -> None:
    topic = unique("jt-dirs")
    create(tool, topic, 2)
    fill(tool, topic, 10)
    out = tool("kafka-log-dirs", "--describe", "--topic-list", topic).stdout
    told = json.loads(out.splitlines()[-1])
    (broker,) = told["brokers"]
    (directory,) = broker["logDirs"]
    assert directory["error"] is None
    sizes = {each["partition"]: each["size"] for each in directory["partitions"]}
    assert sorted(sizes) == [f"{topic}-0", f"{topic}-1"]
    assert sum(sizes.values()) > 0


def test_offsets_are_reset_by_time_shift_and_file(
    tool: Tool, unique: Unique, tmp_path: Path
) -> None:
    topic, group = unique("jt-reset"), unique("jt-reset")
    create(tool, topic)
    fill(tool, topic, 10)
    base = ("--group", group, "--reset-offsets", "--execute")

    def reset(*how: str) -> str:
        out = tool("kafka-consumer-groups", *base, *how).stdout
        return next(line.split()[-1] for line in out.splitlines() if topic in line)

    on_topic = ("--topic", topic)
    assert reset(*on_topic, "--to-latest") == "10"
    assert reset(*on_topic, "--shift-by", "-4") == "6"
    assert reset(*on_topic, "--to-offset", "2") == "2"
    assert reset(*on_topic, "--to-datetime", "2020-01-01T00:00:00.000") == "0"
    plan = tmp_path / "plan.csv"
    plan.write_text(f"{topic},0,7\n")
    assert reset("--from-file", str(plan)) == "7"


def test_perf_tools(java: JavaTools, target: Target, tool: Tool, unique: Unique) -> None:
    topic = unique("jt-perf")
    create(tool, topic, 3)
    servers = ("--bootstrap-server", target.bootstrap_servers)
    words = ("--num-records", "20000", "--record-size", "200", "--throughput", "-1")
    written = java.run("kafka-producer-perf-test", "--topic", topic, *words, *servers).check()
    assert "20000 records sent" in written.stdout
    read = java.run(
        "kafka-consumer-perf-test", *servers, "--topic", topic, "--num-records", "20000"
    ).check()
    assert re.search(r", 20000, ", read.stdout), read.stdout


def test_verifiable_tools(java: JavaTools, target: Target, tool: Tool, unique: Unique) -> None:
    topic = unique("jt-verifiable")
    create(tool, topic, 2)
    servers = ("--bootstrap-server", target.bootstrap_servers)
    words = ("--topic", topic, "--max-messages", "500", "--throughput", "-1")
    written = java.run_alone("kafka-verifiable-producer", *servers, *words).check()
    events = [json.loads(line) for line in written.stdout.splitlines() if line.startswith("{")]
    acknowledged = {int(e["value"]) for e in events if e["name"] == "producer_send_success"}
    assert acknowledged == set(range(500))
    assert events[-1]["acked"] == 500
    words = ("--topic", topic, "--group-id", unique("jt-verifiable"), "--max-messages", "500")
    more = ("--reset-policy", "earliest", "--verbose")
    read = java.run_alone("kafka-verifiable-consumer", *servers, *words, *more).check()
    events = [json.loads(line) for line in read.stdout.splitlines() if line.startswith("{")]
    values = [int(e["value"]) for e in events if e["name"] == "record_data"]
    assert sorted(values) == list(range(500))
    assert any(e["name"] == "offsets_committed" and e["success"] for e in events)


def test_broker_api_versions(tool: Tool, target: Target) -> None:
    told = tool("kafka-broker-api-versions").stdout
    assert target.bootstrap_servers in told
    for api in ("Produce(0)", "Fetch(1)", "Metadata(3)", "DescribeTopicPartitions(75)"):
        line = next(line for line in told.splitlines() if api in line)
        assert "[usable:" in line, line
