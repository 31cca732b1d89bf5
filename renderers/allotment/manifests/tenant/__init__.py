"""A tenant: what it declares becomes objects of its namespace, and Applications of its AppProject."""
