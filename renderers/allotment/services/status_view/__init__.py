"""The view that people get from a clone: the state of publishing, and the facts of the repository."""
