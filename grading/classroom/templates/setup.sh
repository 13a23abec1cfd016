#!/bin/bash
# Runs once, as root, when the image is built in which submissions are graded: installs what is
# needed, and builds the class's tree.
set -e
cd /autograder/source
mkdir -p callsite
tar -xf callsite.tar.gz -C callsite
cd callsite
.ci/install git make python3
git init -q && git add -A # the tools ask git which files are ours
make -s setup
# Docker allows no sandbox while it builds an image, and the tree holds nothing of a student's.
SANDBOX=no /usr/bin/python3 -m grading.classroom --lab @LAB@ --alone --prepare \
	--in "$(mktemp -d)" --out "$(mktemp -d)"
