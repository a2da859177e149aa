"""Files of results that were tampered with, seal and all, and what `fastldp verify` says of each.

`python scripts/doctored.py --write` makes a small sweep, doctors it in every way below, and writes the table in
docs/verifying.md. Whoever changes a file can make its checksums anew, so these are no help against him.
"""

import argparse
import io
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

import fastldp as fl
from fastldp.sweeping import sealing
from fastldp.sweeping.layout import File
from fastldp.sweeping.setting import digest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "verifying.md"

SWEEP = """
rounds = [40, 60]
repetitions = 3
seed = 5
[data]
synthetic = "ijcnn1"
rows = 200
[problem]
workers = 4
l2 = 0.1
[budget]
epsilon = 4.0
delta = 1e-3
accounting = "gdp"
[[method]]
name = "PrimalDual"
allocation = ["dynamic", "static"]
[[method]]
name = "ISRLDP"
step = 0.1
[record]
every = 10
objective = true
"""

Change = Callable[[Any], None]


def doctor(source: Path, target: Path, change: Change, *, seal: bool = True) -> None:
    """A copy of a file, changed, with checksums that are right again."""
    content = io.BytesIO(bytes(File(source)._bytes))
    with h5py.File(content, "r+") as root:
        change(root)
    if seal:
        sealing.seal(content)
    target.write_bytes(content.getvalue())


def replaced(root: Any, name: str, values: Any) -> None:
    """Another array in the place of one."""
    old = root[name]
    kind = old.dtype if old.dtype.kind != "S" else None
    del root[name]
    root.create_dataset(name, data=np.asarray(values) if kind is None else np.asarray(values).astype(kind), dtype=kind)


def texts(root: Any, name: str, edit: Callable[[int, dict[str, Any]], dict[str, Any]]) -> None:
    """JSON of every setting, edited."""
    old = [json.loads(text) for text in root[name][()].tolist()]
    dumped = [json.dumps(edit(k, one), sort_keys=True, separators=(",", ":")).encode() for k, one in enumerate(old)]
    replaced(root, name, np.array(dumped, dtype=f"S{max(map(len, dumped))}"))


def rekeyed(root: Any) -> None:
    """Keys that fit what the settings say now."""
    keys, identities = [], []
    for text, about in zip(
        root["settings/parameters"][()].tolist(), root["settings/provenance"][()].tolist(), strict=True
    ):
        provenance = json.loads(about)
        keys.append(digest(f"{text.decode()} {provenance['fingerprint']} {provenance['version']}").encode())
        identities.append(digest(text.decode()).encode())
    replaced(root, "settings/key", np.array(keys))
    replaced(root, "settings/identity", np.array(identities))


def last_bit(root: Any, name: str, place: int) -> None:
    """The next larger number in the place of one."""
    values = root[name][()]
    values[place] = np.nextafter(values[place], np.inf)
    root[name][...] = values


def a_number(root: Any) -> None:
    last_bit(root, "runs/consensus/values", 7)


def a_distance(root: Any) -> None:
    values = root["runs/distance/values"][()]
    values[int(root["runs/distance/starts"][4]) - 1] *= 0.5
    root["runs/distance/values"][...] = values
    consensus = root["runs/consensus/values"][()]
    sums = root["runs/optimality"][()]
    place = int(root["runs/distance/starts"][4]) - 1
    sums[3] = consensus[place] + values[place]
    root["runs/optimality"][...] = sums


def an_objective(root: Any) -> None:
    values = root["runs/objective/values"][()]
    values[3] *= 0.9
    root["runs/objective/values"][...] = values


def a_model(root: Any) -> None:
    last_bit(root, "runs/x/values", 11)


def a_column_for_others(root: Any) -> None:
    sums = root["runs/optimality"][()]
    sums[2] /= 2
    root["runs/optimality"][...] = sums


def runs_of_two_settings(root: Any) -> None:
    """As if the static allocation's were the dynamic's: settings of the same horizon, so that all else fits."""
    setting = root["runs/setting"][()]
    parameters = [json.loads(text) for text in root["settings/parameters"][()].tolist()]
    first, second = (
        next(k for k, one in enumerate(parameters) if (one["method"].get("allocation"), one["rounds"]) == (word, 60))
        for word in ("dynamic", "static")
    )
    swapped = setting.copy()
    swapped[setting == first], swapped[setting == second] = second, first
    root["runs/setting"][...] = swapped


def parameters_of_two_settings(root: Any) -> None:
    texts_there = root["settings/parameters"][()]
    texts_there[[0, 1]] = texts_there[[1, 0]]
    replaced(root, "settings/parameters", texts_there)


def a_parameter_and_its_key(root: Any) -> None:
    texts(root, "settings/parameters", lambda k, one: one | {"seed": 6})
    rekeyed(root)


def a_smaller_epsilon(root: Any) -> None:
    texts(root, "settings/ledger", lambda k, one: one | {"promised_epsilon": {"every": 1.0, "of": 4}})


def a_smaller_budget_everywhere(root: Any) -> None:
    """ε in ledger, parameters and specification, with the keys made anew; ρ and variances as they were."""
    texts(root, "settings/ledger", lambda k, one: one | {"promised_epsilon": {"every": 1.0, "of": 4}})
    texts(root, "settings/parameters", lambda k, one: one | {"budget": one["budget"] | {"epsilon": 1}})
    rekeyed(root)
    sessions = [text.replace(b"epsilon = 4.0", b"epsilon = 1.0") for text in root["sessions"][()].tolist()]
    replaced(root, "sessions", np.array(sessions))


def more_noise_than_there_was(root: Any) -> None:
    """Variances four times as large, which no accountant could find fault with."""
    root["settings/variances/values"][...] = 4 * root["settings/variances/values"][()]


