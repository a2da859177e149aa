"""Results: filters, tables, means with error bars, curves and pictures are those of the runs they come from."""

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastldp as fl
import sweeps
from fastldp import figures
from fastldp.errors import ArgumentError, MissingExtraError, StoreError, UnknownNameError
from fastldp.privacy.statement import SECRET

TEXT = sweeps.spec("primal_dual", "isrl", record="every = 10\nobjective = true")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> fl.sweeping.Results:
    path = tmp_path_factory.mktemp("results") / "r.h5"
    sweeps.run(TEXT, path)
    return fl.results(path)


@pytest.fixture(scope="module")
def diverged(tmp_path_factory: pytest.TempPathFactory) -> fl.sweeping.Results:
    """Steps of which one diverges."""
    path = tmp_path_factory.mktemp("results") / "r.h5"
    method = 'name = "ISRLDP"\nstep = [0.1, 1e30]'
    sweeps.run(sweeps.spec(method, problem='loss = "squared"', budget="", rounds="40", record="every = 10"), path)
    return fl.results(path)


def test_runs_are_in_the_order_of_their_parameters(found: fl.sweeping.Results) -> None:
    chosen = found.where(method="ISRLDP", step=0.1)
    assert [(run.parameters["rounds"], run.repetition) for run in chosen] == [
        (T, k) for T in (30, 50) for k in range(3)
    ]


def test_where_takes_values_lists_and_functions(found: fl.sweeping.Results) -> None:
    assert len(found) == 24
    assert len(found.where(rounds=30)) == 12
    assert len(found.where(rounds=[30, 50], method="ISRLDP")) == 12
    assert len(found.where(rounds=np.array([30]))) == 12
    assert len(found.where(step=lambda step: step is not None and step > 0.2)) == 6
    assert len(found.where(repetition=range(2), outcome="completed")) == 16


def test_where_of_nothing_can_be_narrowed_further(found: fl.sweeping.Results) -> None:
    assert len(found.where(rounds=999).where(method="ISRLDP")) == 0


def test_a_parameter_that_does_not_exist_is_named_with_the_nearest(found: fl.sweeping.Results) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'rounds'"):
        found.where(round=30)
    with pytest.raises(UnknownNameError, match="did you mean 'optimality'"):
        found.means(measure="optimalty")
    with pytest.raises(UnknownNameError, match="by = 'steps'"):
        found.curves("steps")


def test_where_names_the_texts_that_there_are(found: fl.sweeping.Results) -> None:
    with pytest.raises(UnknownNameError, match=r"method = 'ISLRDP': no run .* there are .*did you mean 'ISRLDP'"):
        found.where(method="ISLRDP")
    with pytest.raises(UnknownNameError, match=r"rounds = '30': no run of the file has it; there are 30, 50"):
        found.where(rounds=["30"])
    with pytest.raises(UnknownNameError, match="did you mean 'completed'"):
        found.where(outcome="complete")
    assert len(found.where(outcome="failed")) == 0


def test_what_varies_is_what_was_a_list(found: fl.sweeping.Results) -> None:
    assert set(found.varying) == {"method", "step", "rounds", "allocation"}


def test_the_table_has_a_row_a_run(found: fl.sweeping.Results) -> None:
    table = found.table()
    assert {column.shape for column in table.values()} == {(24,)}
    for k, run in enumerate(found):
        assert table["optimality"][k] == run.optimality[-1]
        assert table["objective"][k] == run.objective[-1]
        assert table["rounds"][k] == table["round"][k] == run.parameters["rounds"]
        assert table["repetition"][k] == run.repetition


def test_the_records_have_a_row_a_recorded_round(found: fl.sweeping.Results) -> None:
    records = found.where(rounds=50).records()
    assert {column.size for column in records.values()} == {12 * 5}
    assert records["round"][:5].tolist() == [10, 20, 30, 40, 50]
    np.testing.assert_array_equal(records["optimality"][:5], found.where(rounds=50)[0].optimality)


def test_means_have_error_bars_of_the_repetitions(found: fl.sweeping.Results) -> None:
    means = found.means()
    assert [mean.runs for mean in means] == [3] * 8
    for mean in means:
        values = [run.optimality[-1] for run in found.where(**mean.label)]
        assert mean.mean == pytest.approx(np.mean(values))
        assert mean.std == pytest.approx(np.std(values))
        assert mean.error == pytest.approx(np.std(values, ddof=1) / np.sqrt(3))


