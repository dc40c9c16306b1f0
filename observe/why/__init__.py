"""Why a group rebalanced: events become episodes, episodes become causes, and causes become words."""
