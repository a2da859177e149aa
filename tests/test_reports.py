"""Reports: what is in them, that nothing of a file becomes markup, and that they work in a browser."""

import json
import re
import stat
from collections.abc import Callable, Iterator
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import chromium
import fastldp as fl
import sweeps
from fastldp.cli import main
from fastldp.reporting import page, reproductions
from fastldp.reporting import sweeps as reporting_sweeps
from fastldp.reporting.page import Page, Section, Words, curves
from fastldp.reproduction.verdicts import Verdict

HOSTILE = "</script><script>document.title = 'stolen'</script><img src=x onerror=\"document.title='stolen'\">"
MEGABYTE = 1_000_000


class Parts(HTMLParser):
    """The elements of a page, and the text of its data."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.json = ""
        self._in_data = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._in_data = dict(attrs).get("type") == "application/json"

    def handle_endtag(self, tag: str) -> None:
        self._in_data = False

    def handle_data(self, data: str) -> None:
        if self._in_data:
            self.json += data


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small sweep, one of whose settings cannot run."""
    path = tmp_path_factory.mktemp("reports") / "small.h5"
    methods = "primal_dual", 'name = "ISRLDP"\nstep = 0.1\ntail_average = 40'
    text = 'title = "small & sound"\n' + sweeps.spec(*methods, budget="epsilon = [2.0, 4.0]\ndelta = 1e-3")
    sweeps.run(text, path)
    return path


@pytest.fixture(scope="module")
def solved() -> fl.Solution:
    A, b = sweeps.matrix()
    problem = fl.Problem(A, b, workers=4, l2=0.1)
    return fl.solve(problem, fl.Budget(4.0, 1e-3), rounds=30, repetitions=3, seed=1)


def data_of(made: Page) -> Any:
    return json.loads(Parts(made.html).json)


def test_the_report_of_a_sweep_has_the_means_of_its_table(swept: Path) -> None:
    found = fl.results(swept)
    (content,) = data_of(found.report())
    assert [one["name"] for one in content["measures"]] == found.measures
    for one in content["measures"]:
        means = found.means(measure=one["name"])
        for values, name in ((one["mean"], "mean"), (one["std"], "std")):
            expected = np.array([getattr(mean, name) for mean in means])
            assert np.array([np.nan if v is None else v for v in values]) == pytest.approx(
                expected, rel=1e-4, nan_ok=True
            )
    for k, row in enumerate(content["rows"]):
        own = {
            parameter["name"]: None if place < 0 else parameter["values"][place]
            for parameter, place in zip(content["parameters"], row, strict=True)
        }
        assert own == found.means()[k].label


def test_its_curves_are_those_of_the_runs(swept: Path) -> None:
    found = fl.results(swept).where(method="PrimalDual")
    (content,) = data_of(found.report())
    for k, curve in enumerate(found.curves(measure="distance")):
        (one,) = (one for one in content["measures"] if one["name"] == "distance")
        assert content["rounds"][content["roundsOf"][k]] == curve.rounds.tolist()
        assert one["curves"][k][0] == pytest.approx(curve.mean, rel=1e-4)
        assert one["curves"][k][1] == pytest.approx(curve.std, rel=1e-4)


def test_it_says_what_was_asked_promised_and_failed_and_how_to_make_it_again(swept: Path) -> None:
    found = fl.results(swept)
    text = found.report().html
    ledger = next(run.ledger for run in found if run.ledger is not None)
    for wanted in (
        "small &amp; sound",
        "tail_average = 40",
        escape(ledger.statement()),
        "fastldp verify",
        "<dt>--synthetic",
    ):
        assert wanted in text
    (failure, *_) = found.failures()
    assert escape(failure.reason) in text
    assert escape(found[0].provenance["spec"].strip()) in text


def test_a_page_that_names_a_seed_is_its_owners_alone(swept: Path, tmp_path: Path) -> None:
    made = fl.results(swept).report(tmp_path / "own.html")
    assert stat.S_IMODE((tmp_path / "own.html").stat().st_mode) == 0o600
    made.save(tmp_path / "others.html", shared=True)
    assert stat.S_IMODE((tmp_path / "others.html").stat().st_mode) & 0o044
    assert "holds the seed of its noise" in made.html


def test_the_report_of_a_solve_has_no_seed(solved: fl.Solution) -> None:
    made = solved.report()
    (content,) = data_of(made)
    optimality = content["measures"][0]
    assert optimality["name"] == "optimality"
    assert optimality["curves"][0][0] == pytest.approx(solved.optimality.mean(axis=0), rel=1e-4)
    assert "it is not written here" in made.html
    assert not made.secret
    assert made.title == "One private solve"
    assert "the server included" in made.html


