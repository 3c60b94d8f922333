"""Each promise of `check_file_history` on a planted violation, and what it must let pass."""

from dataclasses import replace

import pytest

from headrace.testing.file_history import FileOp, Verb, check_file_history
from headrace.testing.history import Outcome

SHARED = frozenset({"/shared"})
OK, FAIL, INFO = Outcome.OK, Outcome.FAIL, Outcome.INFO


class Clients:
    """Calls one after the other, a second each, unless told otherwise."""

    def __init__(self) -> None:
        self.ops: list[FileOp] = []

    def add(
        self,
        verb: Verb,
        path: str,
        content: bytes | None = None,
        target: str = "",
        outcome: Outcome = OK,
    ) -> "Clients":
        at = float(len(self.ops) * 2 + 1)
        self.ops.append(FileOp("c", verb, path, content, target, outcome, at, at + 1))
        return self

    def write(self, path: str, content: bytes, outcome: Outcome = OK) -> "Clients":
        return self.add(Verb.WRITE, path, content, outcome=outcome)

    def append(self, path: str, content: bytes, outcome: Outcome = OK) -> "Clients":
        return self.add(Verb.APPEND, path, content, outcome=outcome)

    def rename(self, path: str, target: str, outcome: Outcome = OK) -> "Clients":
        return self.add(Verb.RENAME, path, target=target, outcome=outcome)

    def delete(self, path: str, outcome: Outcome = OK) -> "Clients":
        return self.add(Verb.DELETE, path, outcome=outcome)

    def read(self, path: str, content: bytes | None) -> "Clients":
        return self.add(Verb.READ, path, content)

    def found(self, files: dict[str, bytes]) -> list[str]:
        return [violation.counter for violation in check_file_history(self.ops, files, SHARED)]


def test_what_was_acknowledged_is_there() -> None:
    done = Clients().write("/a", b"one").append("/a", b"two").rename("/a", "/b")
    done.write("/c", b"three").delete("/c").read("/b", b"onetwo")
    assert done.found({"/b": b"onetwo"}) == []
    assert done.found({}) == ["D9"]
    assert done.found({"/b": b"one"}) == ["D1"]
    assert done.found({"/b": b"onetwo", "/a": b"onetwo"}) == ["D9"]
    assert done.found({"/b": b"onetwo", "/c": b"three"}) == ["D9"]
    assert done.found({"/b": b"onetwo", "/d": b""}) == ["D9"]
    assert done.read("/b", b"other").found({"/b": b"onetwo"}) == ["D1"]


def test_what_was_refused_is_not_there() -> None:
    done = Clients().write("/a", b"one").append("/a", b"two", FAIL).rename("/a", "/b", FAIL)
    done.delete("/a", FAIL).write("/c", b"three", FAIL)
    assert done.found({"/a": b"one"}) == []
    assert done.found({"/a": b"onetwo"}) == ["D1"]
    assert done.found({"/b": b"one"}) == ["D9", "D9"]
    assert done.found({"/a": b"one", "/c": b""}) == ["D9"]


@pytest.mark.parametrize(
    ("there", "found"),
    [(None, []), (b"", []), (b"ne", []), (b"new", []), (b"x", ["D9"]), (b"newer", ["D9"])],
)
def test_of_an_unknown_write_a_beginning_may_be_there(
    there: bytes | None, found: list[str]
) -> None:
    done = Clients().write("/a", b"new", INFO)
    assert done.found({} if there is None else {"/a": there}) == found


@pytest.mark.parametrize(
    ("there", "found"),
    [(b"old", []), (b"oldn", []), (b"oldnew", []), (b"ol", ["D9"]), (None, ["D9"])],
)
def test_an_unknown_append_costs_nothing(there: bytes | None, found: list[str]) -> None:
    done = Clients().write("/a", b"old").append("/a", b"new", INFO)
    assert done.found({} if there is None else {"/a": there}) == found


def test_an_unknown_deletion_is_whole_or_not_at_all() -> None:
    done = Clients().write("/a", b"old").delete("/a", INFO)
    assert done.found({}) == done.found({"/a": b"old"}) == []
    assert done.found({"/a": b"ol"}) == ["D9"]


def test_an_unknown_rename_moves_or_does_not() -> None:
    done = Clients().write("/a", b"one").write("/b", b"two").rename("/a", "/b", INFO)
    assert done.found({"/a": b"one", "/b": b"two"}) == done.found({"/b": b"one"}) == []
    assert done.found({"/a": b"one", "/b": b"one"}) == ["D10"]
    assert done.found({"/b": b"two"}) == ["D10"]
    assert done.found({}) == ["D10"]


def test_of_a_shared_path_the_last_change_stays() -> None:
    done = Clients().write("/a", b"one").rename("/a", "/shared")
    done.write("/b", b"two").rename("/b", "/shared")
    assert done.found({"/shared": b"two"}) == []
    assert done.found({"/shared": b"one"}) == ["D9"]
    assert done.found({}) == ["D9"]
    assert done.found({"/shared": b"tw"}) == ["D9"]
    assert done.delete("/shared").found({}) == []
    assert done.found({"/shared": b"two"}) == ["D9"]


def test_of_two_changes_at_once_either_may_be_the_last() -> None:
    done = Clients().write("/a", b"one").write("/b", b"two")
    done.rename("/a", "/shared").rename("/b", "/shared")
    done.ops[-1] = replace(done.ops[-1], started=done.ops[-2].started)
    assert done.found({"/shared": b"one"}) == done.found({"/shared": b"two"}) == []
    assert done.found({}) == ["D9"]


def test_an_unknown_change_of_a_shared_path_is_known_by_its_source() -> None:
    done = Clients().write("/a", b"one").rename("/a", "/shared")
    done.write("/b", b"two").rename("/b", "/shared", INFO)
    assert done.found({"/shared": b"one", "/b": b"two"}) == done.found({"/shared": b"two"}) == []
    assert done.found({"/shared": b"two", "/b": b"two"}) == ["D9"]


def test_readers_of_a_shared_path_never_go_back() -> None:
    done = Clients().write("/a", b"one").rename("/a", "/shared").read("/shared", b"one")
    done.write("/b", b"two").rename("/b", "/shared").read("/shared", b"two")
    assert done.found({"/shared": b"two"}) == []
    for wrong in (b"one", b"tw", None):
        done.ops[-1] = replace(done.ops[-1], content=wrong)
        assert done.found({"/shared": b"two"}) == ["D9"], wrong


def test_what_was_read_of_an_unknown_change_must_last() -> None:
    """It was seen, then it was lost: `/b` is where it was."""
    done = Clients().write("/b", b"two").rename("/b", "/shared", INFO).read("/shared", b"two")
    assert done.found({"/shared": b"two"}) == []
    assert done.found({"/b": b"two"}) == ["D9"]
