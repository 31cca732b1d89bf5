"""Publishing: what is declared and what was published become the rendered branches that follow."""
