"""How the name of a principal comes of the subject of a certificate (KIP-371): ``ssl.principal.mapping.rules``.

The patterns are Java's, and are matched by RE2: a name comes from a client, and other engines can be kept busy for
minutes by a long one, Java's and Python's among them, and even with the example of Kafka's documentation. What RE2 does
not have (looking around, references to groups, possessive quantifiers), or takes for something else, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

Rule: TypeAlias = Callable[[str], str | None]
"""Gives the name of a principal for a subject; None where it does not fit."""

_RULE: Final = re.compile(r"RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)\s*(?:,|\Z)", re.DOTALL)
_OTHER: Final = re.compile(r"(DEFAULT)?\s*(?:,|\Z)")
_BLANKS: Final = re.compile(r"\s*")
_PART: Final = re.compile(r"\\(?P<escape>.)|(?P<class>\[(?:\\.|[^\]\\])*\])|\(\?(?P<group>.)|(?P<dot>\.)", re.DOTALL)
_ANY: Final = r"[^\n\r\x{85}\x{2028}\x{2029}]"
"""What a dot fits in Java: no line terminator, of which there are five."""
_ESCAPES: Final = "dDwWsSbBtnrfaAz"
"""Letters that mean the same after a backslash in both."""
_BEYOND_RANGES: Final = re.compile(r"(?<!\\)\[|&&|\\(?![dDwWsStnrf])[0-9A-Za-z]")
"""In a class: one within it, an intersection, or an escape that is not the same in both."""
_IN_REPLACEMENT: Final = re.compile(r"\\(?P<literal>.)|\$(?P<number>\d+)|(?P<other>[\\$])", re.DOTALL)


class BadRules(Exception):
    """Rules that cannot be used; the message says which and why."""


def read_rules(text: str) -> Sequence[Rule]:
    """Read rules: ``DEFAULT`` or ``RULE:pattern/replacement/[LU]``, with commas between them. Where none is, none fits.

    Raises:
        BadRules: one of them cannot be used.
    """
    rules: list[Rule] = []
    at = 0
    while (at := _BLANKS.match(text, at).end()) < len(text):  # type: ignore[union-attr]
        if (rule := _RULE.match(text, at)) is not None:
            rules.append(_rule(rule[1], rule[2], rule[3]))
        elif (rule := _OTHER.match(text, at)) is None:
            raise BadRules(f"{text[at:]!r}: write DEFAULT or RULE:pattern/replacement/[LU]")
        elif rule[1]:
            rules.append(str)
        at = rule.end()
    return rules


def principal_name(subject: str, rules: Sequence[Rule]) -> str | None:
    """The name by the first rule whose pattern fits the whole subject; None if there is no such rule."""
    return next((name for rule in rules if (name := rule(subject)) is not None), None)


def _rule(pattern: str, replacement: str, case: str) -> Rule:
    compiled = _compiled(pattern)
    parts = _parts_of(replacement, compiled.groups)
    change: Callable[[str], str] = {"L": str.lower, "U": str.upper}.get(case, str)

    def name(match: Any) -> str:
        return "".join(part if isinstance(part, str) else match[part] or "" for part in parts)

    def rule(subject: str) -> str | None:
        if compiled.fullmatch(subject) is None:
            return None
        # Kafka replaces wherever the pattern is found then, and not the whole: a lazy one may find less.
        return change(compiled.sub(name, subject))

    return rule


def _compiled(pattern: str) -> Any:
    import re2  # here: few brokers have rules

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(_as_re2(pattern), options)
    except re2.error as error:
        why = error.args[0].decode(errors="replace").replace(_ANY, ".")
        raise BadRules(f"{pattern!r} is no pattern: {why}") from None


def _as_re2(pattern: str) -> str:
    """The pattern as RE2 writes it."""
    written, end = [], 0
    for part in _PART.finditer(pattern):
        letter, of_class = part["escape"] or "", part["class"] or ""
        if letter.isalnum() and letter not in _ESCAPES:
            raise BadRules(f"{pattern!r}: \\{letter} is not supported")
        if _BEYOND_RANGES.search(of_class[1:]):
            raise BadRules(f"{pattern!r}: only characters and ranges are supported in {of_class}")
        if part["group"] not in (None, ":", "i"):
            raise BadRules(f"{pattern!r}: (?{part['group']} is not supported")
        written += [pattern[end : part.start()], _ANY if part["dot"] else part[0]]
        end = part.end()
    return "".join((*written, pattern[end:]))


def _parts_of(replacement: str, groups: int) -> Sequence[str | int]:
    """A replacement in texts and numbers of groups. A number that is no group is text."""
    parts: list[str | int] = []
    end = 0
    for part in _IN_REPLACEMENT.finditer(replacement):
        if part["other"]:
            raise BadRules(f"{replacement!r}: write a backslash before a $ or \\ that is meant as it is")
        parts += [replacement[end : part.start()], part["literal"] or ""]
        end = part.end()
        if digits := part["number"]:
            number, rest = _group(digits, groups)
            parts += [f"${digits}"] if number is None else [number, rest]
    return [*parts, replacement[end:]]


def _group(digits: str, groups: int) -> tuple[int | None, str]:
    """The longest number of a group at the beginning of digits, and what follows it."""
    for cut in range(len(digits), 0, -1):
        if int(digits[:cut]) <= groups:
            return int(digits[:cut]), digits[cut:]
    return None, ""
