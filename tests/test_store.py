"""The result file: parts and folding, damage, full disks, two writers, readers beside a writer; plain h5py reads it."""

import errno
import os
import shutil
import stat
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import fastldp as fl
import sweeps
from fastldp import disk
from fastldp.engine import driving
from fastldp.errors import ArgumentError, DamageWarning, FileFormatError, StoreError
from fastldp.sweeping import layout, merging, store
from fastldp.sweeping.store import Store, parts_of

TEXT = sweeps.spec("isrl", rounds="[30, 45]", record="every = 15")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished file, to be copied."""
    path = tmp_path_factory.mktemp("whole") / "r.h5"
    sweeps.run(TEXT, path)
    return path


@pytest.fixture(scope="module")
def broken_off(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the parts of a sweep that died: three legs of each of two waves."""
    folder = tmp_path_factory.mktemp("parts")
    with pytest.MonkeyPatch.context() as patch, sweeps.dying(patch, commits=4):
        sweeps.run(TEXT, folder / "r.h5", leg_seconds=1e-9, n_jobs=1)
    return folder


@pytest.fixture
def parts(broken_off: Path, tmp_path: Path) -> Path:
    """The path of a file that has only parts, to be changed."""
    shutil.copytree(broken_off, tmp_path / "copy")
    return tmp_path / "copy" / "r.h5"


def finished(path: Path, whole: Path) -> None:
    """The same command again completes a file to the very content of one that was never disturbed."""
    sweeps.run(TEXT, path)
    assert fl.results(path).digest() == fl.results(whole).digest()
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def places(path: Path) -> set[tuple[Any, ...]]:
    """The runs that a file has."""
    return {(run.parameters["step"], run.parameters["rounds"], run.repetition) for run in fl.results(path)}


# Parts and folding.


def test_a_finished_sweep_is_one_file(whole: Path) -> None:
    assert [entry.name for entry in whole.parent.iterdir()] == ["r.h5"]


def test_parts_are_read_before_they_are_folded(parts: Path, whole: Path) -> None:
    assert len(parts_of(parts)) == 4
    found = fl.results(parts)
    assert {run.outcome for run in found} == {"completed"}
    assert 0 < len(found) < 12
    finished(parts, whole)


