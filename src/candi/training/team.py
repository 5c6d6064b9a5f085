"""The processes of a run: they are started, wait for each other without a collective, and end together."""

import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import TypeVar

from lightning.fabric import Fabric
from lightning.fabric.plugins.environments.cluster_environment import ClusterEnvironment
from torch.distributed import DistNetworkError, PrefixStore, Store, TCPStore  # type: ignore[attr-defined]

from candi.base.errors import UserError
from candi.base.files import make_folder
from candi.base.progress import say
from candi.training.watch import Ended, Watch

Made = TypeVar("Made")

_POLL, _QUIET = 0.1, 10.0  # seconds between looks, and before a line says what is waited for
_ANSWER = 1800.0  # seconds in which the first process must answer at its address
_SEEN = 90.0  # seconds in which a file must be seen by other machines: network disks remember what is not there
_OWN_REASON = 1.0  # seconds for a process to tell of the same mistake itself
_VERDICT = 5.0  # seconds in which it shows whether an error comes of the end of another process
_STARTER = "CANDI_STARTED_BY"  # the process that has started this one
_FAILED = 2  # exit code, as of every other failure that is told in a sentence
_STORE = timedelta(minutes=5)  # of the store: no request takes longer
_MEETINGS = count()  # all processes of a program meet equally often
_STORES: list[Store] = []  # that of the first process serves the others until it ends


