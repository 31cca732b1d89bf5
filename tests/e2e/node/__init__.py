"""End-to-end tests on a real node: containers that run, files that are there, packets that arrive."""
