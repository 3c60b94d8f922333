"""What clients did to files while servers died, and whether what is there afterwards can be.

Owns: `FileOp`, one call of one client as the client saw it end, and `check_file_history`, a pure
function from calls and the files of the end to violations. Must not know: any client or server.

Two kinds of paths. Private ones have one client, which does one thing after the other and never
touches a path again whose fate it does not know. Shared ones are replaced by renames, deleted
and read by many at once. Contents are unique over a run; that is what makes it checkable.

What is promised (docs/NAMESPACE):

    D1   a file that was closed has the bytes that were written
    D9   what was acknowledged is there, what was refused is not, what is unknown is whole or not
         at all; of a file that was being written or appended to, a beginning may be there
    D10  a rename moves: never both names, never neither
"""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from headrace.testing.history import Outcome
from headrace.testing.violation import Violation


class Verb(Enum):
    WRITE = "write"
    APPEND = "append"
    RENAME = "rename"
    """Whatever `target` was is replaced."""
    DELETE = "delete"
    READ = "read"


@dataclass(frozen=True, slots=True)
class FileOp:
    """`started` and `ended` are of one clock for all clients."""

    client: str
    verb: Verb
    path: str
    content: bytes | None = None
    """What was written, appended or read; None: nothing was there."""
    target: str = ""
    outcome: Outcome = Outcome.INFO
    started: float = 0.0
    ended: float = 0.0


@dataclass(frozen=True, slots=True)
class _Change:
    """Of a shared path; `content` None: a deletion, or the beginning."""

    content: bytes | None
    started: float
    ended: float
    is_sure: bool


_BEGINNING = _Change(None, 0.0, 0.0, is_sure=True)


def check_file_history(
    ops: Iterable[FileOp], files: Mapping[str, bytes], shared: frozenset[str]
) -> list[Violation]:
    """`ops` in the order in which each client made them; `files` are all files of the end."""
    ops = list(ops)
    book = _Book(files, shared)
    found = list(itertools.chain.from_iterable(map(book.on_op, ops)))
    found += book.at_the_end()
    changes = book.changes
    for path in sorted(shared):
        found += _check_shared(path, changes[path], files.get(path))
    for op in ops:
        if op.verb is Verb.READ and op.path in shared and op.outcome is Outcome.OK:
            found += _check_read(op, changes[op.path])
    return found


@dataclass(slots=True)
class _Book:
    """What private paths must hold, and how shared ones were changed."""

    files: Mapping[str, bytes]
    shared: frozenset[str]
    known: dict[str, bytes | None] = field(default_factory=dict)
    retired: set[str] = field(default_factory=set)
    changes: dict[str, list[_Change]] = field(
        default_factory=lambda: defaultdict(lambda: [_BEGINNING])
    )

    def on_op(self, op: FileOp) -> Iterator[Violation]:
        assert not {op.path, op.target} & self.retired, f"{op}: of a path that was given up"
        if op.outcome is Outcome.FAIL:
            return
        is_sure = op.outcome is Outcome.OK
        if op.path in self.shared:
            if op.verb is Verb.DELETE:
                self.changes[op.path].append(_Change(None, op.started, op.ended, is_sure))
            else:
                assert op.verb is Verb.READ, f"{op}: shared paths are replaced by renames"
        elif op.verb is Verb.RENAME:
            yield from self._on_rename(op, is_sure=is_sure)
        elif op.verb is Verb.READ:
            if is_sure and op.content != self.known.get(op.path):
                yield Violation("D1", f"{op.path} was read otherwise than it was written")
        elif is_sure:
            self.known[op.path] = self._after(op)
        else:
            yield from self._on_unknown(op)

    def _after(self, op: FileOp) -> bytes | None:
        if op.verb is Verb.APPEND:
            return (self.known.get(op.path) or b"") + (op.content or b"")
        return op.content if op.verb is Verb.WRITE else None

    def _on_unknown(self, op: FileOp) -> Iterator[Violation]:
        after = self._after(op)
        before = self.known.pop(op.path, None)
        self.retired.add(op.path)
        there = self.files.get(op.path)
        if there in (before, after):
            return
        if there is None or after is None or not after.startswith(there):
            yield Violation("D9", f"{op.path} after an unknown {op.verb.value}: {_shown(there)}")
        elif op.verb is Verb.APPEND and len(there) < len(before or b""):
            yield Violation("D9", f"an append cost {op.path} bytes: {_shown(there)}")

    def _on_rename(self, op: FileOp, *, is_sure: bool) -> Iterator[Violation]:
        content = self.known.pop(op.path, None)
        is_moved = is_sure or self.files.get(op.path) != content
        if not is_sure:
            self.retired.add(op.path)
        if op.target in self.shared:
            if is_moved:
                self.changes[op.target].append(_Change(content, op.started, op.ended, is_sure))
        elif is_sure:
            self.known[op.target] = content
        else:
            self.retired.add(op.target)
            before = self.known.pop(op.target, None)
            if self.files.get(op.target) != (content if is_moved else before):
                yield Violation("D10", f"{op.path} to {op.target}: both names, or neither")
        if is_moved and not is_sure and op.path in self.files:
            yield Violation("D9", f"{op.path} changed in an unknown rename")
        if is_sure:
            self.known[op.path] = None

    def at_the_end(self) -> Iterator[Violation]:
        for path, content in self.known.items():
            there = self.files.get(path)
            if content is not None and there is None:
                yield Violation("D9", f"{path} is lost")
            elif content is None and there is not None:
                yield Violation("D9", f"{path} is back: {_shown(there)}")
            elif there != content:
                yield Violation("D1", f"{path} holds {_shown(there)}, not {_shown(content)}")
        for path in self.files.keys() - self.known.keys() - self.retired - self.shared:
            yield Violation("D9", f"{path} was never made")


def _check_shared(path: str, changes: list[_Change], there: bytes | None) -> Iterator[Violation]:
    ended = max(change.ended for change in changes) + 1
    if not _may_be_seen(there, changes, ended, ended):
        yield Violation("D9", f"{path} ends as {_shown(there)}, which was replaced or never there")


def _check_read(op: FileOp, changes: list[_Change]) -> Iterator[Violation]:
    if not _may_be_seen(op.content, changes, op.started, op.ended):
        yield Violation("D9", f"{op.path} was read as {_shown(op.content)} at {op.started:.3f}")


def _may_be_seen(
    content: bytes | None, changes: list[_Change], started: float, ended: float
) -> bool:
    """Some change to it began in time, and no other surely came between that and the look."""
    return any(
        change.content == content
        and change.started < ended
        and not any(
            other.is_sure and other.started > change.ended and other.ended < started
            for other in changes
        )
        for change in changes
    )


def _shown(content: bytes | None) -> str:
    if content is None:
        return "nothing"
    return f"{len(content)} bytes ({content[:40]!r}…)"
