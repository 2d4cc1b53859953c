"""The mixture: formulas on sums over rows, and the passes that make these sums."""
