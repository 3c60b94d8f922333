"""Patterns mean what they mean to Python's `re`, where both have them; and never take long."""

import contextlib
import re
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.broker.groups.consumer import regex
from headrace.broker.groups.consumer.regex import PatternError, TopicPattern, topic_pattern

ATOMS = ["a", "b", "-", r"\.", ".", "[ab]", "[^a]", r"\d", r"\w", "^", "$", r"\b", "[a-c-]"]
SUFFIXES = ["", "*", "+", "?", "{2}", "{1,2}", "{0,}", "*?", "+?"]


def patterns() -> st.SearchStrategy[str]:
    anchors = ("^", "$", r"\b")
    atoms = st.builds(
        lambda atom, suffix: atom if atom in anchors else atom + suffix,
        st.sampled_from(ATOMS),
        st.sampled_from(SUFFIXES),
    )
    return st.recursive(
        atoms,
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3).map("".join),
            st.lists(inner, min_size=2, max_size=3).map(lambda each: f"(?:{'|'.join(each)})"),
            inner.map(lambda each: f"({each})*"),
        ),
        max_leaves=6,
    )


@given(pattern=patterns(), names=st.lists(st.text("abc-.1", max_size=6), max_size=6))
@settings(max_examples=300, deadline=None)
def test_as_python_understands_them(pattern: str, names: list[str]) -> None:
    mine = TopicPattern(pattern)
    for name in names:
        assert mine.matches(name) == (re.fullmatch(pattern, name) is not None), (pattern, name)


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("(?i)orders", ["ORDERS", "Orders"], ["order"]),
        ("or(?i:DERS)", ["orders"], ["ORders"]),
        ("[[:alpha:]]+", ["abc"], ["ab1"]),
        ("[[:^digit:]]+", ["abc"], ["ab1"]),
        (r"\Qa.b\E.", ["a.bc"], ["axbc"]),
        (r"\pL+", ["abc"], ["a1"]),
        (r"\p{Nd}+", ["12"], ["a"]),
        (r"\P{L}", ["1"], ["a"]),
        (r"\x41\x{42}\103", ["ABC"], ["abc"]),
        ("(?P<name>a)(?<other>b)", ["ab"], ["a"]),
        (r"\Aab\z", ["ab"], ["abc"]),
        ("a{,2}", ["a{,2}"], ["aa"]),
        ("", [""], ["a"]),
        ("a|", ["a", ""], ["b"]),
        (r"\Bb", [], ["b"]),
        (r"a\Bb", ["ab"], ["a"]),
    ],
)
def test_what_re2_has_beside(pattern: str, matching: list[str], others: list[str]) -> None:
    found = topic_pattern(pattern)
    assert [name for name in matching if not found.matches(name)] == []
    assert [name for name in others if found.matches(name)] == []


@pytest.mark.parametrize(
    "pattern",
    [
        *("(", ")", "[a", "a**", "*a", "(?=a)", "(?!a)", "(?<=a)b", r"(a)\1", "a{1001}", "a{2,1}"),
        *("[z-a]", "\\", "(?<n", r"\pQ", "(((a{100}){100}){100})", "(?P<a b>c)", r"\y", "(?z)"),
        *("(" * 200 + ")" * 200, "a" * 5_000, "[[:nope:]]", "|".join("a" * 2_000), "a{999}b{9}"),
    ],
)
def test_what_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        topic_pattern(pattern)


@given(st.text(string.printable, max_size=30))
@settings(max_examples=300, deadline=None)
def test_anything_is_read_or_refused(pattern: str) -> None:
    with contextlib.suppress(PatternError):
        assert TopicPattern(pattern).matches("orders-1") in (True, False)


def test_no_pattern_explodes() -> None:
    for pattern in ("(a+)+b", "(a|a)*b", "(a*)*b", "(.*a){50}b", "a{0,400}b"):
        assert not topic_pattern(pattern).matches("a" * 249)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regex, "REMEMBERED_STATES_MAX", 500)
    pattern = TopicPattern("(.{0,9}a.{0,9}){3}")
    for number in range(20):
        pattern.matches(f"{number:050b}".replace("0", "a").replace("1", "b"))
    remembered = sum(len(step[0]) + len(to[0]) for step, to in pattern._steps.items())
    assert 0 < remembered <= 500 + 2 * pattern.size