def test_the_report_of_an_audit_says_what_was_found() -> None:
    problem = fl.Problem(np.eye(4), [1, 1, -1, 1], workers=2, l2=1.0, regularizer=fl.Box(0.2), gradient_bound=1.0)
    found = fl.audit(problem, fl.Budget(4.0, 1e-3), rounds=3, transcripts=4000)
    made = found.report()
    (content,) = data_of(made)
    for one, counts in zip(content["series"], found.counts, strict=True):
        # Densities: what lies in the bins adds up to all there is.
        widths = np.diff(found.edges)
        assert sum(np.array(one["y"]) * widths) == pytest.approx(1.0, rel=1e-3)
        assert one["y"][0] == pytest.approx(counts[0] / counts.sum() / widths[0], rel=1e-3)
    assert f"{found.shown_epsilon:.4f}" in made.html
    for fault in found.unseen:
        assert escape(fault) in made.html


def test_the_report_of_a_reproduction_has_its_claims_and_curves(tmp_path: Path) -> None:
    heads = "series,rounds,round,runs,mean,std,parameters\n"
    (tmp_path / "fig1.csv").write_text(heads + "ours,10,10,3,0.5,0.1,{}\nours,20,20,3,0.25,0.1,{}\n", encoding="utf-8")
    (tmp_path / "fig1.toml").write_text("rounds = 10\n", encoding="utf-8")
    found = [Verdict("Figure 1", "it falls", "0.5, then 0.25", True), Verdict("Figure 1", "for ever", "no", None)]
    made = reproductions.report_of(
        tmp_path, {"fig1": found}, ["a note"], quick=True, command="fastldp reproduce fig1 --quick"
    )
    (content,) = data_of(made)
    expected = {"x": [10, 20], "y": [0.5, 0.25], "error": [0.1, 0.1], "runs": [3, 3]}
    assert content["series"] == [{"name": "ours", "off": False, **expected}]
    for wanted in ("it falls", '<td class="word-good">held', '<td class="word-open">undecided', "a note.", "--quick"):
        assert wanted in made.html


def test_a_thousand_settings_take_less_than_a_megabyte(tmp_path: Path) -> None:
    path = tmp_path / "many.h5"
    steps = 'name = "ISRLDP"\nstep = {from = 0.01, to = 1.0, count = 500}'
    sweeps.run(sweeps.spec(steps, rounds="[100, 110]", repetitions=2, record="every = 1\nobjective = true"), path)
    made = fl.results(path).report()
    (content,) = data_of(made)
    assert len(content["rows"]) == 1000
    assert len(made.html.encode()) < MEGABYTE
    lengths = {len(rounds) for rounds in content["rounds"]}
    assert all(rounds[-1] in (100, 110) for rounds in content["rounds"])
    assert f"Of up to 110 recorded rounds of a run {max(lengths)} are drawn" in made.html


def test_a_whole_number_is_the_same_with_and_without_its_point() -> None:
    groups = [SimpleNamespace(label={"step": step}) for step in (1, 1.0, 0.5, None)]
    columns, rows = reporting_sweeps._columns(["step"], groups)  # type: ignore[arg-type]
    assert columns == [{"name": "step", "values": [0.5, 1]}]
    assert rows == [[1], [1], [0], [-1]]


def test_nothing_of_a_file_becomes_markup() -> None:
    series = [{"name": HOSTILE, "x": [1, 2], "y": [1.0, 2.0], "error": [0.0, 0.0]}]
    made = Page(HOSTILE, HOSTILE, HOSTILE, [Section(HOSTILE, [Words(HOSTILE), curves(series, HOSTILE, HOSTILE)])])
    tags = Parts(made.html).tags
    assert [attributes for tag, attributes in tags if tag == "script"] == [
        {"type": "application/json", "id": "data"},
        {},
    ]
    assert not [tag for tag, _ in tags if tag == "img"]
    assert not [name for _, attributes in tags for name in attributes if name.startswith("on")]
    assert data_of(made)[0]["series"][0]["name"] == HOSTILE


