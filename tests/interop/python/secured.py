"""Scenarios with a broker that asks who comes: by SASL over TLS, and by certificate.

`tests.interop.secured` starts it, and says in the environment where it is and whom it lets in.
"""

from __future__ import annotations

import logging
import os
import re
import ssl
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Any

from tests.interop.python.harness import Scenario, Skipped, Stage, named
from tests.support.cast import Cast
from tests.support.kit import Row, kit_of
from tests.support.waiting import wait_for

TOLD = {name.removeprefix("SECURED_"): value for name, value in os.environ.items() if name.startswith("SECURED_")}
REFUSED_WITHIN_S = 20
PASSWORDS = ("SCRAM-SHA-512", "PLAIN")
OF_OTHERS = "(?i)AuthenticationFailed|NoBrokersAvailable|certificate required|closed|disconnected|EOF"
EVERY_S = 0.1

Options = dict[str, Any]
_DOTTED = {
    "sasl_plain_username": "sasl.username",
    "sasl_plain_password": "sasl.password",
    "ssl_cafile": "ssl.ca.location",
    "ssl_certfile": "ssl.certificate.location",
    "ssl_keyfile": "ssl.key.location",
}


def sasl(kind: str, mechanism: str, *, wrong: bool = False) -> Options:
    """The options of a client that logs in by a password, or with a token."""
    options = {"security_protocol": "SASL_SSL", "sasl_mechanism": mechanism, "ssl_cafile": TOLD["CA"]}
    if mechanism == "OAUTHBEARER":
        return _named(kind, options) | _tokens(kind, TOLD["WRONG_TOKEN" if wrong else "TOKEN"])
    password = "wrong" if wrong else TOLD["PASSWORD"]
    return _named(kind, options | {"sasl_plain_username": TOLD["USER"], "sasl_plain_password": password})


def mutual_tls(kind: str, *, wrong: bool = False) -> Options:
    """The options of a client with a certificate; ``wrong``: without."""
    options = {"security_protocol": "SSL", "ssl_cafile": TOLD["CA"]}
    shown = {} if wrong else {"ssl_certfile": TOLD["CERT"], "ssl_keyfile": TOLD["KEY"]}
    return _named(kind, options | shown)


def _named(kind: str, options: Options) -> Options:
    """The options as the client calls them."""
    if kind == "confluent":
        return {_DOTTED.get(name, name.replace("_", ".")): value for name, value in options.items()}
    if kind == "aiokafka":
        files = {name: options.pop(name, "") for name in ("ssl_cafile", "ssl_certfile", "ssl_keyfile")}
        context = ssl.create_default_context(cafile=files["ssl_cafile"])
        if files["ssl_certfile"]:
            context.load_cert_chain(files["ssl_certfile"], files["ssl_keyfile"])
        return options | {"ssl_context": context}
    return options


