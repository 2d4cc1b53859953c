"""Files: written whole or not at all, and refused in one line if they can't be read."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fedmerdel import FileError, MerDel, Study, simulate
from fedmerdel.files import check_place, read_json, write_json

NAMES = ["Größe", "form", "colour", "use"]
X = simulate(90, 4, 2, levels=(2, 3, 4, 2), random_state=1).X


@pytest.fixture(scope="module")
def model() -> MerDel:
    return MerDel(4, random_state=0).fit(pd.DataFrame(X, columns=NAMES))


@pytest.fixture
def path(model: MerDel, tmp_path: Path) -> Path:
    model.save(tmp_path / "model.json")
    return tmp_path / "model.json"


def refusal(path: Any, action: Callable[[Any], Any] = MerDel.load) -> str:
    with pytest.raises(FileError) as caught:
        action(path)
    message = str(caught.value)
    assert "\n" not in message
    assert repr(str(path)) in message
    assert caught.value.__cause__ is None
    return message


# Files that can't be read


def test_a_missing_file(tmp_path: Path) -> None:
    assert "does not exist" in refusal(tmp_path / "none.json")


def test_a_folder(tmp_path: Path) -> None:
    assert "is a folder: name a file" in refusal(tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe\x00", b"kind: fedmerdel", b"[" * 200_000], ids=len
)
def test_what_is_no_json(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.json").write_bytes(content)
    assert "can't be read as JSON" in refusal(tmp_path / "model.json")


@pytest.mark.parametrize("share", [0.01, 0.3, 0.6, 0.99])
def test_a_truncated_file(share: float, path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    assert "can't be read as JSON" in refusal(path)


@pytest.mark.parametrize("content", ["[]", "3", "null", "{}", '{"kind": "recipe", "version": 1}'])
def test_another_kind_of_file(content: str, tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text(content, encoding="utf-8")
    assert "holds no fedmerdel estimator" in refusal(tmp_path / "model.json")


@pytest.mark.parametrize("version", [1, 2, 3, 0, "1\n2", None])
def test_another_version(version: Any, path: Path) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**content, "version": version}), encoding="utf-8")
    message = refusal(path)
    assert f"is version {version!r} of its format" in message
    assert "reads version 4" in message


def damaged(content: dict[str, Any], where: str, value: Any) -> dict[str, Any]:
    """Set one entry, given as a.b.c; numbers are positions in lists."""
    *parents, last = (int(part) if part.isdecimal() else part for part in where.split("."))
    inner: Any = content
    for part in parents:
        inner = inner[part]
    inner[last] = value
    return content


DAMAGES: list[tuple[str, Any]] = [
    ("estimator", "FedMerDel"),
    ("options", []),
    ("options.k", 3),
    ("codebook", None),
    ("codebook.variables", []),
    ("codebook.variables.0.levels", ["0"]),
    ("codebook.variables.0.kind", "continuous"),
    ("codebook.variables.0.name", NAMES[1]),
    ("n_features", 3),
    ("n_features", "four"),
    ("feature_names", "Größe"),
    ("feature_names", NAMES[1:]),
    ("feature_names.0", 3),
    ("prior", []),
    ("prior.alpha", -1),
    ("prior.alpha", "many"),
    ("prior.n_components", 0),
    ("prior.eps", []),
    ("prior.eps.0", 0),
    ("statistics", None),
    ("statistics.T", []),
    ("statistics.T", 3),
    ("statistics.T.0", -1),
    ("statistics.T.0", None),
    ("statistics.S.0.0", -0.5),
    ("statistics.S.0", [1.0]),
    ("statistics.S", [[]]),
    ("lower_bound", None),
    ("n_iter", "few"),
]


@pytest.mark.parametrize(("where", "value"), DAMAGES, ids=[f"{w}={v}" for w, v in DAMAGES])
def test_a_damaged_file(where: str, value: Any, path: Path) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(damaged(content, where, value)), encoding="utf-8")
    assert "is damaged or was changed" in refusal(path)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400", "9" * 30, "9" * 5000])
@pytest.mark.parametrize("where", ["prior.eps.0", "prior.n_components", "n_iter", "statistics.h.0"])
def test_what_is_no_number(where: str, number: str, path: Path) -> None:
    content = damaged(json.loads(path.read_text(encoding="utf-8")), where, "HERE")
    path.write_text(json.dumps(content).replace('"HERE"', number), encoding="utf-8")
    assert "can't be read as JSON: it " in refusal(path)


def test_a_file_without_one_of_its_parts(path: Path) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    for part in set(content) - {"kind", "version"}:
        path.write_text(
            json.dumps({k: v for k, v in content.items() if k != part}), encoding="utf-8"
        )
        assert "is damaged or was changed" in refusal(path)


# Files that can't be written


def test_a_folder_that_does_not_exist(model: MerDel, tmp_path: Path) -> None:
    assert "can't be written" in refusal(tmp_path / "none" / "model.json", model.save)


def test_a_folder_that_is_a_file(model: MerDel, path: Path) -> None:
    assert "can't be written" in refusal(path / "model.json", model.save)


def test_a_folder_in_place_of_the_file(model: MerDel, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    assert "is there already and is no saved estimator" in refusal(tmp_path / "taken", model.save)
    assert [found.name for found in tmp_path.iterdir()] == ["taken"]


def test_a_folder_that_may_not_be_written(
    model: MerDel, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Path.open

    def forbidden(path: Path, mode: str = "r", *rest: Any, **options: Any) -> Any:
        if "x" in mode:
            raise PermissionError
        return original(path, mode, *rest, **options)

    monkeypatch.setattr(Path, "open", forbidden)
    assert "can't be written" in refusal(path, model.save)


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_an_earlier_file_stays_if_writing_fails(
    error: BaseException, model: MerDel, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = path.read_bytes()

    def half(content: Any, file: Any, **_: Any) -> None:
        file.write('{"kind"')
        raise error

    monkeypatch.setattr(json, "dump", half)
    with pytest.raises(FileError if isinstance(error, OSError) else KeyboardInterrupt):
        model.save(path)
    assert path.read_bytes() == before
    assert [found.name for found in path.parent.iterdir()] == ["model.json"]


def test_numbers_that_json_lacks_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "x.json", "test", 1, {"number": float("nan")})
    assert list(tmp_path.iterdir()) == []


def test_saving_replaces_an_earlier_model(model: MerDel, path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:100])  # also one that is damaged
    model.save(str(path))
    assert path.read_bytes() == whole
    assert [found.name for found in path.parent.iterdir()] == ["model.json"]


@pytest.mark.parametrize("content", [b"old", b"{}", b'{"kind": "fedmerdel model"}', b"\x00"])
def test_saving_replaces_nothing_else(content: bytes, model: MerDel, tmp_path: Path) -> None:
    study = Study("s", model.codebook_)
    for save, words in ((model.save, "no saved estimator"), (study.save, "no study")):
        (tmp_path / "mine").write_bytes(content)
        assert f"is there already and is {words}" in refusal(tmp_path / "mine", save)
        (tmp_path / "link").symlink_to(tmp_path / "mine")
        assert "is a link" in refusal(tmp_path / "link", save)
        assert (tmp_path / "mine").read_bytes() == content
        (tmp_path / "link").unlink()


def test_an_empty_file_is_no_loss(model: MerDel, tmp_path: Path) -> None:
    (tmp_path / "made").touch()
    model.save(tmp_path / "made")
    assert MerDel.load(tmp_path / "made").n_clusters_ == model.n_clusters_


def test_a_study_replaces_a_study(model: MerDel, tmp_path: Path) -> None:
    Study("one", model.codebook_).save(tmp_path / "study.toml")
    Study("other", model.codebook_).save(tmp_path / "study.toml")
    assert Study.load(tmp_path / "study.toml").name == "other"
    with pytest.raises(FileError, match="is there already and is no saved estimator"):
        model.save(tmp_path / "study.toml")


@pytest.mark.skipif(os.name != "posix", reason="permissions of other kinds")
def test_others_may_read_the_file_as_they_may_any_new_one(path: Path) -> None:
    (path.parent / "other").touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE((path.parent / "other").stat().st_mode)


def test_a_document_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_json(tmp_path / "x.json", "test", 3, {"a": [1.1, None], "ü": "ß"})
    found = read_json(tmp_path / "x.json", "test", 3)
    assert found == {"kind": "test", "version": 3, "a": [1.1, None], "ü": "ß"}


# Places that are looked at before the work


@pytest.mark.parametrize("name", [".", "..", "none/x.json", "file/x.json"])
def test_a_place_where_nothing_can_be_written(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    assert "can't be written" in refusal(Path(name), check_place)


def test_a_place_where_something_can_be_written(tmp_path: Path) -> None:
    check_place(tmp_path / "x.json")
    check_place(tmp_path / "new" / "folder" / "x", make_parents=True)
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match=r"folder .* can't be written"):
        check_place(tmp_path / "file" / "x", "folder", make_parents=True)
