#!/bin/bash
# NVMe/RDMA on soft RoCE (rdma_rxe): the server in this guest, and the guest's kernel as its client on the same device. Its speed proves
# nothing about hardware.
. /vmlab/checks/inside_lib.sh
ADDR=10.0.2.15
over_rdma() { timeout 60 nvme "$1" -t rdma -a $ADDR -s $PORT "${@:2}"; }
connect_rdma() { over_rdma connect -n $NQN -i 2 -c 2 -l 600; }
status_is() { cli status --json | jq -e "$1" >/dev/null; }
missing() { status_is '[.not_listening[] | select(.transport=="rdma" and (.reason|contains("no RDMA device")))] | length==1'; }
listens() { status_is '[.listen[] | select(.transport=="rdma")] | length==1'; }
# The words of rdma status
rdma_says() { cli rdma status > /tmp/said && cat /tmp/said && grep -q -- "$1" /tmp/said; }

step "rdma setup"
loaded() { grep -q "^$1 " /proc/modules; }
not_loaded() { ! loaded "$1"; }
setup_says() { cli rdma setup --apply --yes > /tmp/said && cat /tmp/said && grep -q -- "$1" /tmp/said; }
cp $share/wirepool* /tmp/
modprobe rdma_rxe
check "a soft RoCE device" rdma link add rxe0 type rxe netdev net0 || finish
# Any program that opens a device has the kernel load it, so that no server runs yet.
check "the module for programs is not loaded" not_loaded rdma_ucm
check "rdma setup loads it" setup_says "^loaded: .*rdma_ucm"
check "it is loaded" loaded rdma_ucm
check "it is loaded at the next boot, too" grep -qx rdma_ucm /etc/modules-load.d/wirepool-rdma.conf
check "a second run changes nothing" setup_says "nothing was changed"
check "rdma status shows the device" rdma_says "rxe0/1"
check "the device is deleted" rdma link delete rxe0

step "a server without a device"
check "the server starts" server_here "listen_rdma = [\"$ADDR:$PORT\"]" || finish
check "it says that there is no RDMA device" missing
check "so does rdma status" rdma_says "cannot use RDMA"
modprobe nvme-rdma
check "a soft RoCE device" rdma link add rxe0 type rxe netdev net0 || finish
check "the server listens without a restart" wait_for 30 listens || { cat /tmp/server.log; finish; }
check "rdma status shows the device" rdma_says "rxe0/1"
ramdisk 64 4
check "a raidz1 of four disks" cli pool create tank raidz1 /dev/ram0 /dev/ram1 /dev/ram2 /dev/ram3 || finish
check "a volume" cli volume create tank/vm1 --size 96M
check "export it over both transports" cli export nvme tank/vm1 --nqn $NQN --host any || finish

step "discovery, connection, data"
discovered() { over_rdma discover | tee /tmp/said && grep -q "trtype: *rdma" /tmp/said && grep -q "subnqn: *$NQN" /tmp/said; }
check "discovery over RDMA" discovered
# The lines of discovery.conf that client-config prints for this subsystem
as_printed() {
  mkdir -p /etc/nvme
  cli client-config $NQN --os debian --transport rdma --json | jq -r '.files[] | select(.path=="/etc/nvme/discovery.conf").text' > /etc/nvme/discovery.conf
  grep -v '^#' /etc/nvme/discovery.conf && timeout 60 nvme connect-all
}
check "connect with the settings of client-config" as_printed
check "namespace appears" connected
check "the session is over RDMA" session_is '.transport=="rdma"'
check "disconnect" disconnect
check "connect" connect_rdma || finish
check "namespace appears" connected || finish
dev=$(nvme_dev $NQN)
check "the session is over RDMA" session_is '.transport=="rdma" and .device=="rxe0" and .io_queues==2'
id=$(cli session list --json | jq '[.[] | select(.kind=="io")][0].id')
cli session show "$id"
shows() { cli session show "$id" --json | jq -e "$1" >/dev/null; }
check "session show has the queue pairs" shows '[.. | .rdma? | select(. != null) | .number > 0 and .peer_number > 0 and .path_mtu > 0] | length >= 3 and all'
check "verified I/O" fio_verify "$dev" 64
check "file system" timeout 120 mkfs.ext4 -q "$dev"
mkdir -p /mnt/fs
check "mount" mount "$dev" /mnt/fs
check "verified I/O in files" fio_verify /mnt/fs/verified 48 --fsync=64
check "unmount" umount /mnt/fs
check "fsck is clean" e2fsck -fn "$dev"

