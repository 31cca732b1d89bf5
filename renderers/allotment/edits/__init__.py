"""The edits of declarations that commands make: each is a pure function that returns the changed files."""
