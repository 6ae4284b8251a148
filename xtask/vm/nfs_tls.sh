#!/bin/bash
# NFS with TLS (RFC 9289) of a stock Linux kernel and ktls-utils: xprtsec=tls and mtls, and certificates that are wrong.
# The host shares a directory with certificates: ca.pem, client.pem and client.key of that authority, and other.*, stranger.* of another one.
. /vmlab/checks/nfs_lib.sh
VERS=4.2 ADDR=host # the name in the certificate
modprobe -a tls gcm 2>/dev/null
mkdir -p /etc/tls && cp /mnt/share/* /etc/tls/ && chown -R root:root /etc/tls && chmod 644 /etc/tls/*.pem && chmod 600 /etc/tls/*.key

# tlshd_with AUTHORITY [CERTIFICATE]: the program that does handshakes for the kernel, with these files
tlshd_with() {
  [ -z "${tlshd:-}" ] || { kill "$tlshd"; wait "$tlshd" 2>/dev/null; }
  {
    printf '[debug]\nloglevel=1\ntls=1\n[authenticate.client]\nx509.truststore=/etc/tls/%s.pem\n' "$1"
    [ -z "${2:-}" ] || printf 'x509.certificate=/etc/tls/%s.pem\nx509.private_key=/etc/tls/%s.key\n' "$2" "$2"
  } > /etc/tlshd.conf
  tlshd -s -c /etc/tlshd.conf > /tmp/tlshd.log 2>&1 & tlshd=$!
  sleep 1
  kill -0 $tlshd || { cat /tmp/tlshd.log; return 1; }
}
# mount_export EXPORT DIRECTORY OPTIONS
mount_export() {
  mkdir -p "$2" && timeout 100 mount -t nfs -o "vers=$VERS,proto=tcp,port=$NFS_PORT,hard,timeo=50,retrans=2,retry=0,$3" "$ADDR:$1" "$2"
}
# refused EXPORT OPTIONS: the mount fails, and does not hang
refused() {
  mount_export "$1" /mnt/refused "$2" 2> /tmp/refused.txt
  local status=$?
  cat /tmp/refused.txt
  [ $status -ne 0 ] && [ $status -ne 124 ] && ! grep -q ' /mnt/refused ' /proc/mounts || { umount /mnt/refused 2>/dev/null; return 1; }
}
# shown: tlshd has read a certificate and its key
shown() { grep -q 'Retrieved 1 x.509 client certificate' /tmp/tlshd.log && ! grep -q 'ASN1 parser' /tmp/tlshd.log; }
sessions() { awk '$1 == "TlsTxSw" || $1 == "TlsTxDevice" { n += $2 } END { print n + 0 }' /proc/net/tls_stat; }

check "the kernel has TLS" test -e /proc/net/tls_stat
check "tlshd" tlshd_with ca || finish

step "xprtsec=tls"
check "mount" mount_export /tls /mnt/a xprtsec=tls || { cat /tmp/tlshd.log; dmesg | tail -20; finish; }
check "the kernel's list of mounts" mounted_as /mnt/a xprtsec=tls "vers=$VERS"
check "the kernel encrypts" test "$(sessions)" -ge 1
mkdir -p /tmp/tree && cp -a $TREE_OF $(amount "" "/usr/share/perl5 /etc") /tmp/tree/ 2>/dev/null
check "a tree through tar" sh -c 'tar -C /tmp -cf - tree | tar -C /mnt/a -xf -'
check "unmount" umount /mnt/a
check "mount again" mount_export /tls /mnt/a xprtsec=tls
check "contents are equal" diff -r --no-dereference /tmp/tree /mnt/a/tree
check "fio with verification: direct" fio_verify /mnt/a/verified 24
check "buffered with fsync" fio_verify /mnt/a/buffered 8 --ioengine=psync --direct=0 --iodepth=1 --fsync=32
check "unmount" umount /mnt/a
check "four connections" mount_export /tls /mnt/a xprtsec=tls,nconnect=4
check "fio on four files" timeout 300 fio --name=four --directory=/mnt/a --numjobs=4 --size=4M --rw=randwrite \
  --bs=64k --direct=1 --ioengine=libaio --iodepth=8 --verify=crc32c --do_verify=1 --verify_fatal=1 --output=/tmp/four.txt
check "unmount" umount /mnt/a
VERS=3
check "version 3" mount_export /tls /mnt/a xprtsec=tls,nolock,mountport=$NFS_PORT,mountproto=tcp
check "fio with verification" fio_verify /mnt/a/version3 4
check "unmount" umount /mnt/a
check "an export that demands TLS refuses a connection without" refused /tls xprtsec=none,nolock,mountport=$NFS_PORT,mountproto=tcp
VERS=4.2
check "also in version 4.2" refused /tls xprtsec=none
check "one that demands a certificate refuses a client without" refused /mtls xprtsec=tls
check "one that demands nothing is mounted without TLS" mount_export /export /mnt/a xprtsec=none
check "unmount" umount /mnt/a
check "and with it" mount_export /export /mnt/a xprtsec=tls
check "unmount" umount /mnt/a

step "xprtsec=mtls"
check "tlshd with a certificate" tlshd_with ca client
check "mount" mount_export /mtls /mnt/a xprtsec=mtls || { cat /tmp/tlshd.log; dmesg | tail -20; }
check "fio with verification" fio_verify /mnt/a/verified 8
check "a tree through tar" sh -c 'tar -C /tmp -cf - tree | tar -C /mnt/a -xf - && diff -r --no-dereference /tmp/tree /mnt/a/tree'
check "unmount" umount /mnt/a

step "wrong certificates"
check "tlshd with a certificate of another authority" tlshd_with ca stranger
check "the server refuses it" refused /mtls xprtsec=mtls
check "the client had shown it" shown
check "tlshd that trusts another authority" tlshd_with other
check "the client refuses the server" refused /tls xprtsec=tls
check "tlshd as at the begin" tlshd_with ca
check "is served" mount_export /tls /mnt/a xprtsec=tls
check "and finds its files" diff -r --no-dereference /tmp/tree /mnt/a/tree
check "unmount" umount /mnt/a
nothing_left() { ! grep -q ' nfs4\? ' /proc/mounts && [ -z "$(ss -Htn state established dport = ":$NFS_PORT")" ]; }
check "nothing left behind" wait_for 30 nothing_left
check "no complaint in the kernel's log" no_errors "BUG:"
finish
