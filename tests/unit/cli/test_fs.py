"""How files are shown, and what commands say of themselves."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from headrace.cli import fs
from headrace.cli.fs_look import mode_text


@pytest.mark.parametrize(
    ("permission", "is_directory", "text"),
    [
        (0o1777, True, "drwxrwxrwt"),
        (0o1770, True, "drwxrwx--T"),
        (0o755, True, "drwxr-xr-x"),
        (0o640, False, "-rw-r-----"),
        (0, False, "----------"),
    ],
)
def test_modes_are_shown_as_ls_shows_them(permission: int, is_directory: bool, text: str) -> None:
    status: Any = SimpleNamespace(permission=permission, isdir=is_directory)
    assert mode_text(status) == text


def commands_below(group: Any, *names: str) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands_below(command, *names, name)
        else:
            yield " ".join((*names, name)), command


def test_every_command_shows_how_it_is_used() -> None:
    app = typer.Typer()
    fs.register(app)
    group: Any = typer.main.get_command(app)
    found = dict(commands_below(group))
    assert len(found) > 30
    for name, command in found.items():
        examples = (command.help or "").partition("Examples:")[2]
        assert f"headrace {name.replace('balancer', 'balance')}" in examples, name
