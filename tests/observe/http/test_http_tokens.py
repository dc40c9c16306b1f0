"""Files of tokens, cookies and guesses, by a clock that tests move; and `ottla token`."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from ottla.broker.logger import Silent
from ottla.observe.http.passes import COOKIE_MS, ENTRY_MS, MOST_ADDRESSES, MOST_COOKIES, Cookies, Entries, Guesses
from ottla.observe.http.tokens import LOOK_MS, Tokens, append_line, new_token, read_tokens
from tests.cli.commands import HERE
from tests.observe.http.fakes import Lines


class Time:
    """A clock."""

    def __init__(self) -> None:
        self.now_ms = 1_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def now() -> Time:
    return Time()


def write(path: Path, text: str) -> Path:
    path.touch(0o600)
    path.write_text(text)
    return path


def test_names_and_digests(tmp_path: Path, now: Time) -> None:
    token, line = new_token("bob")
    file = write(tmp_path / "tokens", f"# who looks\nalice the-token-of-alice\n\n{line}\nthe-token-of-nobody\n")
    tokens = Tokens(str(file), Silent(), now)
    known = {"the-token-of-alice": "alice", token: "bob", "the-token-of-nobody": "console"}
    for given, name in known.items():
        digest = tokens.digest_of(given.encode())
        assert digest is not None
        assert tokens.name_of(digest) == name
    for given in ("", "the-token-of-alic", line.split()[1], "alice the-token-of-alice"):
        assert tokens.digest_of(given.encode()) is None
    assert token not in line
    assert len(token) >= 43, "32 random bytes"


def test_a_file_is_read_again_when_it_has_changed(tmp_path: Path, now: Time) -> None:
    file, log = write(tmp_path / "tokens", "alice the-token-of-alice\n"), Lines()
    tokens = Tokens(str(file), log, now)
    digest = tokens.digest_of(b"the-token-of-alice")
    assert digest is not None
    write(file, "alice another-one-of-alice\n")
    assert tokens.name_of(digest) == "alice", "not looked at yet"
    now.now_ms += LOOK_MS
    assert tokens.name_of(digest) is None
    assert tokens.digest_of(b"another-one-of-alice") is not None
    file.unlink()
    for _ in range(3):
        now.now_ms += LOOK_MS
        assert tokens.digest_of(b"another-one-of-alice") is not None
    assert log.lines == [
        ("info", "Tokens for HTTP were read again"),
        ("error", "Tokens for HTTP cannot be read: those that there were stay"),
    ]


def test_cookies_end(now: Time) -> None:
    cookies = Cookies(now)
    first, second = cookies.new(b"a"), cookies.new(b"b")
    assert (cookies.token_of(first), cookies.token_of(second), cookies.token_of("x")) == (b"a", b"b", None)
    cookies.end(first)
    assert cookies.token_of(first) is None
    now.now_ms += COOKIE_MS - 1
    assert cookies.token_of(second) == b"b"
    now.now_ms += 1
    assert cookies.token_of(second) is None


def test_there_are_so_many_cookies_at_most(now: Time) -> None:
    cookies = Cookies(now)
    first, second = cookies.new(b"a"), cookies.new(b"a")
    for _ in range(MOST_COOKIES - 1):
        cookies.new(b"a")
    assert cookies.token_of(first) is None
    assert cookies.token_of(second) == b"a"


def test_five_wrong_tokens_in_a_minute(now: Time) -> None:
    guesses = Guesses(now)
    assert [guesses.wrong("a") for _ in range(6)] == [0, 0, 0, 0, 0, 60_000]
    assert guesses.wrong("b") == 0
    now.now_ms += 59_999
    assert guesses.wrong("a") == 1
    now.now_ms += 1
    assert guesses.wrong("a") == 0


def test_addresses_have_a_bound(now: Time) -> None:
    guesses = Guesses(now)
    for _ in range(6):
        guesses.wrong("a")
    for number in range(MOST_ADDRESSES):
        guesses.wrong(f"b{number}")
    assert guesses.wrong("a") == 0, "it was the oldest"


def test_a_line_is_appended_to_what_is_there(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    append_line(file, "alice the-token-of-alice")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.write_text(file.read_text().rstrip("\n"))  # as editors may leave it
    append_line(file, "bob the-token-of-bob-is-long")
    assert sorted(read_tokens(file).values()) == ["alice", "bob"]


@pytest.mark.e2e
def test_the_command_makes_a_token(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    token = HERE.run("token", "new", "alice", "--file", file).stdout.strip()
    assert token not in file.read_text()
    alone = HERE.run("token", "new", "bob")
    told = alone.stderr.partition("--http-token-file: ")[2].strip()
    append_line(file, told)
    tokens = Tokens(str(file), Silent(), Time())
    for given, name in ((token, "alice"), (alone.stdout.strip(), "bob")):
        digest = tokens.digest_of(given.encode())
        assert digest is not None
        assert tokens.name_of(digest) == name
    refused = HERE.run("token", "new", "two words", expect=2)
    assert "a name has no blanks" in refused.output


def test_a_token_that_is_shown_again_and_again_is_told_once_in_ten_minutes() -> None:
    now_ms = 0
    entries = Entries(lambda: now_ms)
    assert [entries.is_new(*who) for who in ((b"t", "a"), (b"t", "a"), (b"t", "b"), (b"u", "a"))] == [
        True,
        False,
        True,
        True,
    ]
    now_ms = ENTRY_MS - 1
    assert not entries.is_new(b"t", "a")
    now_ms = ENTRY_MS
    assert entries.is_new(b"t", "a")
    assert not entries.is_new(b"t", "a")
