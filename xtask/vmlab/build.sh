#!/bin/bash
# Makes what a guest boots from, in the cache directory: vmlinux, initrd.base, root.img.
#   build.sh [--force | --current]     --current only tells by its status whether that was done already
# Everything comes from the Debian archives that this machine's apt is set up with. Does nothing if the
# cache was made from these same inputs; the sum of them is in the file "stamp". Root is not needed.
# VMLAB_SUITE: another Debian release than this machine's, such as trixie, from the same archive. Its packages are in packages-SUITE.txt,
# its image in the directory SUITE of the cache.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
cache=${VMLAB_CACHE:-${CARGO_TARGET_DIR:-$here/../../target}/vmlab}
suite=${VMLAB_SUITE:-}
packages_file=$here/packages${suite:+-$suite}.txt
cache=$cache${suite:+/$suite}
mkdir -p "$cache/debs"
cache=$(realpath "$cache")
cd "$cache"
export PATH=$PATH:/usr/sbin:/sbin
t0=$(date +%s)
note() { echo "vmlab build: [$(($(date +%s) - t0)) s] $*"; }
die() { echo "vmlab build: $*" >&2; exit 1; }

exec 9>lock
flock 9
sum=$(cat "$here"/{build.sh,modules.txt,guest/initrd-init} "$packages_file" | sha256sum | cut -d' ' -f1)
[ "${1:-}" != --force ] || rm -f stamp
if [ "$(cat stamp 2>/dev/null)" = "$sum" ]; then exit 0; fi
[ "${1:-}" != --current ] || exit 1
rm -f stamp

missing=
for need in mmdebstrap:mmdebstrap mke2fs:e2fsprogs cpio:cpio depmod:kmod dpkg-deb:dpkg python3:python3 xz:xz-utils; do
  command -v "${need%%:*}" >/dev/null || missing="$missing ${need#*:}"
done
[ -z "$missing" ] || die "missing here: apt-get install$missing"

words() { sed 's/#.*//' "$1" | tr -s ' \n' ' '; }
# The archives: this machine's, or those of another suite in an apt of its own.
apt_options=(-o APT::Sandbox::User=root)
archives() { apt-get indextargets --format '$(ORIGIN)|deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' | awk -F'|' '$1=="Debian"{print $2}' | sort -u; }
archives > sources.list
[ -s sources.list ] || die "apt has no Debian archive: this build needs Debian's own"
if [ -n "$suite" ]; then
  sed -i -E "s/^(deb [^ ]+) [a-z]+(-updates|-security)? /\\1 $suite\\2 /" sources.list
  mkdir -p apt/{lists/partial,cache/archives/partial}
  : > apt/status
  apt_options+=(-o Dir::Etc::SourceList="$cache/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State="$cache/apt" -o Dir::State::Lists="$cache/apt/lists"
    -o Dir::State::status="$cache/apt/status" -o Dir::Cache="$cache/apt/cache" -o APT::Get::List-Cleanup=false)
  timeout 600 apt-get -q=2 "${apt_options[@]}" -o Acquire::Languages=none update >&2 || die "apt has no suite $suite"
fi
deb() { # deb PACKAGE: download it unless there, print the file's name
  ls debs/"$1"_*.deb >/dev/null 2>&1 || (cd debs && timeout 900 apt-get -q=2 "${apt_options[@]}" download "$1" >&2)
  ls -t debs/"$1"_*.deb | head -1
}

