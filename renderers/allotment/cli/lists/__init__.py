"""The subcommands that list and search resources, offers and people, one per module."""
