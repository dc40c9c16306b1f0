"""How a setting is declared; `ottla.broker.settings` has them all."""

from __future__ import annotations

import dataclasses
from typing import Any

INT16_MAX = 2**15 - 1
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


def setting(
    default: Any,
    documentation: str,
    *,
    low: int | None = None,
    high: int | None = None,
    choices: tuple[str, ...] = (),
    is_list: bool = False,
    effective: bool = True,
    dynamic: bool = False,
) -> Any:
    """Declare a setting: its default, what it does, and its range (both ends included) or choices.

    One that is not ``effective`` is checked and described, as Kafka's tools and properties files know it, and has no
    effect yet; the user is warned. One that is ``dynamic`` may be changed while the broker runs (KIP-226).
    """
    metadata = {
        "documentation": documentation,
        "low": low,
        "high": high,
        "choices": choices,
        "list": is_list,
        "effective": effective,
        "dynamic": dynamic,
    }
    return dataclasses.field(default=default, metadata=metadata)
