//! The named limits of this crate.

use std::time::Duration;

/// Largest configuration file, bytes.
pub const CONFIG_LEN_MAX: u64 = 4 << 20;
/// Most disks in one configuration.
pub const DISKS_MAX: usize = 1024;
/// Most pools in one configuration.
pub const POOLS_MAX: usize = 64;
/// Most disks of one pool.
pub const POOL_DISKS_MAX: usize = 1024;
/// Longest name of a volume below its pool, bytes.
pub const VOLUME_NAME_LEN_MAX: usize = 255;
/// Least and most memory for a pool's nodes or its dirty records, MiB.
pub const POOL_MIB: std::ops::RangeInclusive<u64> = 1..=1 << 20;
/// Possible daily write budgets of a cache device, MiB.
pub const CACHE_DAILY_MIB: std::ops::RangeInclusive<u64> = 1..=1 << 30;
/// Time for which a disk must be away or faulted before a spare takes its place, unless the configuration says otherwise. A machine with
/// its disk shelves is up again by then; a resilver takes hours.
pub const SPARE_AFTER_S: u64 = 300;
/// Maximum of `spare_after_s`: a week.
pub const SPARE_AFTER_S_MAX: u64 = 7 * 24 * 3600;
/// Time between two looks at the labels of spares, which may wake sleeping disks.
pub const SPARE_LOOK: Duration = Duration::from_secs(300);
/// The same while a disk has failed and no spare was taken for it.
pub const SPARE_RETRY: Duration = Duration::from_secs(30);
/// Number of times that a disk faulted as gone, hung or short is brought online automatically while its pool is open.
pub const RETURNS_MAX: u32 = 3;
/// Changes kept in the history of a pool.
pub const HISTORY_MAX: usize = 1000;
/// Maximum length of a history file, bytes; a longer one is truncated.
pub const HISTORY_LEN_MAX: u64 = 512 << 10;
/// Events kept in memory.
pub const EVENTS_MAX: usize = 1000;
/// Most volumes of one pool.
pub const VOLUMES_MAX: usize = 4096;
/// Most filesystems of one pool.
pub const FILESYSTEMS_MAX: usize = 4096;
/// Most files in the answer to a comparison of two states of a filesystem.
pub const DIFFERENCES_MAX: usize = 1 << 20;
/// Most mounts in one configuration.
pub const MOUNTS_MAX: usize = 1024;
/// Time for which a mount point is tried whose mount another process of this server is still ending.
pub const MOUNT_ENDING_MAX: Duration = Duration::from_secs(3);
/// Interval of these attempts.
pub const MOUNT_ENDING_POLL: Duration = Duration::from_millis(50);
/// Interval at which mounts are checked, and failed ones tried again.
pub const MOUNT_CHECK: Duration = Duration::from_secs(3);
/// Time for users of a mount to end when the server shuts down, and again after the mount was detached.
pub const MOUNT_BUSY_MAX: Duration = Duration::from_secs(2);
/// Interval at which an export of a filesystem that is not published is tried again.
pub const EXPORT_RETRY: Duration = Duration::from_secs(3);
/// Most names in one access list.
pub const HOSTS_MAX: usize = 4096;
/// Most listening addresses of one kind.
pub const LISTENERS_MAX: usize = 64;
/// Longest name of a disk, bytes.
pub const DISK_NAME_LEN_MAX: usize = 64;
/// Most shards.
pub const SHARDS_MAX: usize = 256;
/// Smallest and largest buffer pool of a shard, MiB.
pub const BUFFER_MIB: std::ops::RangeInclusive<u64> = 4..=65_536;
/// Longest adaptive polling, µs.
pub const SPIN_US_MAX: u64 = 10_000;
/// Highest connection limit that can be asked for.
pub const CONNECTIONS_MAX: usize = 1 << 20;
/// Largest disk, bytes.
pub const DISK_SIZE_MAX: u64 = 1 << 60;
/// Smallest disk, bytes: one large block.
pub const DISK_SIZE_MIN: u64 = 4096;

/// Most paths of the search directories that are examined for a missing disk of a pool.
pub const SEARCH_MAX: usize = 1024;

/// Number of disks whose labels are read at the same time in a search.
pub const LABELS_AT_ONCE: usize = 16;

/// Interval at which a listening address that the machine does not have is tried again.
pub const LISTEN_RETRY: Duration = Duration::from_secs(2);

/// Interval at which the resolver is asked for the names of advertised hosts again.
pub const HOST_NAMES_EVERY: Duration = Duration::from_secs(60);
/// The same while one of them has no answer.
pub const HOST_NAMES_RETRY: Duration = Duration::from_secs(5);

/// Highest `server.disk_wait_s`, seconds.
pub const DISK_WAIT_S_MAX: u64 = 3600;
/// Interval at which a disk that could not be opened is tried again.
pub const DISK_RETRY: Duration = Duration::from_secs(3);
/// Interval at which the size of an open disk is checked.
pub const DISK_REFRESH: Duration = Duration::from_secs(5);
/// Longest wait for one disk at the start before the next one is opened.
pub const START_WAIT_MAX: Duration = Duration::from_secs(5);
/// Interval at which a starting server checks whether everything was opened.
pub const OPENED_POLL: Duration = Duration::from_millis(50);
/// Longest wait for a disk to open or to report its size.
pub const DISK_WAIT_MAX: Duration = Duration::from_secs(30);

/// First and longest pause of a listener after descriptors or memory ran out.
pub const ACCEPT_BACKOFF: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(10)..=Duration::from_secs(1);

