"""HTML that is safe to write: what is not marked as markup is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from html import escape

_CONTROLS = {code: 0x2400 + code for code in range(32) if code not in (9, 10)} | {127: 0x2421}
# Marks that turn the direction of what follows: a name could show itself as another.
_TURNS = {code: f"[U+{code:04X}]" for code in (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))}
_SIGNS: dict[int, int | str] = {**_CONTROLS, **_TURNS}
_LONG = re.compile(r"(?<![\w.:/@-])[1-9]\d{4,14}(?![\w:/@-]|\.\w)")
_VOID = ("br", "hr", "meta", "link", "col")


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def text(value: object) -> Html:
    """Anything as text: markup in it is shown, not followed; control characters and marks of direction become signs."""
    if isinstance(value, Html):
        return value
    plain = str(value).translate(_SIGNS)
    # Lone surrogates come from names that are no UTF-16 and no file could hold them.
    return Html(escape(plain.encode("utf-8", "replace").decode()))


def join(*parts: object) -> Html:
    """Parts one after the other; lists are opened, ``None`` and ``False`` left out."""
    pieces = []
    for part in parts:
        if part is None or part is False:
            continue
        if isinstance(part, str) or not isinstance(part, Iterable):
            pieces.append(text(part))
        else:
            pieces.append(join(*part))
    return Html("".join(pieces))


def tag(name: str, *parts: object, **attributes: object) -> Html:
    """An element. ``class_`` is the class, ``_`` in names is ``-``; ``None`` and ``False`` leave an attribute out."""
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{text(value)}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _VOID:
        return Html(f"<{name}{written}>")
    return Html(f"<{name}{written}>{join(*parts)}</{name}>")


def name(value: str, *, class_: str = "name") -> Html:
    """A name that somebody else chose: in a direction of its own, cut where it is long, whole in its title."""
    return tag("bdi", value, class_=class_, title=value if len(value) > 24 else None)


def chip(label: object, style: str) -> Html:
    """A word on a coloured ground; see `ottla.pipeline.report.words.tone`."""
    return tag("span", label, class_=f"chip {style}")


def facts(figures: Iterable[tuple[str, object]]) -> Html:
    """Figures in a line, each with its name."""
    return tag("dl", (tag("div", tag("dt", key), tag("dd", value)) for key, value in figures), class_="facts")


def svg(wide: int, title: str, *parts: object, class_: str | None = None) -> Html:
    """A picture as wide as its place, whose own measures are ``wide`` and 100."""
    return tag(
        "svg",
        tag("title", title),
        *parts,
        viewBox=f"0 0 {wide} 100",
        preserveAspectRatio="none",
        role="img",
        class_=class_,
    )


def table(style: str, caption: str, heads: object, rows: object) -> Html:
    """A table whose caption is for those who cannot see it."""
    head = tag("thead", tag("tr", heads))
    return tag("table", tag("caption", caption, class_="sr"), head, tag("tbody", rows), class_=style)


def head(label: object, *, figures: bool = False, **attributes: object) -> Html:
    """The head of a column, below which text or figures stand."""
    return tag("th", label, **{"scope": "col", "class_": "num" if figures else None, **attributes})


def number(value: float | int | None, digits: int = 0) -> str:
    """A number for people: ``1,234,567``; a dash where there is none."""
    return "–" if value is None else f"{value:,.{digits}f}"


def grouped(sentence: str) -> str:
    """A sentence with its long figures in groups of three, as `number` has them; what is part of a name stays."""
    return _LONG.sub(lambda found: f"{int(found[0]):,}", sentence)


def count(many: int, one: str, more: str | None = None) -> str:
    """``1 group``, ``2 groups``, ``0 groups``."""
    return f"{many:,} {one if many == 1 else more or one + 's'}"


def duration(seconds: float | None, *, minimum: bool = False) -> str:
    """A length of time for people: ``56.1 s``, ``4 min 10 s``, ``2 h 5 min``; with ≥ if it is at least that.

    At least nothing is not known: a group stood before the only sample.
    """
    if seconds is None:
        return "–"
    if minimum and seconds == 0:
        return "unknown"
    sign = "≥ " if minimum else ""
    if seconds < 59.95:
        return f"{sign}{0 if seconds == 0 else round(seconds, 1):g} s"
    whole = round(seconds)
    for unit, size, small, part in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            big, rest = divmod(whole, size)
            return f"{sign}{big:,} {unit}" + (f" {rest // part} {small}" if rest // part else "")
    raise AssertionError(seconds)


def moment(when: datetime | None, *, day: bool = True, seconds: bool = False) -> str:
    """A time in UTC: ``22 Nov 09:13``."""
    if when is None:
        return "–"
    clock = when.strftime("%H:%M:%S" if seconds else "%H:%M")
    return f"{when.day} {when:%b} {clock}" if day else clock


def time(when: datetime | None, *, day: bool = True, seconds: bool = False) -> Html:
    """`moment` with the exact one for machines, and as a title."""
    if when is None:
        return text("–")
    exact = when.strftime("%Y-%m-%dT%H:%M:%SZ")
    return tag("time", moment(when, day=day, seconds=seconds), datetime=exact, title=exact)


def between(start: datetime, end: datetime | None) -> Html:
    """A span of time and its length; without an end it lasts."""
    if end is None:
        return join("since ", time(start))
    if end - start < timedelta(seconds=1):
        return join("at ", time(start, seconds=True))
    if end - start < timedelta(minutes=1) and moment(start) == moment(end):
        return join(time(start), " · ", duration((end - start).total_seconds()))
    short = end.date() == start.date()
    return join(time(start), "–", time(end, day=not short), " · ", duration((end - start).total_seconds()))
