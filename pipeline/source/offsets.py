"""The progress of a stream, as JSON in Spark's checkpoint. The layout has a version; another one is refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ottla.pipeline.source.logs import SourceError
from ottla.protocol.records import TopicPartition

VERSION = 1
_KEYS = {"v", "topics"}


@dataclass(slots=True)
class Progress:
    """The next offset of every partition that the stream knows of, and the ids of their topics.

    As JSON: ``{"v": 1, "topics": {"orders": {"id": "…", "next": {"0": 17, "1": 4}}}}``.
    """

    ids: dict[str, str] = field(default_factory=dict)
    next: dict[TopicPartition, int] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """The JSON for the checkpoint."""
        topics: dict[str, Any] = {topic: {"id": of, "next": {}} for topic, of in sorted(self.ids.items())}
        for tp, offset in sorted(self.next.items()):
            topics[tp.topic]["next"][str(tp.partition)] = offset
        return {"v": VERSION, "topics": topics}


def read_progress(document: Any) -> Progress:
    """Read what `Progress.document` wrote.

    Raises:
        SourceError: it is of a layout that this version does not know.
    """
    with known_layout(document, _KEYS):
        found = Progress()
        for topic, row in document["topics"].items():
            if set(row) != {"id", "next"}:
                raise ValueError(f"keys {sorted(row)} of topic {topic!r}")
            found.ids[topic] = str(row["id"])
            for partition, offset in row["next"].items():
                if type(offset) is not int or offset < 0:
                    raise ValueError(f"offset {offset!r} of {topic}-{partition}")
                found.next[TopicPartition(topic, int(partition))] = offset
        return found


@contextmanager
def known_layout(document: Any, keys: set[str]) -> Iterator[None]:
    """For a block that reads a document with these keys.

    Raises:
        SourceError: it is of a layout that this version does not know.
    """
    try:
        if not isinstance(document, dict) or document.get("v") != VERSION:
            found = document.get("v") if isinstance(document, dict) else repr(document)
            raise ValueError(f"version {found}, not {VERSION}")
        if set(document) != keys:
            raise ValueError(f"keys {sorted(document)}, not {sorted(keys)}")
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SourceError(
            f"the checkpoint's offsets are of a layout that this version does not read ({error}); go on with the "
            "version that wrote them, or begin with a new checkpoint and a new table"
        ) from None
