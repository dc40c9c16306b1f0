"""A look at topics before Spark reads them: that they are there, and how much there is."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple

from ottla.pipeline.cluster import opened
from ottla.pipeline.topic_lake.folder import LakeError
from ottla.protocol.records import TopicPartition

if TYPE_CHECKING:
    from ottla.pipeline.config import Config


class Topics(NamedTuple):
    """``begins`` and ``ends`` are sums over a topic's partitions, by topic; empty for files."""

    cluster_id: str | None
    begins: dict[str, int]
    ends: dict[str, int]


def look(config: Config, topics: Sequence[str]) -> Topics:
    """Ask the broker, or look into the folder.

    Raises:
        NoCluster: nobody answers, or there is no such folder.
        LakeError: a topic is not there.
    """
    found = Topics(None, {}, {})
    with opened(config) as logs:
        known = logs.topics(None)
        for name in topics:
            if name not in known:
                near = get_close_matches(name, known, n=1)
                where = f"in {config.log_dir}" if config.log_dir else f"at {config.bootstrap_server}"
                said = f"; did you mean {near[0]!r}?" if near else ""
                raise LakeError(f"there is no topic {name!r} {where}{said}")
            if not config.log_dir:
                bounds = logs.bounds([TopicPartition(name, number) for number in known[name].partitions]).values()
                found.begins[name] = sum(one.start for one in bounds)
                found.ends[name] = sum(one.end for one in bounds)
        return found._replace(cluster_id=logs.cluster_id or None)
