"""What `ottla serve` says where another process has a port that it wants."""

from __future__ import annotations

import errno
import shlex
import sys
from collections.abc import Sequence

from ottla.broker.endpoints import Endpoint
from ottla.cli.output import Refused


def is_taken(error: BaseException | None) -> bool:
    """Whether a start failed since another process has the port."""
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__
    return error is not None and error.errno == errno.EADDRINUSE


def tell_taken(found: Sequence[Endpoint], http: str, count: int = 1) -> None:
    """Say who has the ports, and how to go on: the next command would speak to that one.

    Args:
        http: where HTTP was to be served; empty for nowhere.
        count: of nodes, each of which has every port plus its place.
    """
    from ottla.cli.greeting import Who, free_port, greet, holder
    from ottla.observe.http.address import parse_address

    http_host, http_port = parse_address(http, "--http") if http else ("", 0)
    words, used = sys.argv[1:], {port + at for port in (*(one.port for one in found), http_port) for at in range(count)}
    lines, advice, export = [], "To have your own beside it:", []
    moved = list(found)
    for at, (host, port, *_) in enumerate(found):
        taken = _taken(host, port, count)
        for one in taken:
            who, process = greet(host or "localhost", one), holder(one)
            lines.append(f"Port {one} is taken by {who.value}{process and f' ({process})'}.")
            if one == 9092 and who is Who.OTTLA:
                lines.append("Commands that name no broker speak to that one.")
        if taken and (other := free_port(host, port, used, count)) is not None:
            used.update(range(other, other + count))
            moved[at] = found[at]._replace(port=other)
    if moved != list(found) and len(found) > 1:  # --listen would make one of them
        told = ", and in advertised.listeners, too" if any(one.advertised for one in found) else ""
        lines.append(f"To have your own beside it, name other ports{told}: listeners={','.join(map(str, moved))}")
    elif moved != list(found):
        host, port, *_ = moved[0]
        words = _with(words, "--listen", f"{host}:{port}")
        advice = "To have your own beside it, and to let the other commands find it:"
        export = [f"  export OTTLA_BOOTSTRAP_SERVERS={host or 'localhost'}:{port}"]
    if taken := _taken(http_host, http_port, count) if http else []:
        for one in taken:
            process = holder(one)
            lines.append(f"Port {one}, for HTTP, is taken{process and f' by {process}'}.")
        if (other := free_port(http_host, http_port, used, count)) is not None:
            words = _with(words, "--http", f"{http.removesuffix(str(http_port))}{other}")
    if words != sys.argv[1:]:
        lines += [advice, f"  {shlex.join(['ottla', *words])}", *export]
    if lines:
        Refused(*lines).show()


def _taken(host: str, port: int, count: int) -> list[int]:
    """Those of so many ports that somebody has."""
    from ottla.cli.greeting import bind_error

    return [one for one in range(port, port + count) if is_taken(bind_error(host, one))] if port else []


def _with(words: Sequence[str], option: str, value: str) -> list[str]:
    """The same command line, but with this value of an option."""
    kept = [word for at, word in enumerate(words) if word != option and words[at - 1 : at] != [option]]
    return [*(word for word in kept if not word.startswith(f"{option}=")), option, value]
