//! A command ends once, and not by being dropped.

use super::*;

fn command() -> Command {
    let sqe = Sqe::new(nvm::READ, Nsid(1));
    Command::parse(&sqe, QueueType::Io, io::time::now())
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "a command was dropped without a reply")]
fn a_command_that_is_dropped_without_a_reply_panics() {
    drop(command());
}

#[test]
fn a_command_that_ends_or_is_abandoned_does_not_panic() {
    let ended = command().end();
    assert_eq!((ended.cid, ended.kind), (Cid(0), CommandKind::Read));
    command().abandon();
}

/// An opcode means what its queue makes of it: 02h reads on an I/O queue and gets a log page on an admin queue.
#[test]
fn the_queue_decides_what_an_opcode_means() {
    let sqe = Sqe::new(0x02, Nsid(1));
    let of = |queue| {
        let command = Command::parse(&sqe, queue, io::time::now());
        let request = command.request();
        command.abandon();
        request
    };
    assert!(matches!(of(QueueType::Io), Request::Io(IoRequest::Read(_))));
    assert!(matches!(
        of(QueueType::Admin),
        Request::Admin(AdminRequest::GetLogPage(_))
    ));
    assert!(matches!(of(QueueType::None), Request::BeforeConnect));
}