/// Time for commands in flight to finish when the server shuts down.
pub const DRAIN_MAX: Duration = Duration::from_secs(10);
/// Time for the last flush of a disk, when it is removed or the server shuts down.
pub const FLUSH_MAX: Duration = Duration::from_secs(20);

/// Most control requests that wait for the server.
pub const CALLS_MAX: usize = 256;
/// Longest wait of a control request for an answer.
pub const CALL_WAIT_MAX: Duration = Duration::from_secs(60);
/// Largest body of a control request, bytes.
pub const REQUEST_LEN_MAX: usize = 64 << 10;
/// Longest path of a Unix socket, bytes (`sun_path` without its NUL).
pub const SOCKET_PATH_LEN_MAX: usize = 107;
/// Longest wait for the state of a shard; a slower one is reported as not answering.
pub const SHARD_ANSWER_MAX: Duration = Duration::from_secs(2);
/// Least time without progress after which the watchdog ends the process, s. Zero switches it off.
pub const WATCHDOG_S_MIN: u64 = 10;
/// Longest such time, s.
pub const WATCHDOG_S_MAX: u64 = 86_400;
/// Interval at which the watchdog looks at the shards.
pub const WATCHDOG_TICK: Duration = Duration::from_secs(1);

/// Descriptors kept for everything but client connections: rings, listeners, control, logs.
pub const FDS_RESERVED: u64 = 64;
/// Connections to the metrics port that are open at a time. A new one ends the oldest of the address with the most.
pub const METRICS_CONNECTIONS_MAX: usize = 16;
/// Maximum lifetime of a connection to the metrics port. A scraper that keeps it for its next scrape reconnects.
pub const METRICS_LIFETIME_MAX: Duration = Duration::from_secs(10);
/// Sessions with metrics of their own; the others are in the totals.
pub const METRIC_SESSIONS_MAX: usize = 1024;

/// Time for which a disk that is in use is tried before it is held back; less than `START_WAIT_MAX`.
pub const BUSY_WAIT_MAX: Duration = Duration::from_secs(3);
/// Interval of these attempts.
pub const BUSY_POLL: Duration = Duration::from_millis(50);

/// Most users of the console.
pub const CONSOLE_USERS_MAX: usize = 64;
/// Longest name of a user of the console, bytes.
pub const CONSOLE_USER_LEN_MAX: usize = 32;
/// Connections to the console's port that are open at a time. A new one ends the oldest that no logged-in browser uses.
pub const CONSOLE_CONNECTIONS_MAX: usize = 128;
/// Time for a TLS handshake with the console.
pub const CONSOLE_HANDSHAKE_MAX: Duration = Duration::from_secs(5);
/// Time for the head of a request to the console to arrive.
pub const CONSOLE_HEAD_MAX: Duration = Duration::from_secs(10);
/// Time for the body of a request to the console to arrive.
pub const CONSOLE_BODY_MAX: Duration = Duration::from_secs(10);
/// Lifetime of a connection to the console: later, the request in flight is its last.
pub const CONSOLE_LIFE_MAX: Duration = Duration::from_secs(300);
/// Time for the last request of such a connection.
pub const CONSOLE_LAST_MAX: Duration = Duration::from_secs(90);
/// Bytes that are buffered for each direction of a connection to the console.
pub const CONSOLE_BUFFER_LEN: usize = 64 << 10;
/// Most browsers that are logged in.
pub const BROWSERS_MAX: usize = 256;
/// Time after which a browser is logged out that nobody uses.
pub const BROWSER_IDLE_MAX: Duration = Duration::from_secs(30 * 60);
/// Time after which a browser is logged out.
pub const BROWSER_LIFE_MAX: Duration = Duration::from_secs(12 * 3600);
/// Time for which failed logins count.
pub const LOGIN_WINDOW: Duration = Duration::from_secs(300);
/// Failed logins of a user from one address within that time.
pub const LOGINS_OF_PAIR_MAX: u32 = 10;
/// Failed logins of an address within that time, of users that never logged in from it.
pub const LOGINS_OF_ADDRESS_MAX: u32 = 50;
/// Failed logins of a user within that time, from addresses from which the user never logged in.
pub const LOGINS_OF_USER_MAX: u32 = 50;
/// Addresses and users with failed logins that are remembered, and addresses from which users logged in.
pub const LOGINS_REMEMBERED_MAX: usize = 4096;
/// Logins that wait for their check.
pub const LOGINS_WAITING_MAX: usize = 16;
/// Step of the rates of the last half hour.
pub const RATE_STEP: Duration = Duration::from_secs(2);
/// Steps of [`RATE_STEP`] that are kept.
pub const RATES_MAX: usize = 900;
/// Of these, the steps that make one step of the last day.
pub const RATES_OF_MINUTE: usize = 30;
/// Steps of a minute that are kept.
pub const MINUTES_MAX: usize = 1440;
/// Lines of the log that are kept in memory.
pub const LOG_LINES_MAX: usize = 1000;
/// Longest line that is kept whole, bytes.
pub const LOG_LINE_LEN_MAX: usize = 1024;
/// Warnings, held objects, damaged ranges and dataset names in the server's state in short.
pub const SUMMARY_ENTRIES_MAX: usize = 20;
/// Most rows of one part of a list.
pub const ROWS_MAX: usize = 200;
/// Longest time for which a request watches exports, s.
pub const WHY_SECONDS_MAX: u64 = 30;
/// Sessions whose connections the doctor looks at, so that a large server is judged within a few seconds.
pub const DOCTOR_SESSIONS_MAX: usize = 200;
/// Most reports that are listed.
pub const REPORTS_MAX: usize = 1000;
/// Longest report, bytes.
pub const REPORT_LEN_MAX: u64 = 16 << 20;