def test_many_parts_are_folded_on_the_way(tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MANY_PARTS", 2)
    sweeps.run(TEXT, tmp_path / "r.h5", leg_seconds=1e-9, n_jobs=1)
    assert fl.results(tmp_path / "r.h5").digest() == fl.results(whole).digest()


def test_parts_are_folded_into_one_part_where_the_file_is_larger(
    tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweeps.run(sweeps.spec(repetitions=20, record="every = 1"), tmp_path / "r.h5")
    before = (tmp_path / "r.h5").stat().st_ino
    monkeypatch.setattr(store, "MANY_PARTS", 2)
    with sweeps.dying(monkeypatch, commits=4):
        sweeps.run(TEXT, tmp_path / "r.h5", leg_seconds=1e-9, n_jobs=1)
    assert (tmp_path / "r.h5").stat().st_ino == before
    assert len(parts_of(tmp_path / "r.h5")) == 1
    sweeps.run(TEXT, tmp_path / "r.h5")
    assert len(fl.results(tmp_path / "r.h5")) == 80 + 12


@pytest.mark.parametrize(("call", "nth"), [("replace", 0), ("unlink", 1), ("unlink", 3)])
def test_a_crash_in_the_middle_of_a_fold_loses_nothing(
    call: str, nth: int, parts: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before and after the rename, and while parts are removed: what is there twice is taken once."""
    kept = places(parts)
    real = getattr(os, call)
    count = 0

    def crashing(*given: Any, **named: Any) -> Any:
        nonlocal count
        count += 1
        if count == nth + 1:
            raise sweeps.Died
        return real(*given, **named)

    with Store(parts, session={}) as opened, monkeypatch.context() as patch, suppress(sweeps.Died):
        patch.setattr(os, call, crashing)
        opened.fold()
    assert count >= nth + 1
    assert places(parts) == kept
    finished(parts, whole)


def test_temporary_files_of_a_dead_writer_are_cleared_away(parts: Path, whole: Path) -> None:
    (parts.with_name("r.h5.parts") / ".tmp-part-dead.h5").write_bytes(b"half")
    (parts.with_name("r.h5.parts") / ".tmp-dead-1").write_bytes(b"half")
    finished(parts, whole)


def test_a_part_that_is_taken_away_is_made_again(parts: Path, whole: Path) -> None:
    for victim in parts_of(parts)[:2]:
        victim.unlink()
    finished(parts, whole)


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_chain_without_its_middle_is_no_run(victim: int, tmp_path: Path) -> None:
    text = sweeps.spec("accelerated", rounds="60", record="every = 15")
    with pytest.MonkeyPatch.context() as patch, sweeps.dying(patch, commits=3):
        sweeps.run(text, tmp_path / "a.h5", leg_seconds=1e-9)
    parts_of(tmp_path / "a.h5")[victim].unlink()
    report = sweeps.run(text, tmp_path / "a.h5")
    assert report.resumed == (0 if victim == 0 else 3)
    assert fl.results(tmp_path / "a.h5").digest() == sweeps.digest(text, tmp_path / "b.h5")


def test_parts_of_a_run_that_began_in_the_file_survive_a_merge_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its beginning is in the file, which is too large to be copied for the sake of the parts that go on from there."""
    long = sweeps.spec("accelerated", rounds="200", record="every = 15")
    monkeypatch.setattr(driving, "SEGMENT_NANOSECONDS", 1e5)
    with sweeps.dying(monkeypatch, commits=2):
        sweeps.run(long, tmp_path / "r.h5", leg_seconds=1e-9)
    sweeps.run(sweeps.spec(repetitions=20, record="every = 1"), tmp_path / "r.h5")
    monkeypatch.setattr(store, "MANY_PARTS", 3)
    merged: list[Path] = []
    merge = Store._merge

    def watched(self: Store, parts: Any, target: Path, **options: Any) -> None:
        merged.append(target)
        merge(self, parts, target, **options)

    monkeypatch.setattr(Store, "_merge", watched)
    report = sweeps.run(long, tmp_path / "r.h5", leg_seconds=1e-9)
    assert (report.resumed, report.completed, report.missing) == (3, 3, 0)
    assert [path.name.startswith("part-") for path in merged[:-1]] == [True] * (len(merged) - 1)
    assert len(merged) > 2
    sweeps.run(long, tmp_path / "b.h5")
    found = fl.results(tmp_path / "r.h5").where(rounds=200)
    assert [run.x.tobytes() for run in found] == [run.x.tobytes() for run in fl.results(tmp_path / "b.h5")]


def test_a_merge_that_lacks_a_piece_changes_nothing(parts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = places(parts)
    with monkeypatch.context() as patch:
        patch.setattr(merging, "groups_of", lambda pieces, piece: [pieces[:1]])
        with Store(parts, session={}) as opened, pytest.raises(StoreError, match="pieces of runs would not get there"):
            opened.fold()
    assert len(parts_of(parts)) == 4
    assert not parts.exists()
    assert places(parts) == before


def test_no_run_is_reported_that_the_file_does_not_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Store, "fold", lambda self: shutil.rmtree(self.folder))
    with pytest.raises(StoreError, match="12 runs that were finished are not in it"):
        sweeps.run(TEXT, tmp_path / "r.h5")


# Files that are not whole, or not ours.


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.6, 0.99])
def test_a_truncated_file_is_refused_and_left_as_it_is(share: float, whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "r.h5"
    path.write_bytes(whole.read_bytes()[: int(share * whole.stat().st_size)])
    before = path.read_bytes()
    for attempt in (lambda: sweeps.run(TEXT, path), lambda: fl.results(path)):
        with pytest.raises(FileFormatError, match=r"r\.h5: not a whole file"):
            attempt()
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.h5"]


def test_a_part_cut_in_half_is_named_and_its_runs_are_made_again(parts: Path, whole: Path) -> None:
    victim = parts_of(parts)[1]
    victim.write_bytes(victim.read_bytes()[: victim.stat().st_size // 2])
    with pytest.warns(DamageWarning, match=rf"{victim.name}: damaged beyond repair; .* a sweep makes them again"):
        assert len(fl.results(parts)) < 12
    with pytest.warns(DamageWarning, match=victim.name):
        finished(parts, whole)


@pytest.mark.parametrize("content", [b"", b"text", b"\x89HDF\r\n\x1a\n" + bytes(100)])
def test_a_file_that_is_not_hdf5_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "r.h5").write_bytes(content)
    with pytest.raises(FileFormatError, match="not a whole file of fastldp sweep"):
        sweeps.run(TEXT, tmp_path / "r.h5")
    assert (tmp_path / "r.h5").read_bytes() == content


def test_another_programs_hdf5_file_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "r.h5", "w") as file:
        file["theirs"] = 1
    with pytest.raises(FileFormatError, match="not one of fastldp sweep; choose another name"):
        sweeps.run(TEXT, tmp_path / "r.h5")
    with h5py.File(tmp_path / "r.h5") as file:
        assert list(file) == ["theirs"]


def test_a_file_of_another_schema_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(layout, "SCHEMA", 99)
        sweeps.run(TEXT, tmp_path / "r.h5")
    with pytest.raises(FileFormatError, match="its schema is 99, this fastldp knows 2"):
        fl.results(tmp_path / "r.h5")


def test_a_file_of_the_first_schema_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "r.h5", "w") as file:
        file.attrs["format"], file.attrs["schema"] = "fastldp sweep", 1
    with pytest.raises(FileFormatError, match="its schema is 1, this fastldp knows 2; choose another name"):
        fl.results(tmp_path / "r.h5")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="a folder; give the name of a file"):
        sweeps.run(TEXT, tmp_path)


