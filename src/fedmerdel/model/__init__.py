"""The global model: what all sites found together. It holds no row."""
