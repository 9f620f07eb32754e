"""Other engines that replay one recorded run of an evaluation suite."""
