"""Federations over a network: who is asked and waited for, Flower's apps, and a demo of real processes."""

import json
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import fastldp as fl
from fastldp.cli import main
from fastldp.errors import ArgumentError, FederationError, MissingExtraError
from fastldp.federation import Server, Terms, Worker, common_key, relay, serving
from fastldp.federation.conducting import AGAIN, Conductor, Event, Reply
from fastldp.federation.flower import FlowerNetwork, client_app, server_app, simulate, write_app
from fastldp.federation.processes import Crew, free_ports
from fastldp.federation.relay import ABSENT, ANSWERED, NOTE, RECORD, REFUSED
from fastldp.federation.serving import ANY, ONE, WHO, Host

Array = NDArray[np.float64]
Answering = Callable[[bytes], tuple[str, int, bytes] | None]

SEED = 3
SIZES = (30, 44, 21)
BUDGET = fl.Budget(np.array([1.0, 2.0, 1.5]), 1e-4, "gdp")
METHODS = {
    "primal_dual": fl.PrimalDual(step=0.1),
    "scaffold": fl.DPScaffold(0.1, 3, clip=fl.AdaptiveClip(early=2), warm_start=True),
    "isrl": fl.ISRLDP(0.3, accelerated=True),
}
needs_flower = pytest.mark.skipif(find_spec("flwr") is None, reason="flwr is not installed: fastldp[flower]")


class Training:
    """Three workers with shards and budgets of their own, in this process."""

    def __init__(self, folder: Path, algorithm: fl.Method = METHODS["primal_dual"], rounds: int = 5) -> None:
        rng = np.random.default_rng(SEED)
        A = rng.standard_normal((sum(SIZES), 4)) / 2
        b = np.where(rng.random(len(A)) < 0.5, 1.0, -1.0)
        owners = np.repeat(np.arange(3), SIZES)
        self.problem = fl.Problem(A, b, workers=owners, l2=0.1, row_bound=1.0)
        self.terms = Terms.of(self.problem, BUDGET, rounds, algorithm)
        self.shards = [(A[owners == i], b[owners == i]) for i in range(3)]
        self.folder = folder
        self.workers = [self.worker(i) for i in range(3)]
        self.server = Server(self.terms)

    def worker(self, i: int, terms: Terms | None = None, place: str = "") -> Worker:
        folder, epsilon = self.folder / f"{i}{place}", float(BUDGET.epsilon[i])  # type: ignore[index]
        budget = fl.Budget(epsilon, BUDGET.delta, "gdp")
        return Worker(*self.shards[i], budget, terms or self.terms, worker=i, folder=folder, key=common_key(SEED))

    def expected(self) -> Array:
        terms = self.terms
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fl.errors.ClippingWarning)  # of few counts, as here
            found = fl.solve(
                self.problem,
                BUDGET,
                rounds=terms.horizon,
                algorithm=terms.method,
                seed=SEED,
                common_noise=True,
            )
        return np.asarray(found.x[0])


@pytest.fixture
def training(tmp_path: Path) -> Iterator[Training]:
    made = Training(tmp_path)
    yield made
    for worker in made.workers:
        worker.close()


class Fake:
    """A network in this process: a node is what it answers; None is nothing, ever. Time passes by sleeping alone."""

    def __init__(self, nodes: Mapping[int, Answering]) -> None:
        self.there = dict(nodes)
        self.now = 0.0
        self.sent: list[tuple[int, bytes]] = []
        self._replies: dict[str, Reply] = {}
        self.on_sleep: Callable[[], None] = lambda: None

    def nodes(self) -> Collection[int]:
        return list(self.there)

    def send(self, questions: Mapping[int, bytes], lifetime: float | None) -> Mapping[int, str]:
        tickets = {}
        for node, question in questions.items():
            tickets[node] = ticket = str(len(self.sent))
            self.sent.append((node, question))
            found = self.there[node](question)
            if found is not None:
                self._replies[ticket] = Reply(ticket, *found)
        return tickets

    def receive(self, tickets: Collection[str]) -> Iterable[Reply]:
        return [self._replies.pop(ticket) for ticket in tickets if ticket in self._replies]

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.on_sleep()


