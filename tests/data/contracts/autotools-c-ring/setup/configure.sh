#!/bin/sh
set -eu
mkdir -p build
cd build
../configure --disable-silent-rules --disable-shared
