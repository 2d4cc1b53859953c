"""What sums say, and how surely: rates, intervals, tests, checks. No rows, no files."""