def test_what_the_working_folder_has_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "image").mkdir()
    assert sweeps.run(TEXT, Path("r.h5")).completed == 12


def test_a_damaged_number_is_mended_and_its_run_and_setting_are_named(whole: Path, tmp_path: Path) -> None:
    shutil.copy(whole, tmp_path / "r.h5")
    victim = fl.results(whole)[7]
    damaged = bytearray(whole.read_bytes())
    damaged[damaged.index(victim.x.tobytes())] ^= 4
    (tmp_path / "r.h5").write_bytes(damaged)
    with pytest.warns(DamageWarning, match=r"r\.h5: a page .* x of repetition \d of setting \d \(ISRLDP, step=0\.\d"):
        assert fl.results(tmp_path / "r.h5").digest() == fl.results(whole).digest()
    with pytest.warns(DamageWarning, match="made again from parity"):
        finished(tmp_path / "r.h5", whole)
    assert (tmp_path / "r.h5").read_bytes() != bytes(damaged)
    fl.results(tmp_path / "r.h5")  # without a warning: it was written anew


# Disks.


def test_a_file_gets_its_name_once_it_is_on_the_disk_and_the_name_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []

    def told(name: str, real: Any) -> Any:
        def call(*given: Any) -> Any:
            called.append(name)
            return real(*given)

        return call

    for name in ("pwrite", "fsync", "replace"):
        monkeypatch.setattr(os, name, told(name, getattr(os, name)))
    with disk.Draft(tmp_path / ".tmp") as draft:
        draft.write(b"content")
        draft.publish(tmp_path / "named", check=lambda path: called.append(f"check {path.name}"))
    assert called == ["pwrite", "fsync", "check .tmp", "replace", "fsync"]
    assert (tmp_path / "named").read_bytes() == b"content"


LIMITED = """
import resource, sys
sys.path.insert(0, {tests!r})
import fastldp as fl, sweeps
from pathlib import Path
from fastldp.errors import StoreError
sweeps.run({text!r}, Path({path!r} + ".elsewhere"))  # compiles, while its cache may be written
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
try:
    sweeps.run({text!r}, Path({path!r}))
except StoreError as error:
    print(error)
"""


def limited(text: str, path: Path, limit: int) -> str:
    """What a sweep says that may write files of so many bytes at most."""
    script = LIMITED.format(tests=str(Path(__file__).parent), text=text, path=str(path), limit=limit)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform == "win32", reason="limits of file sizes are a thing of POSIX")
