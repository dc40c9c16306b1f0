"""Print docs/failures.md from the library of failures.

Run it with ``make docs``. A test compares the page with what this prints.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from ottla.workbench.failures import WORDS, Advance, Expect, Failure, Sees, Wait, all_failures

PAGE = Path(__file__).with_name("failures.md")
WIDTH = 120
NAMES = re.compile(r"\b[a-z]+(\.[a-z]+)+(=[a-z_-]+)?|\b_*[A-Za-z]+(_[A-Za-z]+)+")
"""Settings, errors and topics in a story."""

HEAD = """\
# A library of failures

<!-- Printed by docs/make_failures.py (`make docs`); do not edit. -->

Each of these failures has ended somebody's night. Here they happen in a second or two, as often as you like:

```console
$ ottla fault play                        # lists them
$ ottla fault play stuck-in-rebalance
$ ottla fault show stuck-in-rebalance     # prints its file
```

The command starts a broker, lets clients come, and lets the failure happen. It tells what happened in order, what each
client saw, and what [`ottla why`](why.md) says of it. Its exit code is 0 if the failure showed itself as its file says.
The clients are processes of their own, so that they can be frozen and killed. They are Ottla's [client](client.md)
unless you name others with `--cast`: an `ottla.testing.cast.Cast` of yours, for example of your service.

The broker's clock stands still but where a failure moves it ([virtual time](time.md)), and answers get lost by
[faults](faults.md). In a test of your own:

```python
from ottla.testing.ottla_cast import CAST
from ottla.testing.play import play
from ottla.workbench.failures import load


def test_we_know_what_a_stuck_group_looks_like():
    outcome = play(load("stuck-in-rebalance"), CAST)
    assert outcome.is_right, outcome.findings
```

"""
OWN = """\
## Write one yourself

A failure is a YAML file; `ottla fault play mine.yaml` plays it. It has a `title`, what it `stands_for`, a `story`, the
`topics` and `settings` of its broker, the `consumers` and `producers` by role with their options under Kafka's names,
the `steps`, and what to `expect`. `ottla fault show` prints examples. A word that is not known is an error which says
what is.

A consumer has a session timeout of 6 s, sends a heartbeat every 100 ms, begins at the earliest record, and commits when
a step says so, unless its options say otherwise.

"""


def render() -> str:
    """The whole page."""
    failures = list(all_failures())
    listed = "\n".join(f"- [{one.name}](#{one.name}): {one.title}" for one in failures)
    return HEAD + listed + "\n\n" + "\n\n".join(map(_failure, failures)) + "\n\n" + OWN + _vocabulary()


def _failure(failure: Failure) -> str:
    paragraphs = [NAMES.sub(r"`\g<0>`", " ".join(one.split())) for one in failure.story.strip().split("\n\n")]
    stands_for = "; ".join(f"[{one.text}]({one.url})" for one in failure.stands_for)
    return "\n\n".join(
        [f"## {failure.name}", f"**{failure.title}.**", *map(_wrapped, paragraphs), f"*Stands for:* {stands_for}."]
    )


def _vocabulary() -> str:
    rows = [f"| `{one.example}` | {one.meaning} |" for one in WORDS.values()]
    parts = [
        "### Steps", "\n".join(["| step | what happens |", "|---|---|", *rows]),
        "### wait", _attributes(Wait), "### advance", _attributes(Advance),
        "### expect", _attributes(Expect), "### expect: sees", _attributes(Sees),
    ]  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _attributes(kind: type) -> str:
    """The attributes of a class, as its docstring tells them: a line each."""
    text = (kind.__doc__ or "").partition("Attributes:")[2]
    told = re.sub(r"\n {12,}", " ", text).strip()
    return "\n".join(f"- {_code(line.strip())}" for line in told.splitlines())


def _code(line: str) -> str:
    """A line with the names that stand before a colon as code."""
    names, _, rest = line.partition(":")
    return f"{', '.join(f'`{one}`' for one in names.split(', '))}:{rest.replace('``', '`')}"


def _wrapped(text: str) -> str:
    return "\n".join(textwrap.wrap(text, WIDTH, break_on_hyphens=False, break_long_words=False))


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
