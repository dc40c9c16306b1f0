"""A broker for tests.

```python
from ottla.testing import Broker

with Broker(topics={"orders": 3}) as broker:          # or: async with Broker() as broker
    client(bootstrap_servers=broker.bootstrap_servers)
```

`Broker` runs in a thread of this process and starts in milliseconds; `BrokerProcess` is a process of its own that can
be killed and started again on its data. Fixtures such as ``ottla_broker`` and markers come with the installed package:
see `ottla.testing.plugin`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.testing.asserts import assert_no_loss, assert_rebalances, assert_stable, count_rebalances
    from ottla.testing.broker import Broker
    from ottla.testing.cluster import Cluster
    from ottla.testing.fault import FaultNeverFired
    from ottla.testing.process import BrokerProcess

__all__ = [
    "Broker",
    "BrokerProcess",
    "Cluster",
    "FaultNeverFired",
    "assert_no_loss",
    "assert_rebalances",
    "assert_stable",
    "count_rebalances",
]

_MODULES = {
    "Broker": "ottla.testing.broker",
    "BrokerProcess": "ottla.testing.process",
    "Cluster": "ottla.testing.cluster",
    "FaultNeverFired": "ottla.testing.fault",
    "assert_no_loss": "ottla.testing.asserts",
    "assert_rebalances": "ottla.testing.asserts",
    "assert_stable": "ottla.testing.asserts",
    "count_rebalances": "ottla.testing.asserts",
}


def __dir__() -> list[str]:
    return [*__all__]


def __getattr__(name: str) -> Any:
    # pytest imports this package in every run, for the plugin: a broker is only loaded by those who use one.
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
