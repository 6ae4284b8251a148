//! The meaning of the file, and errors with their position.

use nvmf::controller::HostPolicy;
use server::ByteSize;
use server::api::Transport;
use server::config::{Config, Medium};
use std::path::Path;
use std::time::Duration;

const WHOLE: &str = r#"
[server]
shards = 2
control = "/run/wp/control.sock"
state_dir = "/var/lib/wp"
spin_us = 0
buffer_mib = 16
congestion = "reno"

[nvmf]
listen = ["127.0.0.1:4420", "[::1]:4420"]
listen_rdma = ["10.0.0.1:4420"]
discovery = ["127.0.0.1:8009"]
advertise = ["192.0.2.1:4420"]
advertise_rdma = ["storage.example:4420"]
referrals = ["192.0.2.2:8009"]
connections_max = 100

[metrics]
listen = "127.0.0.1:9464"

[[disk]]
name = "vm1"
kind = "file"
path = "disks/vm1.img"
size = "4G"
block_size = 512
buffered = true

[[disk]]
name = "ram"
kind = "mem"
size = "64M"
read_only = true

[[subsystem]]
nqn = "nqn.2026-01.org.example:vm1"
serial = "S1"
hosts = ["nqn.2014-08.org.nvmexpress:uuid:5c1e6f1c-0000-4000-8000-000000000001"]
transports = ["rdma"]
[[subsystem.namespace]]
nsid = 1
disk = "vm1"
uuid = "5c1e6f1c-0000-4000-8000-000000000002"
"#;

pub(crate) fn parse(text: &str) -> Result<Config, String> {
    Config::parse(text, Path::new("/etc/wp/wirepool.toml")).map_err(|e| e.to_string())
}

#[test]
fn the_congestion_control_is_cubic_unless_another_or_the_systems_is_wanted() {
    let of = |line: &str| parse(&format!("[server]\n{line}\n")).map(|c| c.server.congestion);
    assert_eq!(of(""), Ok(Some("cubic".into())));
    assert_eq!(of("congestion = \"bbr\""), Ok(Some("bbr".into())));
    assert_eq!(of("congestion = \"system\""), Ok(None));
    for wrong in ["", "cubic reno", "sixteen_letters_"] {
        let said = of(&format!("congestion = {wrong:?}")).expect_err(wrong);
        assert!(said.contains("the name of a congestion control"), "{said}");
    }
}

#[test]
fn every_key_is_understood() {
    let c = parse(WHOLE).expect("it is right");
    assert_eq!(c.server.congestion.as_deref(), Some("reno"));
    assert_eq!(
        (c.server.shards, c.server.buffer_limit, c.server.spin),
        (2, 16 << 20, Duration::ZERO)
    );
    assert_eq!(c.server.state_dir, Path::new("/var/lib/wp"));
    assert_eq!(
        (
            c.nvmf.listen.len(),
            c.nvmf.discovery.len(),
            c.nvmf.connections_max
        ),
        (2, 1, 100)
    );
    assert_eq!(c.metrics.map(|a| a.port()), Some(9464));
    let vm1 = c.disk("vm1").expect("the disk");
    let Medium::File {
        path,
        create,
        buffered,
    } = &vm1.medium
    else {
        panic!("a file")
    };
    assert_eq!(
        path,
        Path::new("/etc/wp/disks/vm1.img"),
        "relative to the file"
    );
    assert_eq!(
        (*create, *buffered, vm1.block_size),
        (Some(ByteSize(4 << 30)), true, Some(512))
    );
    assert!(c.disk("ram").expect("the disk").read_only);
    let (s, n) = c.nvmf.export_of("vm1").expect("exported");
    assert!(matches!(&s.hosts, HostPolicy::List(names) if names.len() == 1));
    assert_eq!((s.serial.as_str(), n.nsid), ("S1", 1));
    assert!(s.transports.iter().eq(&[Transport::Rdma]));
    let rdma = c.nvmf.listen_rdma[0].to_string();
    let told = c.nvmf.advertise_rdma[0].to_string();
    assert_eq!((&*rdma, &*told), ("10.0.0.1:4420", "storage.example:4420"));
    assert_eq!(n.uuid.to_string(), "5c1e6f1c-0000-4000-8000-000000000002");
}

