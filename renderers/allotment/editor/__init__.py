"""The language server: shows problems, names, prices and corrections of declarations in an editor."""
