"""The view that people have from a clone: whether publishing keeps up, and the facts of the repository."""
