"""Which member gets which partitions, as Kafka's server-side assignors say."""

from __future__ import annotations

from ottla.broker.core.consumer_groups.assignors.range import assign_ranges
from ottla.broker.core.consumer_groups.assignors.spec import Assignor
from ottla.broker.core.consumer_groups.assignors.uniform import assign_uniformly

ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}
"""By name, in the order of preference that ``group.consumer.assignors`` has by default."""
