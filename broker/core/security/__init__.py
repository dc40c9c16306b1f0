"""Users and their rights. They are kept and described; nothing goes by them yet."""
