"""Patterns for transactional ids: RE2's syntax, matched in time linear in the length of what is matched.

A pattern comes from a client, and Python's own engine can be kept busy for hours by a short one. So a pattern becomes
a program of a few kinds of steps here, and all ways through it are followed at the same time (Thompson's algorithm).
What RE2 does not have because it cannot be matched that way, references and look-around, is refused, and so are
Unicode classes (``\\p``), which nobody needs for ids.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

MAX_REPEAT = 1_000
"""RE2's limit of ``{n,m}``."""

MAX_STEPS = 5_000
"""Of a program; bounds the work for each character."""

MAX_DEPTH = 100
"""Of groups in groups."""

Test = Callable[[str], bool]


class BadPattern(Exception):
    """A pattern that does not parse; the message says why."""


class Edge(Enum):
    """Where in the text something must be."""

    START = "^"
    END = "$"
    WORD = "\\b"
    NO_WORD = "\\B"


class Step(NamedTuple):
    """One step of a program: test a character, be at an edge, go to several places, or (none of these) match."""

    test: Test | None = None
    edge: Edge | None = None
    to: tuple[int, ...] = ()


def _is_word(character: str) -> bool:
    return character == "_" or (character.isascii() and character.isalnum())


_CLASSES: dict[str, Test] = {
    "d": lambda c: c in "0123456789",
    "w": _is_word,
    "s": lambda c: c in "\t\n\f\r ",
}
_POSIX: dict[str, Test] = {
    "alnum": lambda c: c.isascii() and c.isalnum(),
    "alpha": lambda c: c.isascii() and c.isalpha(),
    "ascii": lambda c: c.isascii(),
    "blank": lambda c: c in "\t ",
    "cntrl": lambda c: c < " " or c == "\x7f",
    "digit": _CLASSES["d"],
    "graph": lambda c: "!" <= c <= "~",
    "lower": lambda c: "a" <= c <= "z",
    "print": lambda c: " " <= c <= "~",
    "punct": lambda c: "!" <= c <= "~" and not c.isalnum(),
    "space": lambda c: c in "\t\n\v\f\r ",
    "upper": lambda c: "A" <= c <= "Z",
    "word": _is_word,
    "xdigit": lambda c: c in "0123456789abcdefABCDEF",
}
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_EDGES = {"A": Edge.START, "z": Edge.END, "b": Edge.WORD, "B": Edge.NO_WORD}


def _negated(test: Test) -> Test:
    return lambda c: not test(c)


def _either(tests: list[Test]) -> Test:
    return lambda c: any(test(c) for test in tests)


def _between(low: str, high: str) -> Test:
    return lambda c: low <= c <= high


def _folded(test: Test) -> Test:
    return lambda c: test(c.lower()) or test(c.upper())


# A piece of a program, built at the address it is given; what comes after it stands right behind it.
Piece = Callable[[list[Step]], None]


