"""Read declarations: parse (path, bytes) into an inventory of validated models."""
