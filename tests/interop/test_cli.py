"""The command line as people and scripts use it, against a running broker."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from tests.interop.confluent import consume, consumer_of
from tests.interop.conftest import Target

Unique = Callable[[str], str]
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


class Cli:
    """`headrace …` with the target's address in the environment."""

    def __init__(self, target: Target) -> None:
        self._environment = {
            **os.environ,
            "HEADRACE_BOOTSTRAP_SERVERS": target.bootstrap_servers,
        }

    def __call__(self, *words: str, stdin: str | bytes = b"", status: int = 0) -> str:
        done = self.run(*words, stdin=stdin)
        assert done.returncode == status, done.stderr.decode()
        return done.stdout.decode()

    def json(self, *words: str, stdin: str | bytes = b"") -> Any:
        return json.loads(self(*words, "--json", stdin=stdin))

    def lines(self, *words: str) -> list[Any]:
        return [json.loads(line) for line in self(*words, "--json").splitlines()]

    def run(self, *words: str, stdin: str | bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            self.command(*words),
            input=stdin.encode() if isinstance(stdin, str) else stdin,
            capture_output=True,
            env=self._environment,
            timeout=60,
            check=False,
        )

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.command(*words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self._environment,
        )

    @staticmethod
    def command(*words: str) -> list[str]:
        return [sys.executable, "-P", "-m", "headrace", *words]


@pytest.fixture(scope="module")
def cli(target: Target) -> Cli:
    return Cli(target)


def test_a_topic_lives(cli: Cli, unique: Unique) -> None:
    name = unique("life")
    made = cli.json("topic", "create", name, "-p", "3", "--set", "retention.ms=1000000")
    assert (made["partitions"], made["created"]) == (3, True)
    assert cli.json("topic", "create", name, "--if-not-exists")["created"] is False
    assert "TOPIC_ALREADY_EXISTS" in cli.run("topic", "create", name).stderr.decode()
    assert name in [topic["name"] for topic in cli.json("topic", "list")]
    cli("topic", "alter", name, "--partitions", "4", "--set", "max.message.bytes=2000")
    cli("topic", "alter", name, "--unset", "retention.ms")
    described = cli.json("topic", "describe", name)
    assert [each["partition"] for each in described["partitions"]] == [0, 1, 2, 3]
    assert described["configs"]["max.message.bytes"] == "2000"
    assert "retention.ms" not in described["configs"]
    assert cli.json("topic", "describe", name, "--all")["configs"]["cleanup.policy"] == "delete"
    cli("topic", "delete", name)
    assert name not in [topic["name"] for topic in cli.json("topic", "list")]
    said = cli.run("topic", "delete", name)
    assert (said.returncode, b"topic create" in said.stderr) == (1, False)
    cli("topic", "delete", name, "--if-exists")


def test_refusals_are_sentences(cli: Cli, unique: Unique) -> None:
    name = unique("refused")
    said = cli.run("topic", "create", name, "--set", "no.such.key=1")
    assert said.returncode == 1
    assert b"no.such.key" in said.stderr
    assert b"Traceback" not in said.stderr
    assert cli.run("topic", "create", "bad name").returncode == 1
    said = cli.run("consume", name)
    assert said.returncode == 1
    assert f"headrace topic create {name}" in said.stderr.decode()


@pytest.mark.parametrize(
    ("codec", "acks"), [*((codec, "all") for codec in CODECS), ("none", "0"), ("none", "1")]
)
def test_lines_go_in_and_come_out(cli: Cli, unique: Unique, codec: str, acks: str) -> None:
    name = unique("lines")
    cli("topic", "create", name)
    lines = [f"line {number}" for number in range(100)]
    cli("produce", name, "-z", codec, "--acks", acks, stdin="\n".join(lines) + "\n")
    assert cli("consume", name, "--max", "100", "--timeout", "20").splitlines() == lines


