"""A table that several files fit, and the ways in which they fit it."""

from __future__ import annotations

from typing import Any

from fedmerdel import simulate

LEVELS = (2, 3, 4, 2, 5) * 5
TABLE = simulate(800, 25, 4, levels=LEVELS, beta=(0.3, 0.3), random_state=3)
RECIPES = ["default", "paper"]
WAYS: list[dict[str, Any]] = [
    {"recipe": "default"},
    {"recipe": "default", "prior": "fixed"},
    {"recipe": "paper"},
    {"recipe": "paper", "variable_selection": True},
]
