"""The book's pictures: pure functions, numbers in and a figure out, one module a chapter."""