def test_means_can_be_grouped(found: fl.sweeping.Results) -> None:
    labels = [(mean.label, mean.runs) for mean in found.means("method", "rounds", over=["step", "allocation"])]
    assert ({"method": "ISRLDP", "rounds": 30}, 6) in labels
    assert len(labels) == 4
    assert [mean.runs for mean in found.means(over=["rounds"])] == [6] * 4


def test_what_differs_is_not_averaged_unsaid(found: fl.sweeping.Results) -> None:
    message = r"by = \('method', 'rounds'\): these runs differ in .*step.* too, .*where, or .* over=\(.*'step'"
    for call in (found.means, found.curves, lambda *by: found.plot(by=by), lambda *by: found.plot(x="rounds", by=by)):
        with pytest.raises(ArgumentError, match=message):
            call("method", "rounds")
    with pytest.raises(UnknownNameError, match="did you mean 'step'"):
        found.means("method", over=["steps"])


def test_what_some_runs_have_and_others_have_not_tells_them_apart(tmp_path: Path) -> None:
    """Only one of them has a row bound, so it takes one value alone; in a mean of both it would not show."""
    sweeps.run(sweeps.spec("averaged", rounds="30"), tmp_path / "r.h5")
    sweeps.run(sweeps.spec("averaged", rounds="30", problem="row_bound = 100.0"), tmp_path / "r.h5")
    found = fl.results(tmp_path / "r.h5")
    assert [mean.runs for mean in found.means()] == [3, 3]
    assert {mean.label["row_bound"] for mean in found.means()} == {None, 100}


def test_a_measure_that_was_not_recorded_is_named_with_those_that_were(diverged: fl.sweeping.Results) -> None:
    assert diverged.measures == ["optimality", "consensus", "distance"]
    message = (
        r"measure = 'objective': not recorded by these runs, use optimality, consensus, distance; objective = true"
    )
    for call in (diverged.means, diverged.curves, diverged.plot, lambda **of: diverged.plot(x="step", **of)):
        with pytest.raises(ArgumentError, match=message):
            call(measure="objective")


def test_curves_are_means_along_the_rounds(found: fl.sweeping.Results) -> None:
    chosen = found.where(method="ISRLDP", rounds=50)
    curves = chosen.curves("step")
    assert [curve.label for curve in curves] == [{"step": 0.1}, {"step": 0.3}]
    np.testing.assert_array_equal(curves[0].rounds, [10, 20, 30, 40, 50])
    np.testing.assert_allclose(curves[0].mean, np.mean([run.optimality for run in chosen.where(step=0.1)], axis=0))


def test_curves_of_different_rounds_are_not_averaged(found: fl.sweeping.Results) -> None:
    with pytest.raises(ArgumentError, match="recorded at different rounds; name more"):
        found.curves("method", over=["step", "allocation", "rounds"])


def test_runs_that_diverged_are_in_no_mean_and_end_their_curve(diverged: fl.sweeping.Results) -> None:
    good, bad = diverged.means()
    assert (good.runs, bad.runs) == (3, 0)
    assert np.isnan(bad.mean)
    good_curve, bad_curve = diverged.curves()
    np.testing.assert_array_equal(bad_curve.rounds, good_curve.rounds)
    assert np.isnan(bad_curve.mean[-1])
    assert "3 completed, 3 diverged" in diverged.summary()


def test_pandas_has_the_same_columns(found: fl.sweeping.Results) -> None:
    pytest.importorskip("pandas")
    frame = found.to_pandas()
    assert list(frame.columns) == list(found.table())
    assert frame.groupby("rounds").optimality.count().tolist() == [12, 12]
    assert len(found.to_pandas(records=True)) == 12 * 3 + 12 * 5


def test_xarray_has_runs_and_records_as_dimensions(found: fl.sweeping.Results) -> None:
    pytest.importorskip("xarray")
    dataset = found.to_xarray()
    assert dataset.optimality.shape == (24, 5)
    assert found.where(rounds=999).to_xarray().optimality.shape == (0, 0)
    short = dataset.isel(run=int(np.flatnonzero(dataset.rounds.values == 30)[0]))
    assert short["round"].values[:3].tolist() == [10, 20, 30]
    assert np.isnan(short.optimality.values[3:]).all()


@pytest.mark.parametrize(("package", "call"), [("pandas", "to_pandas"), ("xarray", "to_xarray")])
def test_a_package_that_is_not_installed_is_named(
    package: str, call: str, found: fl.sweeping.Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"{package} is not installed; pip install 'fastldp\[tables\]'"):
        getattr(found, call)()


