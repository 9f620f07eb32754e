"""Constant motion: which constant text of a prompt may stand in front of what differs by row."""
