"""The coordinating centre: the state of a federation, and its steps. It holds no row."""
