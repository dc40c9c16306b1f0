"""What enters the core and carries out its effects."""
