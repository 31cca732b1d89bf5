"""What a new repository begins with: declarations, what installs the program, the forge's CI; texts, for `allot init`."""
