"""What a program becomes: graph, text and byte form, analyses. No torch here."""
