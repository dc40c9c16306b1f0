"""The pytest plugin: fixtures, markers, and what brokers have to say when a test fails.

pytest loads it in every run wherever the package is installed: a broker is imported only when one is used.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from ottla.testing.evidence import WITNESSES, Witness

if TYPE_CHECKING:
    from ottla.testing.broker import Broker

MARKERS = (
    "ottla(topics=…, settings=…, …): the arguments of ottla.testing.Broker for the fixture ottla_broker, and for "
    "ottla_module_broker where a module is marked. Those of a module, a class and a test add up; the nearest wins.",
    "ottla_fault(api, **rule): a fault of ottla_broker while the test runs, with the arguments of "
    "ottla.testing.Broker.fault. The test fails if the fault never fires, unless allow_unused=True.",
)
AFTER_CALL = pytest.StashKey[ExitStack]()
"""Of a test: what is judged when its body has ended."""
WITNESS = pytest.StashKey[Witness]()
IS_TOLD = pytest.StashKey[bool]()
"""Of a test: whether its brokers have told what they know."""
TMP_PATHS = pytest.StashKey[pytest.TempPathFactory]()


# brokers


@pytest.fixture
def ottla_broker_factory(request: pytest.FixtureRequest) -> Iterator[Callable[..., Broker]]:
    """Start brokers with the arguments of `ottla.testing.Broker`; they are stopped at the end of the test."""
    from ottla.testing.broker import Broker

    after_call = request.node.stash.setdefault(AFTER_CALL, ExitStack())
    with ExitStack() as stack:

        def start(*arguments: Any, **options: Any) -> Broker:
            broker = Broker(*arguments, **options).start()
            stack.callback(broker.stop)
            after_call.push(partial(_check_faults, broker))
            return broker

        yield start
    del request.node.stash[AFTER_CALL]


@pytest.fixture
def ottla_broker(request: pytest.FixtureRequest, ottla_broker_factory: Callable[..., Broker]) -> Broker:
    """A fresh broker for each test, in memory; the markers ``ottla`` and ``ottla_fault`` say how it is."""
    broker = _marked(request.node, ottla_broker_factory)
    after_call = request.node.stash[AFTER_CALL]
    for marker in reversed([*request.node.iter_markers("ottla_fault")]):
        try:
            after_call.enter_context(broker.fault(*marker.args, **marker.kwargs))
        except (TypeError, ValueError) as error:
            raise pytest.fail.Exception(f"@pytest.mark.ottla_fault: {error}", pytrace=False) from None
    return broker


@pytest.fixture(scope="module")
def ottla_module_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker for all tests of a module; a marker ``ottla`` of the module says how it is."""
    from ottla.testing.broker import Broker

    with _marked(request.node, Broker) as broker:
        yield broker


@pytest.fixture(scope="session")
def ottla_session_broker() -> Iterator[Broker]:
    """A broker for all tests of the run; with pytest-xdist, for those of each worker."""
    from ottla.testing.broker import Broker

    with Broker() as broker:
        yield broker


# markers


def pytest_configure(config: pytest.Config) -> None:
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    config.stash[WITNESS] = witness = Witness()
    WITNESSES.append(witness)


def pytest_unconfigure(config: pytest.Config) -> None:
    WITNESSES.remove(config.stash[WITNESS])


def _marked(node: pytest.Item, new_broker: Callable[..., Broker]) -> Broker:
    """A broker as the markers ``ottla`` of a test or a module want it."""
    from ottla.broker.settings import BadSetting

    try:
        return new_broker(**_options(node))
    except (TypeError, BadSetting) as error:
        raise pytest.fail.Exception(f"@pytest.mark.ottla: {error}", pytrace=False) from None


def _options(node: pytest.Item) -> dict[str, Any]:
    """The arguments that the markers say; the nearest marker wins. Raises TypeError."""
    from inspect import signature

    from ottla.testing.embedded import EmbeddedBroker
    from ottla.testing.topics import wanted_topics

    options: dict[str, Any] = {}
    for marker in reversed([*node.iter_markers("ottla")]):
        if marker.args:
            raise TypeError(f"{marker.args[0]!r} has no name: write topics={marker.args[0]!r}, for example")
        for name, given in marker.kwargs.items():
            if name not in (allowed := signature(EmbeddedBroker).parameters):
                raise TypeError(f"there is no argument {name!r}; it takes {', '.join(sorted(allowed))}")
            if name == "topics":
                wanted_topics(given)  # else it says what was meant
                given = given if isinstance(given, Mapping) else dict.fromkeys(given or (), 1)
            if isinstance(given, Mapping):
                given = {**options.get(name, {}), **given}
            options[name] = given
    return options


# a test


@pytest.fixture(scope="session", autouse=True)
def _ottla_tmp_paths(request: pytest.FixtureRequest) -> None:
    """The fixture is the one public way to pytest's folder; a run may have switched that off."""
    with suppress(pytest.FixtureLookupError):
        request.config.stash[TMP_PATHS] = request.getfixturevalue("tmp_path_factory")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.config.stash[WITNESS].test_begins()
    item.stash[IS_TOLD] = False


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Judge the faults when the body has ended, so that the test fails and not its teardown."""
    _miss_no_fixture(item)
    has_passed = False
    try:
        with item.stash.get(AFTER_CALL, ExitStack()):
            yield
            has_passed = True
    except AssertionError as error:
        if not has_passed:
            raise
        raise pytest.fail.Exception(str(error), pytrace=False) from None  # no line of the test is to blame


def _miss_no_fixture(item: pytest.Item) -> None:
    """Fail a test whose mark would do nothing, as it does not use the fixture."""
    if isinstance(item, pytest.Function) and "ottla_broker" in item.funcargs:
        return
    if any(marker.name == "ottla" for marker in item.own_markers):
        name, other = "ottla", "for ottla_module_broker, write pytestmark = pytest.mark.ottla(…)"
    elif item.get_closest_marker("ottla_fault") is not None:
        name, other = "ottla_fault", "for other brokers, write `with broker.fault(…)`"
    else:
        return
    pytest.fail(
        f"@pytest.mark.{name} is for the fixture ottla_broker, and {item.name} does not use it: "
        f"add it to the test's arguments; {other}",
        pytrace=False,
    )


def _check_faults(broker: Broker, kind: type[BaseException] | None, *_: object) -> None:
    """Faults that were set without a ``with`` are judged with the test, too, unless it has failed already."""
    if kind is None:
        broker.check_faults()


# evidence


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    ran = item.config.stash[WITNESS].ran
    if report.failed and ran and not item.stash.get(IS_TOLD, False):
        from ottla.testing.group_report import file_name
        from ottla.testing.group_report import report as told_by

        item.stash[IS_TOLD] = True
        paths = item.config.stash.get(TMP_PATHS, None)
        new_folder = None if paths is None else partial(paths.mktemp, f"ottla-{file_name(item.name)}")
        in_vain = call.excinfo is not None and call.excinfo.errisinstance(TimeoutError)
        if text := told_by(ran, new_folder, in_vain=in_vain):
            report.sections.insert(0, ("Ottla", text))  # before what the test printed, which may be long
    return report
