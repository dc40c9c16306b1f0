"""A broker for tests.

```python
from ottla.testing import Broker

with Broker(topics={"orders": 3}) as broker:          # or: async with Broker() as broker
    client(bootstrap_servers=broker.bootstrap_servers)
```

`Broker` runs in a thread of this process and starts in milliseconds; `BrokerProcess` is a process of its own that can
be killed and started again on its data. The pytest fixtures ``ottla_broker`` and ``ottla_broker_factory`` come with the
installed package.
"""

from ottla.testing.broker import Broker
from ottla.testing.process import BrokerProcess

__all__ = ["Broker", "BrokerProcess"]
