"""The experiments, a module for each part of the paper."""
