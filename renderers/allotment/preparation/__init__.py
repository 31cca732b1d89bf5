"""The prerequisites of a resource's start: sources, storages, preparation Jobs and start gates."""