class Team:
    """One process of a run, and what it knows of the others. One that is alone waits for nobody."""

    def __init__(self, fabric: Fabric, nodes: int, newest: Callable[[], str]) -> None:
        environment = getattr(fabric.strategy, "cluster_environment", None)  # a single device has none
        self.rank, self.nodes = fabric.global_rank, nodes
        self.world = fabric.world_size if environment is not None else 1
        self.on_each = max(1, self.world // nodes)
        self.node, self.local_rank = divmod(self.rank, self.on_each)
        self._newest, self._leaving = newest, False
        self._ended: Ended | None = None
        self._started: list[subprocess.Popen[bytes]] = []
        if environment is not None and self.world > 1:
            self._environment: ClusterEnvironment = environment
            self._watch = Watch(self.rank, self._told)
            self._store = self._meet()

    def _meet(self) -> Store:
        """Where the processes leave word for each other; from here on each hears when another one ends."""
        address, port = self._environment.main_address, self._environment.main_port
        store = PrefixStore(f"candi/{next(_MEETINGS)}", self._connected(address, port))
        try:
            if self.rank == 0:
                store.set("watch", self._watch.open())
            else:
                self._until(lambda: store.check(["watch"]))
                self._watch.join(address, store.get("watch").decode())
        except (DistNetworkError, OSError) as error:
            raise UserError(
                f"The first process, at {address}, has ended or cannot be reached ({error}); the nodes must let each "
                "other's connections pass."
            ) from error
        return store

    def _connected(self, address: str, port: int) -> Store:
        """The store of the process group that is to come, at the address that all know."""
        serves = self.rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"  # else torchrun does
        if not serves:
            self._await_first(address, port)
        try:
            store = TCPStore(address, port, None, serves, _STORE, wait_for_workers=False, multi_tenant=True)
        except DistNetworkError as error:
            raise UserError(
                f"The processes cannot meet at {address}, port {port}; give torchrun a free --master-port, or another "
                "MASTER_PORT."
            ) from error
        _STORES.append(store)
        return store

    def _await_first(self, address: str, port: int) -> None:
        """Until somebody listens there: the store itself would tell of each attempt at length."""
        begun, said = time.monotonic(), False
        while True:
            self._check_starter()
            with suppress(OSError), socket.create_connection((address, port), timeout=_QUIET):
                return
            if not said:
                said = True
                self._say(f"Waiting for the first process at {address}, port {port}.")
            if time.monotonic() - begun > _ANSWER:
                raise UserError(
                    f"No process answers at {address}, port {port}, where the first one should be; check MASTER_ADDR "
                    "and MASTER_PORT, and that the command runs on the first node."
                )
            time.sleep(_POLL)

    def _check_starter(self) -> None:
        """A process whose starter is no more, before it could watch it, must not join the next run at this address."""
        if int(os.environ.get(_STARTER, os.getppid())) != os.getppid():
            raise UserError("The process that has started this one has ended.")

    def in_turn(self, make: Callable[[], Made]) -> Made:
        """Made by one process of each machine before its others exist or begin: they find what it has kept."""
        if self.world == 1:
            return make()
        if self.local_rank:
            self._until(lambda: self._store.check([f"made/{self.node}"]))
            return make()
        made = make()
        self._store.set(f"made/{self.node}", "")
        if not self._environment.creates_processes_externally:
            self._start_others()
        return made

    def _start_others(self) -> None:
        """The other processes of this machine, where no launcher has started them. They run the same command."""
        import __main__

        spec = getattr(__main__, "__spec__", None)
        script = [os.path.abspath(sys.argv[0])] if spec is None else ["-m", spec.name]
        os.environ |= {
            "MASTER_ADDR": self._environment.main_address, "MASTER_PORT": str(self._environment.main_port),
            "NODE_RANK": str(self.node), "WORLD_SIZE": str(self.world), "LOCAL_RANK": "0",
        }  # fmt: skip
        for local_rank in range(1, self.on_each):
            its_own = {"LOCAL_RANK": str(local_rank), _STARTER: str(os.getpid())}
            self._started.append(subprocess.Popen([sys.executable, *script, *sys.argv[1:]], env=os.environ | its_own))

    def share(self, folder: Path) -> None:
        """Refuse a folder that is not the same on all machines: what the first process writes, each must see."""
        if self.nodes == 1 or self.world == 1 or self.local_rank:
            return
        if self.rank == 0:
            make_folder(folder)
            mark = folder / f".seen-{secrets.token_hex(8)}"
            try:
                mark.touch()
                self._store.set("mark", mark.name)
                self._until(lambda: self._store.add("seen", 0) == self.nodes - 1)
            finally:
                mark.unlink(missing_ok=True)
        else:
            self._until(lambda: self._store.check(["mark"]))
            mark, begun = folder / self._store.get("mark").decode(), time.monotonic()
            while not mark.exists():
                if time.monotonic() - begun > _SEEN:
                    raise UserError(
                        f"--out must lie on a disk that all nodes share, and {folder.absolute()} does not: what the "
                        f"first process writes there is not seen on {self._watch.host}."
                    )
                time.sleep(_POLL)
            self._store.add("seen", 1)

    def all_ready(self) -> None:
        """Once, until all processes are: from here on they meet in collectives, which fail after half an hour."""
        if self.world == 1:
            return
        self._store.add("ready", 1)
        waiting = f"Ready; waiting for others of the {self.world} processes, which start or prepare the data."
        self._until(lambda: self._store.add("ready", 0) == self.world, waiting)

    def _until(self, true: Callable[[], bool], waiting: str = "") -> None:
        begun, said = time.monotonic(), not waiting
        while not true():
            for local_rank, process in enumerate(self._started, 1):
                if process.poll():  # perhaps before it could connect
                    raise UserError(f"The process of rank {self.rank + local_rank} has ended; it has said why.")
            if self._ended is not None and self._ended.reason is not None:
                self._leaving = True
                self._speak_of(self._ended)
                raise SystemExit(_FAILED)
            if not said and time.monotonic() - begun > _QUIET:
                said = True
                self._say(waiting)
            time.sleep(_POLL)

    def _say(self, text: str) -> None:
        """Once for each machine."""
        if self.local_rank == 0:
            say(text)

    def _told(self, ended: Ended) -> None:
        """In a thread: the others cannot go on, and one that waits in a collective would not notice."""
        self._ended = ended
        if ended.reason is not None:
            time.sleep(_OWN_REASON)
        if self._leaving:
            return
        if sys.stderr.isatty():
            print("\033[?25h", end="", file=sys.stderr)  # a progress bar hides the cursor
        self._speak_of(ended)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_FAILED)  # an orderly end would wait for the one that is no more

    def _speak_of(self, ended: Ended) -> None:
        """One process of each machine does, and none where the one that ended has told why."""
        here = ended.rank // self.on_each == self.node
        first = next(local for local in range(self.on_each + 1) if not (here and local == ended.rank % self.on_each))
        if self.local_rank != first or (here and ended.reason):
            return
        who = f"candi: Rank {ended.rank} of {self.world}, on {ended.host}, has ended"
        advice = f", and the others with it; {self._newest()}; the same command continues the run."
        say(f"{who}: {ended.reason}" if ended.reason else f"{who}{advice}")

    def is_told(self, error: BaseException) -> bool:
        """Whether another process of this machine has made the same mistake, and tells of it."""
        if not isinstance(error, UserError) or not self.local_rank:
            return False
        time.sleep(_OWN_REASON / 2)
        return self._ended is not None and self._ended.reason == str(error)

    def leave(self, error: BaseException | None = None) -> None:
        """Before this process goes its way."""
        if self.world == 1:
            return
        if error is not None and not isinstance(error, UserError | KeyboardInterrupt | SystemExit):
            time.sleep(_VERDICT)  # if another process is the cause, this one ends here
        self._leaving = True
        for process in self._started if error is not None else []:
            process.kill()  # it may not watch yet
        with suppress(OSError):
            self._watch.leave(str(error) if isinstance(error, UserError) else None, fine=error is None)


@contextmanager
def together(fabric: Fabric, nodes: int, newest: Callable[[], str]) -> Iterator[Team]:
    """The team of a run. Inside the block the end of any process is the end of all; `newest` says what is kept."""
    team = Team(fabric, nodes, newest)
    try:
        yield team
    except BaseException as error:
        told = team.is_told(error)
        team.leave(error)
        if told:
            raise SystemExit(_FAILED) from None
        raise
    team.leave()
