"""The only modules with I/O: each wraps one client library and contains no policy."""