def answering(worker: Worker) -> Answering:
    def answer(question: bytes) -> tuple[str, int, bytes]:
        status, body = serving._answered(worker, question)
        return status, worker.number, body

    return answer


def conduct(training: Training, network: Fake, **given: Any) -> list[Event]:
    events: list[Event] = []
    Conductor(
        training.server, network, watch=events.append, clock=lambda: network.now, sleep=network.sleep, **given
    ).run()
    return events


def kinds(events: Iterable[Event]) -> dict[str, list[tuple[int, int]]]:
    found = defaultdict(list)
    for event in events:
        found[event.kind].append((event.round, event.worker))
    return dict(found)


# Who is asked, and waited for.


@pytest.mark.parametrize("method", METHODS)
def test_rounds_over_a_network_have_the_bits_of_a_simulation(method: str, tmp_path: Path) -> None:
    training = Training(tmp_path, METHODS[method])
    # In another order than the workers': sums are in theirs.
    network = Fake({70 - i: answering(worker) for i, worker in enumerate(training.workers)})
    events = kinds(conduct(training, network))
    assert np.array_equal(training.server.x, training.expected())
    assert len(events.pop("round")) * 3 == len(network.sent)  # one message a worker and round
    assert sorted(worker for _, worker in events.pop("joined")) == [0, 1, 2]
    assert not events


def test_who_comes_later_says_first_who_it_is(training: Training) -> None:
    network = Fake({i: answering(training.workers[i]) for i in range(2)})

    def on_sleep() -> None:
        network.there[9] = answering(training.workers[2])

    network.on_sleep = on_sleep
    conduct(training, network)
    assert np.array_equal(training.server.x, training.expected())
    assert {question[:1] for _, question in network.sent[:2]} == {ANY}
    to_the_last = [question[:1] for node, question in network.sent if node == 9]
    assert to_the_last == [WHO] + [ONE] * 5


def test_who_waits_gets_the_same_bits_however_often_a_worker_is_gone(training: Training) -> None:
    worker, gone = answering(training.workers[1]), set[int]()

    def unsteady(question: bytes) -> tuple[str, int, bytes] | None:
        now = training.server.round
        if now == 2 and network.now < AGAIN:  # its process is not there
            return ABSENT, -1, b"nobody is there"
        if now == 4 and now not in gone:  # its node goes away with the question
            gone.add(now)
            return None
        return worker(question)

    network = Fake({0: answering(training.workers[0]), 1: unsteady, 2: answering(training.workers[2])})

    def come_back() -> None:
        if 4 in gone and 1 in network.there:
            del network.there[1]
        elif 4 in gone:
            network.there[99] = unsteady

    network.on_sleep = come_back
    events = kinds(conduct(training, network))
    assert np.array_equal(training.server.x, training.expected())
    assert (2, 1) in events["lost"]
    assert (4, 1) in events["lost"]
    assert events["joined"][-1] == (4, 1)
    assert not {"skipped", "refused"} & events.keys()


def test_rounds_go_on_without_who_is_gone_and_count_what_was_released(training: Training) -> None:
    worker = answering(training.workers[1])
    gone = {2, 3}
    network = Fake({i: answering(training.workers[i]) for i in range(3)})

    def silent(question: bytes) -> tuple[str, int, bytes] | None:
        return (ABSENT, -1, b"its process was killed") if training.server.round in gone else worker(question)

    network.there[1] = silent
    events = kinds(conduct(training, network, absent="skip", patience=2 * AGAIN))
    assert events["skipped"] == [(2, 1), (3, 1)]
    # The same by hand.
    by_hand, others = Server(training.terms), [training.worker(i, place="again") for i in range(3)]
    while not by_hand.over:
        for i, ask in by_hand.ask().items():
            if not (i == 1 and by_hand.round in gone):
                by_hand.tell(i, others[i].answer(ask))
        if by_hand.waiting == [1]:
            by_hand.close_round()
    assert np.array_equal(training.server.x, by_hand.x)
    for one in others:
        one.close()
    whole = training.terms.ledger.spent_rho
    spent = [one.spent.rho for one in training.workers]
    np.testing.assert_allclose(spent, training.server.spent_rho, rtol=1e-12)
    np.testing.assert_allclose(np.delete(spent, 1), np.delete(np.asarray(whole), 1), rtol=1e-9)
    assert spent[1] < 0.9 * np.asarray(whole)[1]


