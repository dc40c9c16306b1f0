"""Sentinels look out for what is wrong with groups and say so once; see docs/sentinels.md."""

from ottla.observe.sentinels.model import SENTINELS, Alarm
from ottla.observe.sentinels.watch import Sentinels

__all__ = ["SENTINELS", "Alarm", "Sentinels"]
