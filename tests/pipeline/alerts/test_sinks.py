"""Where alerts go: lines that come once, and records that say what to drop doubles by."""

import asyncio
import json
from pathlib import Path

import pytest

from ottla.clients import Consumer
from ottla.pipeline.alerts.alert import Alert, alert_id
from ottla.pipeline.alerts.sinks import JsonLines, Stdout, Topic, sink
from ottla.testing import Broker


def alert(at: int, state: str = "raised", group: str = "g") -> Alert:
    since = 1000 * at
    return Alert(
        v=1, id=alert_id("storm", group, "", since), state=state, kind="storm", group=group,  # type: ignore[arg-type]
        ts_ms=since + 5, since_ms=since, text=f"Group {group!r} …",
    )  # fmt: skip


def test_a_line_is_json_without_what_says_nothing() -> None:
    said = json.loads(alert(1).json())
    assert list(said) == ["v", "id", "state", "kind", "group", "ts_ms", "since_ms", "text"]


def test_ids_tell_troubles_apart() -> None:
    ids = [alert_id("storm", "g", "", 1), alert_id("storm", "h", "", 1), alert_id("stopped", "g", "", 1),
           alert_id("storm", "g", "", 2), alert_id("storm", "", "g", 1)]  # fmt: skip
    assert len(set(ids)) == 5


def test_a_batch_that_is_done_again_adds_no_line(tmp_path: Path) -> None:
    path = tmp_path / "alerts.jsonl"
    JsonLines(path).write([alert(1), alert(2)])
    after_crash = JsonLines(path)
    after_crash.write([alert(1), alert(2), alert(2, "resolved")])
    after_crash.write([alert(2, "resolved")])
    said = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(one["since_ms"], one["state"]) for one in said] == [(1000, "raised"), (2000, "raised"), (2000, "resolved")]


def test_half_an_alert_is_cut_off_and_written_again(tmp_path: Path) -> None:
    path = tmp_path / "alerts.jsonl"
    JsonLines(path).write([alert(1), alert(2)])
    path.write_bytes(path.read_bytes()[:-20])
    JsonLines(path).write([alert(1), alert(2)])
    assert [json.loads(line)["since_ms"] for line in path.read_text().splitlines()] == [1000, 2000]


def test_lines_of_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    path.write_text("my own\nno line's end")
    JsonLines(path).write([alert(1)])
    assert path.read_text().splitlines()[:2] == ["my own", "no line's end"]
    assert json.loads(path.read_text().splitlines()[2])["since_ms"] == 1000


def test_standard_output_gets_lines(capsys: pytest.CaptureFixture[str]) -> None:
    Stdout().write([alert(1), alert(2)])
    assert [json.loads(line)["since_ms"] for line in capsys.readouterr().out.splitlines()] == [1000, 2000]


@pytest.mark.parametrize(("to", "words"), [("topic:", "name of a topic"), ("topic:a", "--bootstrap-server"),
                                           ("/no/such/folder/x", "no folder /no/such/folder")])  # fmt: skip
def test_what_cannot_be_is_said(to: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        sink(to, None)


@pytest.mark.e2e
def test_a_topic_gets_keys_headers_and_order() -> None:
    with Broker(topics={"alerts": 3}) as broker:
        to = sink("topic:alerts", broker.bootstrap_servers)
        assert isinstance(to, Topic)
        to.write([])
        to.write([alert(1), alert(2), alert(1, "resolved"), alert(3, group="h")])
        found = asyncio.run(_read(broker.bootstrap_servers, 4))
    of_g = [(key, value["since_ms"], headers) for key, value, headers in found if key == b"g"]
    assert [(since, headers["alert-state"]) for _, since, headers in of_g] == [
        (1000, b"raised"),
        (2000, b"raised"),
        (1000, b"resolved"),
    ]
    assert all(headers["alert-id"].decode() == value["id"] for _, value, headers in found)


async def _read(bootstrap: str, count: int) -> list[tuple[bytes, dict[str, object], dict[str, bytes]]]:
    found = []
    async with Consumer("alerts", bootstrap_servers=bootstrap, group_id="r", auto_offset_reset="earliest") as consumer:
        async with asyncio.timeout(20):
            while len(found) < count:
                record = await consumer.getone()
                found.append((record.key, json.loads(record.value), dict(record.headers)))
    return found