def test_an_answer_that_comes_late_is_left_and_its_worker_goes_on(training: Training) -> None:
    worker = answering(training.workers[1])
    held: list[tuple[str, Any]] = []

    def slow(question: bytes) -> tuple[str, int, bytes] | None:
        if training.server.round == 2:
            held.append((str(len(network.sent) - 1), worker(question)))
            return None
        return worker(question)

    network = Fake({0: answering(training.workers[0]), 1: slow, 2: answering(training.workers[2])})

    def arrive() -> None:
        if training.server.round == 3 and held:
            ticket, reply = held.pop()
            network._replies[ticket] = Reply(ticket, *reply)

    network.on_sleep = arrive
    events = kinds(conduct(training, network, absent="skip", patience=1.0))
    assert events["skipped"] == [(2, 1)]
    assert training.workers[1].round == 5


def test_a_damaged_answer_is_asked_for_again(training: Training) -> None:
    worker = answering(training.workers[1])

    def noisy(question: bytes) -> tuple[str, int, bytes]:
        status, number, body = worker(question)  # type: ignore[misc]
        damage = len(network.sent) % 2
        return status, number, bytes([body[0] ^ damage]) + body[1:]

    network = Fake({0: answering(training.workers[0]), 1: noisy, 2: answering(training.workers[2])})
    conduct(training, network)
    assert np.array_equal(training.server.x, training.expected())


def test_who_says_that_it_is_a_worker_that_is_there_is_a_stranger(training: Training) -> None:
    network = Fake({i: answering(training.workers[i]) for i in range(3)})
    network.there[50] = lambda question: (ANSWERED, 1, b"mine")
    network.there[51] = lambda question: (ANSWERED, 7, b"mine")
    events = kinds(conduct(training, network, admitted={0: 0, 1: 1, 2: 2}))
    assert np.array_equal(training.server.x, training.expected())
    assert events["stranger"] == [(1, 1), (1, 7)]


def test_who_waits_for_a_worker_that_refuses_hears_why(training: Training) -> None:
    network = Fake({i: answering(training.workers[i]) for i in range(3)})
    network.there[2] = lambda question: (REFUSED, 2, b"the budget is spent")
    with pytest.raises(FederationError, match="waits for worker 2, which refuses: the budget is spent"):
        conduct(training, network)


def test_too_few_answers_and_none_to_come_end_a_training(training: Training) -> None:
    network = Fake({i: answering(training.workers[i]) for i in range(3)})
    network.there[2] = lambda question: (REFUSED, 2, b"no")
    with pytest.raises(FederationError, match="round 1 has fewer than 3 answers and will have no more: worker 2: no"):
        conduct(training, network, absent="skip", patience=1e9, least=3)


def test_a_worker_on_other_terms_is_refused(training: Training) -> None:
    other = training.worker(1, Terms.of(training.problem, BUDGET, 6, fl.PrimalDual(step=0.1)), "other")
    network = Fake({0: answering(training.workers[0]), 1: answering(other), 2: answering(training.workers[2])})
    events = conduct(training, network, absent="skip", patience=5.0)
    other.close()
    assert kinds(events)["skipped"] == [(t, 1) for t in range(1, 6)]
    assert "terms" in next(event.text for event in events if event.kind == "refused")


def test_wrong_policies_are_refused(training: Training) -> None:
    wrong: list[dict[str, Any]] = [{"absent": "never"}, {"patience": 0.0}, {"least": 4}, {"least": 0}]
    for given in (*wrong, {"patience": None, "absent": "skip"}):
        with pytest.raises(ArgumentError, match=next(iter(given))):
            conduct(training, Fake({}), **given)


# A worker's process.


