"""The parameters of a query: read once, each within bounds, and described for the OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar
from urllib.parse import parse_qsl

from msgspec import Struct

from ottla.observe.http.problems import Problem

INT64_MAX = 2**63 - 1
MOST_FIELDS = 64
LONGEST_NAME = 32_767
"""Kafka's strings are not longer."""


class Whole(Struct, frozen=True):
    """A whole number."""

    name: str
    says: str
    low: int = 0
    high: int = INT64_MAX
    default: int | None = None

    def read(self, text: str) -> int:
        """The value of what was written. Raises `Problem`."""
        if not re.fullmatch(r"-?\d{1,19}", text, re.ASCII) or not self.low <= int(text) <= self.high:
            raise Problem(400, f"{self.name}={text!r}: allowed is a whole number from {self.low} to {self.high}")
        return int(text)

    def schema(self) -> dict[str, Any]:
        """The JSON schema."""
        schema: dict[str, Any] = {"type": "integer", "minimum": self.low, "maximum": self.high}
        return schema if self.default is None else {**schema, "default": self.default}


class Text(Struct, frozen=True):
    """Any text, up to a length."""

    name: str
    says: str
    longest: int = LONGEST_NAME
    default: ClassVar[None] = None

    def read(self, text: str) -> str:
        """The text as it was written. Raises `Problem`."""
        if len(text) > self.longest:
            raise Problem(400, f"{self.name}: allowed are {self.longest} characters")
        return text

    def schema(self) -> dict[str, Any]:
        """The JSON schema."""
        return {"type": "string", "maxLength": self.longest}


class Choice(Struct, frozen=True):
    """One of a few words."""

    name: str
    says: str
    words: tuple[str, ...]
    default: ClassVar[None] = None

    def read(self, text: str) -> str:
        """The word. Raises `Problem`."""
        if text not in self.words:
            raise Problem(400, f"{self.name}={text!r}: allowed are {', '.join(self.words)}")
        return text

    def schema(self) -> dict[str, Any]:
        """The JSON schema."""
        return {"type": "string", "enum": list(self.words)}


Parameter = Whole | Text | Choice


def read_query(query: bytes, parameters: Sequence[Parameter]) -> dict[str, Any]:
    """The value of each parameter by name; what is not known is refused, as it would be left out in silence.

    Raises:
        Problem: the query cannot be read.
    """
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError:
        raise Problem(400, "the query cannot be read: write name=value&…, encoded as UTF-8") from None
    given: dict[str, list[str]] = {}
    for name, text in pairs:
        given.setdefault(name, []).append(text)
    known = [parameter.name for parameter in parameters]
    for name in given:
        if name not in known:
            allowed = ", ".join(known) or "none"
            raise Problem(400, f"there is no parameter {name!r} here: allowed are {allowed}")
    return {parameter.name: _value(parameter, given.get(parameter.name, ())) for parameter in parameters}


def _value(parameter: Parameter, texts: Sequence[str]) -> int | str | None:
    if len(texts) > 1:
        raise Problem(400, f"{parameter.name} is given {len(texts)} times")
    return parameter.read(texts[0]) if texts else parameter.default
