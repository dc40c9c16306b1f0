"""The demo: one consumer group of three kinds of clients, through joins, leaves, a kill and a broker restart."""
