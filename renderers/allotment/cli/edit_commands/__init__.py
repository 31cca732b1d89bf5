"""The subcommands that edit declarations, one module per group: parse, call, print."""