def test_a_host_answers_who_has_the_folder(training: Training) -> None:
    ask = training.server.ask()[0].to_bytes()
    with Host(*training.workers):
        found = [relay.ask(worker.folder, ONE + ask) for worker in training.workers]
        again = relay.ask(training.workers[0].folder, ONE + ask)
        note = training.workers[0].folder / NOTE
        assert note.stat().st_mode & 0o077 == 0
        changed = json.loads(note.read_text()) | {"key": "00" * 32}
        (training.folder / NOTE).write_text(json.dumps(changed))
        assert relay.ask(training.folder, ONE + ask)[0] == ABSENT
        # A visitor that leaves in the middle keeps nobody.
        from multiprocessing.connection import Client

        Client(changed["address"]).close()
        assert relay.ask(training.workers[0].folder, ONE + ask) == again
    assert [(status, number) for status, number, _ in found] == [(ANSWERED, 0), (REFUSED, 1), (REFUSED, 2)]
    assert again == found[0]
    assert "one to worker 0, and this is 1" in found[1][2].decode()
    status, _, reason = relay.ask(training.workers[0].folder, ONE + ask)
    assert status == ABSENT
    assert "fastldp.federation.serve" in reason.decode()


def test_serve_ends_when_it_is_told_to(training: Training) -> None:
    worker = training.workers[0]
    found = []

    def visit() -> None:
        while not (worker.folder / NOTE).exists():
            pass
        found.append(relay.ask(worker.folder, WHO))
        os.kill(os.getpid(), signal.SIGTERM)

    visitor = threading.Thread(target=visit)
    visitor.start()
    fl.federation.serve(worker)
    visitor.join()
    assert found == [(ANSWERED, 0, training.terms.digest.encode())]
    assert not (worker.folder / NOTE).exists()


def test_what_runs_for_each_message_imports_nothing_of_fastldp() -> None:
    code = f"import runpy, sys; runpy.run_path({relay.__file__!r}); print([n for n in sys.modules if 'fastldp' in n])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    finders = [name for name in json.loads(found.stdout.replace("'", '"')) if not name.startswith("__editable__")]
    assert finders == []


# Flower's apps, by a grid in this process.


class _App:
    """Stands for both of Flower's apps: what was registered is called."""

    def _register(self) -> Any:
        def keep(function: Any) -> Any:
            self.function = function
            return function

        return keep

    main = train = _register

    def __call__(self, *given: Any, **named: Any) -> Any:
        return self.function(*given, **named)


class _Message:
    def __init__(
        self, content: Any, dst_node_id: int = 0, message_type: str = "", *, ttl: Any = None, reply_to: Any = None
    ) -> None:
        self.content, self.ttl = content, ttl
        replied = None if reply_to is None else reply_to.metadata.message_id
        self.metadata = SimpleNamespace(
            dst_node_id=dst_node_id, message_type=message_type, message_id="", reply_to_message_id=replied
        )

    def has_error(self) -> bool:
        return False


class Grid:
    """Flower's grid, whose nodes run the ClientApp in this process."""

    def __init__(self, app: Any, contexts: Mapping[int, Any]) -> None:
        self._app, self._contexts, self._replies = app, contexts, {}  # type: ignore[var-annotated]

    def get_node_ids(self) -> list[int]:
        return list(self._contexts)

    def push_messages(self, messages: Iterable[Any]) -> list[str]:
        tickets = []
        for message in messages:
            ticket = str(len(self._replies))
            message.metadata.message_id = ticket
            self._replies[ticket] = self._app(message, self._contexts[message.metadata.dst_node_id])
            tickets.append(ticket)
        return tickets

    def pull_messages(self, tickets: Iterable[str]) -> list[Any]:
        return [self._replies[ticket] for ticket in tickets]


def context(run_config: Any, node_config: Any) -> Any:
    """Flower's context, as far as the apps read it."""
    return SimpleNamespace(run_config=run_config, node_config=node_config)


