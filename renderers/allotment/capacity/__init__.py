"""Units, their allocation, and prices: exact numbers, never floats."""
