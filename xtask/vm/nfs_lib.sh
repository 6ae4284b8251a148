# Functions of the NFS check scripts. PEER=memory is the service in memory on the host, PEER=wirepool a server on the host with a
# filesystem of a mirrored pool, PEER=nvmet the guest kernel's own server. PROTO is the transport of mounts, RDMA_PORT the port of rdma.
. /vmlab/checks/lib.sh
VERS=${VERS:-4.1}
PROTO=${PROTO:-tcp}
NFS_PORT=${NFS_PORT:-2049}
RDMA_PORT=${RDMA_PORT:-20049}

# knfsd_up DEVICE: the kernel's own server serves an ext4 on the device, /export, as its root. It would take less than 1 MiB at a time, for the guest's
# little memory.
knfsd_up() {
  modprobe nfsd && mkdir -p /export && mkfs.ext4 -q "$1" && mount "$1" /export && mount -t nfsd nfsd /proc/fs/nfsd && mkdir -p /var/lib/nfs/rpc_pipefs &&
    mount -t rpc_pipefs rpc_pipefs /var/lib/nfs/rpc_pipefs && echo 10 > /proc/fs/nfsd/nfsv4leasetime && echo 10 > /proc/fs/nfsd/nfsv4gracetime &&
    echo 1048576 > /proc/fs/nfsd/max_block_size &&
    exportfs -o rw,no_root_squash,no_subtree_check,insecure,fsid=0 '*:/export' && nfsdcld && rpc.mountd --no-udp -N 3 && rpc.nfsd -N 3 8
}
if [ "$PEER" = nvmet ]; then
  ADDR=10.0.2.15 NFS_PORT=2049 EXPORT=/
  served_up() { modprobe loop && truncate -s 2G /tmp/served && losetup /dev/loop0 /tmp/served && knfsd_up /dev/loop0; }
  server_kill() { rpc.nfsd 0; }
  server_start() { rpc.nfsd -N 3 8; }
elif [ "$PEER" = wirepool ]; then
  EXPORT=/tank/home
  served_up() {
    cli pool create tank mirror @DIR/a.img @DIR/b.img --size 1G && cli fs create tank/home &&
      cli export nfs tank/home --client '*:rw,squash=none,insecure'
  }
else
  EXPORT=/export
  served_up() { true; }
fi

# mount_nfs DIRECTORY [OPTIONS]
mount_nfs() {
  local port=$NFS_PORT
  [ "$PROTO" != rdma ] || port=$RDMA_PORT
  local options="vers=$VERS,proto=$PROTO,port=$port,hard,timeo=50,retrans=2"
  [ "$VERS" != 3 ] || options="$options,mountport=$NFS_PORT,mountproto=tcp,nolock"
  mkdir -p "$1" && timeout 120 mount -t nfs -o "$options${2:+,$2}" "$ADDR:$EXPORT" "$1"
}
mounted_as() { # mounted_as DIRECTORY OPTION...: the kernel's own list of mounts has these options
  local line=$(grep " $1 nfs" /proc/mounts) option
  shift
  for option; do
    case ,$(echo "$line" | cut -d' ' -f4), in *,"$option",*) ;; *) echo "no $option: $line"; return 1;; esac
  done
}
# operations DIRECTORY NAME: the number of requests NAME that the kernel sent for the file system that is mounted there
operations() {
  awk -v at="$1" -v name="$2:" '$1 == "device" { found = $5 == at } found && $1 == name { print $2 }' /proc/self/mountstats
}
# A tree of all kinds of files, in /tmp/tree: make_tree DIRECTORY..., whose contents are in it too
make_tree() {
  mkdir -p /tmp/tree/{sub/deep,empty}
  cp -a "$@" /tmp/tree/sub/ 2>/dev/null
  ln -s ../sub/deep /tmp/tree/sub/symlink; echo text > /tmp/tree/sub/text; ln /tmp/tree/sub/text /tmp/tree/sub/linked
  mkfifo -m 640 /tmp/tree/fifo; mknod -m 600 /tmp/tree/device c 1 3; chmod 2751 /tmp/tree/empty; chown 1234:5678 /tmp/tree/empty
  printf 'x%.0s' {1..255} | { read -r name; echo long > "/tmp/tree/$name"; }
}
# All names of a directory with type, mode, owner, group, links, size, time of modification and target
listing() { (cd "$1" && find . -mindepth 1 -printf '%P %y %m %U %G %n %s %T@ %l\n' | awk '$2=="d"{$6=0;$7=0} {print}' | sort); }
# A second client on this kernel: NFS has one client for each network namespace, which is named after the host's name.
second_client() {
  ip netns add two && ip link add link net0 name two0 type macvlan mode bridge && ip link set two0 netns two &&
    ip -n two addr add 10.0.2.16/24 dev two0 && ip -n two link set two0 up && ip -n two link set lo up
}
mount_second() { # mount_second DIRECTORY [OPTIONS]
  (
    export ADDR NFS_PORT EXPORT VERS PEER
    nsenter --net=/run/netns/two unshare --uts sh -c 'hostname second && bash -c ". /vmlab/checks/nfs_lib.sh && mount_nfs \"$@\"" mount "$@"' sh "$@"
  )
}

# lock VERB FILE START LENGTH [r]: a POSIX lock of a process. `try` ends with 0 if it was granted at once; `wait` waits for it;
# `hold` waits, writes FILE's name to /tmp/held, and holds it until it is killed; `ask` prints the lock that is in the way.
cat > /tmp/lock.pl <<'PL'
my ($verb, $name, $start, $length, $type) = @ARGV;
open(my $file, "+<", $name) or die "$name: $!";
my $lock = pack("s s x4 q q i x4", ($type // "") eq "r" ? 0 : 1, 0, $start, $length, 0);
if ($verb eq "ask") {
  fcntl($file, 5, $lock) or die "F_GETLK: $!";
  my ($type, $whence, $start, $length) = unpack("s s x4 q q i x4", $lock);
  print $type == 2 ? "free\n" : ($type == 0 ? "read" : "write") . " $start $length\n";
  exit 0;
}
exit(fcntl($file, 6, $lock) ? 0 : 1) if $verb eq "try";
fcntl($file, 7, $lock) or die "F_SETLKW: $!";
if ($verb eq "hold") {
  open(my $held, ">>", "/tmp/held"); print $held "$name $start\n"; close($held);
  sleep 1000;
}
PL
lock() { timeout 100 perl /tmp/lock.pl "$@"; }
lock_hold() { # in the background; pid in $holder
  : > /tmp/held
  perl /tmp/lock.pl hold "$@" & holder=$!
  wait_for 60 grep -q . /tmp/held
}
lock_end() { kill $holder; wait $holder 2>/dev/null; true; }
