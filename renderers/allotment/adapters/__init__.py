"""Only the modules of this package do I/O. Each module wraps one client library and contains no policy."""