def test_a_hostile_specification_injects_nothing(tmp_path: Path) -> None:
    path = tmp_path / "hostile.h5"
    text = f"title = {json.dumps(HOSTILE)}\n# {HOSTILE}\n" + sweeps.spec(data=f"given = {json.dumps(HOSTILE)}")
    sweeps.run(text, path, given={HOSTILE: sweeps.matrix()})
    made = fl.results(path).report()
    tags = Parts(made.html).tags
    assert len([tag for tag, _ in tags if tag == "script"]) == 2
    assert not [tag for tag, _ in tags if tag == "img"]


def test_a_page_names_nothing_outside_of_it(swept: Path) -> None:
    text = fl.results(swept).report().html
    places = [value for _, own in Parts(text).tags for name, value in own.items() if name in ("src", "href", "action")]
    assert places
    assert all(place is not None and place.startswith("#") for place in places)
    # But for the name of SVG, which is no place.
    assert {*re.findall(r"https?://[^\s\"'<]+", text)} <= {"http://www.w3.org/2000/svg"}
    assert "default-src 'none'" in text


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300, np.float64(0.1), np.int64(3), True, None, "\udc80"])
def test_values_are_json(value: Any) -> None:
    found = json.loads(page.embedded([value]))[0]
    assert found == (None if isinstance(value, float) and not np.isfinite(value) else value)


def test_the_command_writes_beside_the_results(swept: Path, tmp_path: Path, solved: fl.Solution) -> None:
    assert main(["report", str(swept)]) == 0
    assert swept.with_suffix(".html").read_text(encoding="utf-8").startswith("<!doctype html>")
    one = tmp_path / "one.html"
    assert (
        main(["report", str(swept), "-o", str(one), "--title", "Mine", "--where", "method=PrimalDual", "rounds=30"])
        == 0
    )
    assert "<h1>Mine</h1>" in one.read_text(encoding="utf-8")
    assert "12 runs of 4 settings" in one.read_text(encoding="utf-8")
    solved.save(tmp_path / "run.npz")
    assert main(["report", str(tmp_path / "run.npz")]) == 0
    assert "Report of a solve" in (tmp_path / "run.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "words", [["--where", "rounds=7"], ["--where", "rounds"], ["-o", "{folder}"]], ids=["none", "no-value", "folder"]
)
def test_a_wrong_call_is_refused(swept: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(swept), *(word.format(folder=swept.parent) for word in words)]) in (1, 2)
    assert "fastldp: error:" in capsys.readouterr().err


def test_a_file_of_another_kind_is_not_called_damaged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "first.toml").write_text("rounds = 50")
    assert main(["report", str(tmp_path / "first.toml")]) in (1, 2)
    told = capsys.readouterr().err
    assert "first.toml" in told
    assert ".h5" in told
    assert "damaged" not in told


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Browser]:
    if chromium.found() is None:
        pytest.skip("no Chromium is installed")
    made = chromium.Browser(tmp_path_factory.mktemp("chromium"))
    yield made
    made.close()


@pytest.fixture
def shown(browser: chromium.Browser, tmp_path: Path) -> Callable[[Page], chromium.Browser]:
    """A browser that shows a page, which it took without a complaint and without asking for anything else."""

    def open_(made: Page) -> chromium.Browser:
        path = made.save(tmp_path / "page.html")
        browser.size(1200)
        browser.open(path)
        assert (browser.errors, browser.requests) == ([], [path.resolve().as_uri()])
        return browser

    return open_


Shown = Callable[[Page], chromium.Browser]
CURVES = "return [...document.querySelectorAll('.series')].map(g => g.dataset.name)"
COLUMN = "return [...document.querySelector('.rows tbody').rows].map(r => r.children[{0}].textContent)"


def test_a_click_hides_a_curve_and_another_shows_it(swept: Path, shown: Shown) -> None:
    there = shown(fl.results(swept).where(method="PrimalDual").report())
    before = there.run(CURVES)
    assert len(before) == 4
    there.click(".key")
    assert there.run(CURVES) == before[1:]
    assert there.run("return document.querySelector('.key').getAttribute('aria-pressed')") == "false"
    there.click(".key")
    assert there.run(CURVES) == before
    there.click(".legend .all button:last-child")
    assert there.run(CURVES) == []
    assert "no curve is shown" in there.run("return document.querySelector('.plot').textContent")


