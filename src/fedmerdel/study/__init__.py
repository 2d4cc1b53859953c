"""What all sites of a study share: the variables and their levels."""

from __future__ import annotations

from fedmerdel.study.codebook import MAX_LEVELS, Codebook, Variable

__all__ = ["MAX_LEVELS", "Codebook", "Variable"]
