"""Specifications with something wrong in them: valid ones, mutated by a seeded generator."""

import copy
import random
from typing import Any

import numpy as np

Tree = dict[str, Any]

_ROWS = np.random.default_rng(0).standard_normal((24, 3)) / 2
_SIGNS = np.where(np.arange(24) % 2, 1.0, -1.0)
_IMAGES = np.random.default_rng(1).integers(0, 256, (24, 2, 2)).astype(np.uint8)
_CLASSES = np.arange(24) % 3
GIVEN: dict[str, tuple[Any, ...]] = {
    "tiny": (_ROWS, _SIGNS),
    "digits": (_IMAGES, _CLASSES, _IMAGES[:6], _CLASSES[:6]),
}

# All tables and keys between them, in runs that are short; `{file}` is the path of a file of data.
SPECS: list[Tree] = [
    {
        "title": "all of a problem",
        "rounds": [5, {"from": 10, "to": 20, "by": 5}],
        "repetitions": 2,
        "seed": [0, 3],
        "data": {"given": "tiny", "rows": 20, "dense": True},
        "problem": {
            "workers": [2, 3],
            "partition": "label",
            "share": 0.5,
            "partition_seed": 1,
            "loss": "logistic",
            "l2": [0.1, 0.2],
            "regularizer": ["Zero", {"name": "Box", "bound": [1.0, 2.0]}],
            "gradient_bound": 1.0,
            "dtype": "float64",
        },
        "budget": [
            {"epsilon": [0.5, 1.0], "delta": 1e-3},
            {"epsilon": 2.0, "delta": 1e-4, "accounting": "gdp"},
        ],
        "method": [
            {"name": "PrimalDual", "step": {"from": 0.01, "to": 0.1, "count": 3, "spacing": "log"}},
            {"name": "PrimalDual", "allocation": ["dynamic", "static"], "rounds": 7},
        ],
        "record": {"every": 5, "objective": True, "models": True},
        "quick": {"rounds": 3, "repetitions": 1, "problem": {"workers": 2}},
    },
    {
        "rounds": 6,
        "data": {"file": "{file}", "rows": 12},
        "problem": {
            "workers": 2,
            "loss": "squared",
            "partition": "shuffled",
            "sizes": [[4, 5]],
            "regularizer": {"name": "BoxL1", "weight": [[0.1, 0.0, 0.2]], "bound": 2.0},
            "dtype": "float32",
        },
        "budget": {"epsilon": [[0.5, 1.0]], "delta": 1e-3, "accounting": "zcdp-tight"},
        "method": [{"step": 0.1, "allocation": "static"}],
        "record": {"rounds": [1, {"from": 2, "to": 6, "by": 2}]},
    },
    {
        "rounds": 4,
        "data": {"given": "tiny"},
        "problem": {"workers": 3, "partition": "dirichlet", "alpha": 5.0, "l2": 0.1},
        "budget": {"epsilon": 1.0, "delta": 1e-3},
        "method": [
            {"name": "DPFedAvg", "step": 0.1, "local_steps": [1, 2], "clip": 0.5, "server_step": 1.5},
            {"name": "DPScaffold", "step": 0.1, "local_steps": 2, "warm_start": [False, True]},
            {"name": "LDPFedEXP", "step": 0.1, "local_steps": 2, "clip": 0.5},
            {"name": "DPScaffNew", "step": 0.1, "probability": [0.5, 1.0]},
            {"name": ["ISRLDP"], "step": 0.1, "accelerated": True},
            {"name": "ISRLDP", "step": 0.1, "tail_average": 2, "clip": 0.5},
        ],
        "record": {"final": True},
    },
    {
        "rounds": 4000,
        "data": {"given": "tiny"},
        "problem": {"workers": 2, "l2": 0.1, "gradient_bound": 1.0, "start": [1.5, 0], "start_seed": 2},
        "budget": {"epsilon": 1.0, "delta": 1e-3},
        "method": [
            {"name": "PrimalDual", "step": "planned", "allocation": "planned", "prior": {"norm": 1.0, "spectrum": 0.2}},
            {"name": "PrimalDual", "step": "planned", "prior": {"norm": 2.0, "spectrum": [[0.1, 0.2, 0.3]]}},
            {"name": "ISRLDP", "step": "planned", "clip": 0.5, "prior": "exact"},
        ],
    },
    {
        "rounds": 3,
        "data": {"given": "digits", "held_out": 4},
        "network": {
            "workers": 2,
            "hidden": [3, [2, 2], []],
            "classes": 3,
            "clip": 1.0,
            "l2": 0.01,
            "strong_convexity": 0.01,
            "start_seed": 1,
            "products": "float32",
            "partition": "contiguous",
            "pooled": [False, True],
            "sizes": 6,
        },
        "budget": {"epsilon": 1.0, "delta": 1e-3},
        "method": [{"step": 0.5}],
    },
]

