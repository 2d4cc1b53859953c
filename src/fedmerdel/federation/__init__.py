"""The coordinating centre: merging the clusters of all sites from their statistics alone."""
