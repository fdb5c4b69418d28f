"""What everything else stands on: errors, canonical bytes, digests, ids, clocks, file habits."""
