"""Permissions in tests: settings of a broker with rules, and services of one without."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.broker.runtime.audit import Audit

WITH_RULES: dict[str, object] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:console",
}
"""Of a broker with access control rules, where everybody is an administrator."""

OPEN: Mapping[str, Any] = {
    "authorizer": None,
    "audit": Audit(),
    "permits": lambda *asked, **how: True,
    "permits_on_cluster": lambda *asked, **how: True,
    "denied": lambda *asked, **how: {},
}
"""What services of a broker say where everybody may do everything, for tests that make up services."""
