"""Looks at files that nodes share, and the file of the nodes."""

import json

from ottla.broker.runtime.looking import LOOK_MS, ClusterFile, Looking
from tests.shell.host import Log, Timer


class Clock:
    """Two times: that of a test, which stands still, and the real one, which the test moves."""

    def __init__(self):
        self.now_ms, self.timers = 0, []

    real = property(lambda self: self)

    def monotonic_ms(self):
        return self.now_ms

    def call_at(self, when_ms, callback):
        self.timers.append(Timer(when_ms, callback))
        return self.timers[-1]

    def pass_ms(self, ms):
        until_ms = self.now_ms + ms
        while due := [one for one in self.timers if one.when_ms <= until_ms and not one.cancelled]:
            first = min(due, key=lambda one: one.when_ms)
            self.timers.remove(first)
            self.now_ms = first.when_ms
            first.callback()
        self.now_ms = until_ms


def test_everything_is_looked_at_again_and_again_until_the_end():
    clock, log, looks = Clock(), Log(), []

    def failing():
        looks.append("failing")
        raise OSError("no handle")

    looking = Looking([failing, lambda: looks.append("other")], clock, log)
    looking.start()
    clock.pass_ms(3 * LOOK_MS)
    assert looks == ["failing", "other"] * 3
    assert [event for event, _ in log.lines] == ["a shared file could not be looked at"]
    looking.stop()
    clock.pass_ms(10 * LOOK_MS)
    assert len(looks) == 6


def test_a_node_without_shared_files_looks_at_nothing():
    clock = Clock()
    Looking([], clock, Log()).start()
    assert not clock.timers


def test_the_file_of_the_nodes_counts_when_it_is_another(tmp_path):
    path, read, log = tmp_path / "cluster.json", [], Log()
    file = ClusterFile(str(path), read.append, log)
    file.look()
    assert log.lines == [
        ("the nodes stay as they were known", {"path": str(path), "reason": "No such file or directory"})
    ]
    for number in (1, 1, 2):
        path.write_text(json.dumps({"number": number}))
        file.look()
        file.look()
    assert read == [{"number": 1}, {"number": 2}]


def test_a_file_of_nodes_that_is_none_changes_nothing_and_is_told_once(tmp_path):
    path, log = tmp_path / "cluster.json", Log()

    def read(document):
        raise ValueError("it is no document")

    file = ClusterFile(str(path), read, log)
    for text in ("{", "[]"):
        path.write_text(text)
        file.look()
        file.look()
    assert len(log.lines) == 2
    assert log.lines[1][1]["reason"] == "it is no document"
