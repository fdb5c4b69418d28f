"""Speed as ratios against peers, side by side in one process, interleaved: `python -m bench`."""
