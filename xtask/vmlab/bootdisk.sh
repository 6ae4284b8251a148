#!/bin/bash
# Makes a disk that a PC boots from: a master boot record, SYSLINUX with Debian's kernel on a FAT partition, and a root
# file system (ext4) whose first process is INIT.
#   bootdisk.sh DISK INIT
# The kernel and busybox are those that build.sh has fetched. Root is not needed.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
cache=$(realpath "${VMLAB_CACHE:-${CARGO_TARGET_DIR:-$here/../../target}/vmlab}")
disk=$(realpath -m "$1") init=$(realpath "$2")
export PATH=$PATH:/usr/sbin:/sbin MTOOLS_SKIP_CHECK=1
tmp=$(mktemp -d "$cache/bootdisk.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
boot_first=2048 boot_sectors=$((40 * 2048)) root_sectors=$((64 * 2048))
root_first=$((boot_first + boot_sectors))

dpkg-deb --fsys-tarfile "$(ls -t "$cache"/debs/linux-image-*.deb | head -1)" | tar -x --wildcards './boot/vmlinuz-*'
mkdir ir
(cd ir; cpio -idm --quiet < "$cache/initrd.base")
cat > ir/init <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
for m in $(cat /modules.order); do insmod "/modules/$m"; done
i=0; while [ ! -b /dev/vda2 ] && [ $i -lt 100 ]; do sleep 0.1; i=$((i+1)); done
mkdir -p /new
mount -t ext4 /dev/vda2 /new || { echo "FAIL no root file system"; poweroff -f; }
for d in dev proc sys; do mount --move /$d /new/$d; done
exec switch_root /new /sbin/init
INIT
(cd ir; find . | cpio -o -H newc --quiet) | gzip -1 > initrd.gz

cat > syslinux.cfg <<'CFG'
SERIAL 0
DEFAULT linux
LABEL linux
  KERNEL vmlinuz
  INITRD initrd.gz
  APPEND console=ttyS0 quiet panic=-1 nokaslr mitigations=off no_timer_check
CFG
mkfs.fat -F 16 -h $boot_first -C boot.img $((boot_sectors / 2)) >/dev/null
mcopy -i boot.img boot/vmlinuz-* ::vmlinuz
mcopy -i boot.img initrd.gz syslinux.cfg ::
syslinux --install boot.img

mkdir -p rootfs/{bin,sbin,dev,proc,sys,tmp}
cp ir/bin/busybox rootfs/bin/
install -m 755 "$init" rootfs/sbin/init
mke2fs -q -t ext4 -E root_owner=0:0 -d rootfs root.img $((root_sectors / 2))

truncate -s $(((root_first + root_sectors) * 512)) disk
python3 - $boot_first $boot_sectors $root_first $root_sectors <<'PY'
import struct, sys
boot, boot_len, root, root_len = map(int, sys.argv[1:])
# active, no CHS address, FAT16 with LBA; then Linux
entries = [(0x80, 0x0e, boot, boot_len), (0, 0x83, root, root_len)]
table = b"".join(struct.pack("<B3sB3sII", a, b"\xfe\xff\xff", t, b"\xfe\xff\xff", f, n) for a, t, f, n in entries)
code = open("/usr/lib/syslinux/mbr/mbr.bin", "rb").read()
with open("disk", "r+b") as f:
    f.write(code.ljust(446, b"\0") + table.ljust(64, b"\0") + b"\x55\xaa")
PY
dd if=boot.img of=disk bs=1M seek=$((boot_first / 2048)) conv=notrunc,sparse status=none
dd if=root.img of=disk bs=1M seek=$((root_first / 2048)) conv=notrunc,sparse status=none
mv disk "$disk"
