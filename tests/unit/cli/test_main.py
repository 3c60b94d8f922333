"""Exit codes, help and what is imported for what."""

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli.main import GROUPS, run

COMMANDS = [
    ["up"],
    ["status"],
    ["down"],
    ["node", "start"],
    ["node", "stop"],
    ["node", "restart"],
    ["broker"],
    ["topic", "create"],
    ["topic", "list"],
    ["topic", "describe"],
    ["topic", "alter"],
    ["topic", "delete"],
    ["cluster", "describe"],
    ["cluster", "rebalance"],
    ["cluster", "decommission"],
    ["cluster", "cordon"],
    ["cluster", "uncordon"],
    ["cluster", "elect-leaders"],
    ["cluster", "unregister"],
    ["produce"],
    ["consume"],
    ["group", "list"],
    ["group", "describe"],
    ["group", "reset"],
    ["group", "delete"],
    ["config", "list"],
    ["log", "dump"],
]


def run_quietly(words: list[str]) -> int:
    try:
        return run(words)
    except SystemExit as stop:
        return int(stop.code or 0)


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    listed = capsys.readouterr().out
    assert all(f"  {name} " in listed for name in GROUPS)
    assert "..." not in listed.partition("Commands:")[2]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_examples(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_quietly([*words, "--help"]) == 0
    said = capsys.readouterr().out
    assert "xamples:" in said
    assert f"headrace {' '.join(words)}" in said


@pytest.mark.parametrize(
    "words",
    [
        ["nonsense"],
        ["topic", "nonsense"],
        ["topic", "create"],
        ["topic", "alter", "t", "-b", "127.0.0.1:1"],
        ["consume", "t", "--max", "-1"],
        ["consume", "t", "--from", "soon", "-b", "127.0.0.1:1"],
        ["consume", "t", "-g", "g", "-p", "0", "-b", "127.0.0.1:1"],
        ["produce", "t", "-z", "rar"],
        ["produce", "t", "-H", "x", "-b", "127.0.0.1:1"],
        ["consume", "t", "-g", "g", "-f", "7", "-b", "127.0.0.1:1"],
        ["produce", "t", "-K", "", "-b", "127.0.0.1:1"],
        ["broker"],
        ["broker", "--data", "d", "--set", "x"],
        ["up", "--brokers", "many"],
        ["config", "list", "no.such.key"],
        ["config", "list", "--only", "x"],
        ["log", "dump", "no-such-file"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_quietly(words) == 2
    assert capsys.readouterr().err


@pytest.mark.parametrize("detach", [[], ["--detach"]], ids=["", "detached"])
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--brokers", "0"], "1 to 100 brokers"),
        (["--ports", "65500"], "65535"),
        (["--set", "log.retention.hour=1"], "did you mean log.retention.hours?"),
    ],
    ids=str,
)
def test_a_refused_up_leaves_nothing_behind(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    reason: str,
    detach: list[str],
) -> None:
    data = tmp_path / "new"
    assert run(["up", "--data", str(data), *words, *detach]) == 2
    assert reason in capsys.readouterr().err
    assert not data.exists()
    data.mkdir()
    assert run(["up", "--data", str(data), *words, *detach]) == 2
    assert list(data.iterdir()) == []


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("headrace ")


def test_a_key_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "list", "log.retention.hours"]) == 0
    said = capsys.readouterr().out
    assert "default: 168" in said
    assert "HEADRACE_LOG_RETENTION_HOURS" in said
    assert run(["config", "list", "log.retention", "--json"]) == 0
    assert '"key": "log.retention.ms"' in capsys.readouterr().out
    assert run(["config", "list", "dfs.namenode.http-address"]) == 0
    said = capsys.readouterr().out
    assert "hdfs default: 0.0.0.0:9870" in said
    assert "HEADRACE_DFS_NAMENODE_HTTP_ADDRESS" in said


def test_the_broker_does_not_pay_for_the_commands() -> None:
    """Its start is measured: neither typer nor rich nor the client may be loaded for it."""
    code = (
        "import sys\n"
        "from headrace.cli.main import run\n"
        "try: run(['broker', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'typer', 'rich', 'click', 'headrace.client.cluster', 'asyncio'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"
