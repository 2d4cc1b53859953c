"""What leaves a site: sums under a release mechanism, in files that a person can read."""
