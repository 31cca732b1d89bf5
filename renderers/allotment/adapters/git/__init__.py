"""Accesses Git repositories through GitPython, which no other package uses.

No string of a user can become an option of Git: names of commits are passed on standard input, paths are compared here
or passed as data, and arguments are object ids from Git itself and refs that we named.
"""
