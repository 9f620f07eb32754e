"""Which tokens an automaton allows: walks of a token trie, and masks over logits."""
