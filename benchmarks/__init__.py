"""Benchmarks of speed and quality; `make bench` runs them all."""