@pytest.fixture
def _stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    """For what is used of Flower, which need not be installed."""
    own: dict[str, dict[str, Any]] = {
        "flwr": {"__spec__": SimpleNamespace()},
        "flwr.app": {"Message": _Message, "RecordDict": dict, "ConfigRecord": dict},
        "flwr.serverapp": {"ServerApp": _App},
        "flwr.clientapp": {"ClientApp": _App},
    }
    for name, values in own.items():
        module = ModuleType(name)
        vars(module).update(values)
        monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.usefixtures("_stand_ins")
@pytest.mark.parametrize("method", METHODS)
def test_the_apps_make_a_training(method: str, tmp_path: Path) -> None:
    training = Training(tmp_path, METHODS[method])
    files = {name: str(tmp_path / name) for name in ("state", "result", "progress")}
    contexts = {10 * i + 3: context({}, {"folder": str(worker.folder)}) for i, worker in enumerate(training.workers)}
    app = server_app(training.terms)
    with Host(*training.workers):
        app(Grid(client_app(), contexts), context({**files, "absent": "wait", "patience": 0.0, "least": 1}, {}))
    with np.load(files["result"]) as found:
        assert np.array_equal(found["x"], training.expected())
    rounds = [json.loads(line) for line in Path(files["progress"]).read_text().splitlines()]
    rounds = [one for one in rounds if one["kind"] == "round"]
    assert [one["round"] for one in rounds][-1] == 5
    assert np.array_equal(rounds[-1]["x"], training.expected())
    # The state that is left has the model.
    left = Server(training.terms, path=files["state"])
    assert left.over
    assert np.array_equal(left.x, training.expected())


@pytest.mark.usefixtures("_stand_ins")
def test_nodes_that_answer_nonsense_are_asked_again(training: Training) -> None:
    contexts = {i: context({}, {"folder": str(worker.folder)}) for i, worker in enumerate(training.workers)}
    real, asked = client_app(), []

    def nonsense(message: Any, given: Any) -> Any:
        asked.append(message)
        if len(asked) == 1:
            return _Message({RECORD: {"status": ANSWERED, "worker": "one", "body": b""}}, reply_to=message)
        if len(asked) == 2:
            return _Message({}, reply_to=message)
        return real(message, context({}, {}) if len(asked) == 3 else given)

    events: list[Event] = []
    network = FlowerNetwork(Grid(nonsense, contexts))
    now = iter(range(0, 10**6, 10))
    with Host(*training.workers):
        Conductor(training.server, network, watch=events.append, clock=lambda: next(now), sleep=lambda _: None).run()
    assert np.array_equal(training.server.x, training.expected())
    reasons = [event.text for event in events if event.kind == "lost"]
    assert ["cannot be read" in reason for reason in reasons] == [True, True, False]
    assert "--node-config 'folder=" in reasons[2]


@pytest.mark.usefixtures("_stand_ins")
def test_a_failure_is_in_the_file_of_progress(training: Training) -> None:
    contexts = {i: context({}, {"folder": str(worker.folder)}) for i, worker in enumerate(training.workers)}
    progress = training.folder / "progress"
    other = Terms.of(training.problem, BUDGET, 7, fl.PrimalDual(step=0.1))
    with Host(*training.workers), pytest.raises(FederationError, match="terms"):
        server_app(other)(Grid(client_app(), contexts), context({"progress": str(progress)}, {}))
    assert json.loads(progress.read_text().splitlines()[-1])["kind"] == "failed"