def test_the_summary_is_aligned(found: fl.sweeping.Results) -> None:
    secret, first, _, *rows = found.summary().splitlines()
    assert secret == f"{SECRET}."
    assert first == "24 runs of 8 settings: 24 completed"
    assert len({len(row) for row in rows}) == 1
    assert "± error" in rows[0]


def test_models_that_were_not_recorded_are_said_to_be_missing(found: fl.sweeping.Results) -> None:
    with pytest.raises(StoreError, match=r"models = true in the table \[record\]"):
        _ = found[0].models


def test_a_plot_has_a_line_for_each_of_what_varies(found: fl.sweeping.Results) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    of_isrl = found.where(method="ISRLDP")
    for chosen, x, lines in ((found, "rounds", 4), (found.where(rounds=50), "round", 4), (of_isrl, "step", 2)):
        axes = chosen.plot(x=x)
        assert len(axes.get_legend_handles_labels()[1]) == lines
        axes.figure.clear()


def test_a_plot_against_what_some_runs_do_not_have_is_refused(found: fl.sweeping.Results) -> None:
    with pytest.raises(ArgumentError, match="not all runs have a number or a name there"):
        found.plot(x="step")


def test_what_diverged_can_be_plotted(diverged: fl.sweeping.Results) -> None:
    for x in ("step", "round"):
        diverged.plot(x=x).figure.clear()


