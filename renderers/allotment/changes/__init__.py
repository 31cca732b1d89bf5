"""What would change, and what mustn't: pure functions of what was published and what is rendered now."""
