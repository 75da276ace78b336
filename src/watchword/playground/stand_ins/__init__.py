"""Data sets of the playground in the file forms of published ones, so that a task runs from its files to its numbers without them."""
