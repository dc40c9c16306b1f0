"""The exchanges of SASL, both ends: tokens in, tokens out. Secrets, chance and time are given to them."""
