"""Generate the texts of a new repository for `allot init`: declarations, the program's installation, the forge's CI."""