@pytest.mark.parametrize("share", [0.5, 1.5])
def test_a_full_disk_is_said_and_harms_nothing(share: float, tmp_path: Path) -> None:
    """Half of a part fits; or a part, but not the file that it is folded into."""
    first, second = (sweeps.spec(name, rounds="200", record="every = 1\nmodels = true") for name in ("isrl", "fedavg"))
    sweeps.run(first, tmp_path / "r.h5")
    size, before = (tmp_path / "r.h5").stat().st_size, fl.results(tmp_path / "r.h5").digest()
    said = limited(second, tmp_path / "r.h5", int(share * size))
    assert said.startswith(f"{tmp_path / 'r.h5'}: larger than a file may be here; what is stored is safe; raise")
    # In the second case the new runs are in a part.
    assert (fl.results(tmp_path / "r.h5").digest() == before) is (share < 1)
    sweeps.run(second, tmp_path / "r.h5")
    sweeps.run(first, tmp_path / "b.h5")
    sweeps.run(second, tmp_path / "b.h5")
    assert fl.results(tmp_path / "r.h5").digest() == fl.results(tmp_path / "b.h5").digest()


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_said(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(StoreError, match="cannot be written there"):
            sweeps.run(TEXT, tmp_path / "r.h5")
    finally:
        tmp_path.chmod(0o755)


def test_a_drive_that_cannot_be_written_is_said() -> None:
    # Not even root may make folders there.
    with pytest.raises(StoreError, match=r"/proc/r\.h5: "):
        sweeps.run(TEXT, Path("/proc/r.h5"))


@pytest.mark.parametrize("code", ["EROFS", "EACCES"])
def test_a_read_only_drive_is_said(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        number = getattr(errno, code)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(StoreError, match=r"cannot be written there .*; choose a folder of yours"):
        sweeps.run(TEXT, tmp_path / "r.h5")


# Two at a time.


def test_a_second_writer_is_told_who_the_first_is(tmp_path: Path) -> None:
    with Store(tmp_path / "r.h5", session={}), pytest.raises(StoreError, match=rf"process {os.getpid()} on .*writing"):
        sweeps.run(TEXT, tmp_path / "r.h5")
    assert sweeps.run(TEXT, tmp_path / "r.h5").completed == 12


def test_a_lock_whose_holder_died_is_free(tmp_path: Path) -> None:
    (tmp_path / "r.h5.parts").mkdir()
    (tmp_path / "r.h5.parts" / "lock").write_text("process 1 on another machine")
    assert sweeps.run(TEXT, tmp_path / "r.h5").completed == 12


def test_a_lock_that_cannot_be_removed_is_let_go_of_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlink = os.unlink

    def refuse(path: Any) -> None:
        if Path(path).name == "lock":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        unlink(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        with pytest.raises(StoreError, match="what is stored is safe"):
            sweeps.run(TEXT, tmp_path / "r.h5")
    assert sweeps.run(TEXT, tmp_path / "r.h5").found == 12


def test_without_a_lock_nobody_is_kept_out(tmp_path: Path) -> None:
    with Store(tmp_path / "r.h5", session={}):
        assert sweeps.run(TEXT, tmp_path / "r.h5", lock=False).completed == 12


def test_writers_that_come_at_the_same_moment_leave_one_file(tmp_path: Path, whole: Path) -> None:
    refused: list[str] = []

    def write() -> None:
        try:
            sweeps.run(TEXT, tmp_path / "r.h5", n_jobs=1)
        except StoreError as error:
            refused.append(str(error))

    writers = [threading.Thread(target=write) for _ in range(6)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(refused) < 6
    assert all("is writing it" in message for message in refused)
    finished(tmp_path / "r.h5", whole)


def test_a_reader_never_sees_less_than_before_while_a_writer_folds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MANY_PARTS", 3)
    text = sweeps.spec("isrl", "accelerated", rounds="[30, 45, 60]", record="every = 15")
    writer = threading.Thread(target=lambda: sweeps.run(text, tmp_path / "r.h5", leg_seconds=1e-9, n_jobs=1))
    writer.start()
    seen = [0]
    while writer.is_alive():
        try:
            seen.append(len(fl.results(tmp_path / "r.h5")))
        except FileNotFoundError:  # nothing is written yet
            assert seen == [0]
    writer.join()
    assert seen == sorted(seen)
    assert len(fl.results(tmp_path / "r.h5")) == 27


def test_a_folder_that_changed_while_it_was_listed_is_listed_again(
    parts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list may lack a part that came and one that went while it was made."""
    expected, seen, listed = places(parts), [0], store.parts_of

    def partly(path: Path) -> list[Path]:
        seen[0] += 1
        return listed(path)[1:] if seen[0] == 1 else listed(path)

    monkeypatch.setattr(store, "parts_of", partly)
    assert places(parts) == expected


def test_a_part_that_is_merged_away_while_it_is_opened_is_looked_for_again(
    parts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = places(parts)
    seen: list[Path] = []

    def merged_away(path: Path) -> Any:
        if not seen:
            seen.append(path)
            with Store(parts, session={}) as other:
                other.fold()
        return layout.File(path)

    monkeypatch.setattr(store, "File", merged_away)
    assert places(parts) == expected
    assert not seen[0].exists()


# For readers without fastldp.


def test_a_plain_h5py_user_can_read_it(whole: Path) -> None:
    with h5py.File(whole) as file:
        runs, settings = file["runs"], file["settings"]
        assert (file.attrs["format"], file.attrs["schema"]) == ("fastldp sweep", 2)
        names = h5py.check_enum_dtype(runs["outcome"].dtype)
        assert names == {"completed": 0, "diverged": 1, "failed": 2, "running": 3}
        for k, run in enumerate(fl.results(whole)):
            begin, end = runs["distance/starts"][k : k + 2]
            np.testing.assert_array_equal(runs["distance/values"][begin:end], run.distance)
            begin, end = runs["x/starts"][k : k + 2]
            np.testing.assert_array_equal(runs["x/values"][begin:end], run.x)
            setting = runs["setting"][k]
            begin, end = settings["rounds/starts"][setting : setting + 2]
            np.testing.assert_array_equal(settings["rounds/values"][begin:end], run.rounds)
            assert runs["optimality"][k] == run.optimality[-1]


def test_the_file_says_what_made_it(whole: Path) -> None:
    provenance = fl.results(whole)[0].provenance
    assert provenance["fastldp"] == fl.__version__
    assert provenance["packages"]["numpy"] == np.__version__
    assert provenance["spec"] == TEXT
    assert {"fingerprint", "version", "machine", "started", "backend"} <= provenance.keys()


def test_what_settings_have_in_common_is_compressed(tmp_path: Path) -> None:
    sweeps.run(sweeps.spec("primal_dual", rounds="5000", repetitions=8, record="every = 5"), tmp_path / "r.h5")
    with h5py.File(tmp_path / "r.h5") as file:
        assert file["settings/rounds/values"].id.get_storage_size() < file["settings/rounds/values"].nbytes / 2
        assert file["runs/consensus/values"].chunks is None


# Seeds, links and folders that others can write to.


def test_a_file_with_a_seed_is_its_owners_alone_unless_others_are_let_in(tmp_path: Path) -> None:
    mask = os.umask(0o022)
    try:
        sweeps.run(TEXT, tmp_path / "mine.h5")
        sweeps.run(TEXT, tmp_path / "ours.h5", shared=True)
        assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("mine.h5", "ours.h5")] == [0o600, 0o644]
        # Who has let others in has done so for what comes later too.
        (tmp_path / "mine.h5").chmod(0o640)
        sweeps.run(sweeps.spec("fedavg"), tmp_path / "mine.h5")
        assert stat.S_IMODE((tmp_path / "mine.h5").stat().st_mode) == 0o640
    finally:
        os.umask(mask)


def test_parts_are_their_owners_alone(broken_off: Path) -> None:
    folder = broken_off / "r.h5.parts"
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("name", ["lock", ".tmp-part-0.h5"])
def test_a_planted_link_is_not_followed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "r.h5.parts").mkdir()
    (tmp_path / "r.h5.parts" / name).symlink_to(tmp_path / "precious")
    if name == "lock":
        with pytest.raises(StoreError, match="a link, where the lock is to be; remove it"):
            sweeps.run(TEXT, tmp_path / "r.h5")
    else:
        monkeypatch.setattr(Store, "_next_part", lambda self: self.folder / "part-0.h5")
        monkeypatch.setattr(disk, "remove", lambda path: None)  # planted after old ones were cleared away
        sweeps.run(TEXT, tmp_path / "r.h5")
    assert (tmp_path / "precious").read_text() == "precious"


def test_a_planted_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "r.h5.parts").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="a link, where parts are to be written; remove it"):
        sweeps.run(TEXT, tmp_path / "r.h5")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_path_without_a_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loop.h5").symlink_to(tmp_path / "loop.h5")
    for path in ("", tmp_path / "loop.h5"):
        for attempt in (lambda path=path: sweeps.run(TEXT, path), lambda path=path: fl.results(path)):
            with pytest.raises(ArgumentError, match="give the name of a file"):
                attempt()
    assert [entry.name for entry in tmp_path.iterdir()] == ["loop.h5"]


def test_a_path_that_is_a_link_is_followed(tmp_path: Path, whole: Path) -> None:
    (tmp_path / "large").mkdir()
    (tmp_path / "r.h5").symlink_to(tmp_path / "large" / "real.h5")
    with pytest.MonkeyPatch.context() as patch, sweeps.dying(patch, commits=2):
        sweeps.run(TEXT, tmp_path / "r.h5", leg_seconds=1e-9, n_jobs=1)
    fl.results(tmp_path / "r.h5")
    sweeps.run(TEXT, tmp_path / "r.h5")
    assert (tmp_path / "r.h5").is_symlink()
    assert [entry.name for entry in (tmp_path / "large").iterdir()] == ["real.h5"]
    for name in ("r.h5", "large/real.h5"):
        assert fl.results(tmp_path / name).digest() == fl.results(whole).digest()
