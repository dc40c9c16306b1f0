"""Sentinels look out for what is wrong with groups and say so once; see docs/sentinels.md."""

from ottla.broker.observe.sentinels.model import SENTINELS, Alarm
from ottla.broker.observe.sentinels.watch import Sentinels

__all__ = ["SENTINELS", "Alarm", "Sentinels"]
