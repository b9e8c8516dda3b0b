"""Data about this project for its developers: see README.md."""
