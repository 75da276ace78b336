"""One file a benchmark protocol."""
