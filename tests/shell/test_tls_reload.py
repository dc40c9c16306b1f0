"""New keys and certificates while a broker runs: what is used then, what is refused, and what is told."""

from __future__ import annotations

import asyncio
import datetime
import os
import ssl
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.net.tls import TRIES, Contexts
from ottla.broker.settings import BadSetting, Settings
from tests.clients.live import until
from tests.shell.host import Log
from tests.shell.test_tls import BROKER, CA, OTHER_CA, contexts, good_in, handshakes, pem_of, written


@pytest.fixture
def pem(tmp_path: Path) -> str:
    """A file with the key and the certificate of a broker."""
    return written(tmp_path / "broker.pem", pem_of(BROKER))


@pytest.fixture
def trusted(tmp_path: Path) -> str:
    return written(tmp_path / "ca.pem", CA.cert_pem.bytes())


def shown(server: ssl.SSLContext) -> bytes | None:
    """The certificate that a client sees."""
    return handshakes(server)[0].getpeercert(True)


def replace(path: str, *parts: bytes) -> None:
    """Put a new file in the place of an old one, as careful programs do."""
    os.replace(written(Path(path + ".new"), *parts), path)


def test_a_new_certificate_is_used_by_handshakes_from_then_on(pem: str) -> None:
    made = contexts(ssl_keystore_location=pem, ssl_allow_dn_changes=True)  # trustme's are of a new subject each
    before = made.context
    assert made.look_again() is False
    new = CA.issue_cert("localhost")
    replace(pem, pem_of(new))
    assert made.look_again() is True
    old_der, new_der = (ssl.PEM_cert_to_DER_cert(one.cert_chain_pems[0].bytes().decode()) for one in (BROKER, new))
    assert (shown(before), shown(made.context)) == (old_der, new_der), "who has begun goes on with the old one"
    assert made.look_again() is False


def test_the_same_content_in_a_new_file_is_nothing_new(pem: str) -> None:
    made = contexts(ssl_keystore_location=pem)
    before = made.context
    replace(pem, pem_of(BROKER))
    assert made.look_again() is False
    assert made.context is before


def test_another_subject_and_fewer_names_have_to_be_permitted(pem: str) -> None:
    made = contexts(ssl_keystore_location=pem)
    before = made.context
    replace(pem, pem_of(CA.issue_cert("elsewhere", common_name="other")))
    with pytest.raises(BadSetting, match=r"ssl\.allow\.dn\.changes=true"):
        made.look_again()
    assert made.context is before
    assert made.look_again() is False, "it was told, and has not changed since"
    permitted = Settings(ssl_keystore_location=pem, ssl_allow_dn_changes=True)
    with pytest.raises(BadSetting, match=r"is not for localhost, .*ssl\.allow\.san\.changes=true"):
        made.renew(permitted)
    assert made.context is before
    made.renew(Settings(ssl_keystore_location=pem, ssl_allow_dn_changes=True, ssl_allow_san_changes=True))
    assert made.context is not before


def test_a_certificate_that_no_client_would_take_is_not_taken(pem: str, trusted: str) -> None:
    made = contexts(ssl_keystore_location=pem, ssl_truststore_location=trusted, ssl_allow_dn_changes=True)
    before = made.context
    replace(pem, pem_of(good_in(2020)))
    with pytest.raises(BadSetting, match=r"the new certificate ended at 2020-01-03 00:00:00Z; put one there"):
        made.look_again()
    assert made.context is before and made.look_again() is False


