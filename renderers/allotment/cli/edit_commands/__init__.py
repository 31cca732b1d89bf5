"""The subcommands that edit declarations, one module per group of verbs."""