def test_a_click_on_a_head_sorts_and_another_turns_it(swept: Path, shown: Shown) -> None:
    there = shown(fl.results(swept).where(method="PrimalDual").report())
    heads = there.run("return [...document.querySelectorAll('.rows thead th')].map(h => h.textContent)")
    k = heads.index("optimality ± std")

    def column() -> list[float]:
        return [float(text.split(" ± ")[0].replace(",", "")) for text in there.run(COLUMN.format(k))]

    unsorted = column()
    assert unsorted != sorted(unsorted)
    button = f"thead th:nth-child({k + 1}) button"
    there.click(button)
    assert column() == sorted(unsorted)
    assert there.run(f"return document.querySelector('{button}').parentNode.getAttribute('aria-sort')") == "ascending"
    there.click(button)
    assert column() == sorted(unsorted, reverse=True)


def test_words_and_choices_filter_table_and_curves(swept: Path, shown: Shown) -> None:
    there = shown(fl.results(swept).where(method="PrimalDual").report())
    type_ = (
        "const e = document.querySelector('input[type=search]'); e.value = '{0}'; e.dispatchEvent(new Event('input'))"
    )
    there.run(type_.format("static epsilon=2"))
    assert len(there.run(COLUMN.format(0))) == 2
    assert there.run(CURVES) == ["epsilon 2, static"]
    assert there.run("return document.querySelector('.count').textContent") == "2 of 8 settings"
    there.run(type_.format(""))
    choose = "const e = document.querySelectorAll('.controls')[1].querySelector('select');"
    there.run(choose + "e.selectedIndex = 1; e.dispatchEvent(new Event('change'))")
    assert len(there.run(COLUMN.format(0))) == 4


def test_axes_switch(swept: Path, shown: Shown) -> None:
    there = shown(fl.results(swept).where(method="PrimalDual").report())
    ticks = "return [...document.querySelectorAll('.plot text')].map(t => t.textContent)"
    assert there.run(ticks)[-2:] == ["rounds", "optimality"]
    logarithmic = there.run(ticks)
    path = "return document.querySelector('path.curve').getAttribute('d')"
    first = there.run(path)
    there.click(".tick:last-child input")
    assert there.run(ticks) != logarithmic
    assert there.run(path) != first
    choose = "const e = document.querySelectorAll('select')[{0}]; e.value = '{1}'; e.dispatchEvent(new Event('change'))"
    there.run(choose.format(1, "round"))
    there.run(choose.format(0, "distance"))
    assert there.run(ticks)[-2:] == ["round", "distance"]
    assert len(there.run(CURVES)) == 8
    there.run(choose.format(2, "none"))
    assert there.run("return document.querySelectorAll('.bars, .band').length") == 0


def test_values_show_under_the_pointer_and_by_the_keyboard_alone(swept: Path, shown: Shown) -> None:
    found = fl.results(swept).where(method="PrimalDual", epsilon=4.0, allocation="dynamic")
    there = shown(found.report())
    x, y = there.run(
        "const c = document.querySelector('.series circle'); c.scrollIntoView({block: 'center', behavior: 'instant'});"
        "const b = c.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]"
    )
    there.move(x, y)
    mean = found.where(rounds=30).means()[0].mean
    told = there.run("return document.querySelector('.tip').hidden ? '' : document.querySelector('.tip').textContent")
    assert float(told.split("rounds 30: ")[1].split(" ±")[0]) == pytest.approx(mean, rel=1e-3)
    assert "3 runs" in told
    there.run("document.querySelector('.plot svg').focus()")
    for _ in range(2):
        there.press("ArrowRight")
    there.run("")
    mean = found.where(rounds=50).means()[0].mean
    told = there.run("return document.querySelector('.readout').textContent")
    assert float(told.split("at rounds 50 is ")[1].split(" ±")[0]) == pytest.approx(mean, rel=1e-3)


def test_all_that_a_mouse_can_press_a_keyboard_can(swept: Path, shown: Shown) -> None:
    there = shown(fl.results(swept).where(method="PrimalDual").report())
    reached = set()
    for _ in range(60):
        there.press("Tab")
        reached.add(there.run("const e = document.activeElement; return e.tagName + ' ' + e.getAttribute('class')"))
    assert {"BUTTON key", "BUTTON null", "SELECT null", "INPUT null", "svg null", "SUMMARY null"} <= reached
    there.run("document.querySelector('.key').focus()")
    before = there.run(CURVES)
    there.press(" ")
    there.run("")
    assert there.run(CURVES) == before[1:]
    # The key that was pressed keeps the focus, though the legend was made anew.
    assert there.run("return document.activeElement === document.querySelector('.key')")


