"""A timeline as a file of its own: one page that holds its data, opens without a network and asks nobody."""

from __future__ import annotations

import base64
import re
from hashlib import sha256
from html import escape

import msgspec

from ottla.observe.console_files import FOLDER, content
from ottla.observe.timeline.model import Timeline

STYLES = ("base.css", "timeline.css")
SCRIPTS = (
    "dom.js",
    "causes.js",
    "timeline-scale.js",
    "timeline-draw.js",
    "timeline-words.js",
    "timeline-hint.js",
    "timeline.js",
    "page.js",
)
"""The console's own modules, each after those that it imports."""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src {style_hash}; script-src \
{script_hash}; base-uri 'none'; form-action 'none'">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main class="single" id="page"></main>
<script type="application/json" id="timeline">{data}</script>
<script type="module">{script}</script>
</body>
</html>
"""
IMPORT = re.compile(r"^import .*?;\n", re.MULTILINE)
EXPORT = re.compile(r"^export (?=const|function|class)", re.MULTILINE)


def page(timeline: Timeline) -> str:
    """The page. Nothing runs in it but its own script: a name that slipped through could do nothing."""
    style = "".join(content(FOLDER / name).decode() for name in STYLES)
    script = "".join(_as_part(content(FOLDER / name).decode()) for name in SCRIPTS)
    # In a script element nothing may look like the end of it.
    data = msgspec.json.encode(timeline).decode().replace("<", "\\u003c")
    return PAGE.format(
        title=escape(f"{timeline.group_id} · Ottla timeline"),
        style=style,
        style_hash=_hash(style),
        data=data,
        script=script,
        script_hash=_hash(script),
    )


def _hash(text: str) -> str:
    """The source that the policy allows: this text and no other."""
    return f"'sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}'"


def _as_part(module: str) -> str:
    """A module of the console as a part of one script."""
    return EXPORT.sub("", IMPORT.sub("", module))
