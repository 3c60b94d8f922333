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
    assert mode_text(status, has_acl=True) == f"{text}+"


def commands_below(group: Any, *names: str) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands_below(command, *names, name)
        else:
            yield " ".join((*names, name)), command


@pytest.fixture
def found() -> dict[str, Any]:
    app = typer.Typer()
    fs.register(app)
    return dict(commands_below(typer.main.get_command(app)))


def test_minus_d_is_never_the_data_directory(found: dict[str, Any]) -> None:
    for name, command in found.items():
        for parameter in command.params:
            assert parameter.name != "data" or parameter.opts == ["--data"], name


@pytest.mark.parametrize(
    "words",
    [
        "mkdir -p",
        "du -s -h",
        "mv -f",
        "rm -f -r",
        "ls -h -d",
        "touchz",
        "rmdir",
        "tail -f",
        "test -s -r -w",
        "setrep -w",
    ],
)
def test_what_hdfs_users_type_is_known(found: dict[str, Any], words: str) -> None:
    name, *options = words.split()
    known = {spelling for parameter in found[f"fs {name}"].params for spelling in parameter.opts}
    assert set(options) <= known


def test_where_minus_h_is_about_sizes_the_hint_is_another(found: dict[str, Any]) -> None:
    for name, command in found.items():
        takes_h = any("-h" in parameter.opts for parameter in command.params)
        own = command.context_settings.get("help_option_names")
        assert own == (["--help"] if takes_h else None), name


def test_every_command_shows_how_it_is_used() -> None:
    app = typer.Typer()
    fs.register(app)
    group: Any = typer.main.get_command(app)
    found = dict(commands_below(group))
    assert len(found) > 30
    for name, command in found.items():
        examples = (command.help or "").partition("Examples:")[2]
        assert f"headrace {name.replace('balancer', 'balance')}" in examples, name
