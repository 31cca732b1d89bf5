"""Applies the changes of commands: to the folder, as a commit, or as a pushed branch with a pull request."""
