"""The one HTTP allow-list, recorder and replayer: the network of contracts that declare one (P9)."""
