"""``sasl.jaas.config`` as Kafka has it: one login module of Java's, and its options.

``org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="…";``
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

KEY = "sasl.jaas.config"
_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)"""
    r"""|"(?P<double>(?:[^"\\\n]|\\.)*)"|'(?P<single>(?:[^'\\\n]|\\.)*)'"""
    r"""|(?P<word>[A-Za-z0-9.$_\u00a0-\U0010ffff-]+)|(?P<sign>[=;])""",
    re.DOTALL,
)
_FLAGS = ("REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL")


class BadJaas(ValueError):
    """A text that Java would not read either. The message shows no value: values are passwords."""


class Login(NamedTuple):
    """A login module.

    Attributes:
        module: the last part of its class name, such as ``ScramLoginModule``.
        options: by name. They have secrets.
    """

    module: str
    options: dict[str, str]

    def __repr__(self) -> str:
        return f"Login({self.module}, {list(self.options)})"


def parse_jaas(text: str) -> Login:
    """Read the text.

    Raises:
        BadJaas: it cannot be read, or has not exactly one module.
    """
    tokens = _tokens(text)
    module = _word(tokens, "the class name of a login module")
    flag = _word(tokens, "'required' behind the login module")
    if flag.upper() not in _FLAGS:
        raise BadJaas(f"{KEY}: 'required' has to stand behind {module}")
    options: dict[str, str] = {}
    while (token := next(tokens, "")) != ";":
        if not token:
            raise BadJaas(f"{KEY}: it has to end with a semicolon")
        key = token.removeprefix('"')
        if token == "=" or next(tokens, "") != "=":
            raise BadJaas(f"{KEY}: after {len(options)} options there is one without a name or a value")
        options[key] = _word(tokens, f"a value of {key!r}")
    if next(tokens, ""):
        raise BadJaas(f"{KEY}: one login module is allowed, and there are more")
    return Login(module.rpartition(".")[2], options)


def _tokens(text: str) -> Iterator[str]:
    """Words and signs in order; what stands in quotes begins with one."""
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise BadJaas(f"{KEY}: it cannot be read from character {at + 1} on; put values in double quotes")
        at = match.end()
        if (quoted := match["double"] if match["double"] is not None else match["single"]) is not None:
            yield '"' + re.sub(r"\\(.)", _unescaped, quoted, flags=re.DOTALL)
        elif match["space"] is None:
            yield match[0]


def _unescaped(match: re.Match[str]) -> str:
    return {"n": "\n", "t": "\t", "r": "\r"}.get(match[1], match[1])


def _word(tokens: Iterator[str], what: str) -> str:
    token = next(tokens, ";")
    if token in ("=", ";"):
        raise BadJaas(f"{KEY}: it lacks {what}")
    return token.removeprefix('"')
