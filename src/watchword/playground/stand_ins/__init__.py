"""Benchmark data sets in the very form in which their owners publish them, rendered by the playground: what tests read and learn from."""
