"""What is read next, and by which task."""

from itertools import pairwise

from ottla.pipeline.source.logs import Span
from ottla.pipeline.source.planning import admit, bundle, split
from ottla.protocol.records import TopicPartition


def tp(partition: int) -> TopicPartition:
    return TopicPartition("t", partition)


def spans(*weights: int) -> list[Span]:
    return [Span(tp(number), 10, 10 + weight) for number, weight in enumerate(weights)]


def test_bundles_are_of_about_equal_weight() -> None:
    bundles = bundle(spans(7, 1, 5, 3, 4, 0), 3)
    assert sorted(sum(span.weight for span in one) for one in bundles) == [6, 7, 7]
    assert sorted(span.tp.partition for one in bundles for span in one) == [0, 1, 2, 3, 4]


def test_no_bundle_is_empty() -> None:
    assert len(bundle(spans(1, 0, 2), 8)) == 2
    assert bundle(spans(0, 0), 4) == []


def test_spans_are_split_without_gaps() -> None:
    parts = split(spans(100, 10), 6)
    assert len(parts) >= 6
    for number, weight in enumerate((100, 10)):
        edges = [(span.start, span.end) for span in parts if span.tp == tp(number)]
        assert edges[0][0] == 10
        assert edges[-1][1] == 10 + weight
        assert all(one[1] == other[0] for one, other in pairwise(edges))


def test_enough_spans_are_left_as_they_are() -> None:
    assert split(spans(5, 6), 2) == spans(5, 6)
    assert len(split(spans(2), 10)) == 2


def test_a_limit_is_shared_in_proportion_and_kept() -> None:
    start = {tp(0): 0, tp(1): 0, tp(2): 5}
    end = {tp(0): 900, tp(1): 100, tp(2): 5}
    assert admit(start, end, 100) == {tp(0): 90, tp(1): 10, tp(2): 5}
    assert admit(start, end, None) == end
    assert admit(start, end, 1000) == end


def test_the_smallest_limit_still_gets_to_the_end() -> None:
    start, end = {tp(number): 0 for number in range(5)}, {tp(number): number for number in range(5)}
    steps = 0
    while start != end:
        after = admit(start, end, 1)
        assert sum(after.values()) == sum(start.values()) + 1
        start, steps = after, steps + 1
    assert steps == 10
