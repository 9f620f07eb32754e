"""Pictures of programs: what is shown, where it stands, how each format writes it."""