def test_a_certificate_that_comes_too_early_is_taken_once_it_is_good(pem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = contexts(ssl_keystore_location=pem, ssl_allow_dn_changes=True)
    before = made.context
    replace(pem, pem_of(good_in(2120)))
    with pytest.raises(BadSetting, match=r"is not good before 2120-01-01 00:00:00Z, and is taken then"):
        made.look_again()
    assert made.look_again() is False and made.context is before
    for module in ("tls", "keystores"):
        monkeypatch.setattr(f"ottla.broker.net.{module}.now_ms", lambda: 4_733_596_800_000)  # a day later
    assert made.look_again() is True and made.context is not before


def test_a_certificate_that_has_ended_lets_authorities_be_renewed(tmp_path: Path, trusted: str) -> None:
    ended = written(tmp_path / "ended.pem", pem_of(good_in(2020)))
    made = contexts(ssl_keystore_location=ended, ssl_truststore_location=trusted)
    replace(trusted, CA.cert_pem.bytes(), OTHER_CA.cert_pem.bytes())
    assert made.look_again() is True


def test_more_names_than_before_are_no_other_names(pem: str) -> None:
    made = contexts(ssl_keystore_location=pem, ssl_allow_dn_changes=True)
    replace(pem, pem_of(CA.issue_cert("localhost", "elsewhere")))
    assert made.look_again() is True


def test_a_truststore_cannot_appear_or_vanish(pem: str, trusted: str) -> None:
    without = Settings(ssl_keystore_location=pem)
    with_one = Settings(ssl_keystore_location=pem, ssl_truststore_location=trusted)
    for first, second, word in ((without, with_one, "appear"), (with_one, without, "vanish")):
        made = Contexts(first, "SSL")
        with pytest.raises(BadSetting, match=f"a truststore cannot {word} while the broker runs"):
            made.renew(second)


class Wall:
    """The time of day."""

    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms

    def wall_ms(self) -> int:
        return self.now_ms


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.broker.net.tls.RETRY_S", 0.001)


@pytest.mark.usefixtures("fast")
async def test_key_and_certificate_that_are_written_one_after_the_other(tmp_path: Path, log: Log) -> None:
    """Whoever replaces two files does not do it at once."""
    chain = written(tmp_path / "tls.crt", BROKER.cert_chain_pems[0].bytes())
    key = written(tmp_path / "tls.key", BROKER.private_key_pem.bytes())
    made = contexts(
        ssl_keystore_location=chain,
        ottla_tls_key_location=key,
        ssl_allow_dn_changes=True,
        ottla_tls_reload_interval_ms=1,
    )
    before = made.context
    clock: Any = Wall()
    new = CA.issue_cert("localhost")
    task = asyncio.create_task(made.watch(log, clock))  # type: ignore[arg-type]
    replace(chain, new.cert_chain_pems[0].bytes())
    await until(lambda: log.lines, "a line")
    assert log.events == ["New keys or certificates are not used, the old ones stay"]
    assert "does not belong to the first certificate" in log.lines[0][1]["reason"]
    assert made.context is before
    replace(key, new.private_key_pem.bytes())
    await until(lambda: len(log.lines) == 2, "a second line")
    assert log.events[1] == "New keys and certificates are used"
    assert made.context is not before
    task.cancel()


@pytest.mark.usefixtures("fast")
async def test_a_second_file_that_comes_soon_is_waited_for(
    tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = written(tmp_path / "tls.crt", BROKER.cert_chain_pems[0].bytes())
    key = written(tmp_path / "tls.key", BROKER.private_key_pem.bytes())
    made = contexts(
        ssl_keystore_location=chain,
        ottla_tls_key_location=key,
        ssl_allow_dn_changes=True,
        ottla_tls_reload_interval_ms=1,
    )
    new, looked, clock = CA.issue_cert("localhost"), made.look_again, Wall()
    asked: list[bool] = []

    def look_again(*, anyway: bool = False) -> bool:
        asked.append(anyway)
        if asked.count(True) == TRIES - 1:
            replace(key, new.private_key_pem.bytes())
        return looked(anyway=anyway)

    monkeypatch.setattr(made, "look_again", look_again)
    replace(chain, new.cert_chain_pems[0].bytes())
    task = asyncio.create_task(made.watch(log, clock))  # type: ignore[arg-type]
    await until(lambda: log.lines, "a line")
    task.cancel()
    assert log.events == ["New keys and certificates are used"]


async def test_the_end_of_a_certificate_is_told_once_a_day(tmp_path: Path, log: Log) -> None:
    end = datetime.datetime(2120, 1, 31, tzinfo=datetime.UTC)
    leaf = CA.issue_cert("localhost", not_before=end - datetime.timedelta(days=30), not_after=end)
    file = written(tmp_path / "b.pem", pem_of(leaf))
    made = contexts(ssl_keystore_location=file, ottla_tls_reload_interval_ms=1)
    day_ms, clock = 86_400_000, Wall()
    clock.now_ms = made.ends_ms - 15 * day_ms
    assert made.until == "2120-01-31 00:00:00Z"
    task = asyncio.create_task(made.watch(log, clock))  # type: ignore[arg-type]
    for days, told in ((15, 0), (13.9, 1), (13.2, 1), (12.8, 2), (0.1, 3)):
        clock.now_ms = made.ends_ms - int(days * day_ms)
        for _ in range(30):
            await asyncio.sleep(0.001)
        assert log.events == ["The certificate of a listener ends soon"] * told, days
    clock.now_ms = made.ends_ms + day_ms
    await until(lambda: len(log.events) == 4, "a line")
    assert log.events[3] == "The certificate of a listener has ended: clients do not take it any more"
    task.cancel()
