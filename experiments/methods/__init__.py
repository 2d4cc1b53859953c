"""Methods of clustering, each behind the same small face: ``fit(batches) -> labels, info``."""
