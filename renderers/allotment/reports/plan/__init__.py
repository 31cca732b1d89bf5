"""A plan as people and programs read it: on a terminal, as a comment on a pull request, as JSON."""
