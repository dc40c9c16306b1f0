"""The threads that sync many files at once."""

import threading

import pytest

from ottla.broker.storage.local.workers import Workers


@pytest.mark.parametrize("threads", [0, 3])
def test_every_task_is_done_when_run_returns(threads):
    workers = Workers(threads)
    done = []
    workers.run([lambda number=number: done.append(number) for number in range(20)])
    workers.run([])
    workers.close()
    assert sorted(done) == list(range(20))


def test_tasks_wait_for_the_disk_together():
    workers = Workers(3)
    # Each waits for the others: done one after the other they would break the barrier.
    barrier = threading.Barrier(3, timeout=20)
    workers.run([lambda: barrier.wait() and None for _ in range(3)])
    workers.close()
    assert not barrier.broken


def test_an_error_is_raised_when_all_are_over():
    workers = Workers(2)
    failed, done = threading.Event(), threading.Event()

    def fail():
        failed.set()
        raise LookupError("first")

    def last():
        assert failed.wait(20)
        done.set()

    with pytest.raises(LookupError, match="first"):
        workers.run([fail, last])
    assert done.is_set()
    workers.close()


def test_a_single_task_needs_no_thread():
    workers = Workers(2)
    threads = []
    workers.run([lambda: threads.append(threading.current_thread())])
    workers.close()
    assert threads == [threading.current_thread()]
