"""Writing a study as TOML, with a comment in plain words on each line.

There is no TOML writer in Python's library, and none would write the comments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from fedmerdel.study.codebook import Codebook
from fedmerdel.study.policy import CUSTOM, POLICIES, Policy
from fedmerdel.study.study_file import FORMAT, KEYS, NEVER
from fedmerdel.sums.prior import Expected

_HEAD = """\
# A study: what all its sites agree on before they fit.
# Every site uses the same file. Lines that begin with # are comments. A line left out takes the
# value that is called usual here. It holds no rows; but if it was drafted from a table, the levels
# below are that table's, so read them before you send it on.
"""

_WORDS: dict[str, str] = {
    "format": "Version of this file's format.",
    "name": "What the study is called.",
    "seed": "Any whole number: the same one gives the same result. Usual: 0.",
    "max_clusters": (
        'Most clusters that a site may find; the fit finds how many. Usual: "auto", as many as it '
        "takes."
    ),
    "recipe": '"default", or "paper" for the method exactly as published.',
    "laps": (
        'Recipe "paper" only: passes between proposals to merge and delete; "never" makes none. '
        "Usual: 5."
    ),
    "merge_criterion": (
        'Recipe "paper" only: how a pair to merge is chosen: "correlation" (usual), "kl", '
        '"bhattacharyya" or "random".'
    ),
    "alpha": "How even the clusters' sizes are; below 1, few large ones. Usual: 0.01.",
    "prior": (
        'What is expected of the levels: "learned" (usual) from the rows, "fixed" for 1 / L each '
        "of L levels, one number for all, or a list: a number a variable, or a list of numbers a "
        "variable."
    ),
    "variable_selection": (
        "Select variables as in the paper: true or false (usual). The learned prior tells noise "
        "by itself."
    ),
    "missing": (
        'Missing entries: "ignore" (usual) leaves them out and keeps the row, "level" makes '
        'missing a level of every variable, "error" refuses a table that has any.'
    ),
    "policy": (
        f"The smallest count that may leave a site: {', '.join(POLICIES)}, or custom. "
        "Usual: opensafely."
    ),
    "threshold": "Custom: the smallest count but zero that may leave a site; 0 is no rule.",
    "rounding": "Custom: counts are rounded to multiples of this; 0 is no rounding.",
    "source": "Custom: where this rule comes from.",
    "rounds": (
        "Rounds after the first release that a site replies in at most; each is one more release "
        "about the same rows. Usual: 0."
    ),
    "site_shares": (
        "Whether the model that sites get tells the share of each site's rows in each cluster: "
        "true or false (usual)."
    ),
    "checks": (
        "Whether sites tell tables of all their rows with which the model is checked: true or "
        "false (usual)."
    ),
    "check_pairs": (
        "Variables of which each two are told as a table then. Usual: [], the first ones, which "
        "are all unless there are many."
    ),
    "kind": (
        '"counts" (usual): each site\'s own counts leave it, under the policy above. "sums": only '
        "totals over all sites can be read, with a little noise; the policy is that of the model. "
        '"dp": the same, with as much noise as a budget asks for.'
    ),
    "trusts_centre": (
        "Whether all sites trust the centre not to count small groups with clusters that it "
        "chooses: true or false (usual). Rounds under a policy need true."
    ),
    "noise": "Standard deviation of the noise on each total, in rows. Usual: 2.0.",
    "least_sites": "Fewer sites than this are not added up. Usual: 5.",
    "epsilon": "Budget of the whole study: the smaller, the less is told of anyone.",
    "delta": "Chance that more is told: well under one in all rows.",
    "unit": "Rows that one person has at most. Usual: 1, a person is a row.",
    "honest_sites": "Sites whose noise must be enough by itself. Leave out for half of them.",
    "row_id": "Column that says which row is which. It never leaves a site. Leave out if none.",
    "weight": (
        "Column of row weights, such as survey weights; all sites have it. Leave out if none."
    ),
    "outcomes": (
        "Columns counted in each cluster, not used to find it: a yes/no column by its name, such "
        'as "death", or { name = "smoking", levels = ["never", "former", "now"] }, { name = '
        '"stay", range = [0, 30] } for a mean, { name = "days", event = "died", ends = [30, 365] } '
        'for time to event; strata = [{ name = "sex", levels = ["F", "M"] }] standardises.'
    ),
    "covariates": (
        'What membership of the clusters may depend on, such as { name = "sex", levels = ["F", '
        '"M"] }; counted, not used to find clusters. Usual: [].'
    ),
    "centre": (
        "Public key of the centre, as `fedmerdel key` shows it. With keys, nothing is taken that "
        "is not signed by who made it. Leave out if none."
    ),
    "sites": "Public key of each site, by its name: of all that take part, or of none.",
}

_VARIABLE_WORDS = """\
# The variables, one block each, in the order that all sites use. name: its column. label: what
# people call it, if something else. kind: "integer", "boolean" or "text", seen from the levels if
# left out. levels: all values that it may take at any site; missing is not listed. guide: only of
# an outcome that is to help to find the clusters: its weight; 1 is that of a variable.
"""


def study_text(codebook: Codebook, policy: Policy, fields: Mapping[str, Any]) -> str:
    """Return the text of a study's file.

    Parameters
    ----------
    codebook : Codebook
        Its variables.
    policy : Policy
        Its disclosure policy.
    fields : mapping of str to Any
        Its other fields by name, as `Study` has them.
    """
    disclosure: dict[str, Any] = {"policy": policy.name}
    if policy.name == CUSTOM:
        disclosure |= {key: getattr(policy, key) for key in ("threshold", "rounding", "source")}
    laps = NEVER if fields["laps"] is None else fields["laps"]
    shown = {
        **fields,
        **disclosure,
        **fields["promise"].entries,
        "format": FORMAT,
        "laps": laps,
        "prior": _by_variable(fields["prior"], codebook),
        "outcomes": [outcome.entry for outcome in fields["outcomes"]],
        "covariates": [
            {"name": each.name, "levels": list(each.values)} for each in fields["covariates"]
        ],
        "centre": fields["centre_key"],
        "sites": fields["site_keys"],
    }
    lines = [_HEAD]
    for section, keys in KEYS.items():
        if section == "variable":
            continue
        lines.append(f"[{section}]")
        for key in keys:
            if key not in shown:  # of a custom policy, or of another promise
                continue
            value = shown[key]
            if key == "sites":
                lines += _site_lines(value)
                continue
            lines.append(f"# {_WORDS[key]}")
            if key == "policy" and value != CUSTOM:
                lines.append(f"# {value}: {policy.source}.")
            # TOML has no word for nothing.
            lines.append(f'# {key} = "…"' if value is None else f"{key} = {_written(value)}")
        lines.append("")
    lines.append(_VARIABLE_WORDS)
    labels = dict(fields["labels"])
    for variable in codebook.variables:
        lines += ["[[variable]]", f"name = {_written(variable.name)}"]
        if variable.name in labels:
            lines.append(f"label = {_written(labels[variable.name])}")
        lines += [f"kind = {_written(variable.kind)}", f"levels = {_written(variable.values)}"]
        lines += ["" if variable.guide is None else f"guide = {_written(variable.guide)}\n"]
    return "\n".join(lines)


def _site_lines(keys: Sequence[tuple[str, str]]) -> list[str]:
    """Return the lines of the sites' keys: a section of its own, where there are any."""
    words = f"# {_WORDS['sites']}"
    if not keys:
        return [words, "# [keys.sites]", '# NAME = "…"']
    return ["", "[keys.sites]", words, *(f"{quoted(s)} = {quoted(key)}" for s, key in keys)]


def _by_variable(prior: Expected, codebook: Codebook) -> str | list[Sequence[float]]:
    if isinstance(prior, str):
        return prior
    ends = codebook.level_offsets.tolist()
    return [prior[start:end] for start, end in pairwise(ends)]


def _written(value: Any) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_written(each)}' for key, each in value.items())} }}"
    return f"[{', '.join(_written(entry) for entry in value)}]"


def quoted(text: str) -> str:
    """Write a text so that what is seen is what is meant: nothing invisible is left as it is."""
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if character.isprintable():
        return character
    number = ord(character)
    return f"\\u{number:04X}" if number <= 0xFFFF else f"\\U{number:08X}"
