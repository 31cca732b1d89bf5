"""Render reports for people: summaries in Markdown, tables on a terminal."""