# 1. The kernel that the distribution's meta-package points at.
image=$(apt-cache "${apt_options[@]}" depends linux-image-amd64 2>/dev/null | awk '$1=="Depends:" && $2~/^linux-image-[0-9]/{print $2; exit}')
[ -n "$image" ] || die "apt knows no linux-image-amd64: run apt-get update"
kver=${image#linux-image-}
rm -rf kernel; dpkg-deb -x "$(deb "$image")" kernel
[ -e kernel/lib ] || ln -s usr/lib kernel/lib
depmod -b kernel "$kver"
# QEMU starts the ELF file directly; a guest under emulation is spared decompressing it.
python3 - "kernel/boot/vmlinuz-$kver" vmlinux.new <<'PY'
import lzma, subprocess, sys, zlib
d = open(sys.argv[1], "rb").read()
zstd = lambda b: subprocess.run(["zstd", "-dcq"], input=b, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
for magic, unpack in ((b"\xfd7zXZ\0", lambda b: lzma.LZMADecompressor().decompress(b)),
                      (b"\x1f\x8b\x08", lambda b: zlib.decompressobj(31).decompress(b)),
                      (b"\x28\xb5\x2f\xfd", zstd)):
    i = d.find(magic)
    while i >= 0:
        try:
            o = unpack(d[i:])
            if o[:4] == b"\x7fELF":
                open(sys.argv[2], "wb").write(o)
                sys.exit(0)
        except Exception:
            pass
        i = d.find(magic, i + 1)
sys.exit("no kernel image found inside " + sys.argv[1])
PY
mv vmlinux.new vmlinux
note "kernel $kver unpacked"

# 2. Its modules: those of modules.txt and what they need.
module_files() { # module_files NAME...: in load order
  local m
  for m in "$@"; do
    modprobe -d "$cache/kernel" -S "$kver" --show-depends "$m" 2>/dev/null || echo "vmlab build: no module $m in $kver" >&2
  done | awk '$1=="insmod" && !seen[$2]++ {print $2}'
}
rm -rf mods; mkdir mods
module_files $(words "$here/modules.txt") | while read -r f; do
  install -D -m 644 "$f" "mods${f#"$cache/kernel"}"
done
cp kernel/lib/modules/"$kver"/modules.{builtin,builtin.modinfo,order} "mods/lib/modules/$kver/"
depmod -b mods "$kver"

# 3. The guest's userland. A tar stream, so that no mode of mmdebstrap needs root here.
release=${suite:-$(. /etc/os-release; echo "$VERSION_CODENAME")}
packages=$(words "$packages_file" | tr -s ' ' ',' | sed 's/^,//; s/,$//')
rm -rf rootfs; mkdir rootfs
timeout 1800 mmdebstrap --variant=essential --format=tar --include="$packages" --aptopt='Apt::Install-Recommends "false"' \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/info/*' \
  "$release" - sources.list 2>root.log | tar -x -C rootfs --no-same-owner --exclude='./dev/*' ||
  { tail -30 root.log >&2; die "mmdebstrap failed"; }
rm -rf rootfs/var/lib/apt/lists/* rootfs/var/cache/apt/*
note "guest root unpacked: $(du -sh rootfs | cut -f1)"

# 4. The root image (read-only in use, so any number of machines share it) and the initramfs.
mkdir -p rootfs/usr/lib/modules rootfs/mnt rootfs/vmlab
cp -a "mods/lib/modules/$kver" rootfs/usr/lib/modules/
size=$(($(du -sm rootfs | cut -f1) * 5 / 4 + 64))
rm -f root.img.new
mke2fs -q -t ext4 -O ^has_journal,^metadata_csum -E root_owner=0:0 -N 60000 -d rootfs root.img.new "${size}M"
mv root.img.new root.img
rm -rf ir; mkdir -p ir/{bin,dev,proc,sys,modules,vmlab}
dpkg-deb --fsys-tarfile "$(deb busybox-static)" | tar -xO --wildcards './*bin/busybox' > ir/bin/busybox
chmod 755 ir/bin/busybox
module_files virtio_pci virtio_blk ext4 overlay | while read -r f; do
  cp "$f" ir/modules/
  basename "$f"
done > ir/modules.order
install -m 755 "$here/guest/initrd-init" ir/init
(cd ir; find . | cpio -o -H newc --quiet) > initrd.base
rm -rf kernel mods rootfs ir apt
echo "$sum" > stamp
note "ready: kernel $kver in $cache ($(du -csh root.img initrd.base vmlinux | tail -1 | cut -f1))"
