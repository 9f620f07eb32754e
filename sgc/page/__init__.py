"""One self-contained HTML page about a graph: picture, costs, timeline."""
