"""Accesses Git repositories through GitPython, which no other package uses.

No text from a user can become an option of Git. Names of commits are passed on standard input, and paths are compared
here or passed as data. Arguments are only object IDs from Git itself, and refs that Allotment named.
"""
