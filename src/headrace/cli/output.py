"""What commands print: JSON for programs, tables for people, progress while it takes long.

Owns: the choice by terminal. On a terminal a table is drawn by rich; in a pipe it is plain
aligned text that is never cut or wrapped. Progress goes to stderr and only to a terminal.
rich is imported on use: programs that ask for JSON do not pay for it.
"""

import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def print_json(value: Any) -> None:
    json.dump(value, sys.stdout, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None)
    sys.stdout.write("\n")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    texts = [["" if cell is None else in_one_line(str(cell)) for cell in row] for row in rows]
    if sys.stdout.isatty():
        _print_rich(columns, texts)
    else:
        _print_plain(columns, texts)


def in_one_line(text: str) -> str:
    """Names may have line breaks and what moves a terminal's cursor in them: shown as `\\n`."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def say(sentence: str) -> None:
    """For people, beside the output: stderr, so that a pipe gets only data."""
    print(sentence, file=sys.stderr, flush=True)


def _print_plain(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    lines = [[column.upper() for column in columns], *rows]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    for line in lines:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(padded).rstrip())


def _print_rich(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for number, column in enumerate(columns, start=1):
        # Addresses and names stay whole, to be copied; the last column takes what is left.
        table.add_column(column, overflow="fold", no_wrap=number < len(columns))
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)


class Progress(Protocol):
    def advance(self, count: int = 1) -> None: ...


class _Silent:
    def advance(self, count: int = 1) -> None:
        del count


class _Bar:
    """Tells rich ten times a second at most: callers advance by single records."""

    def __init__(self, show: Callable[[int], None]) -> None:
        self._show = show
        self._waiting = 0
        self._next_s = 0.0

    def advance(self, count: int = 1) -> None:
        self._waiting += count
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + 0.1
            self._show(self._waiting)
            self._waiting = 0


@contextmanager
def progress(description: str, total: int | None = None) -> Iterator[Progress]:
    """A bar (without a total one that only moves) on a terminal's stderr; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield _Silent()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as RichProgress

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True)
    with RichProgress(*columns, TimeElapsedColumn(), console=console, transient=True) as shown:
        task = shown.add_task(description, total=total)
        yield _Bar(lambda count: shown.advance(task, count))


@contextmanager
def progress_beside_output(description: str, total: int | None) -> Iterator[Progress]:
    """As `progress`, but only while the output itself goes elsewhere than to the terminal."""
    if sys.stdout.isatty() or total is None:
        yield _Silent()
        return
    with progress(description, total) as shown:
        yield shown