#[test]
fn defaults_are_sound_and_stable() {
    let c = parse("[[disk]]\nname='a'\nkind='null'\nsize='1G'\n[[subsystem]]\nnqn='nqn.2026-01.a:b'\n[[subsystem.namespace]]\nnsid=7\ndisk='a'\n").expect("right");
    assert_eq!(
        c.nvmf.listen,
        ["127.0.0.1:4420".parse().expect("an address")]
    );
    assert_eq!(
        (c.nvmf.discovery.len(), c.metrics, c.server.shards),
        (0, None, 0)
    );
    assert_eq!(c.server.state_dir, Path::new("/etc/wp/wirepool.state"));
    let s = &c.nvmf.subsystems[0];
    assert_eq!(
        s.hosts,
        HostPolicy::List(Default::default()),
        "nobody, until somebody is let in"
    );
    assert!(s.transports.iter().eq(&Transport::ALL));
    assert!(c.nvmf.listen_rdma.is_empty(), "only if it is asked for");
    // Clients identify a disk by these values: they must be the same after every restart.
    assert_eq!(s.serial, "WPD206F932EF9451DCA3");
    assert_eq!(
        s.namespaces[0].uuid.to_string(),
        "40936c1b-a947-5236-8082-e6a769904c8f"
    );
}

