"""Variables that say whether a row has a condition, and the levels that a picture needs."""

from __future__ import annotations

from fedmerdel.study.codebook import Codebook, Variable

CONDITIONS = (("0", "1"), ("no", "yes"), ("n", "y"), ("false", "true"), ("absent", "present"))
"""Levels of a variable that says whether a row has a condition, in any case: without, with."""


def condition_levels(codebook: Codebook) -> list[int]:
    """Return the positions, among all levels, of those that say that a condition is there.

    An outcome that guides is none.
    """
    found = []
    for variable, start in zip(codebook.variables, codebook.level_offsets[:-1], strict=True):
        at = _present(variable)
        if at is not None and variable.guide is None:
            found.append(int(start) + at)
    return found


def shown_levels(codebook: Codebook) -> list[int]:
    """Return the positions of the levels that a picture needs.

    Of a condition the one that says that it is there, of two other levels the second, since the
    first mirrors it; else all.
    """
    found = []
    for variable, start in zip(codebook.variables, codebook.level_offsets[:-1], strict=True):
        n_levels = len(variable.levels)
        if n_levels == 2:
            present = _present(variable)
            found.append(int(start) + (1 if present is None else present))
        else:
            found += range(int(start), int(start) + n_levels)
    return found


def level_texts(codebook: Codebook, labels: dict[str, str]) -> list[str]:
    """Return what a picture calls each level: a condition by its variable alone, as it is there.

    Parameters
    ----------
    codebook : Codebook
        Variables and levels.
    labels : dict of str to str
        What people call a variable, where that is not its name.
    """
    texts = []
    for variable in codebook.variables:
        label = variable.called(labels.get(variable.name, variable.name))
        present = _present(variable)
        texts += [
            label if at == present else f"{label} = {level}"
            for at, level in enumerate(variable.levels)
        ]
    return texts


def _present(variable: Variable) -> int | None:
    """Return which level of a variable says that a condition is there, if it is one."""
    levels = [level.lower() for level in variable.observed]
    for absent, present in CONDITIONS:
        if sorted(levels) == sorted((absent, present)):
            return levels.index(present)
    return None