def _tokens(kind: str, token: str) -> Options:
    """What gives the client its token."""
    if kind == "confluent":
        return {"oauth_cb": lambda _: (token, time.time() + 3600)}
    if kind == "aiokafka":
        from aiokafka.abc import AbstractTokenProvider as Async

        class Awaited(Async):  # type: ignore[misc]
            async def token(self) -> str:
                return token

        return {"sasl_oauth_token_provider": Awaited()}
    try:
        from kafka.net.sasl.oauth import AbstractTokenProvider
    except ImportError:  # releases before 3.0
        from kafka.oauth.abstract import AbstractTokenProvider

    class Given(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return token

    return {"sasl_oauth_token_provider": Given()}


def secured(stage: Stage, where: str, options: Callable[..., Options]) -> None:
    """Write, read in a group that commits, have another member go on from there; and be refused."""
    kind = stage.kit.kind
    kit, cast = _at(stage, where)
    given = options(kind)
    for number in range(2):
        values = [f"{number} {one}" for one in range(20)]
        kit.produce(stage.topic, [Row(value.encode()) for value in values], partition=0, **given)
        member = cast.join(kind, [stage.topic], auto_commit=False, options={**kit.quick, **given})
        wait_for(lambda: len(member.seen) >= 20, f"what was written: {number}", show=cast.describe)  # noqa: B023
        member.commit()
        member.stop()
        assert [one.value for one in member.seen] == values, cast.describe()
    _refused(kind, TOLD[where], options(kind, wrong=True))


def _at(stage: Stage, where: str) -> tuple[Any, Cast]:
    """The client and members, for another listener."""
    kit = kit_of(stage.kit.kind, TOLD[where])
    return kit, stage.closing.enter_context(Cast(TOLD[where], stage.group))


def _refused(kind: str, bootstrap: str, wrong: Options) -> None:
    """The client says, in its own words, that it was not let in."""
    began = time.monotonic()
    if kind == "confluent":
        _confluent_says(bootstrap, wrong)
    else:
        _python_says(kind, bootstrap, wrong)
    assert time.monotonic() - began < REFUSED_WITHIN_S


def _confluent_says(bootstrap: str, wrong: Options) -> None:
    from confluent_kafka import Consumer, KafkaError

    errors: list[KafkaError] = []
    quiet = {"bootstrap.servers": bootstrap, "group.id": "refused", "log_level": 0, "error_cb": errors.append}
    refused = Consumer({**quiet, **wrong})
    refused.subscribe(["refused"])

    def said() -> bool:
        refused.poll(0.1)
        if "sasl.mechanism" in wrong:
            return any(error.code() == KafkaError._AUTHENTICATION for error in errors)
        return any("alert certificate required" in error.str() for error in errors)

    wait_for(said, "the refusal", timeout_s=REFUSED_WITHIN_S, show=lambda: errors[:3])
    refused.close()


def _python_says(kind: str, bootstrap: str, wrong: Options) -> None:
    """A client in pure Python raises an error of its own, and its log says what became of the connection.

    Only aiokafka of today has the broker's answer there, and not for tokens: kafka-python drops an answer behind which
    the connection ends, and releases of two years ago send tokens without a header, so that there is no answer.
    """
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("aiokafka" if kind == "aiokafka" else "kafka").addHandler(handler)
    if kind == "kafka-python" and version(kind) >= "3":
        wrong = {**wrong, "bootstrap_timeout_ms": 1_000}
    try:
        kit_of(kind, bootstrap).produce("refused", [Row(b"never")], **wrong)
    except Exception as error:
        lines.append(repr(error))
    else:
        raise AssertionError("it was let in")
    is_told = kind == "aiokafka" and version(kind) >= "0.14" and wrong.get("sasl_mechanism", "") in PASSWORDS
    expected = "SaslAuthenticationFailed" if is_told else OF_OTHERS
    assert any(re.search(expected, line) for line in lines), lines


def secured_reauthentication(stage: Stage) -> None:
    """Read for some lifetimes of a session: it is renewed each time, and nothing is lost or comes twice."""
    kind = stage.kit.kind
    kit, cast = _at(stage, "BRIEF")
    given = sasl(kind, "SCRAM-SHA-512")
    values = ["first"]
    kit.produce(stage.topic, [Row(b"first")], partition=0, **given)
    member = cast.join(kind, [stage.topic], options={**kit.quick, **given})
    end = time.monotonic() + int(TOLD["READING_MS"]) / 1000
    while time.monotonic() < end:
        more = [f"{len(values) + one}" for one in range(10)]
        kit.produce(stage.topic, [Row(value.encode()) for value in more], partition=0, **given)
        values += more
        time.sleep(EVERY_S)
    wait_for(lambda: len(member.seen) >= len(values), "everything to be read", show=cast.describe)
    assert [one.value for one in member.seen] == values, cast.describe()
    if reason := stage.kit.lacks.get("reauthentication"):
        raise Skipped(reason)


SCENARIOS: list[tuple[str, Scenario]] = [
    *(
        (f"secured_{name}", partial(secured, where="SAFE", options=partial(sasl, mechanism=mechanism)))
        for name, mechanism in (("scram", "SCRAM-SHA-512"), ("plain", "PLAIN"), ("oauthbearer", "OAUTHBEARER"))
    ),
    ("secured_mutual_tls", partial(secured, where="MUTUAL", options=mutual_tls)),
    *named(secured_reauthentication),
]
