"""Hostile files: real ones, broken in many ways, given to every reader of the program."""
