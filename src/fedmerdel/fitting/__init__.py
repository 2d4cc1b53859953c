"""What needs rows: compiled passes, moves, recipes. Nothing here ever leaves a site."""
