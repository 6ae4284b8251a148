//! Rates of the locks of the data path: what SEQUENCE, and READ or WRITE with a stateid, ask of the state that all clients share. With one
//! thread and with several, each with a client, session and file of its own; with one lock for all, and in shards.
//!
//! `cargo run --release -p wirepool-nfs --example state_rate`

use backend::file::{Handle, Hold};
use filestate::{OpenArgs, States};
use nfs::client::{Bounds, Clients, Principal, Visitor};
use nfs::export::{Protection, Standing};
use nfs::rpc::Credential;
use nfs::wire::channel::{Channel, CreateSession, ExchangeId, StateProtection};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const TIME: Duration = Duration::from_secs(2);

/// What threads did together in [`TIME`].
#[derive(Debug, Clone, Copy)]
struct Rate {
    /// Steps a second.
    steps: f64,
    /// Steps for each second of processor time, which also says something on a machine that does other work.
    by_cpu: f64,
    /// How often a thread slept because another one held a lock, for each million steps.
    waits: f64,
}

/// Processor time of this thread, nanoseconds, and how often it slept.
fn of_thread() -> (u64, u64) {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("Linux has it");
    let cpu = stat.split(' ').next().and_then(|time| time.parse().ok());
    let slept = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    let slept = slept.and_then(|count| count.trim().parse().ok());
    (cpu.expect("a number"), slept.expect("a number"))
}

/// Runs a step on threads for [`TIME`].
fn rate(threads: u64, step: impl Fn(u64) + Sync) -> Rate {
    let (ends, all) = (AtomicBool::new(false), Mutex::new((0_u64, 0_u64, 0_u64)));
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (ends, all, step) = (&ends, &all, &step);
            scope.spawn(move || {
                let mut own = 0;
                let before = of_thread();
                while !ends.load(Ordering::Relaxed) {
                    (0..100).for_each(|_| step(thread));
                    own += 100;
                }
                let after = of_thread();
                let mut all = all.lock().expect("no panic");
                all.0 += own;
                all.1 += after.0 - before.0;
                all.2 += after.1 - before.1;
            });
        }
        std::thread::sleep(TIME);
        ends.store(true, Ordering::Relaxed);
    });
    let (steps, cpu, slept) = all.into_inner().expect("no panic");
    Rate {
        steps: steps as f64 / TIME.as_secs_f64(),
        by_cpu: steps as f64 / (cpu as f64 / 1e9),
        waits: slept as f64 / (steps as f64 / 1e6),
    }
}

fn file(n: u64) -> Handle {
    Handle {
        filesystem: 1,
        object: 1000 + n,
        generation: 1,
    }
}

/// A WRITE of each thread's own file: the stateid, the begin and the end of a change.
fn write_rate(shards: u64, threads: u64) -> Rate {
    let states = States::with_shards(shards, 1, [7; 16]);
    let stateids: Vec<_> = (0..threads)
        .map(|n| {
            let args = OpenArgs {
                client: n + 1,
                owner: b"owner",
                file: file(n),
                access: 3,
                deny: 0,
                truncates: false,
            };
            let opened = states
                .of_file(args.file)
                .open(&args, &mut Some(Hold::new(|| {})));
            opened.expect("there is room")
        })
        .collect();
    rate(threads, |n| {
        let (client, of) = (n + 1, file(n));
        let checked = states
            .of_file(of)
            .check_io(client, &stateids[n as usize], of, true);
        assert!(checked.is_ok());
        assert!(states.of_file(of).change_file(of, Some(client)));
        states.of_file(of).changed_file(of);
    })
}

/// The lookup of each thread's own session, under the lock of all clients or not.
fn session_rate(is_shared: bool, threads: u64) -> Rate {
    let mut clients = Clients::new(Bounds {
        lease: Duration::from_secs(90),
        courtesy: Duration::from_secs(90),
        clients_max: 64,
        sessions_max: 4,
        slots_max: 4096,
    });
    let visitor = Visitor {
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        standing: Standing::Listed,
        is_reserving: false,
        protection: Protection::default(),
    };
    let channel = Channel {
        header_padding: 0,
        request_max: 4096,
        reply_max: 4096,
        cached_max: 0,
        operations_max: 8,
        slots: 4,
    };
    let principal = Principal::from(&Credential::None);
    let now = io::time::now();
    let sessions: Vec<_> = (0..threads)
        .map(|n| {
            let exchange = ExchangeId {
                verifier: [1; 8],
                owner: &n.to_be_bytes(),
                flags: 0,
                protection: StateProtection::None,
                implementation: None,
            };
            let client = clients.exchange_id(&exchange, (principal, &visitor), now, |_| false);
            let create = CreateSession {
                client: client.expect("there is room").client,
                sequence: 1,
                flags: 0,
                fore: channel,
                back: channel,
                callback_program: 1,
                security: Vec::new(),
            };
            let created = clients.create_session(&create, (principal, 2, &visitor), now, |_| false);
            created.expect("there is room").session
        })
        .collect();
    let all = clients.sessions();
    let clients = Mutex::new(clients);
    rate(threads, |n| {
        let id = &sessions[n as usize];
        let found = match is_shared {
            true => clients.lock().expect("no panic").session(id),
            false => all.get(id),
        };
        assert!(found.is_some());
    })
}

fn main() {
    let cores = std::thread::available_parallelism().map_or(2, |n| n.get() as u64);
    for (name, one, many) in [
        (
            "session of a SEQUENCE, one lock",
            session_rate(true, 1),
            session_rate(true, cores),
        ),
        (
            "session of a SEQUENCE, in parts",
            session_rate(false, 1),
            session_rate(false, cores),
        ),
        (
            "states of a WRITE, one lock",
            write_rate(1, 1),
            write_rate(1, cores),
        ),
        (
            "states of a WRITE, in shards",
            write_rate(64, 1),
            write_rate(64, cores),
        ),
    ] {
        println!("{name}:");
        for (threads, rate) in [(1, one), (cores, many)] {
            println!(
                "  {threads} threads: {:.2} M/s, {:.2} M for a second of processor time, {:.1} waits for a million",
                rate.steps / 1e6,
                rate.by_cpu / 1e6,
                rate.waits
            );
        }
    }
}
