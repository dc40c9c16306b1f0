"""The progress of a stream, as JSON in Spark's checkpoint. The layout has a version; another one is refused."""

from __future__ import annotations

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
    try:
        check_layout(document, _KEYS)
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
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise foreign_layout(error) from None


def check_layout(document: Any, keys: set[str]) -> None:
    """Raises ValueError for another version, and for keys that this one does not have."""
    if not isinstance(document, dict) or document.get("v") != VERSION:
        raise ValueError(f"version {document.get('v') if isinstance(document, dict) else document!r}, not {VERSION}")
    if set(document) != keys:
        raise ValueError(f"keys {sorted(document)}, not {sorted(keys)}")


def foreign_layout(error: Exception) -> SourceError:
    """The error for a document that cannot be read."""
    return SourceError(
        f"the checkpoint's offsets are of a layout that this version does not read ({error}); go on with the version "
        "that wrote them, or begin with a new checkpoint and a new table"
    )
