#!/bin/bash
# The scripted baseline: one edit for every task.
sed -i '4s/.*/echo "${text^^}"/' tool.sh
