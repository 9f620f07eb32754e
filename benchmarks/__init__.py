"""Measurements of speed and cache use, side by side with other engines."""
