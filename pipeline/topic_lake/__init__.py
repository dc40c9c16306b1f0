"""A topic as Parquet: every record once, in folders by day that any reader of Parquet can be pointed at.

``DIR/date=2026-11-22/….parquet`` are the rows; everything else begins with an underscore, which Spark, pandas and
pyarrow pass over: ``_bad/`` (rows that do not fit the JSON schema, with the reason), ``_lake.json``, ``_checkpoint/``,
``_batches/``, ``_staging/``, ``_snapshots/``. See docs/pipeline.md, "Topic lake".
"""

from __future__ import annotations

from ottla.pipeline.topic_lake.compaction import Compacted, compact
from ottla.pipeline.topic_lake.folder import LakeError, TopicFolder
from ottla.pipeline.topic_lake.run import LakeSettings, Written, start
from ottla.pipeline.topic_lake.snapshot import snapshot

__all__ = ["Compacted", "LakeError", "LakeSettings", "TopicFolder", "Written", "compact", "snapshot", "start"]
