"""Accesses Git repositories with the commands of Git, which no other package starts.

No text from a user can become an option of Git. A name of a commit is passed on Git's standard input. Paths of
files are compared in Python, or passed as data. The command line contains object ids that Git printed, and refs that
Allotment named. URLs and folders follow `--end-of-options` or `--`.
"""
