"""One evaluation suite a file: its LM program, loader and scorer."""
