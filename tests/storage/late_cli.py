"""``ottla`` with a broker whose logs are late: for suites that start brokers as processes."""

from uuid import uuid4

from ottla.broker import app
from ottla.cli.main import main
from tests.storage.late_engine import LateEngine, LateLocalEngine

SEED = 1
DELAY_S = 0.02

Broker = app.Broker


def late_broker(settings, *, directory, **options):
    """A broker on an engine that is late."""
    late = {"seed": SEED, "delay_s": DELAY_S, "new_uuid": uuid4, "node_id": settings.node_id}
    engine = LateEngine(**late) if directory is None else LateLocalEngine(str(directory), **late)
    return Broker(settings, directory=directory, engine=engine, **options)


app.Broker = late_broker
main()
