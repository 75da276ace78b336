"""Watchword beside its peers: speed and memory, measured in one run. ``python -m benchmarks`` runs all of it."""
