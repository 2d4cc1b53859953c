"""Sums over sites that nobody sees the parts of."""
