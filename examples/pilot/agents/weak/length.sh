#!/bin/bash
# Changes something else.
sed -i "2s/TEXT/text/" tool.sh