def test_without_flower_the_error_says_what_to_install(training: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastldp.federation.flower.find_spec", lambda name: None)
    for call in (lambda: server_app(training.terms), lambda: simulate(training.server, training.workers)):
        with pytest.raises(MissingExtraError, match=r"pip install 'fastldp\[flower\]'"):
            call()
    assert main(["federate", "--demo", "2"]) == 1


def test_a_project_has_terms_and_a_copy_of_the_relay(training: Training, capsys: pytest.CaptureFixture[str]) -> None:
    terms = training.folder / "terms.json"
    terms.write_text(training.terms.to_json())
    home = training.folder / "mine"
    assert main(["federate", "--app", str(home), "--terms", str(terms)]) == 0
    assert str(home) in capsys.readouterr().out
    assert Terms.from_json((home / "mine" / "terms.json").read_text()) == training.terms
    assert (home / "mine" / "relay.py").read_text() == Path(relay.__file__).read_text()
    assert main(["federate", "--app", str(home)]) == 2
    for given, name in ((("two words", {}), "folder"), (("mine", {"patients": 3}), "config")):
        with pytest.raises(ArgumentError, match=name):
            write_app(training.folder / given[0], training.terms, **given[1])


# Processes.

CHILDREN = """
import os, pathlib, subprocess, sys
one = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], start_new_session=True)
path = pathlib.Path({path!r})
path.with_suffix(".part").write_text(f"{{os.getpid()}} {{one.pid}}")
path.with_suffix(".part").rename(path)
one.wait()
"""


def _gone(pid: int) -> bool:
    """Whether a process has ended, be it reaped or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True


linux = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds children of children by /proc")


@linux
def test_a_crew_leaves_nobody_behind(tmp_path: Path) -> None:
    path = tmp_path / "pids"
    with Crew(tmp_path) as crew:
        crew.start("parent", [sys.executable, "-c", CHILDREN.format(path=str(path))], os.environ)
        while not path.exists():
            crew.check()
    assert all(map(_gone, map(int, path.read_text().split())))


@linux
@pytest.mark.thorough
def test_nobody_is_left_where_the_one_who_started_them_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "pids"
    code = (
        "import os, pathlib, signal, sys; from fastldp.federation.processes import Crew\n"
        f"with Crew(pathlib.Path({str(tmp_path)!r})) as crew:\n"
        f"    crew.start('parent', [sys.executable, '-c', {CHILDREN.format(path=str(path))!r}], os.environ)\n"
        f"    while not pathlib.Path({str(path)!r}).exists(): crew.check()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == -signal.SIGKILL
    while not all(map(_gone, map(int, path.read_text().split()))):
        pass


def test_a_process_that_ends_is_said_with_its_last_words(tmp_path: Path) -> None:
    with Crew(tmp_path) as crew:
        crew.start("it", [sys.executable, "-c", "print('no such thing'); raise SystemExit(3)"], os.environ)
        while crew.ended("it") is None:
            pass
        crew.check("it")
        with pytest.raises(FederationError, match=r"process of it has ended with code 3(.|\n)*no such thing"):
            crew.check()


def test_free_ports_differ() -> None:
    assert len(set(free_ports(20))) == 20


@needs_flower
@pytest.mark.thorough
def test_the_demo_has_the_bits_of_a_simulation(tmp_path: Path) -> None:
    """Real processes, of which one worker's is killed and started again in the middle."""
    from fastldp.federation.demo import Federation
    from fastldp.federation.demo import Training as Demo

    training = Demo.make(2, 3, seed=1)
    with Federation(training, tmp_path) as federation:
        for i in range(2):
            federation.start_worker(i)
        federation.run()
        lost = False
        for event in federation.events():
            if event["kind"] == "round" and event["round"] == 1:
                federation.kill_worker(1)
            if event["kind"] == "lost" and not lost:
                lost = True
                federation.start_worker(1)
        assert lost
        assert np.array_equal(federation.model(), training.simulated().x[0])
        (journal,) = federation.journal(1).journals()
        assert journal.answers == 3


def _simulates() -> bool:
    """Whether Ray is here, as Flower's simulations want it: they name one version."""
    try:
        wanted = " ".join(requires("flwr") or [])
        return f"ray=={version('ray')}" in wanted
    except PackageNotFoundError:
        return False


@pytest.mark.skipif(not _simulates(), reason="there is no Ray of the version that Flower's simulations want")
@pytest.mark.thorough
def test_flowers_simulation_has_the_bits_of_ours(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; sys.path[:0] = {path!r}; import numpy as np; from test_flower import *\n"
        "training = Training(pathlib.Path({folder!r}))\n"
        "simulate(training.server, training.workers, cpus=0.5)\n"
        "assert np.array_equal(training.server.x, training.expected())\n"
    )
    # A process of its own: Ray stays as long as who has started it.
    text = code.format(path=[str(Path(__file__).parent)], folder=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
