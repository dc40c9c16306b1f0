"""Programs of five clients that are members of a group, each in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.interop.go_programs import build, required
from tests.interop.jvm import JAVA, compile_java, fetch_jars, jar_version
from tests.interop.node import needs_node, package_version, packages
from tests.interop.python_envs import environment
from tests.interop.suite import Place, needs
from tests.support.cast import Cast
from tests.support.clients.confluent import CONSUMER_PROTOCOL
from tests.support.members import ProcessMember, Role

LANGUAGES = {"java": "Java", "franz-go": "Go", "kafkajs": "JavaScript", "kafka-python": "Python", "confluent": "C"}
"""Clients and what they are written in; the one in C is used from Python."""
KAFKA_PYTHON = "kafka-python==3.0.12"
CONFLUENT = "confluent-kafka==2.16.1"
PYTHON = (KAFKA_PYTHON, CONFLUENT)
QUICK = {"kafka-python": {"heartbeat_interval_ms": 200}, "confluent": {"heartbeat.interval.ms": 200}}


def missing() -> str:
    return needs("java", "javac", "go")() or needs_node()


def of(place: Place, suite: str) -> Place:
    """The place of another suite, whose packages serve here too."""
    cache = place.cache.parent / suite
    cache.mkdir(exist_ok=True)
    return Place(place.source.parent / suite, cache)


def prepare_java(place: Place) -> None:
    java = of(place, "java")
    fetch_jars(java.source / "pom.xml", java.cache / "jars")
    compile_java((place.source / "java").rglob("*.java"), java.cache / "jars", place.cache / "classes")


def prepare(place: Place) -> None:
    prepare_java(place)
    build(Place(place.source / "franz_go", place.cache))
    packages(of(place, "kafkajs"))
    environment(place, "python", *PYTHON)


def versions(place: Place) -> str:
    java = f"kafka-clients {jar_version(of(place, 'java').cache / 'jars', 'kafka-clients')}"
    go = f"franz-go {required(place.source / 'franz_go', 'github.com/twmb/franz-go').removeprefix('v')}"
    node = f"kafkajs {package_version(of(place, 'kafkajs'), 'kafkajs')}"
    python = [requirement.replace("==", " ") for requirement in PYTHON]
    return ", ".join([java, go, node, *python])


def _java(place: Place, role: Role) -> Sequence[str]:
    path = f"{place.cache / 'classes'}:{of(place, 'java').cache / 'jars'}/*"
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
    protocol = role.options.get("group.protocol", "classic")
    told = [
        role.bootstrap,
        role.group,
        role.topics[0],
        role.name,
        protocol,
        role.assignor,
        str(role.session_timeout_ms),
    ]
    return [*JAVA, quiet, "-cp", path, "ottla.mixed.Member", *told]


def _franz_go(place: Place, role: Role) -> Sequence[str]:
    return [str(place.cache / "franz_go")]


def _kafkajs(place: Place, role: Role) -> Sequence[str]:
    modules = of(place, "kafkajs").cache / "node_modules"
    return ["env", f"NODE_PATH={modules}", "node", str(place.source / "member.js")]


def _python(place: Place, role: Role) -> Sequence[str]:
    return [str(environment(place, "python", *PYTHON)), "-m", "tests.support.member_process"]


_COMMANDS: dict[str, Callable[[Place, Role], Sequence[str]]] = {
    "java": _java,
    "franz-go": _franz_go,
    "kafkajs": _kafkajs,
    "kafka-python": _python,
    "confluent": _python,
}


class MixedCast(Cast):
    """Members of any of the clients, with the same assignor and session timeout."""

    def __init__(self, place: Place, bootstrap: str, group: str, assignor: str, session_timeout_ms: int) -> None:
        super().__init__(bootstrap, group)
        self._place = place
        self._common = {"assignor": assignor, "session_timeout_ms": session_timeout_ms}

    def prepare(self, kind: str, *, modern: bool = False) -> ProcessMember:
        """A member whose process is there, but which has not joined; a ``modern`` one is of the consumer protocol."""
        if modern:
            role = self.role(kind, options=CONSUMER_PROTOCOL)
        else:
            role = self.role(kind, options=QUICK.get(kind, {}), **self._common)
        one = ProcessMember(role, _COMMANDS[kind](self._place, role))
        self.everyone.append(one)
        return one

    def wait_settled(self, members: Sequence[ProcessMember], partitions: int) -> None:
        """Wait until the members share the partitions, and nothing else has any."""
        self.wait_shared(members, [(self.group, number) for number in range(partitions)])
