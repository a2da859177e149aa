"""The attack: transcripts of two inputs made by the real kernels, and the evidence in them as it adds up."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastldp.auditing import evidence, independence, pair
from fastldp.auditing.adversary import Seen, Transcripts, claimed_deviations, claimed_of_counts, look
from fastldp.auditing.evidence import Check
from fastldp.auditing.independence import (
    Closest,
    by_coordinate,
    by_number,
    by_release,
    by_transcript,
    closest,
    sizes,
    worst_of,
)
from fastldp.auditing.unseen import Sight
from fastldp.auditing.watching import Watch, Watched
from fastldp.describing import described, section
from fastldp.engine.recording import Final, Messages
from fastldp.errors import ArgumentError, FastLDPError
from fastldp.methods import Method, Program, Schedule
from fastldp.privacy.budget import Budget
from fastldp.privacy.sampler import DITHERS, spacing
from fastldp.problems.composite import Composite
from fastldp.solve import solve, starting_point

Array = NDArray[np.float64]

# The numbers of the messages of one chunk: some tens of megabytes, whatever the number of transcripts.
CHUNK = 2**20
# So many runs are also made alone, and their noise must be the same to so much of σ.
ALONE = 4
SAME_NOISE = 1e-3
# Noise read out of messages may be off by so much of σ for rounding; releases by so much of a spacing from the grid.
MOST_DOUBT = 1e-3
OFF_GRID = 0.1
# What a method is given for so many rounds is compared between the inputs.
MOST_COMPARED = 1024
# Seeds that differ in one of these bits must have other noise: at the ends of words of any length, and of floats.
BITS = (7, 15, 16, 31, 32, 52, 63, 64, 127, 128, 191, 255)
# Other runs of a seed are compared with so many numbers of each release.
COMPARED = 256
# Which of several pairs of inputs is the easiest to tell apart is tried with so many transcripts.
TRIED = 8


class Attack:
    """The two inputs, the schedule they share, and the evidence."""

    def __init__(self, inputs: pair.Pair, budget: Budget, rounds: int, method: Method, n_jobs: int | None) -> None:
        self.worlds = (inputs.problem, inputs.neighbour), (inputs.neighbour, inputs.problem)
        self.problem, self.worker = inputs.problem, inputs.worker
        self.budget, self.rounds, self.method, self.n_jobs = budget, rounds, method, n_jobs
        self.schedule = _common_schedule(inputs, budget, rounds, method)
        assert self.schedule.ledger is not None  # there is a budget
        self.ledger = self.schedule.ledger
        self.releases = self.schedule.program.releases(rounds)
        self.power = 2 * float(np.broadcast_to(self.ledger.spent_rho, self.problem.n)[self.worker])
        self.excess = self._excess(self.worker)
        self.thresholds = evidence.Thresholds(self.power)
        self.moments = evidence.Moments(), evidence.Moments()
        self.noise = evidence.Noise(self.problem.d, self.excess)
        self.counts = evidence.Noise(1, self._excess_of_counts())
        self.largest_power = self.off_grid = 0.0
        self.off_counts = 0
        self.gridless = 0
        self.found = _read_off_data(self.problem, self.schedule)
        self.closest: dict[str, tuple[Closest, str]] = {}
        """Of what was compared, the closest pair, and what it is a pair of."""
        self.not_compared: list[str] = []
        self.watched: Watched | None = None

    def _excess(self, worker: int) -> Array:
        """What the dither adds to the variance of every release, over it."""
        deviations = claimed_deviations(self.schedule, self.problem.n, worker, self.releases)
        return np.asarray((DITHERS * spacing(deviations) / deviations) ** 2 / 12)

    def _excess_of_counts(self) -> Array:
        """The same of every count."""
        deviations = claimed_of_counts(self.schedule, self.worker)
        return np.asarray((DITHERS * spacing(deviations) / deviations) ** 2 / 12)

    def tried(self, seed: int) -> float:
        """The mean power of a few transcripts."""
        return float(self._seen(self.worlds[0], self.worker, TRIED, seed).power.mean())

    def run(self, transcripts: int, seed: int, bar: Any) -> None:
        size = max(16, CHUNK // (self.releases * self.problem.d))
        for chunk, begin in enumerate(range(0, transcripts, size)):
            count = min(size, transcripts - begin)
            noise: list[Array] = []
            for world in (0, 1):
                seen = self._seen(self.worlds[world], self.worker, count, _seed(seed, chunk, world))
                # The second input's loss the other way round, so that both are ln(first over second).
                self.thresholds.add(world, seen.loss if world == 0 else -seen.loss)
                self.moments[world].add(seen)
                self.noise.add(world, seen.noise)
                if self.ledger.counts:
                    self.counts.add(world, seen.of_counts[:, :, None])
                    self.off_counts += seen.of_counts.shape[1] != self.ledger.counts
                self.largest_power = max(self.largest_power, float(seen.power.max()))
                self.off_grid = max(self.off_grid, seen.off_grid)
                self.gridless = max(self.gridless, seen.gridless)
                noise.append(seen.noise)
                if chunk == 0 and world == 0 and self.ledger.counts:
                    self._compare_counts(seen)
                bar.update(count)
            if chunk == 0:
                self._compare_within(noise[0])
                self._compare_inputs(noise[0], noise[1])
                self._compare_runs(noise[0], seed)
                self._compare_workers(noise[0], transcripts, seed)
                self._check_alone(seed)

    def _compare(self, name: str, rows: Array, others: Array | None, what: Any) -> None:
        """All pairs, in value and in size; `what` says of the numbers of two rows what they are."""
        for how, change in (("", np.asarray), (", in size", sizes)):
            found = closest(change(rows), None if others is None else change(others))
            self.closest[name + how] = found, what(found.first, found.second)

    def _compare_within(self, noise: Array) -> None:
        """Releases, coordinates and transcripts of the attacked worker, all pairs of each."""
        program = self.schedule.program
        kept: list[int] = independence.releases_kept(noise.shape[1], independence.MOST_RELEASES).tolist()
        if noise.shape[1] > 1:
            self._compare("rounds", by_release(noise), None, lambda i, j: _releases(program, kept[i], kept[j]))
        if noise.shape[2] > 1:
            self._compare("coordinates", by_coordinate(noise), None, lambda i, j: f"coordinates {i + 1} and {j + 1}")
        if noise.shape[1] * noise.shape[2] > 1:
            self._compare("transcripts", by_transcript(noise), None, lambda i, j: f"transcripts {i + 1} and {j + 1}")
        again = independence.repeated(noise)
        if again is not None:
            self.found.append(f"transcripts {again[0] + 1} and {again[1] + 1} have the same noise")

    def _compare_counts(self, seen: Seen) -> None:
        """Counts with the gradients beside them, and with each other."""
        own, others = seen.of_counts.T, by_number(seen.noise)
        self._compare("counts", own, others, lambda i, j: f"count {i + 1} and a number of a gradient")
        if len(own) > 1:
            self._compare("two counts", own, None, lambda i, j: f"counts {i + 1} and {j + 1}")

    def _compare_inputs(self, noise: Array, of_neighbour: Array) -> None:
        self._compare("inputs", by_release(noise), by_release(of_neighbour), lambda i, j: "the two inputs")

    def _compare_runs(self, noise: Array, seed: int) -> None:
        """Under other seeds, and what else must have other noise under the same seed."""
        count = min(len(noise), max(2, -(-COMPARED // self.problem.d)))
        own, first = by_release(noise[:count]), _seed(seed, 0, 0)
        found = {}
        for bit in BITS:
            found[f"seeds that differ in bit {bit}"] = by_release(
                self._noise(self.worlds[0][0], count, first ^ 1 << bit)
            )
        self._compare_several("seeds", own, found)
        others = {
            "the two inputs": (self.worlds[1][0], self.budget, self.rounds),
            "two budgets": (
                self.problem,
                replace(self.budget, epsilon=0.9 * np.asarray(self.budget.epsilon)),
                self.rounds,
            ),
            "two horizons": (self.problem, self.budget, self.rounds + 1),
        }
        found = {}
        for name, (problem, budget, rounds) in others.items():
            try:
                schedule = self.method.schedule(problem, budget, rounds)
            except FastLDPError:  # variances of the caller's own fit neither another budget nor another horizon
                self.not_compared.append(name)
            else:
                other = self._noise(problem, count, first, budget=budget, rounds=rounds, schedule=schedule)
                found[f"runs of one seed, {name}"] = by_release(other)
        self._compare_several("runs of one seed", own, found)

    def _compare_several(self, name: str, own: Array, others: dict[str, Array]) -> None:
        for how, change in (("", np.asarray), (", in size", sizes)):
            found = {what: closest(change(own), change(other)) for what, other in others.items()}
            closer = min(found, key=lambda what: found[what].p)
            self.closest[name + how] = worst_of(found.values()), closer

    def _compare_workers(self, noise: Array, transcripts: int, seed: int) -> None:
        """All pairs of workers in the same repetitions, and the noise of each by itself."""
        if self.problem.n == 1:
            return
        watch = Watch.of(self.problem, self.worker, self.releases, min(transcripts, len(noise)))
        watched = self.watched = Watched(watch, self.releases, self.problem.d)
        program = self.schedule.program
        for number, worker in enumerate(watch.workers):
            if worker == self.worker and watch.repetitions <= len(noise):
                watched.add(number, noise[: watch.repetitions], self.excess, 0.0)
            else:
                seen = self._seen((self.problem, self.problem), worker, watch.repetitions, _seed(seed, 0, 0))
                watched.add(number, seen.noise, self._excess(worker), seen.off_grid)
        for how, found in watched.compared().items():
            (i, a), (j, b) = watched.place(found.first), watched.place(found.second)
            self.closest[f"workers{how}"] = (
                found,
                f"workers {i} and {j} ({_release(program, a)}, {_release(program, b)})",
            )
        if watched.off_grid.max() > OFF_GRID:
            at = int(np.argmax(watched.off_grid))
            self.found.append(f"releases of worker {watch.workers[at]} lie off the public grid")

    def _check_alone(self, seed: int) -> None:
        """A run alone goes other ways through the engine than runs in company: it must release the same noise."""
        for chunk in range(ALONE):
            both = [
                self._seen((self.problem, self.problem), self.worker, count, _seed(seed, chunk, 0)) for count in (1, 2)
            ]
            alone, among = (np.append(seen.noise[0].ravel(), seen.of_counts[0]) for seen in both)
            if not np.allclose(alone, among, rtol=0, atol=SAME_NOISE):
                self.found.append("a run alone releases other noise than the same run in company")
                return

    def _noise(self, problem: Composite, count: int, seed: int, **run: Any) -> Array:
        return self._seen((problem, problem), self.worker, count, seed, **run).noise

    def _seen(
        self,
        inputs: tuple[Composite, Composite],
        worker: int,
        count: int,
        seed: int,
        *,
        budget: Budget | None = None,
        rounds: int | None = None,
        schedule: Schedule | None = None,
    ) -> Seen:
        run = solve(
            inputs[0],
            self.budget if budget is None else budget,
            rounds=self.rounds if rounds is None else rounds,
            algorithm=self.method,
            repetitions=count,
            seed=seed,
            record=[Final(), Messages(worker)],
            n_jobs=self.n_jobs,
        )
        assert run.messages is not None
        assert run.broadcasts is not None
        schedule = self.schedule if schedule is None else schedule
        start = starting_point(inputs[0], None)
        transcripts = Transcripts(run.messages, run.broadcasts, run.early_counts, run.counts)
        seen = look(*inputs, worker, schedule, start, transcripts)
        if not seen.doubt < MOST_DOUBT:
            raise ArgumentError(
                "rounds",
                self.rounds,
                "early rounds have so much more noise than late ones that double precision cannot tell the late "
                "rounds' noise from the messages; audit fewer rounds, or allocation='static'",
            )
        return seen

    def checks(self) -> list[Check]:
        """All that chance has a part in."""
        checks = [check for moments in self.moments for check in moments.checks()]
        checks += self.noise.checks() + ([] if self.watched is None else self.watched.checks())
        if self.ledger.counts:
            checks += [check._replace(finding=f"of counts: {check.finding}") for check in self.counts.checks()]
        for name, (found, what) in self.closest.items():
            how = ", in size" if name.endswith(", in size") else ""
            checks.append(Check(found.p, f"noise is correlated between {what}{how}, by {found.correlation:+.2f}"))
        return checks

    def findings(self, claimed: float) -> list[str]:
        """What is wrong, the ledger's promise first."""
        checks = self.checks()
        # With the shown ε.
        error = evidence.FALSE_ALARM / (len(checks) + 1)
        found = []
        # At the confidence of all other checks, not of the number that is shown.
        shown = self.thresholds.lower_bound(self.ledger.delta, 1 - error)
        if shown > claimed:
            found.append(f"the transcripts show ε ≥ {shown:.4f}, more than the {claimed:.4f} that is claimed")
        if self.releases != self.ledger.releases:
            found.append(f"a worker releases {self.releases} times, and the ledger counts {self.ledger.releases}")
        if self.off_counts:
            found.append(f"a worker does not count {self.ledger.counts} times, as the ledger says")
        if self.largest_power > self.power * (1 + 1e-9):
            found.append("the inputs move a release by more than the sensitivity in the ledger")
        found += [check.finding for check in checks if check.p < error]
        if self.off_grid > OFF_GRID:
            found.append(f"releases lie off the public grid, by {self.off_grid:.2f} of its spacing")
        return found + self.found

    def sight(self, transcripts: int) -> Sight:
        """How far these transcripts could see."""
        return Sight(
            problem=self.problem,
            program=self.schedule.program,
            error=evidence.FALSE_ALARM / (len(self.checks()) + 1),
            transcripts=transcripts,
            first_block=min(transcripts, max(16, CHUNK // (self.releases * self.problem.d))),
            releases=self.releases,
            power=self.largest_power,
            ledger_power=self.power,
            excess=float(self.excess.max()),
            gridless=self.gridless,
            closest={name: found for name, (found, _) in self.closest.items()},
            not_compared=tuple(self.not_compared),
            watched=self.watched,
            counts=self.ledger.counts,
        )


def _common_schedule(inputs: pair.Pair, budget: Budget, rounds: int, method: Method) -> Schedule:
    """The step and variances of both inputs; they must not tell the inputs apart by themselves."""
    one, other = (method.schedule(problem, budget, rounds) for problem in inputs[:2])
    same = one.step == other.step and np.array_equal(one.deviations, other.deviations)
    if not (same and np.array_equal(one.factors, other.factors)):
        raise ArgumentError(
            "neighbour",
            f"gradient bound {_bound(other):g}, step {other.step:g}",
            f"the problem's are {_bound(one):g} and {one.step:g}: they alone tell the two apart; "
            "give both problems the same gradient_bound=, and the method a step=",
        )
    return one


def _read_off_data(problem: Composite, schedule: Schedule) -> list[str]:
    """What a method is given beside releases must be the same for all data: else it reads them past the release."""
    method, rounds = schedule.program.method, schedule.deviations.size

    def given(problem: Composite) -> dict[str, Any]:
        program = replace(schedule.program, problem=problem)
        return {
            **method.numbers_of(program),
            **dict(zip(method.of_workers, method.worker_numbers_of(program).tolist(), strict=True)),
            "coefficients": method.round_numbers_of(program, 0, min(rounds, MOST_COMPARED)).tolist(),
            "the regularizer": section(described(method.regularizer(program))),
            "the divisors of releases": method.divisors(problem).tolist(),
        }

    own, other = given(problem), given(pair.with_other_data(problem))
    return [
        f"{type(method).__name__} has other numbers for other data ({name}): it reads data past the release"
        for name in own
        if repr(own[name]) != repr(other[name])  # a NaN is the same as another
    ]


def _bound(schedule: Schedule) -> float:
    return math.inf if schedule.ledger is None else schedule.ledger.bound


def _seed(seed: int, chunk: int, world: int) -> int:
    """Noise of its own for every chunk of either input."""
    return (seed << 64) + 2 * chunk + world


def _release(program: Program, release: int) -> str:
    """What a release is called; rounds and steps are counted from one."""
    if release < program.early_releases:
        return f"warm start {release + 1}"
    round_, step = divmod(release - program.early_releases, program.local_steps)
    return f"round {round_ + 1}" + (f", step {step + 1}" if program.local_steps > 1 else "")


def _releases(program: Program, first: int, second: int) -> str:
    names = f"{_release(program, first)} and {_release(program, second)}"
    early, count = program.early_releases, program.local_steps
    rounds = [-1 if release < early else (release - early) // count for release in (first, second)]
    return f"purposes ({names})" if rounds[0] == rounds[1] else f"rounds ({names})"
