"""The book: `make docs`."""
