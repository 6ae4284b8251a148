#!/bin/bash
# A raidz1 of four block devices of this guest, whose writes the kernel logs. Small writes go into the journal and into rows.
. /vmlab/checks/cuts_lib.sh
step "a logged run"
check "dm-log-writes below four disks" logged 4 || finish
check "the server starts in the guest" server_here || finish
check "a raidz1 of four block devices" cli pool create tank raidz1 /dev/dm-1 /dev/dm-2 /dev/dm-3 /dev/dm-4 || finish
volume_here 64M
logged_run
end_of_log 4
