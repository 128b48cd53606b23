#!/bin/sh
# Builds a container image with the server: build-image.sh [TAG]
#
# Needs root, buildah and debootstrap, and no base image: the system is made by debootstrap. It runs
# where containers cannot be started, because steps run in a chroot.
#
#   PROGRAMS    directory with `firn` and `firn-serve` [default: they are built]
#   SUITE       release of Debian [default: bookworm]; not older than the one that built PROGRAMS
#   MIRROR      mirror of Debian [default: that of debootstrap]
#   ARCHIVE     also write the image to this file, as an archive of OCI

set -eu
tag=${1:-firndb}
root=$(cd "$(dirname "$0")/.." && pwd)
context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT

if [ -z "${PROGRAMS:-}" ]; then
  cd "$root"
  cargo build --locked --release -p firndb-cli -p firndb-server
  PROGRAMS=${CARGO_TARGET_DIR:-$root/target}/release
fi
for program in firn firn-serve; do
  install -s -m 0755 "$PROGRAMS/$program" "$context/$program"
done
cp "$root/LICENSE" "$context/"

debootstrap --variant=minbase --include=ca-certificates "${SUITE:-bookworm}" "$context/root" \
  ${MIRROR:+"$MIRROR"}
# Nothing of this is needed to run a program.
rm -rf "$context/root/var/cache/apt" "$context/root/var/lib/apt/lists" \
  "$context/root/usr/share/locale" "$context/root/usr/share/man" "$context/root/var/log/"*
find "$context/root/usr/share/doc" -type f ! -name copyright -delete
tar -C "$context/root" --numeric-owner --one-file-system -cf "$context/root.tar" .
rm -rf "$context/root"

buildah bud --storage-driver vfs --isolation chroot --tag "$tag" \
  -f "$root/packaging/Containerfile" "$context"
if [ -n "${ARCHIVE:-}" ]; then
  buildah push --storage-driver vfs "$tag" "oci-archive:$ARCHIVE"
fi
