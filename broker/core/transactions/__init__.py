"""The transaction coordinator: transactional ids, their producer ids and epochs, and the fate of transactions."""
