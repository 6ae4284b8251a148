#!/bin/bash
# Installs the missing dependencies of a make target, and prints them. A second run installs nothing.
#   install.sh build|check|fuzz|vm|test|posix|posix-sources|bench|deb...
# Debian packages come through apt-get (as root, or with sudo), Rust tools through cargo, at the versions below.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
cache=${VMLAB_CACHE:-${CARGO_TARGET_DIR:-$here/../target}/vmlab}
export PATH=$PATH:/usr/sbin:/sbin

nextest=cargo-nextest@0.9.151
deny=cargo-deny@0.20.2
deb=cargo-deb@3.8.0
suites="pjdfstest@0.2.2 fsx@0.3.2"
# COMMAND:PACKAGE or /FILE:PACKAGE, by purpose
build="cc:gcc"
libfuzzer="c++:g++"
initiators="iscsi-test-cu:libiscsi-bin"
terminal="script:bsdutils stty:coreutils"
monitoring="promtool:prometheus"
# Judge of the arithmetic of parity.
isal="/usr/lib/*/libisal.so.2:libisal2 python3:python3-minimal"
# The browser that tests use, and its driver and judge from npm, at these versions, in target/browser.
browser="chromium:chromium node:nodejs npm:npm"
drivers="playwright-core@1.65.1 axe-core@4.14.1"
packaging="dpkg-shlibdeps:dpkg-dev"
guest="qemu-system-x86_64:qemu-system-x86 mmdebstrap:mmdebstrap mke2fs:e2fsprogs cpio:cpio depmod:kmod python3:python3 xz:xz-utils flock:util-linux syslinux:syslinux mcopy:mtools mkfs.fat:dosfstools /usr/lib/syslinux/mbr/mbr.bin:syslinux-common /usr/lib/*/qemu/block-iscsi.so:qemu-block-extra"
posix="setfattr:attr setfacl:acl nfs4_setfacl:nfs4-acl-tools fio:fio setpriv:util-linux tar:tar"
posix_sources="git:git make:make autoreconf:autoconf automake:automake libtoolize:libtool openssl:openssl pkg-config:pkg-config /usr/include/uuid/uuid.h:uuid-dev /usr/include/xfs/xfs.h:xfslibs-dev /usr/include/sys/acl.h:libacl1-dev /usr/include/attr/libattr.h:libattr1-dev /usr/include/libaio.h:libaio-dev /usr/include/gdbm.h:libgdbm-dev /usr/include/zlib.h:zlib1g-dev xfs_io:xfsprogs bc:bc gawk:gawk"
peers="qemu-storage-daemon:qemu-system-common fio:fio tgtd:tgt ganesha.nfsd:nfs-ganesha /usr/lib/*/ganesha/libfsalvfs.so:nfs-ganesha-vfs mkfs.btrfs:btrfs-progs"

commands=$build tools='' lists='' packages=''
for group in "$@"; do
  case $group in
    check) tools="$tools $deny";;
    fuzz) commands="$commands $libfuzzer";;
    vm) commands="$commands $guest" lists=1;;
    test) tools="$tools $nextest" commands="$commands $initiators $terminal $monitoring $isal $browser" packages=$drivers;;
    posix) tools="$tools $suites" commands="$commands $posix";;
    posix-sources) commands="$commands $posix_sources";;
    bench) commands="$commands $peers";;
    deb) tools="$tools $deb" commands="$commands $packaging";;
    build) ;;
    *) echo "install.sh: unknown group $group" >&2; exit 2;;
  esac
done

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}
missing=
for need in $commands; do
  case $need in
    /*) compgen -G "${need%%:*}" >/dev/null;;
    *) command -v "${need%%:*}" >/dev/null;;
  esac || missing="$missing ${need#*:}"
done
# The guest's packages are fetched with apt's lists, which must exist and be fresh.
if [ -n "$lists" ] && "$here/vmlab/build.sh" --current; then lists=; fi
if [ -n "$missing$lists" ]; then
  if [ "$(id -u)" != 0 ] && ! sudo -n true 2>/dev/null; then
    if [ -n "$missing" ]; then
      echo "These Debian packages are needed; install them as root:" >&2
      echo "  apt-get update && apt-get install --no-install-recommends$missing" >&2
      exit 1
    fi
  else
    echo "install: apt-get update"
    as_root apt-get -q=2 -o Acquire::Retries=3 update
    if [ -n "$missing" ]; then
      echo "install: Debian packages:$missing"
      # shellcheck disable=SC2086
      as_root env DEBIAN_FRONTEND=noninteractive apt-get -q=2 -o Acquire::Retries=3 install -y --no-install-recommends $missing >/dev/null
    fi
  fi
fi

modules=${CARGO_TARGET_DIR:-$here/../target}/browser
for package in $packages; do
  name=${package%@*} version=${package#*@}
  if ! grep -qs "\"version\": \"$version\"" "$modules/node_modules/$name/package.json"; then
    echo "install: $packages (npm, into target/browser)"
    mkdir -p "$modules"
    # shellcheck disable=SC2086
    npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$modules" $packages >/dev/null
  fi
done

for tool in $tools; do
  name=${tool%@*} version=${tool#*@}
  case $("$name" "${name#cargo-}" --version 2>/dev/null | head -1) in
    "$name $version"*) continue;;
  esac
  echo "install: $tool (cargo install; minutes, once)"
  features=
  [ "$name" != cargo-nextest ] || features="--no-default-features --features default-no-update"
  # Optimized for compile time: none of these tools takes a significant part of the run time.
  # shellcheck disable=SC2086
  env -u CARGO_TARGET_DIR -u RUSTFLAGS CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off \
    CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_DEBUG=0 \
    cargo install --quiet --locked --force "$name@$version" $features
done
