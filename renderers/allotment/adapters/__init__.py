"""Accesses external systems, such as files, processes, Git, forges and clusters. The modules contain no policy."""
