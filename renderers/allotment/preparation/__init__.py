"""What a resource needs before it starts: sources, storages, preparation Jobs and start gates."""
