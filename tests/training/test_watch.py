"""Who has ended: each process hears of the first one, and of nothing else."""

import json
import queue
import socket

import pytest

from candi.training.watch import Ended, Watch

HOST = socket.gethostname()


class Processes:
    """Three in one: the first and two that have joined it. What each is told comes in a queue."""

    def __init__(self) -> None:
        self.told = [queue.Queue() for _ in range(3)]
        self.watches = [Watch(rank, told.put) for rank, told in enumerate(self.told)]
        self.known = self.watches[0].open()
        for watch in self.watches[1:]:
            watch.join("127.0.0.1", self.known)

    def hears(self, rank: int) -> Ended:
        return self.told[rank].get(timeout=10)

    def silent(self, *ranks: int) -> bool:
        """For as long as word would take."""
        with pytest.raises(queue.Empty):
            self.told[ranks[0]].get(timeout=0.3)
        return all(self.told[rank].empty() for rank in ranks)


@pytest.fixture
def three() -> Processes:
    made = Processes()
    assert made.silent(0, 1, 2)  # all have been greeted
    yield made
    for watch in made.watches:
        watch.leave(fine=True)


@pytest.mark.parametrize("dead", [0, 1, 2])
@pytest.mark.parametrize("reason", [None, "The disk is full."])
def test_all_others_hear_of_the_first_that_ends(three, dead, reason):
    three.watches[dead].leave(reason)
    for rank in {0, 1, 2} - {dead}:
        assert three.hears(rank) == Ended(dead, HOST, reason)
    assert three.silent(0, 1, 2)


def test_a_process_that_is_done_is_not_told_of(three):
    three.watches[1].leave(fine=True)
    assert three.silent(0, 2)
    three.watches[2].leave()
    assert three.hears(0) == Ended(2, HOST)
    assert three.silent(1)


def test_strangers_are_not_heard(three):
    """Whoever finds the port does not know the word; nor does it stop those who do."""
    port, token, _ = json.loads(three.known)
    for line in (json.dumps(["", 1, "x"]), "GET / HTTP/1.1", json.dumps([token]), json.dumps(3), "x" * 100_000, ""):
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.sendall((line + "\n").encode())
    assert three.silent(0, 1, 2)
    late = queue.Queue()
    Watch(3, late.put).join("127.0.0.1", three.known)
    assert three.silent(0)
    three.watches[0].leave("over")
    assert late.get(timeout=10) == Ended(0, HOST, "over")


def test_a_word_that_is_cut_short_is_the_end_of_who_said_it(three):
    (link,) = three.watches[1]._links
    link.sendall(b'{"rank": 1, "ho')
    link.shutdown(socket.SHUT_RDWR)
    assert three.hears(0) == Ended(1, HOST)
    assert three.hears(2) == Ended(1, HOST)


def test_a_machine_that_is_gone_is_found_by_the_kernel(three):
    """Which asks in the place of a process that has nothing to say."""
    (link,) = three.watches[1]._links
    assert link.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    if hasattr(socket, "TCP_KEEPIDLE"):
        idle, between, probes = (
            link.getsockopt(socket.IPPROTO_TCP, getattr(socket, f"TCP_KEEP{name}")) for name in ("IDLE", "INTVL", "CNT")
        )
        assert idle + between * probes <= 30
