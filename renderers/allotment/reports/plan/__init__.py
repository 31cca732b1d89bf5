"""Render a plan for people: on a terminal, and as a comment on a pull request."""
