"""Patterns of clients, held against Python's own where both mean the same."""

from __future__ import annotations

import re

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.core.pattern import MAX_LENGTH, MAX_UNICODE_CLASSES, BadPattern, Pattern

SAME = [
    *("", "a", "ab", ".", ".*", "a*b+c?", "a|b", "a|", "(a|b)*c", "(?:ab)+", "(?P<name>a)b", "[abc]", "[^abc]"),
    *("a{2}", "a{2,}", "a{1,2}b", "a{0}", "(a{2}|b){2}", "a.*?b", "a+?", "^a$", "a^b", "a$b", "(^a|b)", r"\d+"),
    *(r"\D", r"\w\W\s", r"[\d-]+", r"[^\w]", r"\ba", r"a\b.*", r"a\Bb", r"\.", r"\\", "(?i)aB", "(?i:a)b"),
    *("[]a]", "[a-]", "[-a]", "[a-c]+", "a{", "x{y}", r"[\]]", "((a)|(b))*", "(a*)*", "(a|a)*b", r"\x41"),
    *(r"[\x41-C]", "(?s).", "()", "(|a)b"),
]
TEXTS = [
    *("", "a", "b", "c", "ab", "ba", "aab", "aaa", "abc", "aB", "AB", "a b", "a-b", "]", "-", ".", "\\", "1", "12"),
    *("a1", "a\n", "\n", "A", "B", "x{y}", "a{", "a{,2}", "abab", "aaaa", "_", "é", "d", " "),
]


@pytest.mark.parametrize("pattern", SAME)
def test_as_python_does(pattern: str) -> None:
    ours, theirs = Pattern(pattern), re.compile(pattern, re.ASCII)
    for text in TEXTS:
        if pattern.endswith("$") and text.endswith("\n"):
            continue
        assert ours.matches(text) == (theirs.fullmatch(text) is not None), text


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("[[:alpha:]-]+", "a-b", "a1"),
        ("[[:^digit:]]+", "ab", "a1"),
        (r"\Qa.b*\E+", "a.b***", "aab"),
        (r"\x{e9}", "é", "e"),
        (r"\Aa\z", "a", "b"),
        ("(?<name>a)", "a", "b"),
        ("(?i-s:A.)", "ab", "a\n"),
        ("a(?i)b", "aB", "AB"),
        ("(a(?i)b)b", "aBb", "aBB"),
        ("a{,2}", "a{,2}", "aa"),
        (r"\Q(", "(", "Q"),
        (r"\p{Greek}\pN\PL", "λ1-", "l1-"),
    ],
)
def test_what_is_re2s_own(pattern: str, yes: str, no: str) -> None:
    assert Pattern(pattern).matches(yes)
    assert not Pattern(pattern).matches(no)


@pytest.mark.parametrize(
    "pattern",
    [
        *("(", ")", "a)", "(a", "[", "[a", "[]", "*", "+a", "?", "a**", "a++", "a*+", "a{2}{3}", "a{2,1}", "a{1001}"),
        *("(?=a)", "(?!a)", "(?<=a)", "(?<!a)", "(?>a)", "(?P=n)", r"(a)\1", r"\p{No", r"\8", r"\y", "\\", "[b-a]"),
        *("[[:nothing:]]", "(?P<n", "(?P<a-b>x)", "(?z)", "(?--i)", r"\xzz", r"\x{110000}", "(a{1000}){1000}"),
        *("(" * 200, "((((){1000}){1000}){1000})", "(((){1000}){1000})", r"\pL" * 1_300, "a" * (MAX_LENGTH + 1)),
    ],
)
def test_what_is_not_a_pattern(pattern: str) -> None:
    with pytest.raises(BadPattern):
        Pattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        *(r"\C", r"a\Cb", "(?P<n>a)(?P<n>b)", "(?P<n>a)|(?<n>b)", "(?P<é>a)", "{*", "a|{+", "{?", "{{2}"),
        *(r"\Qa\E(?<n>a)(?P<n>b)", r"[^]](?<n>a)(?<n>b)", r"\\\C"),
    ],
)
def test_what_the_port_to_java_refuses(pattern: str) -> None:
    """Though RE2 itself takes it."""
    re2.compile(pattern)
    re2.purge()
    with pytest.raises(BadPattern):
        Pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        *(
            (r"\\C", r"\C"),
            (r"\Q\C\E", r"\C"),
            (r"[\\C]", "C"),
            (r"\{*", "{{"),
            ("a{2}{", "aa{"),
            ("[{]*", "{"),
            ("{", "{"),
        ),
        *(
            (r"\Q{\E*", "{{"),
            ("{", "{"),
            (r"[]{*]+", "]{*"),
            ("[[:alpha:]{*]+", "a{"),
            (r"(?P<n>a)\Q(?P<n>b)\E", "a(?P<n>b)"),
        ),
        *((r"(?P<n>a)[(?P<n>]", "an"), ("{,2}", "{,2}"), ("{02}", "{02}"), (r"\Q(?<n>a)(?<n>", "(?<n>a)(?<n>")),
    ],
)
def test_what_only_looks_like_that(pattern: str, text: str) -> None:
    assert Pattern(pattern).matches(text)


def test_the_number_of_unicode_classes() -> None:
    """Each takes RE2 half a millisecond to read."""
    most = MAX_UNICODE_CLASSES // 2
    assert Pattern(r"(?:\pL|[\PN])?" * most).matches("a")
    with pytest.raises(BadPattern):
        Pattern(r"(?:\pL|[\PN])?" * most + r"\pL?")


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", "(a*)*b", "a*a*a*a*a*a*b", "(.*)(.*)(.*)(.*)x"])
def test_no_pattern_takes_long(pattern: str) -> None:
    assert not Pattern(pattern).matches("a" * 32_000 + "!")


def test_nothing_is_kept_of_patterns() -> None:
    assert Pattern("kept?").matches("kep")
    assert re2._Regexp._make.cache_info().currsize == 0


@given(st.text("ab|()*+?.[]^$-{}12\\", max_size=12), st.text("ab12-", max_size=6))
def test_any_text_is_a_pattern_or_refused(pattern: str, text: str) -> None:
    try:
        ours = Pattern(pattern)
    except BadPattern:
        return
    assert ours.matches(text) in (True, False)