step "the server is killed under a running fio"
timeout 300 fio --name=kill --filename="$dev" --offset=48M --size=16M --loops=$(amount 6 30) --rw=randwrite --bs=16k --direct=1 --ioengine=libaio \
  --iodepth=4 --verify=crc32c --do_verify=1 --verify_fatal=1 --rate=2M,2M --output=/tmp/kill.txt &
fio=$!
check "the server is killed" kill -KILL $server
check "it starts again" server_again
check "the volume is served again" wait_for 60 session_is '.transport=="rdma"'
check "the writer got no error" wait $fio || cat /tmp/kill.txt
check "disconnect" disconnect
check "nothing left behind" wait_for 30 nothing_left

rounds_without_leak "$(amount 6 32)" connect_rdma

step "the policy of an export"
check "the subsystem is served over TCP only" cli export transport $NQN tcp
refused_host() { ! connect_rdma && cli session refused | tee /tmp/said && grep -q "transport" /tmp/said; }
check "RDMA is refused, and the host is named" refused_host
check "TCP is not" connect -i 2
check "namespace appears" connected
check "the session tells why it is not over RDMA" session_is '.transport=="tcp" and (.not_rdma|length) > 0'
check "disconnect" disconnect

step "receives that connections share"
check "the subsystem is served over both transports" cli export transport $NQN tcp,rdma
check "the server ends" server_ended
sed -i "s/^listen_rdma.*/&\nrdma_shared_receives = 128/" /tmp/wirepool.toml
check "it starts again" server_again
check "connect" connect_rdma
check "namespace appears" connected
id=$(cli session list --json | jq '[.[] | select(.kind=="io")][0].id')
cli session show "$id"
check "session show has them" shows '[.. | .rdma? | select(. != null) | .shared_receives == 128 and .receives > 0] | length >= 3 and all'
check "verified I/O" fio_verify "$(nvme_dev $NQN)" 32
check "disconnect" disconnect
rounds_without_leak "$(amount 3 16)" connect_rdma

step "the device is deleted under load"
# The driver waits until no program has the device open (decision 0352); the server must end nevertheless, and go on over TCP until then.
check "connect" connect_rdma
check "namespace appears" connected
timeout 100 fio --name=load --filename="$(nvme_dev $NQN)" --size=16M --time_based --runtime=60 --rw=randwrite --bs=64k --direct=1 --ioengine=libaio \
  --iodepth=16 > /tmp/load.txt 2>&1 &
fio=$!
sleep 3
rdma link delete rxe0 &
deletion=$!
no_sessions() { cli session list --json | jq -e '[.[] | select(.transport=="rdma")] | length==0' >/dev/null; }
check "its sessions end" wait_for 60 no_sessions
kill $fio 2>/dev/null
disconnect
check "nothing left behind" wait_for 60 nothing_left
check "the server goes on over TCP" connect -i 1
check "namespace appears" connected
check "disconnect" disconnect

step "the end"
check "the server ends" server_ended
check "the deletion ends with it" wait $deletion
check "the offline reader finds no damage" cli inspect verify /dev/ram0 /dev/ram1 /dev/ram2 /dev/ram3
check "no error in the kernel's log" no_errors "rxe.*(error|invalid)|local protection"
[ $FAILS = 0 ] || cat /tmp/server.log
finish
