"""Topic name patterns, matched in linear time.

Owns: matching whole topic names. Must not know: the syntax (`regex_syntax`), groups, where names
come from.

A pattern comes from any client, so it must not hold the loop. All states of its automaton are
followed at once (Thompson), and each step that was taken is remembered, up to a bound: no name
takes longer than its length times the automaton's size.
"""

from functools import lru_cache

from headrace.broker.groups.consumer.regex_syntax import (
    BOUNDARY,
    CHARS,
    END,
    JUMP,
    MATCH,
    NO_BOUNDARY,
    SPLIT,
    START,
    PatternError,
    compile_pattern,
    is_word,
)

__all__ = ["PatternError", "TopicPattern", "topic_pattern"]

REMEMBERED_STATES_MAX = 50_000
"""Over all remembered steps of one pattern: what they hold in memory."""

_AT_START, _AFTER_WORD, _AFTER_OTHER = range(3)
_States = frozenset[int]


class TopicPattern:
    """A pattern that topic names are matched against."""

    __slots__ = ("_program", "_remembered", "_steps", "pattern", "size")

    def __init__(self, pattern: str) -> None:
        program = compile_pattern(pattern)
        self.pattern = pattern
        self.size = len(program)
        """States: a name takes at most its length times this many steps."""
        self._program = program
        self._remembered = 0
        self._steps: dict[tuple[_States, int, str], tuple[_States, int]] = {}

    def matches(self, name: str) -> bool:
        """Whether the whole name matches."""
        states: _States = frozenset((0,))
        before = _AT_START
        for character in name:
            step = (states, before, character)
            reached = self._steps.get(step)
            if reached is None:
                reached = self._step(*step)
                self._remember(step, reached)
            states, before = reached
            if not states:
                return False
        return any(
            self._program[index][0] == MATCH for index in self._closure(states, before, None)
        )

    def _remember(self, step: tuple[_States, int, str], reached: tuple[_States, int]) -> None:
        self._remembered += len(step[0]) + len(reached[0])
        if self._remembered > REMEMBERED_STATES_MAX:
            self._steps.clear()
            self._remembered = 0
        self._steps[step] = reached

    def _step(self, states: _States, before: int, character: str) -> tuple[_States, int]:
        code = ord(character)
        reached = frozenset(
            index + 1
            for index in self._closure(states, before, character)
            if self._program[index][0] == CHARS and self._program[index][1] >> code & 1
        )
        return reached, _AFTER_WORD if is_word(character) else _AFTER_OTHER

    def _closure(self, states: _States, before: int, after: str | None) -> set[int]:
        """All states that are reached without a character, between these two."""
        is_boundary = (before == _AFTER_WORD) != (after is not None and is_word(after))
        holds = {
            START: before == _AT_START,
            END: after is None,
            BOUNDARY: is_boundary,
            NO_BOUNDARY: not is_boundary,
        }
        seen: set[int] = set()
        waiting = list(states)
        while waiting:
            index = waiting.pop()
            if index in seen:
                continue
            seen.add(index)
            kind, first, second = self._program[index]
            if kind == SPLIT:
                waiting += (first, second)
            elif kind == JUMP:
                waiting.append(first)
            elif holds.get(kind, False):
                waiting.append(index + 1)
        return seen


@lru_cache(maxsize=64)
def topic_pattern(pattern: str) -> TopicPattern:
    """The pattern, read; a `PatternError` says why it can't be."""
    return TopicPattern(pattern)
