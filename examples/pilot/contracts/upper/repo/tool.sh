#!/bin/bash
# Usage: tool.sh TEXT
text=$1
echo "$text"
