"""Live alerts: a storm of rebalances, and a group that has stopped reading, while it happens.

The rules are functions without Spark (`ottla.pipeline.alerts.storms`, `ottla.pipeline.alerts.stopped`); the processors
keep their state in ``transformWithState``, and sinks write what they say as JSON. See docs/pipeline.md, "Alerts".
"""

from __future__ import annotations

from ottla.pipeline.alerts.alert import Alert
from ottla.pipeline.alerts.stopped import StoppedLimits
from ottla.pipeline.alerts.storms import StormLimits

__all__ = ["Alert", "StoppedLimits", "StormLimits"]
