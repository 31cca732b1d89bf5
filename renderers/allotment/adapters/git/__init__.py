"""Git, by GitPython: the one package that talks to it.

No string of a user stands where Git could take it for an option: names of commits go in by standard input, paths are
compared here or go in as data, and what Git runs with are object ids that Git itself gave and refs that we named.
"""
