"""The book, and what builds it."""
