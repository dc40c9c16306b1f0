"""What is known of users, and what they may do. It is kept and described; nothing goes by it yet."""
