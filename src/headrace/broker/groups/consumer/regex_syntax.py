"""Reading topic name patterns in RE2's syntax, into the instructions of an automaton.

Owns: the syntax, what of it is refused, and the size of what comes out of it.
Must not know: how names are matched (`regex`), groups.
Spec: RE2's syntax page as Kafka's coordinator (RE2/J) takes it: no back references, no look-around.
Flags other than `i` are read and change nothing: a topic's name has one line.

    instruction (kind, first, second)
    CHARS      first: the characters it takes, one bit for each of 128; goes on behind itself
    SPLIT      goes on at first and at second
    JUMP       goes on at first
    START END BOUNDARY NO_BOUNDARY     go on behind themselves where that holds
    MATCH      the end
"""

from collections.abc import Callable
from dataclasses import dataclass

PATTERN_CHARS_MAX = 4_096
PROGRAM_MAX = 1_000
NESTING_MAX = 100
REPEAT_MAX = 1_000

_ALL = (1 << 128) - 1


class PatternError(ValueError):
    """Why a pattern is refused."""


# Character classes, as bits


def _mask(text: str) -> int:
    bits = 0
    for character in text:
        bits |= 1 << ord(character)
    return bits


def _span(first: int, last: int) -> int:
    last = min(last, 127)
    return 0 if first > last else ((1 << (last - first + 1)) - 1) << first


_DIGIT = _span(48, 57)
_LOWER = _span(97, 122)
_UPPER = _span(65, 90)
_WORD = _DIGIT | _LOWER | _UPPER | _mask("_")
_SPACE = _mask("\t\n\f\r ")
_NEWLINE = _mask("\n")
_PUNCT = _span(33, 47) | _span(58, 64) | _span(91, 96) | _span(123, 126)
_PERL = {"d": _DIGIT, "w": _WORD, "s": _SPACE}
_POSIX = {
    "alnum": _DIGIT | _LOWER | _UPPER,
    "alpha": _LOWER | _UPPER,
    "ascii": _ALL,
    "blank": _mask("\t "),
    "cntrl": _span(0, 31) | _span(127, 127),
    "digit": _DIGIT,
    "graph": _span(33, 126),
    "lower": _LOWER,
    "print": _span(32, 126),
    "punct": _PUNCT,
    "space": _SPACE | _mask("\v"),
    "upper": _UPPER,
    "word": _WORD,
    "xdigit": _DIGIT | _span(65, 70) | _span(97, 102),
}
_MATH_SIGNS = _mask("+<=>|~")
_UNICODE = {
    "Any": _ALL,
    "L": _LOWER | _UPPER,
    "Lu": _UPPER,
    "Ll": _LOWER,
    "Latin": _LOWER | _UPPER,
    "N": _DIGIT,
    "Nd": _DIGIT,
    "P": _PUNCT & ~_MATH_SIGNS & ~_mask("$^`"),
    "S": _MATH_SIGNS | _mask("$^`"),
    "Z": _mask(" "),
}
_ESCAPES = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}


def _fold(bits: int) -> int:
    """Both cases of every letter."""
    return bits | (bits & _UPPER) << 32 | (bits & _LOWER) >> 32


# The automaton

Instruction = tuple[int, int, int]

CHARS, SPLIT, JUMP, START, END, BOUNDARY, NO_BOUNDARY, MATCH = range(8)


@dataclass(frozen=True, slots=True)
class _Node:
    """Emits its instructions; `size` is how many, known beforehand so that nothing explodes."""

    size: int
    emit: Callable[[list[Instruction]], None]


def _instruction(kind: int, bits: int = 0) -> _Node:
    return _Node(1, lambda out: out.append((kind, bits, 0)))


_EMPTY = _Node(0, lambda _: None)


def _concatenation(parts: list[_Node]) -> _Node:
    def emit(out: list[Instruction]) -> None:
        for part in parts:
            part.emit(out)

    return _sized(sum(part.size for part in parts), emit)


def _alternation(branches: list[_Node]) -> _Node:
    if len(branches) == 1:
        return branches[0]
    first, rest = branches[0], _alternation(branches[1:])

    def emit(out: list[Instruction]) -> None:
        split = len(out)
        out.append((SPLIT, 0, 0))
        first.emit(out)
        jump = len(out)
        out.append((JUMP, 0, 0))
        out[split] = (SPLIT, split + 1, len(out))
        rest.emit(out)
        out[jump] = (JUMP, len(out), 0)

    return _sized(first.size + rest.size + 2, emit)


def _star(node: _Node) -> _Node:
    def emit(out: list[Instruction]) -> None:
        split = len(out)
        out.append((SPLIT, 0, 0))
        node.emit(out)
        out.append((JUMP, split, 0))
        out[split] = (SPLIT, split + 1, len(out))

    return _sized(node.size + 2, emit)


