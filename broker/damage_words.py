"""Words about stored data at a start: what is damaged and how to go on, what was mended or closed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ottla.broker.core.topics.catalog import BadCatalog
from ottla.broker.engine import Corrupt, DamagedLog, Engine
from ottla.protocol.stored.names import CATALOG_NAME

MOST_PLACES = 3
"""The most damaged places that are named when a start is refused."""


def with_next_step(error: Exception, engine: Engine, directory: Path | None) -> str:
    """The fault; and where something is damaged, the command that helps, on a line of its own."""
    text = _places_of(error, engine) if isinstance(error, DamagedLog) else str(error)
    if directory is None or not isinstance(error, Corrupt | BadCatalog) or "ottla recover" in text:
        return text
    command = f"ottla recover {directory}"
    if isinstance(error, BadCatalog) or CATALOG_NAME in text:
        return f"{text}; restore it from a backup, or see what there is:\n  {command}"
    return f"{text}; restore the directory from a backup, or give up what is lost with:\n  {command} --accept-loss"


def tell_start(engine: Engine, log: Any) -> None:
    """Log whom stored data was closed to, and what a crash had left behind that was never acknowledged."""
    if (closed := engine.closed_to_others) is not None:
        before, now = f"{closed.before:04o}", f"{closed.now:04o}"
        log.info("The data directory was open to other users and is closed now", path=closed.path, before=before,
                 now=now)  # fmt: skip
    for cut in engine.recovered:
        log.warning("Cut an unfinished write off", path=cut.path, bytes=cut.cut_bytes, reason=cut.reason)


def _places_of(error: DamagedLog, engine: Engine) -> str:
    """The damaged places of a log that cannot be loaded: files, bytes and offsets."""
    try:
        places = engine.damage_of(error.tp)
    except OSError:
        return str(error)
    if not places:
        return str(error)
    words = [
        f"{one.path}, bytes {one.begin} to {one.end - 1} "
        f"(offsets {one.from_offset} to {one.upto_offset - 1}): {one.reason}"
        for one in places[:MOST_PLACES]
    ]
    if len(places) > MOST_PLACES:
        words.append(f"and {len(places) - MOST_PLACES} places more")
    return f"{error.tp.topic}-{error.tp.partition} is damaged: {'; '.join(words)}"
