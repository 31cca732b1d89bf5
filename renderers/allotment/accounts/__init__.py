"""What the numbers say: units and who holds them, money; exact, never float."""
