"""The command line of the supervisor in the background."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli.detached import command_of, parse_command
from headrace.cli.main import READY_FLAG, run
from headrace.node.local_plan import Options

GIVEN = [
    Options("/data", 3, 1, 2, 19_092, {"num.partitions": "3", "a.b": "x=y"}, restart=False),
    Options("/data"),
]


@pytest.mark.parametrize("options", GIVEN)
def test_what_is_asked_reaches_the_supervisor(options: Options) -> None:
    words = command_of(options)
    assert words[1:5] == ["-P", "-m", "headrace", "up"]
    assert parse_command([*words[5:], READY_FLAG, "7"]) == (options, 7)


def test_the_reason_of_a_failed_start_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    reader, writer = os.pipe()
    words = command_of(Options(str(tmp_path / "file"), datanodes=0))[4:]
    assert run([*words, READY_FLAG, str(writer)]) == 1
    with os.fdopen(reader, "rb") as pipe:
        assert b'"error": "can\'t make ' in pipe.read()


def test_the_supervisor_does_not_pay_for_the_commands() -> None:
    """Its start is part of what people wait for: no typer, no servers' code, no asyncio."""
    code = (
        "import sys\n"
        "import headrace.cli.detached, headrace.node.local\n"
        "heavy = {'typer', 'rich', 'asyncio', 'google.protobuf', 'headrace.log', 'http.client'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
