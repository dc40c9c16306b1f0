"""Print the reference of the included client in docs/client.md from its docstrings and options.

Run it with ``make docs``. A test compares the page with what this prints. The text above the marker is written by
hand.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, cast

from ottla import clients
from ottla.clients.admin import Admin
from ottla.clients.consumer import Consumer
from ottla.clients.options import INT32_MAX, AdminOptions, ClientOptions, ConsumerOptions, ProducerOptions
from ottla.clients.producer import Producer

PAGE = Path(__file__).with_name("client.md")
BEGIN = "<!-- Printed by docs/make_client.py (`make docs`) from here on; do not edit. -->\n"
CLIENTS: dict[type, tuple[type[ClientOptions], dict[str, str]]] = {
    Consumer: (ConsumerOptions, {"start": "life, subscription and records", "position": "positions, commits and logs"}),
    Producer: (ProducerOptions, {"start": "life, records and transactions"}),
    Admin: (
        AdminOptions,
        {
            "last_request": "life",
            "create_topics": "topics, logs and the cluster",
            "list_groups": "groups",
            "describe_group_history": "history of groups",
            "describe_configs": "settings and quotas",
            "list_transactions": "transactions",
        },
    ),
}
"""The clients, with their options, and the headings before some of their methods."""
HOOKS: tuple[type, ...] = (
    clients.ConsumerRebalanceListener,
    clients.ConsumerInterceptor,
    clients.Assignor,
    clients.TokenProvider,
)
ENTRY = re.compile(r"^(?P<names>[\w.*]+(?:, [\w.*]+)*): (?P<text>.*)$")


def render() -> str:
    """The whole page."""
    head = PAGE.read_text(encoding="utf-8").split(BEGIN)[0]
    parts = [f"{head}{BEGIN}", "## Options of every client", table_of(ClientOptions)]
    for client, (options, headings) in CLIENTS.items():
        parts += [f"## {client.__name__}", _described(client), f"### Options of {client.__name__}", table_of(options)]
        for (name, _), method in zip(public(client), _methods(client), strict=True):
            parts += [f"### {client.__name__}: {headings[name]}"] if name in headings else []
            parts.append(method)
    parts.append("## What you can hang in")
    for hook in HOOKS:
        parts += [f"### {hook.__name__}", _described(hook), *_methods(hook)]
    parts += ["## Values", _values(), "## Errors", _errors()]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def public(home: type) -> Iterator[tuple[str, Any]]:
    """The methods and properties that a class itself offers, in the order of its source."""
    for name, member in vars(home).items():
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
            yield name, member


def entries(lines: list[str]) -> list[tuple[list[str], str]]:
    """``name, name: text`` with what is indented below it, as names and text."""
    found: list[tuple[list[str], str]] = []
    for line in lines:
        if match := ENTRY.match(line):
            found.append((match["names"].split(", "), match["text"]))
        elif line.strip() and found:
            found[-1] = (found[-1][0], f"{found[-1][1]} {line.strip()}")
    return found


def sections(text: str) -> dict[str, list[str]]:
    """The parts of a docstring: its prose under the empty name, ``Args``, ``Raises`` and so on, without indent."""
    found: dict[str, list[str]] = {"": []}
    name = ""
    for line in inspect.cleandoc(text).splitlines():
        if re.fullmatch(r"(Args|Raises|Attributes|Returns):", line):
            name = line[:-1]
            found[name] = []
        else:
            found[name].append(line[4:] if name else line)
    return found


def _described(kind: type) -> str:
    return _words(*sections(kind.__doc__ or "")[""])


def _methods(home: type) -> Iterator[str]:
    for name, member in public(home):
        function: Callable[..., Any] = member.fget if isinstance(member, property) and member.fget else member
        told = sections(inspect.getdoc(function) or "")
        lines = [f"#### `{_signature(name, member)}`\n", _words(*told[""]).strip()]
        for heading in ("Args", "Returns", "Raises"):
            if heading in told:
                listed = entries(told[heading]) or [([], " ".join(told[heading]))]
                lines.append("\n" + "\n".join(_item(heading, names, text) for names, text in listed))
        yield "\n".join(lines)


def _item(heading: str, names: list[str], text: str) -> str:
    shown = ", ".join(f"`{name}`" for name in names)
    return f"- {'raises ' if heading == 'Raises' else ''}{shown}{': ' if names else ''}{_words(text)}"


def _signature(name: str, member: Any) -> str:
    """As in the source, but for ``self``, ``async`` and what decorators hide."""
    function: Any = member.fget if isinstance(member, property) else inspect.unwrap(member)
    (written,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(written, (ast.FunctionDef, ast.AsyncFunctionDef))
    gives = f": {ast.unparse(written.returns)}" if written.returns else ""
    if isinstance(member, property):
        return name + gives
    written.args.args = [one for one in written.args.args if one.arg != "self"]
    arguments = f"({re.sub('(?<=[^ ])=(?=[^ ])', ' = ', ast.unparse(written.args))})"
    if any("contextmanager" in ast.unparse(one) for one in written.decorator_list):
        return f"async with {name}{arguments}"
    before = "await " if isinstance(written, ast.AsyncFunctionDef) else ""
    return f"{before}{name}{arguments}{gives.replace(':', ' →', 1) if gives != ': None' else ''}"


def table_of(kind: type[ClientOptions]) -> str:
    """A table of the options that a class adds, a row an entry of its docstring."""
    own = {one.name: one for one in fields(kind) if one.name in kind.__annotations__}
    rows = ["| option | default | allowed | meaning |", "|---|---|---|---|"]
    for names, text in entries(inspect.cleandoc(kind.__doc__ or "").splitlines()):
        checks = dict.fromkeys(own[name].metadata["check"][0].replace(f" to {INT32_MAX}", "") for name in names)
        columns = (
            ", ".join(f"`{name}`" for name in names),
            ", ".join(f"`{_default(own.pop(name).default)}`" for name in names),
            "; ".join(checks),
            _words(text),
        )
        rows.append(f"| {' | '.join(columns)} |")
    if own:
        raise SystemExit(f"{kind.__name__}: its docstring lacks {', '.join(own)}")
    return "\n".join(rows)


def _default(value: Any) -> str:
    return f"{value:_}" if isinstance(value, int) and not isinstance(value, bool) else repr(value)


def _values() -> str:
    rows = ["| name | fields | meaning |", "|---|---|---|"]
    for name in clients.__all__:
        kind = getattr(clients, name)
        if inspect.isclass(kind) and (hasattr(kind, "_fields") or (is_dataclass(kind) and kind not in HOOKS)):
            names = kind._fields if hasattr(kind, "_fields") else [one.name for one in fields(cast("Any", kind))]
            told = ", ".join(f"`{one}`" for one in names)
            rows.append(f"| `{name}` | {told} | {_in_a_row(kind)} |")
        elif inspect.isclass(kind) and issubclass(kind, Enum):
            told = ", ".join(f"`{one.name}`" for one in kind) if len(kind) < 8 else "Kafka's names"
            rows.append(f"| `{name}` | {told} | {_in_a_row(kind)} |")
        elif inspect.isfunction(kind):
            rows.append(f"| `{_signature(name, kind)}` | | {_in_a_row(kind)} |")
    return "\n".join(rows)


def _errors() -> str:
    rows = ["| error | is a | meaning, and what to do |", "|---|---|---|"]
    for name in clients.__all__:
        kind = getattr(clients, name)
        if inspect.isclass(kind) and issubclass(kind, Exception):
            rows.append(f"| `{name}` | `{kind.__bases__[0].__name__}` | {_in_a_row(kind)} |")
    return "\n".join(rows)


def _in_a_row(kind: Any) -> str:
    told = sections(kind.__doc__ or "")
    more = "".join(f" `{', '.join(names)}`: {text}" for names, text in entries(told.get("Attributes", [])))
    return _words(" ".join(line for line in told[""] if line) + more).replace("|", "\\|")


def _words(*lines: str) -> str:
    """Markdown of a docstring's lines: one backtick, not two."""
    return re.sub(r"(?<!`)``([^`]+)``(?!`)", r"`\1`", "\n".join(lines))


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