NUMBERS = [
    0, 1, -1, 2, 3, 7, 24, 25, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53 + 1, 2**62, 2**63 - 1, 2**63, -(2**63), 2**64,
    10**18, 10**100, 10**300, 10**308, 10**309, 10**400, -(10**400),
    0.0, -0.0, 0.5, 1.0, 1e-3, 1e-12, 1e-100, 1e-160, 1e-200, 1e-300, 1e-320, 5e-324,
    1e9, 1e15, 1e16, 1e30, 1e100, 1e140, 1e150, 1e155, 1e200, 1e300, 1e308, -1e308, 1.7976931348623157e308,
    float("nan"), float("inf"), float("-inf"),
]  # fmt: skip
WORDS = [
    "", "x", "planned", "exact", "static", "Zero", "Simplex", "L1Ball", "Box", "given", "tiny", "digits", "float32",
    "squared", "label", "dirichlet", "gdp", "ünïcödé ✓", "a" * 99, "\n", '"""', "'''", "#[", "\\", "\0", "..", "/", ".",
]  # fmt: skip


class Mutator:
    """Makes one specification after the other; the same ones for the same seed."""

    def __init__(self, seed: int, file: str) -> None:
        self._random = random.Random(seed)
        self._file = file

    def spec(self) -> tuple[str, bool]:
        """A text, and whether only a name in it was misspelt."""
        tree = copy.deepcopy(self._random.choice(SPECS))
        _, data = next(item for item in tree.items() if item[0] == "data")
        if "file" in data:
            data["file"] = self._file
        if self._random.random() < 0.15:
            self._misspell(tree)
            return written(tree), True
        for _ in range(self._random.choice([1, 1, 1, 2, 3])):
            self._mutate(tree)
        text = written(tree)
        return (self._scratched(text) if self._random.random() < 0.1 else text), False

    def _places(self, value: Any) -> list[tuple[Any, Any]]:
        """Every container with every key or index in it."""
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        return [place for key, item in items for place in ((value, key), *self._places(item))]

    def _misspell(self, tree: Tree) -> None:
        tables = [(box, key) for box, key in self._places(tree) if isinstance(box, dict)]
        box, key = self._random.choice(tables)
        at = self._random.randrange(len(key))
        wrong = key[:at] + self._random.choice(["", "x", "_", "é"]) + key[at + 1 :]
        wrong = wrong if wrong and wrong not in box and wrong != key else f"{key}x"
        for name in list(box):  # in its place
            box[wrong if name == key else name] = box.pop(name)

    def _mutate(self, tree: Tree) -> None:
        places = self._places(tree)
        if not places:
            return
        box, key = self._random.choice(places)
        kind = self._random.random()
        if kind < 0.6:
            box[key] = self._value()
        elif kind < 0.7:
            del box[key]
        elif kind < 0.8:
            other, its = self._random.choice(places)
            box[key] = copy.deepcopy(other[its])
        elif kind < 0.85:
            box[key] = [box[key]]
        elif kind < 0.9:
            box[key] = {self._random.choice(["from", "name", "x", "rounds"]): box[key]}
        elif isinstance(box, dict):
            known = [name for tree in SPECS for one, name in self._places(tree) if isinstance(one, dict)]
            box[self._random.choice(known)] = self._value()
        else:
            box.append(self._value())

    def _value(self, depth: int = 0) -> Any:
        kind = self._random.random()
        if kind < 0.6 or depth > 2:
            return self._random.choice(NUMBERS)
        if kind < 0.7:
            return self._random.choice(WORDS)
        if kind < 0.75:
            return self._random.random() < 0.5
        if kind < 0.8:
            values = {name: self._random.choice(NUMBERS) for name in ("from", "to")}
            return values | {self._random.choice(["by", "count", "steps"]): self._random.choice(NUMBERS)}
        count = self._random.choice([0, 1, 2, 3])
        if kind < 0.95:
            return [self._value(depth + 1) for _ in range(count)]
        return {self._random.choice(["name", "bound", "norm", "x y"]): self._value(depth + 1) for _ in range(count)}

    def _scratched(self, text: str) -> str:
        """A text with a few characters changed."""
        for _ in range(self._random.choice([1, 2, 4])):
            at = self._random.randrange(len(text))
            text = text[:at] + self._random.choice(["", "[", "]", "=", "\n", '"', "'", "{", "9", "é"]) + text[at + 1 :]
        return text


def written(tree: Tree) -> str:
    """As TOML, a table of the first level with a header, or several with [[...]]."""
    plain = {key: value for key, value in tree.items() if not _is_table(value)}
    lines = [f"{_key(key)} = {_inline(value)}" for key, value in plain.items()]
    for key, value in tree.items():
        if key in plain:
            continue
        header = f"[{_key(key)}]" if isinstance(value, dict) else f"[[{_key(key)}]]"
        for table in [value] if isinstance(value, dict) else value:
            lines += [header, *(f"{_key(name)} = {_inline(item)}" for name, item in table.items())]
    return "\n".join(lines) + "\n"


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) or (
        isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)
    )


def _key(key: str) -> str:
    return key if key.isascii() and key.replace("_", "").isalnum() else _text(key)


def _text(value: str) -> str:
    escaped = "".join(c if c.isprintable() and c not in '"\\' else f"\\u{ord(c):04x}" for c in value)
    return f'"{escaped}"'


def _inline(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_inline, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_key(key)} = {_inline(item)}' for key, item in value.items())}}}"
    return repr(value)