def _at_most(node: _Node, count: int) -> _Node:
    """None to `count` of them, in a row and not nested."""

    def emit(out: list[Instruction]) -> None:
        splits = []
        for _ in range(count):
            splits.append(len(out))
            out.append((SPLIT, 0, 0))
            node.emit(out)
        for split in splits:
            out[split] = (SPLIT, split + 1, len(out))

    return _sized((node.size + 1) * count, emit)


def _repeat(node: _Node, low: int, high: int | None) -> _Node:
    required = _concatenation([node] * low)
    rest = _star(node) if high is None else _at_most(node, high - low)
    return _concatenation([required, rest])


def _sized(size: int, emit: Callable[[list[Instruction]], None]) -> _Node:
    if size > PROGRAM_MAX:
        raise PatternError("expression too large")
    return _Node(size, emit)


class _Parser:
    """One pattern, left to right."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._depth = 0

    def parse(self) -> _Node:
        node, _ = self._alternatives(fold=False)
        if self._at < len(self._text):
            raise PatternError("unexpected )")
        return node

    def _peek(self, count: int = 1) -> str:
        return self._text[self._at : self._at + count]

    def _take(self, count: int = 1) -> str:
        taken = self._peek(count)
        if len(taken) < count:
            raise PatternError("pattern ends too early")
        self._at += count
        return taken

    def _skip(self, text: str) -> bool:
        if not self._text.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def _alternatives(self, *, fold: bool) -> tuple[_Node, bool]:
        self._depth += 1
        if self._depth > NESTING_MAX:
            raise PatternError("nesting too deep")
        branches = []
        parts: list[_Node] = []
        while self._at < len(self._text) and self._peek() != ")":
            if self._skip("|"):
                branches.append(_concatenation(parts))
                parts = []
                continue
            part, fold = self._repeated(fold)
            parts.append(part)
        self._depth -= 1
        branches.append(_concatenation(parts))
        if len(branches) > PROGRAM_MAX // 4:
            raise PatternError("expression too large")
        return _balanced(branches), fold

    def _repeated(self, fold: bool) -> tuple[_Node, bool]:
        if self._peek() in ("*", "+", "?"):
            raise PatternError("missing argument to repetition operator")
        node, fold = self._atom(fold)
        is_repeated = False
        while True:
            bounds = self._repetition()
            if bounds is None:
                return node, fold
            if is_repeated:
                raise PatternError("invalid nested repetition operator")
            is_repeated = True
            self._skip("?")  # lazy or not: a whole name matches or it does not
            node = _repeat(node, *bounds)

    def _repetition(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._skip(sign):
                return bounds
        end = self._text.find("}", self._at)
        if self._peek() != "{" or end < 0:
            return None
        low, comma, high = self._text[self._at + 1 : end].partition(",")
        if not _is_number(low) or (high and not _is_number(high)):
            return None  # as RE2: braces that are no repetition are plain characters
        self._at = end + 1
        least = int(low)
        most = (int(high) if high else None) if comma else least
        if least > REPEAT_MAX or (most is not None and (most > REPEAT_MAX or most < least)):
            raise PatternError("invalid repeat count")
        return least, most

    def _atom(self, fold: bool) -> tuple[_Node, bool]:
        character = self._take()
        match character:
            case "(":
                return self._group(fold)
            case "[":
                bits = self._class(fold)
                return _instruction(CHARS, bits), fold
            case ".":
                return _instruction(CHARS, _ALL & ~_NEWLINE), fold
            case "^":
                return _instruction(START), fold
            case "$":
                return _instruction(END), fold
            case "\\":
                return self._escaped(fold), fold
        return _instruction(CHARS, _literal(ord(character), fold)), fold

    def _group(self, fold: bool) -> tuple[_Node, bool]:
        outer = fold
        if self._skip("?"):
            if self._skip("P<") or self._skip("<"):
                self._name()
            else:
                fold, is_group = self._flags(fold)
                if not is_group:
                    return _EMPTY, fold
        node, _ = self._alternatives(fold=fold)
        if not self._skip(")"):
            raise PatternError("missing closing )")
        return node, outer

    def _name(self) -> None:
        name = ""
        while (character := self._take()) != ">":
            name += character
        if not name.isascii() or not name.replace("_", "a").isalnum():
            raise PatternError("invalid named capture")

    def _flags(self, fold: bool) -> tuple[bool, bool]:
        """The flags, and whether a group follows in the same parentheses."""
        is_on = True
        while True:
            flag = self._take()
            if flag == "i":
                fold = is_on
            elif flag == "-" and is_on:
                is_on = False
            elif flag in (":", ")"):
                return fold, flag == ":"
            elif flag not in ("m", "s", "U"):
                raise PatternError("invalid or unsupported Perl syntax")

    def _escaped(self, fold: bool) -> _Node:
        character = self._take()
        match character:
            case "A":
                return _instruction(START)
            case "z":
                return _instruction(END)
            case "b":
                return _instruction(BOUNDARY)
            case "B":
                return _instruction(NO_BOUNDARY)
            case "C":
                return _instruction(CHARS, _ALL)
            case "Q":
                end = self._text.find("\\E", self._at)
                quoted = self._text[self._at : end if end >= 0 else len(self._text)]
                self._at += len(quoted) + (2 if end >= 0 else 0)
                return _concatenation(
                    [_instruction(CHARS, _literal(ord(each), fold)) for each in quoted]
                )
        self._at -= 1
        bits = self._class_escape()
        if bits is None:
            bits = _literal(self._code(), fold)
        elif fold:
            bits = _fold(bits)
        return _instruction(CHARS, bits)

    def _class_escape(self) -> int | None:
        """`\\d`, `\\pL` and their like, standing behind the backslash; None for a character."""
        character = self._peek()
        if character.lower() in _PERL:
            self._take()
            bits = _PERL[character.lower()]
            return bits if character.islower() else _ALL & ~bits
        if character not in ("p", "P"):
            return None
        self._take()
        name = self._take()
        if name == "{":
            end = self._text.find("}", self._at)
            if end < 0:
                raise PatternError("invalid character class range")
            name = self._text[self._at : end]
            self._at = end + 1
        is_negated = character == "P"
        if name.startswith("^"):
            name, is_negated = name[1:], not is_negated
        if name not in _UNICODE:
            raise PatternError(f"invalid character class range: \\p{{{name}}}")
        return _ALL & ~_UNICODE[name] if is_negated else _UNICODE[name]

    def _code(self) -> int:
        """One escaped character, standing behind the backslash."""
        character = self._take()
        if character in _ESCAPES:
            return _ESCAPES[character]
        if character == "x":
            digits = self._take()
            if digits == "{":
                end = self._text.find("}", self._at)
                digits = self._text[self._at : end] if end >= 0 else ""
                self._at = end + 1
            else:
                digits += self._take()
            try:
                code = int(digits, 16)
            except ValueError:
                raise PatternError("invalid escape sequence") from None
            if code > 0x10FFFF:
                raise PatternError("invalid escape sequence")
            return code
        if character in "01234567":
            if character != "0" and self._peek() not in tuple("01234567"):
                raise PatternError("invalid escape sequence")  # a back reference
            digits = character
            while len(digits) < 3 and self._peek() in tuple("01234567"):
                digits += self._take()
            return int(digits, 8)
        if character.isascii() and character.isalnum():
            raise PatternError(f"invalid escape sequence: \\{character}")
        return ord(character)

    def _class(self, fold: bool) -> int:
        is_negated = self._skip("^")
        bits = 0
        is_first = True
        while is_first or self._peek() != "]":
            is_first = False
            if self._skip("[:"):
                bits |= self._posix()
                continue
            if self._peek() == "\\":
                self._take()
                found = self._class_escape()
                if found is not None:
                    bits |= found
                    continue
                self._at -= 1
            bits |= self._range()
        self._take()
        if fold:
            bits = _fold(bits)
        return _ALL & ~bits if is_negated else bits

    def _posix(self) -> int:
        end = self._text.find(":]", self._at)
        name = self._text[self._at : end] if end >= 0 else ""
        is_negated = name.startswith("^")
        bits = _POSIX.get(name.removeprefix("^"))
        if bits is None:
            raise PatternError("invalid character class range")
        self._at = end + 2
        return _ALL & ~bits if is_negated else bits

    def _range(self) -> int:
        low = self._class_character()
        if self._peek() != "-" or self._peek(2) == "-]":
            return _literal(low, fold=False)
        self._take()
        high = self._class_character()
        if high < low:
            raise PatternError("invalid character class range")
        return _span(low, high)

    def _class_character(self) -> int:
        character = self._take()
        return self._code() if character == "\\" else ord(character)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 4


def _literal(code: int, fold: bool) -> int:
    bits = 1 << code if code < 128 else 0
    return _fold(bits) if fold else bits


def _balanced(branches: list[_Node]) -> _Node:
    """Alternatives as a tree, so that a thousand of them do not nest a thousand deep."""
    while len(branches) > 1:
        branches = [
            _alternation(branches[index : index + 2]) for index in range(0, len(branches), 2)
        ]
    return branches[0]


def compile_pattern(pattern: str) -> list[Instruction]:
    """The automaton of a pattern; a `PatternError` says why there is none."""
    if len(pattern) > PATTERN_CHARS_MAX:
        raise PatternError("pattern too long")
    program: list[Instruction] = []
    _Parser(pattern).parse().emit(program)
    program.append((MATCH, 0, 0))
    return program


def is_word(character: str) -> bool:
    return character.isascii() and bool(_WORD >> ord(character) & 1)
