"""What must be known of topics before Spark reads them: that they are there, and how much there is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from ottla.pipeline.topic_lake.folder import LakeError


class Topics(NamedTuple):
    """``begins`` and ``ends`` are sums over a topic's partitions, by topic; empty for files."""

    cluster_id: str | None
    begins: dict[str, int]
    ends: dict[str, int]


def look(topics: Sequence[str], *, bootstrap: str | None = None, log_dir: str | None = None) -> Topics:
    """Ask the broker, or look into the folder.

    Raises:
        LakeError: nobody answers, or a topic is not there.
    """
    if log_dir:
        return _of_files(topics, Path(log_dir))
    return asyncio.run(_of_broker(topics, bootstrap or ""))


async def _of_broker(topics: Sequence[str], bootstrap: str) -> Topics:
    from ottla.clients import Admin, TopicPartition
    from ottla.clients.errors import KafkaError, OptionError, SomeFailed

    try:
        async with Admin(bootstrap_servers=bootstrap, client_id="ottla-pipeline") as admin:
            cluster = (await admin.describe_cluster()).cluster_id
            _all_there(topics, await admin.list_topics(), f"at {bootstrap}")
            begins, ends = {}, {}
            for name, info in (await admin.describe_topics(topics)).items():
                places = [TopicPartition(name, number) for number in info.partitions]
                found = await admin.list_offsets(dict.fromkeys(places, "earliest"))
                begins[name] = sum(one.offset for one in found.values())
                found = await admin.list_offsets(dict.fromkeys(places, "latest"))
                ends[name] = sum(one.offset for one in found.values())
            return Topics(cluster, begins, ends)
    except (KafkaError, OptionError, SomeFailed, OSError) as error:
        raise LakeError(f"no broker answers at {bootstrap}: {error}") from None


def _of_files(topics: Sequence[str], folder: Path) -> Topics:
    places = [place for place in (folder, folder / "logs") if place.is_dir()]
    names = {one.name.rpartition("-")[0] for place in places for one in place.iterdir() if one.is_dir()}
    _all_there(topics, sorted(names - {""}), f"in {folder}")
    noted = {}
    if (properties := folder / "meta.properties").is_file():
        lines = properties.read_text("utf-8", errors="replace").splitlines()
        noted = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    return Topics(noted.get("cluster.id"), {}, {})


def _all_there(topics: Sequence[str], known: Sequence[str], where: str) -> None:
    for topic in topics:
        if topic not in known:
            near = get_close_matches(topic, known, n=1)
            said = f"; did you mean {near[0]!r}?" if near else ""
            raise LakeError(f"there is no topic {topic!r} {where}{said}")
