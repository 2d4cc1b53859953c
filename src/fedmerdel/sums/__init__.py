"""Formulas on sums over rows: no row, no file. Every equation of the method is here, once."""
