"""What a graph tells of its calls before a run: prompts, bounds, sharing, order."""
