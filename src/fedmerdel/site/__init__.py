"""What runs at a site, next to its rows: fitting, and assigning rows to global clusters."""
