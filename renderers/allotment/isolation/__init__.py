"""The isolation gate: checks the rendered bytes again before they are published."""