def test_json_records_survive_the_way(cli: Cli, unique: Unique) -> None:
    name, copy = unique("json"), unique("copy")
    records = [
        {"key": "k", "value": "värde", "headers": {"a": "1"}, "timestamp": 1_700_000_000_000},
        {"key": {"base64": "/w=="}, "value": None},
        {"value": {"nested": [1, 2]}},
        {"key": "k", "value": {"base64": "AP8="}, "headers": [{"key": "b", "value": None}]},
    ]
    text = "\n".join(json.dumps(record) for record in records)
    assert cli.json("produce", name, stdin=text)["count"] == 4
    first, second, third, fourth = cli.lines("consume", name, "--until-end")
    assert first == {
        "topic": name,
        "partition": 0,
        "offset": 0,
        "timestamp": 1_700_000_000_000,
        "key": "k",
        "value": "värde",
        "headers": [{"key": "a", "value": "1"}],
    }
    assert (second["key"], second["value"]) == ({"base64": "/w=="}, None)
    assert third["value"] == '{"nested":[1,2]}'
    assert fourth["headers"] == [{"key": "b", "value": None}]
    printed = cli("consume", name, "--until-end", "--json")
    cli("produce", copy, "--json", "-z", "zstd", stdin=printed)
    kept = ("key", "value", "headers", "timestamp", "offset")
    assert [[r[field] for field in kept] for r in cli.lines("consume", copy, "-e")] == [
        [r[field] for field in kept] for r in (first, second, third, fourth)
    ]


def test_keys_headers_and_partitions(cli: Cli, unique: Unique) -> None:
    name = unique("keys")
    cli("topic", "create", name, "-p", "3")
    cli("produce", name, "-K", ":", "-H", "from=test", stdin="a:1\nb:2\na:3\n")
    cli("produce", name, "-p", "2", "-k", "fixed", stdin="4\n")
    records = cli.lines("consume", name, "--until-end")
    assert len({r["partition"] for r in records if r["key"] == "a"}) == 1
    assert [r["value"] for r in records if r["key"] == "a"] == ["1", "3"]
    assert all(r["headers"] for r in records if r["key"] != "fixed")
    assert [r["partition"] for r in records if r["key"] == "fixed"] == [2]
    assert "a=1" in cli("consume", name, "-e", "-K", "=").splitlines()
    assert len(cli.lines("consume", name, "-e", "-p", "2")) >= 1


@pytest.mark.parametrize(
    ("words", "bad"),
    [
        (("--json",), "{"),
        (("--json",), '{"vlaue": "v"}'),
        (("--json",), '{"value": "v", "partition": 7}'),
        (("-K", ":"), '"value"'),
    ],
)
def test_a_bad_line_does_not_take_the_good_ones_with_it(
    cli: Cli, unique: Unique, words: tuple[str, ...], bad: str
) -> None:
    name = unique("bad")
    good = [f'{{"value": "{number}"}}' for number in range(3)]
    said = cli.run("produce", name, *words, stdin="\n".join([*good[:2], bad, good[2]]))
    assert said.returncode == 1
    assert b"line 3 of stdin" in said.stderr
    assert len(cli("consume", name, "-e").splitlines()) == 2
    if "--json" in words:
        assert json.loads(said.stdout)["count"] == 2
    else:
        assert b"2 record(s)" in said.stderr


def test_a_wrong_partition_flag_is_wrong_usage(cli: Cli, unique: Unique) -> None:
    name = unique("flag")
    cli("topic", "create", name)
    said = cli.run("produce", name, "-p", "7", stdin="x\n")
    assert (said.returncode, b"there is no partition 7" in said.stderr) == (2, True)


def test_a_partition_shorter_than_the_asked_offset_waits_at_its_end(
    cli: Cli, unique: Unique
) -> None:
    name = unique("short")
    cli("topic", "create", name, "-p", "2")
    cli("produce", name, "-p", "0", stdin="0\n1\n2\n")
    said = cli.run("consume", name, "--from", "1", "-e")
    assert (said.returncode, said.stdout) == (0, b"1\n2\n")
    assert f"{name}-1 ends at offset 0".encode() in said.stderr
    assert f"{name}-0".encode() not in said.stderr


