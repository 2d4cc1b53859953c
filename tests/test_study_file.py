"""The study's file: read as it was written, and refused with the place and the reason."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedmerdel.errors import DataError, FedMerDelError, FileError
from fedmerdel.study import POLICIES, Codebook, Study, Variable, custom_policy
from fedmerdel.study.promise import Promise
from fedmerdel.study.study_file import KEYS

SMOKING = Variable("smoking", ("never", "former", "current"), "text")
DIABETES = Variable("diabetes", ("false", "true"), "boolean")
COPD = Variable("copd", ("0", "1"), "integer")
BOOK = Codebook((SMOKING, DIABETES, COPD))
STUDY = Study("frailty", BOOK)

SHORT = """
[study]
name = "frailty"
[[variable]]
name = "smoking"
levels = ["never", "former", "current"]
[[variable]]
name = "diabetes"
levels = [false, true]
[[variable]]
name = "copd"
levels = [0, 1]
"""

texts = st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), min_size=1, max_size=8)
words = texts.filter(lambda text: bool(text.strip()))


@st.composite
def variables(draw: st.DrawFn, name: str) -> Variable:
    kind = draw(st.sampled_from(["integer", "boolean", "text"]))
    if kind == "boolean":
        return Variable(name, tuple(draw(st.permutations(["false", "true"]))), "boolean")
    if kind == "integer":
        numbers = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5, unique=True)
        return Variable(name, tuple(map(str, draw(numbers))), "integer")
    return Variable(name, tuple(draw(st.lists(texts, min_size=1, max_size=5, unique=True))), "text")


@st.composite
def studies(draw: st.DrawFn) -> Study:
    names = draw(st.lists(words, min_size=3, max_size=8, unique=True))
    n_variables = draw(st.integers(1, len(names) - 2))
    book = Codebook(tuple(draw(variables(name)) for name in names[:n_variables]))
    n_levels = int(book.n_levels.sum())
    positive = st.floats(1e-9, 1e9)
    policies = st.builds(custom_policy, st.integers(0, 99), st.integers(0, 99), words)
    trusts = draw(st.booleans())
    return Study(
        draw(words),
        book,
        max_clusters=draw(st.integers(1, 2000)),
        recipe=draw(st.sampled_from(["default", "paper"])),
        laps=draw(st.none() | st.integers(0, 100)),
        merge_criterion=draw(st.sampled_from(["correlation", "kl", "bhattacharyya", "random"])),
        alpha=draw(positive),
        prior=draw(st.sampled_from([None, "fixed"]) | st.tuples(*[positive] * n_levels)),
        variable_selection=draw(st.booleans()),
        policy=draw(st.sampled_from(list(POLICIES.values())) | policies),
        rounds=draw(st.integers(0, 1000)) if trusts else 0,
        promise=Promise(trusts_centre=trusts),
        site_shares=draw(st.booleans()),
        outcomes=tuple(names[n_variables:-1]),
        row_id=draw(st.sampled_from([None, names[-1]])),
        labels=draw(st.dictionaries(st.sampled_from(book.names), words)),
        seed=draw(st.integers(0, 2**32 - 1)),
    )


def refusal(text: str | bytes, folder: Path, error: type[FedMerDelError] = DataError) -> str:
    path = folder / "study.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(error) as caught:
        Study.load(path)
    message = str(caught.value)
    assert message.startswith(f"file {str(path)!r}")
    assert "\n" not in message
    assert caught.value.__cause__ is None
    return message


# The file


@settings(deadline=None)  # it writes files
@given(studies())
def test_a_study_is_read_as_it_was_written(study: Study) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "study.toml"
        study.save(path)
        text = path.read_text(encoding="utf-8")
        assert all(character.isprintable() or character == "\n" for character in text)
        loaded = Study.load(path)
    assert loaded == study
    assert loaded.hash == study.hash
    assert text == study.to_text()
    assert Study.from_bytes(text.encode()) == study


def test_every_setting_is_in_the_file_with_a_comment_above_it(tmp_path: Path) -> None:
    replace(STUDY, policy=custom_policy(6, 5), row_id="id").save(tmp_path / "study.toml")
    text = (tmp_path / "study.toml").read_text(encoding="utf-8")
    head = text.partition("[[variable]]")[0].splitlines()
    for line, above in zip(head[1:], head, strict=False):
        assert " = " not in line or line.startswith("#") or above.startswith("# ")
    document = tomllib.loads(text)
    assert list(document) == [
        "study",
        "model",
        "disclosure",
        "promise",
        "table",
        "keys",
        "variable",
    ]
    assert document["disclosure"]["source"] == "set by this study"


def test_a_named_policy_says_what_it_is(tmp_path: Path) -> None:
    STUDY.save(str(tmp_path / "study.toml"))
    assert POLICIES["opensafely"].source in (tmp_path / "study.toml").read_text(encoding="utf-8")


def test_a_short_file_takes_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(SHORT, encoding="utf-8")
    assert Study.load(str(tmp_path / "study.toml")) == STUDY


def test_line_ends_and_byte_order_marks_of_other_systems(tmp_path: Path) -> None:
    windows = "\ufeff" + SHORT.replace("\n", "\r\n")
    (tmp_path / "study.toml").write_bytes(windows.encode())
    assert Study.load(tmp_path / "study.toml") == STUDY


@pytest.mark.parametrize(
    ("levels", "kind", "expected"),
    [
        ('["0", "1"]', None, ("0", "1", "text")),
        ("[1, 0]", None, ("1", "0", "integer")),
        ("[0, 1]", "text", ("0", "1", "text")),
        ('["0", "1"]', "integer", ("0", "1", "integer")),
        ('["false", "true"]', "boolean", ("false", "true", "boolean")),
        ('[0, "many"]', "text", ("0", "many", "text")),
    ],
)
def test_spellings_of_levels(
    levels: str, kind: str | None, expected: tuple[str, ...], tmp_path: Path
) -> None:
    line = f'kind = "{kind}"\n' if kind else ""
    text = f'[study]\nname = "s"\n[[variable]]\nname = "x"\n{line}levels = {levels}\n'
    (tmp_path / "study.toml").write_text(text, encoding="utf-8")
    (variable,) = Study.load(tmp_path / "study.toml").codebook.variables
    assert (*variable.levels, variable.kind) == expected


@pytest.mark.parametrize("prior", ["[[1, 2, 3], [4.0, 5], [6, 7]]", "[1, 2, 3, 4, 5, 6, 7]"])
def test_spellings_of_the_prior(prior: str, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(f"{SHORT}\n[model]\nprior = {prior}\n", encoding="utf-8")
    assert Study.load(tmp_path / "study.toml").prior == (1, 2, 3, 4, 5, 6, 7)


def test_the_words_for_none(tmp_path: Path) -> None:
    text = f'{SHORT}\n[model]\nprior = "fixed"\nlaps = "never"\n'
    (tmp_path / "study.toml").write_text(text, encoding="utf-8")
    study = Study.load(tmp_path / "study.toml")
    assert (study.prior, study.laps) == ("fixed", None)


# Files that are refused


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="does not exist"):
        Study.load(tmp_path / "none.toml")
    with pytest.raises(FileError, match="is a folder: name a file"):
        Study.load(tmp_path)
    with pytest.raises(FileError, match="is there already and is no study"):
        STUDY.save(tmp_path)
    with pytest.raises(FileError, match="can't be written"):
        STUDY.save(tmp_path / "none" / "study.toml")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"name", "at line 1|at end of document"),
        (b"[study]\nname = x\n", "at line 2"),
        (b"[study]\n[study]\n", "at line 2"),
        (b"\xff\xfe[\x00", "text in UTF-8"),
        (b"x = " + b"[" * 100_000, "can't be read as TOML"),
        (b"x = " + b"9" * 5000, "can't be read as TOML"),
    ],
    ids=["word", "value", "twice", "bytes", "deep", "long"],
)
def test_what_is_no_toml(content: bytes, words: str, tmp_path: Path) -> None:
    message = refusal(content, tmp_path, FileError)
    assert "can't be read as TOML" in message
    assert any(word in message for word in words.split("|"))


@pytest.mark.parametrize("version", ["1", "4", '"5"', "true", "0"])
def test_another_version(version: str, tmp_path: Path) -> None:
    text = SHORT.replace("[study]", f"[study]\nformat = {version}")
    assert "reads version 5" in refusal(text, tmp_path, FileError)


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ("[model]\nmax_cluster = 3", "section [model]: unknown key 'max_cluster': 'max_clusters'"),
        ("[model]\nLaps = 3", "unknown key 'Laps': 'laps' may be meant"),
        ("[model]\nseed = 3", "unknown key 'seed': it belongs in section [study]"),
        ("[model]\nzzz = 3", "unknown key 'zzz': known are 'max_clusters', 'recipe'"),
        ("[modle]\nlaps = 3", "unknown section [modle]: 'model' may be meant"),
        ("[zzz]\nlaps = 3", "unknown section [zzz]: known are 'study', 'model'"),
        ('[[variable]]\nname = "a"\nlevels = [1]\nlevel = 1', "[[variable]] 4 ('a'): unknown key"),
        ("[[model]]\nlaps = 3", "[model] must be a section"),
        ("[model]\nmax_clusters = 2.5", "section [model]: max_clusters: give 'auto', or a whole"),
        ('[model]\nrecipe = "papers"', "section [model]: recipe: give one of 'default', 'paper'"),
        ('[model]\nlaps = "no"', "section [model]: laps: give a whole number"),
        ("[model]\nmerge_criterion = 1", "section [model]: merge_criterion: give one of"),
        ("[model]\nalpha = nan", "section [model]: alpha: give a number from 1e-09 to 1e+09"),
        ("[model]\nalpha = 2024-01-01", "section [model]: alpha: give a number"),
        ("[model]\nprior = 'fix'", "section [model]: prior: give 'learned', 'fixed'"),
        ("[model]\nprior = [[1, 1], [1, 1]]", "section [model]: prior: give one number for each"),
        ("[model]\nprior = [[1, 1, 1], [1, 1], 1]", "section [model]: prior: give one number for"),
        ("[model]\nprior = [1, 1]", "section [model]: prior: give one number for each of the 7"),
        ("[disclosure]\npolicy = 'onz'", "section [disclosure]: policy: give one of 'none',"),
        ("[disclosure]\npolicy = 3", "'pcornet', 'custom'"),
        ("[disclosure]\npolicy = 'custom'", "a custom policy needs a 'threshold'"),
        ("[disclosure]\npolicy = 'custom'\nthreshold = -1", "section [disclosure]: threshold:"),
        ("[disclosure]\npolicy='custom'\nthreshold=1\nrounding='x'", "[disclosure]: rounding:"),
        ("[disclosure]\npolicy='custom'\nthreshold=1\nsource=1", "[disclosure]: source: give"),
        ("[disclosure]\npolicy = 'ons'\nrounding = 5", "'rounding' is for policy = \"custom\""),
        ("[disclosure]\nthreshold = 5", "'threshold' is for policy = \"custom\""),
        ("[disclosure]\nrounds = -1", "section [disclosure]: rounds: give"),
        ("[disclosure]\nrounds = 1", ": rounds: a centre that chooses the clusters could count"),
        ("[promise]\ntrusts_centre = 1", "[promise]: promise: trusts_centre: give true or false"),
        ("[disclosure]\nsite_shares = 1", "section [disclosure]: site_shares: give true or false"),
        ("[table]\nrow_id = 3", "section [table]: row_id: give a text"),
        ("[table]\noutcomes = 'death'", "section [table]: outcomes: give a list of names"),
        ("[table]\noutcomes = ['copd']", "outcome 'copd' is a variable too"),
        ("[[variable]]\nlevels = [1]", "[[variable]] 4: name: give the name of its column"),
        ("[[variable]]\nname = 3\nlevels = [1]", "[[variable]] 4: name: give"),
        ("[[variable]]\nname = 'a'", "[[variable]] 4 ('a'): levels: give a list"),
        ("[[variable]]\nname = 'a'\nlevels = '0|1'", "('a'): levels: give a list"),
        ("[[variable]]\nname = 'a'\nlevels = [0.5, 1.0]", "('a'): levels: give a list"),
        ("[[variable]]\nname = 'a'\nlevels = [0, true]", "('a'): levels: they mix"),
        ("[[variable]]\nname = 'a'\nlevels = [0, '0']", "('a'): levels: they mix"),
        ("[[variable]]\nname = 'a'\nlevels = []", "('a'): variable 'a' has no levels"),
        ("[[variable]]\nname = 'a'\nlevels = [1, 1]", "lists a level twice"),
        ("[[variable]]\nname = 'a'\nlevels = [99999999999999999999]", "64 bits"),
        ("[[variable]]\nname = 'a'\nlevels = [1]\nkind = 'number'", "its kind must be"),
        ("[[variable]]\nname = 'a'\nlevels = [1]\nkind = []", "its kind must be"),
        ("[[variable]]\nname = 'a'\nlevels = [1]\nlabel = 3", "('a'): label: give a text"),
        ("[[variable]]\nname = 'copd'\nlevels = [1]", "variable 'copd' is listed twice"),
    ],
)
def test_a_refusal_names_the_place(extra: str, words: str, tmp_path: Path) -> None:
    assert words in refusal(f"{SHORT}\n{extra}\n", tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "there is no [[variable]] block"),
        (f"seed = 3\n{SHORT}", "'seed' stands alone: put it in section [study]"),
        (SHORT.replace('name = "frailty"', "", 1), "section [study] has no 'name'"),
        (SHORT.replace('"frailty"', "3", 1), "section [study]: name: give a text"),
        (SHORT.replace("[study]", "[study]\nseed = -1"), "section [study]: seed: give"),
        ("[variable]\nname = 'a'", "write [[variable]], in double brackets"),
        ("variable = [1]", "write [[variable]], in double brackets"),
        ("model = 1", "[model] must be a section"),
    ],
)
def test_other_refusals(text: str, words: str, tmp_path: Path) -> None:
    assert words in refusal(text, tmp_path)


toml_values = st.sampled_from(
    ["1", "-1", "0.5", "nan", "true", '"x"', "[]", "[[]]", "[1]", '["a"]', "{}", "1979-05-27"]
)


@settings(deadline=None)  # it writes files
@given(st.sampled_from(["study", "model", "disclosure", "promise", "table", "keys"]), st.data())
def test_whatever_stands_in_a_file_is_read_or_refused(section: str, data: st.DataObject) -> None:
    keys = data.draw(st.lists(st.sampled_from(KEYS[section]), unique=True))
    lines = [f"{key} = {data.draw(toml_values)}" for key in keys]
    text = f"[{section}]\n" + "\n".join(lines)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "study.toml"
        rest = SHORT if section != "study" else SHORT.partition("[[")[1] + SHORT.partition("[[")[2]
        path.write_text(f"{text}\n{rest}", encoding="utf-8")
        message = ""
        try:
            Study.load(path)
        except FedMerDelError as error:
            message = str(error)
        assert "\n" not in message
        assert not message or message.startswith(f"file {str(path)!r}")


def test_an_unknown_section_is_named_on_one_line() -> None:
    """Found by fuzzing: a name that is itself the end of a line."""
    with pytest.raises(DataError) as refused:
        Study.from_bytes(b'["\\u2028"]\nx = 1\n')
    assert len(str(refused.value).splitlines()) == 1
