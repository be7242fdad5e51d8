"""Doors: what others call. Every answer that is not a success is a problem document."""
