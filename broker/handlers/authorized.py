"""What answers say of permissions where nobody was asked."""

from __future__ import annotations

from typing import Final

NO_AUTHORIZER: Final = (
    "There is no authorizer, so no rules: everybody may do everything. Set authorizer.class.name to have rules."
)
"""The answer to a request for rules; Kafka's error is SECURITY_DISABLED."""
NOT_ASKED: Final = -(1 << 31)
"""The bit field of operations where it was not asked for (KIP-430)."""