def test_controls_have_names_and_tables_heads(swept: Path, shown: Shown) -> None:
    there = shown(fl.results(swept).report())
    unnamed = "return [...document.querySelectorAll('{0}')].filter(e => !({1})).length"
    assert there.run(unnamed.format("select, input", "e.labels.length && e.labels[0].textContent.trim()")) == 0
    assert there.run(unnamed.format("button", "e.textContent.trim()")) == 0
    assert there.run(unnamed.format("th", "e.scope")) == 0
    assert there.run("return document.documentElement.lang") == "en"
    assert there.run("return document.querySelectorAll('h1').length") == 1


# Luminance and contrast as WCAG 2.2 has them.
CONTRASTS = """
const light = (text) => { const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map(Number).map(v => v / 255)
  .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b };
const contrast = (a, b) => { const [h, l] = [light(a), light(b)].sort((x, y) => y - x);
  return (h + 0.05) / (l + 0.05) };
const ground = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
  if (!/, 0\\)$/.test(c)) return c } return 'rgb(255, 255, 255)' };
const text = [...document.querySelectorAll('body *')]
  .filter(e => [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) && e.offsetParent)
  .map(e => [contrast(getComputedStyle(e).color, ground(e)), e.outerHTML.slice(0, 80)]);
const lines = [...document.querySelectorAll('path.curve')]
  .map(e => [contrast(getComputedStyle(e).stroke, ground(e)), e.parentNode.dataset.name]);
return [text.sort((a, b) => a[0] - b[0])[0], lines.sort((a, b) => a[0] - b[0])[0]]
"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_and_curves_stand_out(shown: Shown, dark: bool) -> None:
    names = [f"curve {k}" for k in range(12)]
    series = [{"name": name, "x": [1, 2], "y": [k, k + 1.0], "error": [0.1, 0.1]} for k, name in enumerate(names)]
    table = page.Table(["verdict"], [[word] for word in page.VERDICTS])
    blocks: list[Any] = [
        curves(series, "x", "y"),
        Words("a note", note=True),
        table,
        page.Code("code"),
        page.Pairs([("a", "b")]),
    ]
    there = shown(Page("kind", "title", "lead", [Section("One", blocks)], [("tile", "1", "more")]))
    there.size(1200, dark=dark)
    text, lines = there.run(CONTRASTS)
    assert text[0] >= 4.5, text
    assert lines[0] >= 3.0, lines


@pytest.mark.parametrize("width", [320, 390])
def test_a_phone_shows_it_without_scrolling_sideways(swept: Path, shown: Shown, width: int) -> None:
    there = shown(fl.results(swept).report())
    there.size(width, 800, phone=True)
    assert there.run("return [document.documentElement.scrollWidth, innerWidth]") == [width, width]


def test_the_smallest_and_largest_numbers_are_drawn_on_logarithmic_axes(shown: Shown) -> None:
    series = [{"name": "far", "x": [1, 2, 3], "y": [5e-324, 1.0, 1.7e308], "error": [0.0, 0.0, 0.0]}]
    there = shown(Page("a", "b", "c", [Section("d", [curves(series, "x", "y", log_y=True)])]))
    places = there.run("return [...document.querySelectorAll('.series circle')].map(c => Number(c.getAttribute('cy')))")
    assert places == sorted(places, reverse=True)
    assert len({*places}) == 3


def test_a_hostile_page_does_nothing_in_a_browser(shown: Shown) -> None:
    series = [{"name": HOSTILE, "x": [HOSTILE, "b"], "y": [1.0, 2.0], "error": [0.1, 0.0]}]
    blocks: list[Any] = [Words(HOSTILE), curves(series, HOSTILE, HOSTILE), page.Table([HOSTILE], [[HOSTILE]], HOSTILE)]
    there = shown(Page(HOSTILE, HOSTILE, HOSTILE, [Section(HOSTILE, [*blocks, page.Code(HOSTILE, HOSTILE)])]))
    there.click(".key")
    there.click(".key")
    assert there.run("return document.title") == HOSTILE
    assert there.run("return [document.images.length, document.scripts.length]") == [0, 2]


def test_no_script_but_the_pages_own_runs(swept: Path, browser: chromium.Browser, tmp_path: Path) -> None:
    """Even where escaping failed, the page's policy would stop it."""
    text = fl.results(swept).report().html.replace("</main>", "<script>document.title = 'stolen'</script></main>")
    (tmp_path / "page.html").write_text(text, encoding="utf-8")
    browser.open(tmp_path / "page.html")
    assert browser.run("return document.title") != "stolen"
    assert any("Content Security Policy" in error for error in browser.errors)
    assert browser.run("return document.querySelectorAll('.key').length") > 0
