"""Inputs and decisions of the group coordinator as typed events.

Every entry into the coordinator (a request, a timer that fired, the outcome of an append, a change of ownership) is
one *input* with a number of its own. Every decision taken on the way names that number as its ``cause``; an input
that an earlier one brought about (a timer it armed, records it wrote) names the earlier one. Following ``cause``
backwards answers why a group rebalanced.

Where Kafka's coordinator logs a line that people search for, `Event.line` words it as Kafka does. Heartbeats that
are accepted leave no event: they are the hot path, and `SessionExpired` says when a member was last heard of.
"""

# ruff: noqa: F403 - the modules say what is public
from __future__ import annotations

from ottla.broker.core.events.base import *
from ottla.broker.core.events.beside import *
from ottla.broker.core.events.commits import *
from ottla.broker.core.events.consumer_groups import *
from ottla.broker.core.events.decisions import *
from ottla.broker.core.events.inputs import *
from ottla.broker.core.events.observer import *