/// Each error, and its message.
const MISTAKES: &[(&str, &str)] = &[
    (
        "[[subsystem]]\nnqn='nqn.2026-01.a:b'\ntransports = []\n",
        "wirepool.toml:3:14: subsystem.transports: expected at least one of \"tcp\" and \"rdma\"; without this key hosts may use both",
    ),
    (
        "[[subsystem]]\nnqn='nqn.2026-01.a:b'\ntransports = [\"udp\"]\n",
        "wirepool.toml:3:15: subsystem.transports: expected \"tcp\" or \"rdma\", found \"udp\"",
    ),
    (
        "[[subsystem]]\nnqn='nqn.2026-01.a:b'\ntransports = [\"tcp\", \"tcp\"]\n",
        "wirepool.toml:3:22: subsystem.transports: tcp is there twice",
    ),
    (
        "[nvmf]\nlisten_rdma = [\"10.0.0.1\"]\n",
        "wirepool.toml:2:16: nvmf.listen_rdma: expected an address and a port such as \"192.0.2.1:4420\" or \"[::]:4420\", found \"10.0.0.1\"",
    ),
    (
        "[nvmf]\nrdma_shared_receives = 1\n",
        "wirepool.toml:2:24: nvmf.rdma_shared_receives: expected 0 (each connection has receives of its own), or a number from 128 to 16384, found 1",
    ),
    (
        "[nvmf]\nrdma_shared_receives = 127\n",
        "wirepool.toml:2:24: nvmf.rdma_shared_receives: expected 0 (each connection has receives of its own), or a number from 128 to 16384, found 127",
    ),
    (
        "[nvmf]\nrdma_shared_receives = 16385\n",
        "wirepool.toml:2:24: nvmf.rdma_shared_receives: expected 0 (each connection has receives of its own), or a number from 128 to 16384, found 16385",
    ),
    (
        "[nvmf]\nrdma_shared_receives = -1\n",
        "wirepool.toml:2:24: nvmf.rdma_shared_receives: expected 0 (each connection has receives of its own), or a number from 128 to 16384, found -1",
    ),
    (
        "[nvmf]\nrdma_shared_receives = 99999999999999999999\n",
        "wirepool.toml:2:24: expected 0 (each connection has receives of its own), or a number from 128 to 16384, found 99999999999999999999",
    ),
    (
        "[[pool]]\nname = \"tank\"\ndisks = [\"a\"]\nspares = [\"b\", \"b\"]\n",
        "wirepool.toml:4:16: pool.spares: /etc/wp/b is there twice",
    ),
    (
        "[[disk]]\nname = \"d\"\nkind = \"file\"\npath = \"b\"\n[[pool]]\nname = \"tank\"\ndisks = [\"a\"]\nspares = [\"b\"]\n",
        "wirepool.toml:8:11: pool.spares: the disk \"d\" has this path already",
    ),
    (
        "[[pool]]\nname = \"tank\"\ndisks = [\"a\"]\nspares = [\"\"]\n",
        "wirepool.toml:4:11: pool.spares: expected a path",
    ),
    (
        "[[pool]]\nname = \"tank\"\ndisks = [\"a\"]\ncaches = [\"b\", \"b\"]\n",
        "wirepool.toml:4:16: pool.caches: /etc/wp/b is there twice",
    ),
    (
        "[[pool]]\nname = \"tank\"\ndisks = [\"a\"]\ncache_daily_mib = 0\n",
        "wirepool.toml:4:19: pool.cache_daily_mib: expected a number from 1 to 1073741824, found 0",
    ),
    (
        "[[pool]]\nname = \"tank\"\ndisks = [\"a\"]\nspare_after_s = 604801\n",
        "wirepool.toml:4:17: pool.spare_after_s: expected a number from 0 to 604800, found 604801",
    ),
    (
        "[server]\nwatchdog_s = 9\n",
        "wirepool.toml:2:14: server.watchdog_s: expected a number from 10 to 86400, found 9",
    ),
    (
        "[nfs]\nlease_s = 5\n",
        "wirepool.toml:2:11: nfs.lease_s: expected a number from 10 to 3600, found 5",
    ),
    (
        "[server]\nshard = 2\n",
        "wirepool.toml:2:1: server.shard: unknown field `shard`, expected one of `shards`, `control`, `state_dir`, `disk_directories`, `spin_us`, `buffer_mib`, `congestion`, `watchdog_s`, `disk_wait_s`",
    ),
    (
        "[server]\nshards = \"two\"\n",
        "wirepool.toml:2:10: server.shards: invalid type: string \"two\", expected u64",
    ),
    (
        "[server]\nshards = 1000\n",
        "wirepool.toml:2:10: server.shards: expected a number from 0 to 256, found 1000",
    ),
    (
        "[server]\nbuffer_mib = 1\n",
        "wirepool.toml:2:14: server.buffer_mib: expected a number from 4 to 65536, found 1",
    ),
    (
        "[nvmf]\nlisten = [\"127.0.0.1:4420\", \"localhost\"]\n",
        "wirepool.toml:2:29: nvmf.listen: expected an address and a port such as \"192.0.2.1:4420\" or \"[::]:4420\", found \"localhost\"",
    ),
    (
        "[nvmf]\nlisten = [\"127.0.0.1:1\", \"127.0.0.1:1\"]\n",
        "wirepool.toml:2:26: nvmf.listen: 127.0.0.1:1 is there twice",
    ),
    (
        "[metrics]\nlisten = 9464\n",
        "wirepool.toml:2:10: metrics.listen: invalid type: integer `9464`, expected a string",
    ),
    (
        "disk = 3\n",
        "wirepool.toml:1:8: disk: invalid type: integer `3`, expected tables: begin each with a line [[disk]]",
    ),
    (
        "[disk]\nname = \"a\"\n",
        "wirepool.toml:1:1: disk: invalid type: map, expected tables: begin each with a line [[disk]]",
    ),
    (
        "[[subsystem]]\nnqn = \"nqn.a\"\nnamespace = 1\n",
        "wirepool.toml:3:13: subsystem.namespace: invalid type: integer `1`, expected tables: begin each with a line [[subsystem.namespace]]",
    ),
    (
        "[nvmf]\nlisten = 4420\n",
        "wirepool.toml:2:10: nvmf.listen: invalid type: integer `4420`, expected a list such as listen = [\"...\", \"...\"]",
    ),
    (
        "[[pool]]\nname = \"tank\"\ndisks = \"a.img\"\n",
        "wirepool.toml:3:9: pool.disks: invalid type: string \"a.img\", expected a list such as disks = [\"a.img\"]",
    ),
    (
        "[[pool]]\nname = \"tank\"\ndisks = [\"a\"]\n[[export]]\nfilesystem = \"tank/home\"\nclients = [\"*:ro\", \"10.0.0.0/24:rw,xprtsec=tls\"]\n",
        "wirepool.toml:6:20: export.clients: xprtsec=tls needs certificates: add the section [nfs.tls] with certificate and key",
    ),
    (
        "[nfs.tls]\ncertificate = \"c.pem\"\nkey = \"k.pem\"\n[[pool]]\nname = \"tank\"\ndisks = [\"a\"]\n[[export]]\nfilesystem = \"tank/home\"\nclients = [\"*:ro,xprtsec=mtls\"]\n",
        "wirepool.toml:9:12: export.clients: xprtsec=mtls needs an authority of the clients' certificates: give [nfs.tls] a client_ca",
    ),
    (
        "[[disk]]\nkind = \"mem\"\nsize = \"1G\"\n",
        "wirepool.toml:1:1: disk: missing field `name`",
    ),
    (
        "[[disk]]\nname = \"a b\"\nkind = \"mem\"\nsize = \"1G\"\n",
        "wirepool.toml:2:8: disk.name: expected a name of letters, digits, '.', '_' and '-', at most 64, found \"a b\"",
    ),
    (
        "[[disk]]\nname = \"a\"\nkind = \"tape\"\n",
        "wirepool.toml:3:8: disk.kind: unknown variant `tape`, expected one of `file`, `block`, `mem`, `null`",
    ),
    (
        "[[disk]]\nname = \"a\"\nkind = \"mem\"\nsize = \"4GB\"\n",
        "wirepool.toml:4:8: disk.size: expected a size such as \"512M\", \"4G\" or \"1.5T\" (powers of 1024), found \"4GB\"; units are powers of 1024: leave the B out",
    ),
    (
        "[[disk]]\nname = \"a\"\nkind = \"mem\"\nsize = \"1K\"\n",
        "wirepool.toml:4:8: disk.size: expected a size from 4K to 1024P, found 1K",
    ),
    (
        "[[disk]]\nname = \"a\"\nkind = \"mem\"\nsize = 8193\n",
        "wirepool.toml:4:8: disk.size: expected a multiple of the block size (512), found 8193",
    ),
    (
        "[[disk]]\nname = \"a\"\nkind = \"mem\"\n",
        "wirepool.toml:1:1: disk: the disk \"a\" needs a size such as \"4G\"",
    ),
    (
        "[[disk]]\nname = \"a\"\nkind = \"file\"\n",
        "wirepool.toml:1:1: disk: the disk \"a\" needs a path",
    ),
    (
        "[[disk]]\nname = \"a\"\nkind = \"block\"\npath = \"/dev/x\"\nsize = \"1G\"\n",
        "wirepool.toml:5:8: disk.size: a block device has its own size: leave this out",
    ),
    (
        "[[disk]]\nname = \"a\"\nkind = \"mem\"\nsize = \"1G\"\nblock_size = 1024\n",
        "wirepool.toml:5:14: disk.block_size: expected 512 or 4096, found 1024",
    ),
    (
        "[[disk]]\nname = \"a\"\nkind = \"null\"\nsize = \"1G\"\n\n[[disk]]\nname = \"a\"\nkind = \"null\"\nsize = \"1G\"\n",
        "wirepool.toml:7:8: disk.name: there is another disk named \"a\"",
    ),
    (
        "[[disk]]\nname = \"a\"\nkind = \"file\"\npath = \"x\"\n\n[[disk]]\nname = \"b\"\nkind = \"file\"\npath = \"/etc/wp/x\"\n",
        "wirepool.toml:9:8: disk.path: the disk \"a\" has this path already",
    ),
    (
        "[[subsystem]]\nnqn = \"iqn.2026\"\n",
        "wirepool.toml:2:7: subsystem.nqn: expected a name such as \"nqn.2026-01.org.example:disk1\": the NQN does not begin with \"nqn.\"",
    ),
    (
        "[[subsystem]]\nnqn = \"nqn.a\"\n[[subsystem]]\nnqn = \"nqn.a\"\n",
        "wirepool.toml:4:7: subsystem.nqn: there is another subsystem named nqn.a",
    ),
    (
        "[[subsystem]]\nnqn = \"nqn.a\"\nhosts = [\"any\", \"nqn.h\"]\n",
        "wirepool.toml:3:10: subsystem.hosts: \"any\" already allows every host: remove the other names",
    ),
    (
        "[[subsystem]]\nnqn = \"nqn.a\"\nserial = \"123456789012345678901\"\n",
        "wirepool.toml:3:10: subsystem.serial: expected 1 to 20 printable ASCII characters",
    ),
    (
        "[[subsystem]]\nnqn = \"nqn.a\"\n[[subsystem.namespace]]\nnsid = 1\ndisk = \"x\"\n",
        "wirepool.toml:5:8: subsystem.namespace.disk: expected the name of a disk (there are none), found \"x\"",
    ),
    (
        "disk = [{name = \"a\", kind = \"null\", size = \"1G\"}]\n[[subsystem]]\nnqn = \"nqn.a\"\nnamespace = [{nsid = 0, disk = \"a\"}]\n",
        "wirepool.toml:4:22: subsystem.namespace.nsid: expected a number from 1 to 1024, found 0",
    ),
    (
        "disk = [{name = \"a\", kind = \"null\", size = \"1G\"}]\n[[subsystem]]\nnqn = \"nqn.a\"\nnamespace = [{nsid = 1, disk = \"a\"}, {nsid = 2, disk = \"a\"}]\n",
        "wirepool.toml:4:56: subsystem.namespace.disk: the disk \"a\" is exported as nqn.a namespace 1 already",
    ),
    (
        "disk = [{name = \"a\", kind = \"null\", size = \"1G\"}]\n[[subsystem]]\nnqn = \"nqn.a\"\n[[subsystem.namespace]]\nnsid = 1\ndisk = \"a\"\nuuid = \"one\"\n",
        "wirepool.toml:7:8: subsystem.namespace.uuid: expected a UUID that is not zero, found \"one\"",
    ),
];

#[test]
fn mistakes_are_told_with_their_place() {
    for (text, told) in MISTAKES {
        let e = parse(text).expect_err(text);
        assert_eq!(e, format!("/etc/wp/{told}"), "in:\n{text}");
    }
}

#[test]
fn broken_syntax_is_told_with_its_place() {
    for (text, place) in [
        ("[server\n", ":1:8: "),
        ("[nvmf]\nlisten = [\n", ":2:"),
        ("\n\na = = 1\n", ":3:5: "),
    ] {
        let e = parse(text).expect_err(text);
        assert!(
            e.starts_with(&format!("/etc/wp/wirepool.toml{place}")),
            "{e}"
        );
    }
}
