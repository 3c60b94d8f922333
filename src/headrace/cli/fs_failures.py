"""Commands on several paths: what one of them refuses is told in a sentence of its own, the others
are done, and the command fails at its end.

Owns: that exit code. Must not know: what is done with a path. What is no path's own failure, as
that nobody answers, still ends a command at once.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from headrace.base.errors import HeadraceError, UsageError
from headrace.cli.fs_target import UnansweredError, told_failures

_FAILED, _WRONG_USAGE = 1, 2


class Failures:
    def __init__(self) -> None:
        self._count = 0
        self._done = 0
        self._all_wrong_usage = True

    def __bool__(self) -> bool:
        return self._count > 0

    @property
    def exit_code(self) -> int:
        """Wrong usage only where nothing was done."""
        return _WRONG_USAGE if self._all_wrong_usage and not self._done else _FAILED

    @contextmanager
    def of(self, path: str, *, is_done: bool = True) -> Iterator[None]:
        """What fails in here is told and over. `is_done`: what does not was asked for."""
        try:
            with told_failures(path):
                yield
        except UnansweredError:
            raise
        except HeadraceError as error:
            self._count += 1
            self._all_wrong_usage = self._all_wrong_usage and isinstance(error, UsageError)
            print(f"headrace: {error}", file=sys.stderr, flush=True)
        else:
            self._done += is_done


@contextmanager
def told_each() -> Iterator[Failures]:
    """Around the whole of a command: its end is the command's."""
    failures = Failures()
    yield failures
    if failures:
        raise typer.Exit(failures.exit_code)
