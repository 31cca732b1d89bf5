"""Pull requests: planned, held against who may change what, commented on, and followed after their merge."""
