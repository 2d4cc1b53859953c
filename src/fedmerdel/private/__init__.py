"""Differential privacy: a budget, what a row may add to sums, and rounds of noised sums. No row."""
