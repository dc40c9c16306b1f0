"""Where partitions are at home, by the catalog of a data directory of several nodes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ottla.broker.settings import BadSetting
from ottla.cli.output import count_of
from ottla.protocol.stored.cluster_file import NODES_NAME, SPREAD_NAME, whole_of
from ottla.protocol.stored.files import LOCK_NAME, is_locked
from ottla.protocol.stored.names import CATALOG_NAME


def topic_rows(data_dir: Path) -> Mapping[str, Any]:
    """The topics of the catalog, as it has them, by name; none where there is no catalog.

    Raises:
        BadSetting: it cannot be read.
    """
    path = data_dir / CATALOG_NAME
    try:
        state = json.loads(path.read_bytes())["state"]
        rows: Mapping[str, Any] = state["topics"] if state else {}
        if any(len(row.get("homes", ())) not in (0, row["partitions"]) for row in rows.values()):
            raise ValueError("a topic has not as many homes as partitions")
        return rows
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadSetting(f"{path} cannot be read: {error}") from None


def homes_of(data_dir: Path, first_id: int) -> Counter[int]:
    """How many partitions each node is the home of. What has no home belongs to the first. Raises as `topic_rows`."""
    found: Counter[int] = Counter()
    for row in topic_rows(data_dir).values():
        found.update(row.get("homes") or [first_id] * row["partitions"])
    return found


def check_homes(data_dir: Path, first_id: int, count: int | None) -> None:
    """Refuse to run so many nodes, or one broker alone (None), on a directory that belongs to others, too.

    Raises:
        BadSetting: with the number that it needs.
    """
    if (whole := whole_of(data_dir)) is not None:
        raise BadSetting(f"{data_dir} belongs to node {data_dir.name} of {whole}: name that directory")
    if count is None and not (data_dir / NODES_NAME).is_dir():
        return
    if count is None and is_locked(data_dir / NODES_NAME):
        pid = (data_dir / NODES_NAME / LOCK_NAME).read_text(errors="replace").strip() or "unknown"
        why = f"its nodes run, and have a supervisor (pid {pid})"
        raise BadSetting(f"{data_dir} is in use: {why}; stop it or choose another data directory")
    if (data_dir / SPREAD_NAME).exists():
        again = f"ottla cluster spread {data_dir} --nodes {count or 1}"
        raise BadSetting(f"{data_dir}: moving its partitions was interrupted; finish it with: {again}")
    homes = homes_of(data_dir, first_id)
    missing = {one: homes[one] for one in sorted(homes) if not first_id <= one < first_id + (count or 1)}
    if not missing:
        return
    needed = max(homes) - first_id + 1
    if count is None:
        raise BadSetting(f"{data_dir}: this directory belongs to {needed} nodes: say --nodes {needed}")
    what = ", ".join(f"node {one} ({count_of(held, 'partition')})" for one, held in missing.items())
    raise BadSetting(
        f"--nodes {count}: {data_dir} has partitions at home on {what}; say --nodes {needed}, or move them first: "
        f"ottla cluster spread {data_dir} --nodes {count}"
    )