def test_a_group_that_is_not_moved_is_told(cli: Cli, unique: Unique) -> None:
    name, group = unique("told"), unique("told-group")
    cli("produce", name, stdin="0\n1\n2\n")
    words = ("consume", name, "-g", group, "--from", "beginning", "-e")
    first = cli.run(*words)
    assert (first.stdout, first.stderr) == (b"0\n1\n2\n", b"")
    again = cli.run(*words)
    assert (again.returncode, again.stdout) == (0, b"")
    assert b"goes on where it was" in again.stderr
    reset = cli.run("group", "reset", group, "--to", "999", "--json")
    assert json.loads(reset.stdout)["offsets"][0]["after"] == 3
    assert b"3 instead of 999" in reset.stderr
    assert b"instead of" not in cli.run("group", "reset", group, "--to", "1").stderr


def test_a_binary_line_survives(cli: Cli, unique: Unique) -> None:
    name = unique("binary")
    cli("produce", name, stdin=b"\xff\x00\xfe\n")
    assert cli.run("consume", name, "-e").stdout == b"\xff\x00\xfe\n"


def test_where_to_start(cli: Cli, unique: Unique) -> None:
    name = unique("start")
    stamps = [1_700_000_000_000 + 1_000 * number for number in range(10)]
    lines = [json.dumps({"value": str(n), "timestamp": stamp}) for n, stamp in enumerate(stamps)]
    cli("produce", name, "--json", stdin="\n".join(lines))

    def first(where: str) -> str:
        return cli("consume", name, "--from", where, "-n", "1", "--timeout", "20").strip()

    assert first("beginning") == "0"
    assert first("7") == "7"
    assert first("2023-11-14T22:13:24.500Z") == "5"
    assert cli("consume", name, "--from", "1h", "-e") == ""
    assert cli("consume", name, "--from", "end", "-e") == ""
    said = cli.run("consume", name, "--from", "4711", "-e")
    assert (said.returncode, said.stdout) == (0, b"")
    assert b"ends at offset 10, before 4711" in said.stderr
    assert cli.run("consume", name, "--from", "tomorrow").returncode == 2


def test_a_group_goes_on_where_it_was(cli: Cli, unique: Unique) -> None:
    name, group = unique("grouped"), unique("group")
    cli("topic", "create", name, "-p", "2")
    for partition in (0, 1):
        lines = "".join(f"{n}\n" for n in range(5 * partition, 5 * partition + 5))
        cli("produce", name, "-p", str(partition), stdin=lines)
    first = cli("consume", name, "-g", group, "-n", "4", "--timeout", "20").splitlines()
    described = cli.json("group", "describe", group)
    assert (described["state"], described["lag"]) == ("Empty", 6)
    rest = cli("consume", name, "-g", group, "-e").splitlines()
    assert sorted(map(int, first + rest)) == list(range(10))
    assert cli.json("group", "describe", group)["lag"] == 0
    listed = {each["group"]: each for each in cli.json("group", "list")}
    assert listed[group]["state"] == "Empty"

    dry = cli.json("group", "reset", group, "--to", "beginning", "--dry-run")
    assert dry["dry_run"]
    assert cli.json("group", "describe", group)["lag"] == 0
    cli("group", "reset", group, "--topic", name, "--to", "beginning")
    assert cli.json("group", "describe", group)["lag"] == 10
    cli("group", "reset", group, "--topic", f"{name}:0", "--to", "end")
    assert cli.json("group", "describe", group)["lag"] == 5
    cli("group", "delete", group)
    assert group not in [each["group"] for each in cli.json("group", "list")]