def a_smaller_sensitivity(root: Any) -> None:
    def halved(k: int, one: dict[str, Any]) -> dict[str, Any]:
        return one | {"query": one["query"] | {"every": one["query"]["every"] / 2}}

    texts(root, "settings/ledger", halved)


def noise_that_nobody_knows(root: Any) -> None:
    texts(root, "settings/ledger", lambda k, one: one | {"noise": "os"})


def nothing_read_off_the_data(root: Any) -> None:
    texts(root, "settings/ledger", lambda k, one: one | {"read_off_data": ""})


def the_words_of_a_promise(root: Any) -> None:
    values = root["settings/statement/values"][()]
    text = bytes(values).replace(b"one sample", b"all samples"[:10])
    root["settings/statement/values"][...] = np.frombuffer(text, np.uint8)


def the_best_run_twice(root: Any) -> None:
    """The records and the model of a good repetition in the place of another's."""
    for name in ("consensus", "distance", "objective", "x"):
        values, starts = root[f"runs/{name}/values"][()], root[f"runs/{name}/starts"][()]
        values[starts[1] : starts[2]] = values[starts[0] : starts[1]]
        root[f"runs/{name}/values"][...] = values
    sums = root["runs/optimality"][()]
    sums[1] = sums[0]
    root["runs/optimality"][...] = sums


def a_run_left_out(root: Any) -> None:
    """A run that ended badly, taken out: its row is said to be of a run that goes on."""
    outcome = root["runs/outcome"][()]
    outcome[4] = 3
    root["runs/outcome"][...] = outcome


def other_data(root: Any) -> None:
    texts(root, "settings/provenance", lambda k, one: one | {"fingerprint": digest("other data") * 2})
    rekeyed(root)


def fewer_repetitions_asked_for(root: Any) -> None:
    """As if two repetitions had been asked for, and not the first of the three that were made: the best are kept."""
    sessions = [text.replace(b"repetitions = 3", b"repetitions = 2") for text in root["sessions"][()].tolist()]
    replaced(root, "sessions", np.array(sessions))
    outcome = root["runs/outcome"][()]
    outcome[root["runs/repetition"][()] == 0] = 3
    root["runs/outcome"][...] = outcome


def a_run_that_failed(root: Any) -> None:
    """A run that ended badly, said to have failed."""
    outcome = root["runs/outcome"][()]
    outcome[4] = 2
    root["runs/outcome"][...] = outcome


def no_ledgers(root: Any) -> None:
    replaced(root, "settings/ledger", np.array([b"null"] * root["settings/ledger"].size))


def earlier_records(root: Any) -> None:
    """Errors of later rounds said to be of earlier ones, so that a method seems faster."""
    rounds = root["settings/rounds/values"][()]
    rounds[:3] = [1, 2, 3]
    root["settings/rounds/values"][...] = rounds


DOCTORED: dict[str, tuple[str, Change]] = {
    "a-number": ("the last bit of one recorded number", a_number),
    "a-distance": ("one last distance halved, and the sum with it", a_distance),
    "an-objective": ("one objective, a tenth less", an_objective),
    "a-model": ("the last bit of one coordinate of a model", a_model),
    "a-column": ("the column `optimality`, which ours does not read", a_column_for_others),
    "swapped-runs": ("the runs of two settings swapped", runs_of_two_settings),
    "swapped-parameters": ("the parameters of two settings swapped", parameters_of_two_settings),
    "another-seed": ("the seed of all settings, and their keys", a_parameter_and_its_key),
    "smaller-epsilon": ("ε of the ledgers", a_smaller_epsilon),
    "smaller-budget": ("ε of ledgers, settings, keys and specification", a_smaller_budget_everywhere),
    "more-noise": ("variances four times as large", more_noise_than_there_was),
    "sensitivity": ("the sensitivity halved", a_smaller_sensitivity),
    "os-noise": ("noise said to be the operating system's", noise_that_nobody_knows),
    "read-off": ("what was read off the data left out", nothing_read_off_the_data),
    "words": ("a word of the promise", the_words_of_a_promise),
    "best-twice": ("one repetition in the place of another", the_best_run_twice),
    "left-out": ("a finished run taken out", a_run_left_out),
    "fewer-asked": ("one repetition taken out, and fewer asked for", fewer_repetitions_asked_for),
    "failed": ("a finished run said to have failed", a_run_that_failed),
    "no-ledgers": ("all ledgers taken out", no_ledgers),
    "earlier": ("the rounds of records", earlier_records),
    "other-data": ("the fingerprint of the data, and the keys", other_data),
}


def table(folder: Path) -> str:
    """What is said of the file as it is, and of every doctored one; all runs are made again."""
    good = folder / "good.h5"
    fl.sweep(SWEEP, good, progress=False)
    rows = ["| changed, with its checksums | claims that are refuted or not confirmed |", "|---|---|"]
    rows.append(f"| nothing | {caught(good)} |")
    for name, (told, change) in DOCTORED.items():
        path = folder / f"{name}.h5"
        doctor(good, path, change)
        rows.append(f"| {told} | {caught(path)} |")
    return "\n".join(rows)


def caught(path: Path) -> str:
    """The claims that did not hold."""
    found = fl.verify(path, runs=None, seed=0)
    words = [f"{claim.name} ({claim.status})" for claim in found.claims if claim.status != "confirmed"]
    return ", ".join(words).replace(" (refuted)", "") or "none"


def main() -> None:
    parser = argparse.ArgumentParser(description="Doctor a file of results, and verify it.")
    parser.add_argument("--write", action="store_true", help="write the table to docs/verifying.md")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = table(Path(folder))
    print(text)
    if chosen.write:
        from readme import write

        write(PAGE, "doctored", text)


if __name__ == "__main__":
    main()