def test_results_that_do_not_exist(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such file"):
        fl.results(tmp_path / "nowhere.h5")


def test_what_prompts_and_notebooks_show(found: fl.sweeping.Results) -> None:
    run = found.where(method="ISRLDP")[0]
    assert repr(run) == "Run(ISRLDP on tiny, rounds = 30, repetition 0, completed at round 30)"
    assert repr(found) == "Results(24 runs of 8 settings)"
    assert "<td>step</td><td>0.1</td>" in run._repr_html_()
    assert f"<td>{run.optimality[-1]:.4g}</td>" in run._repr_html_()
    for mean in found.means():
        assert f"<td>{mean.mean:.4g}</td>" in found._repr_html_()
    assert "24 runs of 8 settings: 24 completed" in found._repr_html_()
    assert len(repr(found.where(rounds=50).curves()[0])) < 200


def test_of_a_long_table_the_first_and_the_last_are_shown(tmp_path: Path) -> None:
    steps = "step = {from = 0.01, to = 0.5, count = 50}"
    text = sweeps.spec(f'name = "ISRLDP"\n{steps}', rounds="3", repetitions=1, record="final = true")
    sweeps.run(text, tmp_path / "r.h5")
    found = fl.results(tmp_path / "r.h5")
    rows = found.summary().splitlines()[4:]
    assert [row.split()[0] for row in (rows[0], rows[14], rows[16], rows[-1])] == ["0.01", "0.15", "0.46", "0.5"]
    assert rows[15] == "  ... 30 more ..."
    assert len(rows) == 21
    assert found._repr_html_().count("<tr>") == 1 + 21
    assert len(found.summary(whole=True).splitlines()[4:]) == 50


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> fl.sweeping.Results:
    """250 steps, and two sizes of l2."""
    path = tmp_path_factory.mktemp("results") / "r.h5"
    method = 'name = "ISRLDP"\nstep = {from = 0.001, to = 0.25, count = 250}'
    sweeps.run(
        sweeps.spec(method, rounds="6", repetitions=1, record="every = 3").replace("l2 = 0.1", "l2 = [0.1, 0.2]"), path
    )
    return fl.results(path)


def test_more_curves_than_can_be_told_apart_are_refused(many: fl.sweeping.Results) -> None:
    for x in ("round", "l2"):
        with pytest.raises(ArgumentError, match=r"(2|5)[05]0 curves, of which 200 can .*\(x=\).*\(where\).*\(over=\)"):
            many.plot(x=x)
    axes = many.plot(x="step")
    assert figures.names_on(axes) == ["l2 = 0.1", "l2 = 0.2"]
    axes.figure.clear()


def test_many_curves_that_differ_in_one_number_have_a_colour_bar(many: fl.sweeping.Results) -> None:
    axes = many.where(l2=0.1, step=lambda step: step <= 0.1).plot()
    assert axes.get_legend() is None
    assert axes.figure.axes[1].get_ylabel() == "step (100 values)"
    colors = {str(line.get_color()) for line in axes.lines}
    assert len(colors) > 50  # of a map that has 256
    axes.figure.clear()


def test_a_long_legend_lies_beside_the_axes_and_is_counted(many: fl.sweeping.Results) -> None:
    axes = many.where(step=lambda step: step <= 0.05).plot()
    legend = axes.get_legend()
    assert legend is not None
    assert legend.get_title().get_text() == "24 of 100 curves"
    assert len(legend.get_texts()) == 24
    axes.figure.canvas.draw()
    assert legend.get_window_extent().x0 >= axes.get_window_extent().x1
    assert legend.get_window_extent().x1 <= axes.figure.bbox.x1
    axes.figure.clear()


def test_two_pictures_on_one_axes_differ_in_colour_and_name(found: fl.sweeping.Results) -> None:
    chosen = found.where(rounds=50, method="ISRLDP")
    axes = chosen.where(step=0.1).plot()
    chosen.where(step=0.3).plot(axes)
    chosen.where(step=0.3).plot(axes, label="again")
    assert figures.names_on(axes) == ["ISRLDP", "ISRLDP (2)", "again"]
    assert [line.get_color() for line in axes.lines] == ["C0", "C1", "C2"]
    axes.figure.clear()


def _own(*names: str, extra: str = "") -> str:
    """A module with methods of these names."""
    classes = [
        f"@dataclass(frozen=True, eq=False)\nclass {name}(fl.ISRLDP):\n    extra = {extra!r}\n" for name in names
    ]
    return "from dataclasses import dataclass\nimport fastldp as fl\n" + "".join(classes)


def _legend_of(text: str, path: Path, **options: Any) -> list[str]:
    sweeps.run(text, path, **options)
    axes = fl.results(path).plot()
    names = figures.names_on(axes)
    axes.figure.clear()
    return names


@pytest.mark.thorough
def test_legends_name_classes_and_not_their_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But where nothing else differs."""
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "legends_one.py").write_text(_own("First", "Second"))
    (tmp_path / "legends_two.py").write_text(_own("First"))
    several = sweeps.spec('name = ["legends_one:First", "legends_one:Second"]\nstep = [0.1, 0.3]', rounds="30")
    names = {f"{name}, step = {step}" for name in ("First", "Second") for step in (0.1, 0.3)}
    assert {*_legend_of(several, tmp_path / "a.h5")} == names
    alike = ["legends_one:First", "legends_two:First"]
    assert {*_legend_of(sweeps.spec(f"name = {alike}\nstep = 0.1", rounds="30"), tmp_path / "b.h5")} == {*alike}
    one = sweeps.spec('name = "legends_one:First"\nstep = 0.1', rounds="30")
    assert _legend_of(one, tmp_path / "c.h5") == ["First"]
    (tmp_path / "legends_one.py").write_text(_own("First", extra="edited"))
    importlib.reload(sys.modules["legends_one"])
    names = {*_legend_of(one, tmp_path / "c.h5", mix=True)}
    codes = fl.results(tmp_path / "c.h5").parameters["code"]
    assert names == {f"First, code {code[:8]}" for code in codes}


def test_legends_name_data_and_not_their_fingerprints(tmp_path: Path) -> None:
    """Of which a file has several where it holds runs of the same name and other data."""
    A, b = sweeps.matrix()
    text = sweeps.spec("averaged", data='given = ["tiny", "other"]', rounds="30", problem="row_bound = 9.0")
    sweeps.run(text, tmp_path / "r.h5", given={"tiny": (A, b), "other": (A / 2, b)})
    sweeps.run(text, tmp_path / "r.h5", given={"tiny": (A, b), "other": (A / 4, b)}, mix=True)
    found = fl.results(tmp_path / "r.h5")
    axes = found.plot()
    names = figures.names_on(axes)
    digests = {value[:8] for value in found.parameters["fingerprint"]}
    assert len(names) == 3
    assert all(name.split(", data ")[1] in digests for name in names)
    axes.figure.clear()
    (tiny,) = found.where(data="tiny").means()
    assert tiny.label == {}
    (run,) = {run.parameters["fingerprint"] for run in found.where(data="tiny")}
    one_of_each = found.where(fingerprint=[run, found.where(data="other")[0].parameters["fingerprint"]])
    axes = one_of_each.plot()
    assert figures.names_on(axes) == ["other", "tiny"]
    axes.figure.clear()
