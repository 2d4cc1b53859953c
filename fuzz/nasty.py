"""Values that have broken programs: numbers, texts, names and whole fragments."""

from __future__ import annotations

from random import Random

DEEP = (30, 500, 900, 990, 2_000, 100_000)
"""How deep things are put into each other: about as deep as Python goes, and much deeper."""

NUMBERS = (
    *("0", "1", "-1", "2", "7", "1.5", "-0", "-0.0", "1e-9", "5e-324", "1e16", "1e154", "1e308"),
    *("1.7976931348623157e308", "-1e308", "1e400", "-1e400", "1e-400", "1e99999", "1E+5"),
    *("255", "256", "65536", "2147483648", "4294967296", "9007199254740993"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775809"),
    *("1" + "0" * 24, "9" * 400, "9" * 4300, "9" * 5000, "0." + "3" * 500, "1e-" + "9" * 20),
)
"""Numbers, as JSON, TOML and CSV write them."""

WORDS = ("NaN", "nan", "Infinity", "-Infinity", "inf", "-inf", "null", "None", "true", "false")
"""What is no number in some formats, and one in others."""

TEXTS = (
    *("", " ", "x", "0", "1", "auto", "none", "custom", "exact", "split", "merge", "delete"),
    *("\x00", "\n", "\r\n", "\t", "\x1b[31m", "\u2028", "\ufeff", "\u202e", "é", "e\u0301", "ß"),
    *("😀", "\U0010ffff", "\ud800", "a\udfffb", "=1+1", "@x", "-x", "'=1", '"', "'", ",", ";"),
    *("../../x", "/etc/passwd", "..", ".", "~", "C:\\x", "con", "a/b", "a\\b", "%s%n", "{0}"),
    *("<script>x</script>", "[bold]x", "(missing)", "(rows)", "cluster 0", "x" * 300, "x" * 20_000),
    *("1_000", "٣", "0x10", "１", "1,5", "yes", "NA", "2020-01-01", "9" * 30, "-" * 50),
)
"""Texts: control signs, halves of characters, paths, formulas, digits of other scripts."""

EDGES = {
    "max_clusters": ("1", "2", "2000", '"auto"', "2001"),
    "recipe": ('"paper"', '"default"'),
    "laps": ("0", "1", "1000000", '"never"'),
    "merge_criterion": ('"kl"', '"bhattacharyya"', '"random"'),
    "alpha": ("1e-9", "1e9", "0.5", "100", "1e-10"),
    "prior": ('"fixed"', '"learned"', "1e-9", "1e9", "0.5", "[1e-9, 1e9, 1, 1]"),
    "variable_selection": ("true", "false"),
    "missing": ('"level"', '"error"', '"ignore"'),
    "policy": ('"none"', '"ons"', '"datashield"', '"custom"\nthreshold = 30\nrounding = 1000'),
    "rounds": ("0", "1", "1000"),
    "site_shares": ("true", "false"),
    "outcomes": ("[]", '["died"]', '["died", "id"]', '["nothing"]'),
    "seed": ("0", "4294967295"),
    "name": ('"x"', '"é"', '"=1"', '"<b>"'),
    "levels": ("[0, 1]", '["f", "m"]', '["x"]', "[true, false]", "[false]", '["0", "1", "2"]'),
}
"""What a study may ask for, at the edge of that or a little beyond."""


def number(rng: Random) -> str:
    """Return a number as text."""
    return rng.choice(NUMBERS)


def text(rng: Random) -> str:
    """Return a text that may hold anything."""
    return rng.choice(TEXTS)


def written(rng: Random) -> str:
    """Return a text that a file in UTF-8 can hold."""
    return text(rng).encode("utf-8", "replace").decode()


def json_fragment(rng: Random) -> str:
    """Return something that stands where a value of JSON is."""
    depth = rng.choice(DEEP)
    escaped = "".join(f"\\u{ord(c):04x}" if ord(c) <= 0xFFFF else c for c in text(rng))
    return rng.choice(
        (
            *(number(rng), number(rng), number(rng), rng.choice(WORDS), rng.choice(WORDS)),
            *(f'"{escaped}"', f'"{escaped}"', f'"{number(rng)}"', "null", "true", "false"),
            *("[]", "{}", "[[]]", "[null]", '[""]', '{"": {}}', '{"a": 1, "a": 2}', "[1, [2]]"),
            "[" * depth + "]" * depth,
            '{"a":' * depth + "1" + "}" * depth,
            "[" + "0," * rng.choice((10, 1000)) + "0]",
        )
    )


def toml_fragment(rng: Random) -> str:
    """Return something that stands where a value of TOML is."""
    depth = rng.choice(DEEP)
    return rng.choice(
        (
            *(number(rng), number(rng), number(rng), rng.choice(WORDS), f'"{written(rng)}"'),
            *(f"'{written(rng)}'", f'"""{written(rng)}"""', '"\\ud800"', '"\\U0010FFFF"', '""'),
            *("[]", "{}", "[[]]", '[""]', "{a = 1}", "[1, true]", '[1, "1"]', "true", "false"),
            *("0x" + "f" * 5000, "0b1", "0o7", "1979-05-27", "07:32:00", "1979-05-27T07:32:00Z"),
            "[" * depth + "]" * depth,
            "{a=" * depth + "1" + "}" * depth,
            "{" + ".".join("a" * rng.choice((3, 300, 3000))) + "=1}",
            "[" + "0," * rng.choice((10, 1000)) + "0]",
        )
    )
