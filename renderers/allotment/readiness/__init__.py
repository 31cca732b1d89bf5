"""What a declared thing needs before it runs or is filled: units, storages that are prepared, and what is known of
them."""
