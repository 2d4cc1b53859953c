"""Rounds in which only sums over all sites are known, with a little noise. No row, no site."""
