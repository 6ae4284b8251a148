# Checks of a file system on the disk $dev, for any protocol. Sourced by check scripts.
mkdir -p /mnt/fs
fs_checks() { # fs_checks TYPE MKFS FSCK
  step "$1"
  check "$1: make" timeout 120 sh -c "$2 $dev >/dev/null"
  check "$1: mount" mount "$dev" /mnt/fs || return
  check "$1: fio with verify=crc32c" fio_verify /mnt/fs/verified 48 --fsync=64
  check "$1: write a file" sh -c 'dd if=/dev/urandom of=/mnt/fs/file bs=1M count=48 conv=fsync status=none && sha256sum /mnt/fs/file > /tmp/sum'
  check "$1: unmount" umount /mnt/fs
  echo 3 > /proc/sys/vm/drop_caches
  check "$1: fsck is clean" timeout 120 sh -c "$3 $dev"
  check "$1: the file has the written contents" sh -c "mount $dev /mnt/fs && sha256sum -c /tmp/sum"
  local full=$(disk_allocated)
  check "$1: remove" sh -c 'rm /mnt/fs/file /mnt/fs/verified && sync'
  check "$1: fstrim" timeout 120 fstrim -v /mnt/fs
  echo "allocated on the host: $full KiB before, $(disk_allocated) KiB after"
  trimmed() { [ "$(disk_allocated)" -le $((full - $(amount 40960 65536))) ]; }
  check "$1: the host has the trimmed space again" trimmed
  check "$1: unmount" umount /mnt/fs
  check "$1: fsck is clean after trim" timeout 120 sh -c "$3 $dev"
}
