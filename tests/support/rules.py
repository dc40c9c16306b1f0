"""Settings of a broker with access control rules, where everybody is an administrator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WITH_RULES: Mapping[str, Any] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