def test_two_members_share_a_topic_and_leave_by_ctrl_c(cli: Cli, unique: Unique) -> None:
    name, group = unique("shared"), unique("pair")
    cli("topic", "create", name, "-p", "2")
    cli("produce", name, "-p", "0", stdin="zero\n")
    cli("produce", name, "-p", "1", stdin="one\n")
    members = [cli.start("consume", name, "--group", group) for _ in range(2)]
    try:
        _wait_until_shared(cli, name, group)
        said = cli.run("group", "reset", group, "--to", "end")
        assert (said.returncode, b"stop its consumers first" in said.stderr) == (1, True)
        for member in members:
            member.send_signal(signal.SIGINT)
        outputs = [member.communicate(timeout=30)[0] for member in members]
    finally:
        for member in members:
            member.kill()
            member.communicate()
    assert [member.returncode for member in members] == [0, 0]
    assert sorted(b"".join(outputs).split()) == [b"one", b"zero"]
    assert cli.json("group", "describe", group)["state"] == "Empty"


def _wait_until_shared(cli: Cli, topic: str, group: str) -> None:
    """Until each of two members reads one partition and has committed all of it."""
    deadline = time.monotonic() + 30
    seen = b""
    while time.monotonic() < deadline:
        said = cli.run("group", "describe", group, "--json")
        seen = said.stdout or said.stderr
        if said.returncode != 0:
            # The first member has not joined yet.
            continue
        described = json.loads(seen)
        assigned = [member["assignment"].get(topic) for member in described["members"]]
        if sorted(map(str, assigned)) == ["[0]", "[1]"] and described["lag"] == 0:
            return
    pytest.fail(f"the group never settled: {seen.decode()}")


def test_a_reader_that_goes_away_is_no_failure(cli: Cli, unique: Unique) -> None:
    name = unique("pipe")
    cli("produce", name, stdin="x" * 100 + "\n" + ("y" * 100 + "\n") * 20_000)
    consumer = cli.start("consume", name)
    assert consumer.stdout is not None
    consumer.stdout.readline()
    consumer.stdout.close()
    assert consumer.stderr is not None
    assert consumer.stderr.read() == b""
    assert consumer.wait(20) == 0
    consumer.stderr.close()


def test_an_unreachable_cluster_is_told(cli: Cli) -> None:
    said = cli.run("topic", "list", "-b", "not-an-address")
    assert said.returncode == 2
    assert b"host:port" in said.stderr


def test_a_consumer_group_is_described(cli: Cli, target: Target, unique: Unique) -> None:
    name, group = unique("described"), unique("group")
    cli("topic", "create", name, "-p", "2")
    old_ms = int(time.time() * 1000) - 7_200_000
    lines = [json.dumps({"value": str(n), "timestamp": old_ms}) for n in range(4)]
    cli("produce", name, "-p", "0", "--json", stdin="\n".join(lines))
    consumer = consumer_of(target.bootstrap_servers, group, group_protocol="consumer")
    consumer.subscribe([name])
    try:
        consume(consumer, 4)
        consumer.commit(offsets=[TopicPartition(name, 0, 1)], asynchronous=False)
        described = cli.json("group", "describe", group)
        assert (described["type"], described["state"]) == ("consumer", "Stable")
        assert (described["protocol"], described["epoch"]) == ("uniform", 1)
        assert described["lag"] == 3
        assert 7_190 < described["lag_seconds"] < 7_400
        (member,) = described["members"]
        assert (member["protocol"], member["epoch"]) == ("consumer", 1)
        assert member["assignment"] == member["target"] == {name: [0, 1]}
        shown = cli("group", "describe", group)
        assert "type consumer" in shown
        assert "behind 2h0" in shown
        assert f"{name}:0,1" in cli("group", "describe", group, "--members")
        assert group in cli("group", "list", "--type", "consumer", "--state", "stable")
        assert group not in cli("group", "list", "--type", "classic")
    finally:
        consumer.close()
    cli("group", "reset", group, "--topic", name, "--to", "end")
    described = cli.json("group", "describe", group)
    assert (described["lag"], described["lag_seconds"]) == (0, 0)
