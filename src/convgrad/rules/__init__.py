"""The contract as data: facts are code, rules are rows, and one loop applies them in order."""