class _Parser:
    """Reads a pattern once, from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._folds = False
        self._dot_is_all = False

    def parse(self) -> Piece:
        piece = self._alternatives()
        if self._at < len(self._text):
            raise BadPattern("unexpected )")
        return piece

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self) -> str:
        if self._at >= len(self._text):
            raise BadPattern("the pattern ends too early")
        self._at += 1
        return self._text[self._at - 1]

    def _accept(self, token: str) -> bool:
        if not self._text.startswith(token, self._at):
            return False
        self._at += len(token)
        return True

    def _alternatives(self) -> Piece:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise BadPattern("too many groups in groups")
        folds, dot_is_all = self._folds, self._dot_is_all
        found = [self._sequence()]
        while self._accept("|"):
            found.append(self._sequence())
        self._folds, self._dot_is_all = folds, dot_is_all  # flags end with their group
        self._depth -= 1
        return found[0] if len(found) == 1 else _any_of(found)

    def _sequence(self) -> Piece:
        pieces: list[Piece] = []
        while self._peek() not in ("", "|", ")"):
            if self._accept("\\Q"):
                text, _, _ = self._text[self._at :].partition("\\E")
                self._at = min(self._at + len(text) + 2, len(self._text))
                pieces += [self._literal(character) for character in text]
                if text:
                    pieces.append(self._repeated(pieces.pop()))
            else:
                pieces.append(self._repeated(self._atom()))
        return _all_of(pieces)

    def _repeated(self, piece: Piece) -> Piece:
        bounds = self._bounds()
        if bounds is None:
            return piece
        self._accept("?")  # which way is tried first does not matter
        if self._bounds() is not None:
            raise BadPattern("a repetition of a repetition")
        low, high = bounds
        if low > MAX_REPEAT or (high is not None and (high > MAX_REPEAT or high < low)):
            raise BadPattern("bad number of repetitions")
        return _times(piece, low, high)

    def _bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._accept(sign):
                return bounds
        end = self._text.find("}", self._at)
        if self._peek() != "{" or end < 0:
            return None
        low, comma, high = self._text[self._at + 1 : end].partition(",")
        if not (_is_number(low) and (not high or _is_number(high))):
            return None  # then the brace means itself
        self._at = end + 1
        return int(low), (int(high) if high else None) if comma else int(low)

    def _atom(self) -> Piece:
        match self._take():
            case "(":
                return self._group()
            case "[":
                return _one(self._class())
            case ".":
                return _one((lambda c: True) if self._dot_is_all else (lambda c: c != "\n"))
            case "^":
                return _at(Edge.START)
            case "$":
                return _at(Edge.END)
            case "\\":
                return self._escape()
            case "*" | "+" | "?":
                raise BadPattern("nothing to repeat")
            case character:
                return self._literal(character)

    def _literal(self, character: str) -> Piece:
        test: Test = lambda c: c == character  # noqa: E731
        return _one(_folded(test) if self._folds else test)

    def _group(self) -> Piece:
        if not self._accept("?"):
            return self._closed()
        if self._accept("P<") or (self._peek() == "<" and self._text[self._at + 1 : self._at + 2] not in ("=", "!")):
            self._accept("<")
            while self._peek() != ">":
                if not _is_word(self._take()):
                    raise BadPattern("bad name of a group")
            self._take()
            return self._closed()
        before = self._folds, self._dot_is_all
        sets = True
        while (flag := self._take()) not in ":)":
            if flag not in "-imsU" or (flag == "-" and not sets):
                raise BadPattern(f"(?{flag}: not known")
            self._folds = sets if flag == "i" else self._folds
            self._dot_is_all = sets if flag == "s" else self._dot_is_all
            sets = sets and flag != "-"
        if flag == ")":
            return _all_of([])
        piece = self._closed()
        self._folds, self._dot_is_all = before
        return piece

    def _closed(self) -> Piece:
        piece = self._alternatives()
        if not self._accept(")"):
            raise BadPattern("missing )")
        return piece

    def _escape(self) -> Piece:
        character = self._take()
        if character in _EDGES:
            return _at(_EDGES[character])
        if character.lower() in _CLASSES:
            return _one(_class_of(character))
        return self._literal(self._escaped(character))

    def _escaped(self, character: str) -> str:
        if character in _ESCAPES:
            return _ESCAPES[character]
        if character == "x":
            digits = self._text[self._at : self._at + 2]
            if self._accept("{"):
                digits, _, _ = self._text[self._at :].partition("}")
                self._at += len(digits) + 1
            else:
                self._at += 2
            try:
                return chr(int(digits, 16))
            except (ValueError, OverflowError):
                raise BadPattern("bad number of a character") from None
        if character.isascii() and character.isalnum():
            raise BadPattern(f"\\{character}: not known")
        return character

    def _class(self) -> Test:
        negated = self._accept("^")
        tests: list[Test] = []
        first = True
        while first or self._peek() != "]":
            first = False
            tests.append(self._class_part())
        self._take()
        test = _either(tests)
        test = _folded(test) if self._folds else test
        return _negated(test) if negated else test

    def _class_part(self) -> Test:
        if self._accept("[:"):
            name, found, _ = self._text[self._at :].partition(":]")
            self._at += len(name) + 2
            posix = _POSIX.get(name.removeprefix("^")) if found else None
            if posix is None:
                raise BadPattern("unknown class of characters")
            return _negated(posix) if name.startswith("^") else posix
        if self._peek() == "\\" and self._text[self._at + 1 : self._at + 2].lower() in _CLASSES:
            self._take()
            return _class_of(self._take())
        low = self._class_character()
        if self._peek() != "-" or self._text[self._at + 1 : self._at + 2] in ("", "]"):
            return _between(low, low)
        self._take()
        high = self._class_character()
        if high < low:
            raise BadPattern("a range from high to low")
        return _between(low, high)

    def _class_character(self) -> str:
        character = self._take()
        return self._escaped(self._take()) if character == "\\" else character


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9


def _class_of(letter: str) -> Test:
    test = _CLASSES[letter.lower()]
    return test if letter.islower() else _negated(test)


def _emit(steps: list[Step], step: Step) -> None:
    if len(steps) >= MAX_STEPS:
        raise BadPattern("the pattern is too large")
    steps.append(step)


def _one(test: Test) -> Piece:
    return lambda steps: _emit(steps, Step(test=test))


def _at(edge: Edge) -> Piece:
    return lambda steps: _emit(steps, Step(edge=edge))


def _all_of(pieces: list[Piece]) -> Piece:
    def emit(steps: list[Step]) -> None:
        for piece in pieces:
            piece(steps)

    return emit


def _any_of(pieces: list[Piece]) -> Piece:
    def emit(steps: list[Step]) -> None:
        fork = len(steps)
        _emit(steps, Step(to=()))
        starts, ends = [], []
        for piece in pieces:
            starts.append(len(steps))
            piece(steps)
            ends.append(len(steps))
            _emit(steps, Step(to=()))
        steps[fork] = Step(to=tuple(starts))
        for end in ends:
            steps[end] = Step(to=(len(steps),))

    return emit


def _times(piece: Piece, low: int, high: int | None) -> Piece:
    def emit(steps: list[Step]) -> None:
        for _ in range(low):
            piece(steps)
        forks = []
        for _ in range(1 if high is None else high - low):
            forks.append(len(steps))
            _emit(steps, Step(to=()))
            piece(steps)
            if high is None:
                _emit(steps, Step(to=(forks[0],)))
        for fork in forks:
            steps[fork] = Step(to=(fork + 1, len(steps)))

    return emit


class Pattern:
    """A pattern that was read.

    Raises:
        BadPattern: it does not parse.
    """

    def __init__(self, text: str) -> None:
        self._steps: list[Step] = []
        _Parser(text).parse()(self._steps)
        self._end = len(self._steps)

    def matches(self, text: str) -> bool:
        """Whether the whole text is of the pattern."""
        places = self._reached([0], text, 0)
        for at, character in enumerate(text):
            after = [place + 1 for place in places if (test := self._test(place)) is not None and test(character)]
            if not after:
                return False
            places = self._reached(after, text, at + 1)
        return self._end in places

    def _test(self, place: int) -> Test | None:
        return self._steps[place].test if place < self._end else None

    def _reached(self, places: list[int], text: str, at: int) -> set[int]:
        """Where one gets to without a further character; only tests and the end count, the rest does no harm."""
        found: set[int] = set()
        left = list(places)
        while left:
            place = left.pop()
            if place in found:
                continue
            found.add(place)
            if place == self._end:
                continue
            step = self._steps[place]
            if step.edge is not None:
                if _is_at(step.edge, text, at):
                    left.append(place + 1)
            elif step.test is None:
                left.extend(step.to)
        return found


def _is_at(edge: Edge, text: str, at: int) -> bool:
    if edge is Edge.START:
        return at == 0
    if edge is Edge.END:
        return at == len(text)
    before = at > 0 and _is_word(text[at - 1])
    after = at < len(text) and _is_word(text[at])
    return (before != after) == (edge is Edge.WORD)
