//! Names of users and groups, and groups that the server looks up.

use crate::client::Client;
use crate::fixture::{Fixture, HOME, NO_ATTRS, config, open, simulated};
use nfs::identity::{Accounts, IdentityConfig, Unavailable};
use nfs::service::ServiceConfig;
use nfs::wire::files::CreateHow;
use nfs::wire::{Attrs, Bitmap, Op, Stateid, Status, operation};
use nfs::xdr::Writer;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const ACL: u32 = 12;
const MODE: u32 = 33;
const OWNER: u32 = 36;
const OWNER_GROUP: u32 = 37;
const FILE: &[&str] = &["tank", "home", "f"];
const KEPT_FOR: Duration = Duration::from_secs(60);

/// User `ann` is 1000, group `staff` is 50.
#[derive(Default)]
struct Fake {
    groups: Mutex<Vec<u32>>,
    asked: AtomicUsize,
    is_down: AtomicBool,
}

impl Fake {
    fn asked(&self) -> Result<(), Unavailable> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        match self.is_down.load(Ordering::Relaxed) {
            true => Err(Unavailable("down".into())),
            false => Ok(()),
        }
    }
}

impl Accounts for Fake {
    fn user_name(&self, uid: u32) -> Result<Option<String>, Unavailable> {
        self.asked()?;
        Ok((uid == 1000).then(|| "ann".into()))
    }

    fn group_name(&self, gid: u32) -> Result<Option<String>, Unavailable> {
        self.asked()?;
        Ok((gid == 50).then(|| "staff".into()))
    }

    fn uid(&self, name: &str) -> Result<Option<u32>, Unavailable> {
        self.asked()?;
        Ok((name == "ann").then_some(1000))
    }

    fn gid(&self, name: &str) -> Result<Option<u32>, Unavailable> {
        self.asked()?;
        Ok((name == "staff").then_some(50))
    }

    fn groups(&self, uid: u32) -> Result<Option<Vec<u32>>, Unavailable> {
        self.asked()?;
        Ok((uid == 1000).then(|| self.groups.lock().unwrap().clone()))
    }
}

async fn fixture(accounts: &Arc<Fake>, domain: Option<&str>) -> (Fixture, Client) {
    let identity = IdentityConfig {
        accounts: accounts.clone(),
        domain: domain.map(String::from),
        manages_groups: domain.is_none(),
        kept_for: KEPT_FOR,
    };
    let fixture = Fixture::with(ServiceConfig {
        identity: Some(identity),
        ..config()
    })
    .await;
    let mut client = fixture.client("a").await;
    let create = open("f", Some(CreateHow::Unchecked(NO_ATTRS)));
    client.at(HOME, &[create]).await.open();
    (fixture, client)
}

async fn set(client: &mut Client, mask: &[u32], values: Vec<u8>) -> Status {
    let set = Op::SetAttr {
        stateid: Stateid::ANONYMOUS,
        attributes: Attrs {
            mask: Bitmap::of(mask),
            values: &values,
        },
    };
    client.at(FILE, &[set]).await.status
}

fn owner(user: &str) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.opaque(user.as_bytes());
    writer.to_vec()
}

fn owners(user: &str, group: &str) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.opaque(user.as_bytes());
    writer.opaque(group.as_bytes());
    writer.to_vec()
}

async fn shown(client: &mut Client) -> (String, String) {
    let get = Op::GetAttr(Bitmap::of(&[OWNER, OWNER_GROUP]));
    let mut results = client.at(FILE, &[get]).await;
    results.ok(operation::GETATTR);
    results.bitmap();
    results.u32();
    let mut text = || String::from_utf8(results.opaque()).unwrap();
    (text(), text())
}

#[test]
fn names_have_the_domain() {
    simulated(|| async {
        let accounts = Arc::new(Fake::default());
        let (_fixture, mut client) = fixture(&accounts, Some("example.org")).await;
        let both = [OWNER, OWNER_GROUP];
        let own = owners("ann@example.org", "staff@EXAMPLE.ORG");
        assert_eq!(set(&mut client, &both, own).await, Status::Ok);
        let expected = ("ann@example.org".into(), "staff@example.org".into());
        assert_eq!(shown(&mut client).await, expected);
        let own = owners("7", "50");
        assert_eq!(set(&mut client, &both, own).await, Status::Ok);
        let expected = ("7".into(), "staff@example.org".into());
        assert_eq!(shown(&mut client).await, expected, "7 has no name");
        for bad in [
            "ann@elsewhere",
            "ann",
            "bob@example.org",
            "@example.org",
            "",
        ] {
            let status = set(&mut client, &[OWNER], owner(bad)).await;
            assert_eq!(status, Status::Badowner, "{bad}");
        }

        let mut list = Writer::new();
        list.u32(2);
        for (flags, who) in [(0, "ann@example.org"), (0x40, "staff@example.org")] {
            [0, flags, 1].iter().for_each(|word| list.u32(*word));
            list.opaque(who.as_bytes());
        }
        let list = list.to_vec();
        assert_eq!(set(&mut client, &[ACL], list.clone()).await, Status::Ok);
        let get = Op::GetAttr(Bitmap::of(&[ACL]));
        let mut results = client.at(FILE, &[get]).await;
        results.ok(operation::GETATTR);
        results.bitmap();
        assert_eq!(results.opaque(), list);
    });
}

#[test]
fn answers_are_kept_for_a_while_and_longer_while_lookups_fail() {
    simulated(|| async {
        let accounts = Arc::new(Fake::default());
        let (_fixture, mut client) = fixture(&accounts, Some("example.org")).await;
        let own = owners("1000", "50");
        assert_eq!(
            set(&mut client, &[OWNER, OWNER_GROUP], own).await,
            Status::Ok
        );
        let named = (
            "ann@example.org".to_string(),
            "staff@example.org".to_string(),
        );
        assert_eq!(shown(&mut client).await, named);
        let before = accounts.asked.load(Ordering::Relaxed);
        assert_eq!(shown(&mut client).await, named);
        assert_eq!(accounts.asked.load(Ordering::Relaxed), before);
        io::time::sleep(KEPT_FOR).await;
        accounts.is_down.store(true, Ordering::Relaxed);
        assert_eq!(shown(&mut client).await, named);
        assert!(accounts.asked.load(Ordering::Relaxed) > before);
        let status = set(&mut client, &[OWNER], owner("new@example.org")).await;
        assert_eq!(status, Status::Delay);
    });
}

#[test]
fn groups_are_those_that_the_server_knows() {
    simulated(|| async {
        let accounts = Arc::new(Fake::default());
        let (_fixture, mut client) = fixture(&accounts, None).await;
        // More than the 16 that fit into a credential.
        *accounts.groups.lock().unwrap() = (100..140).collect();
        let mut values = 0o060_u32.to_be_bytes().to_vec();
        values.extend(owner("139"));
        assert_eq!(
            set(&mut client, &[MODE, OWNER_GROUP], values).await,
            Status::Ok
        );
        let read = [Op::Read {
            stateid: Stateid::ANONYMOUS,
            offset: 0,
            count: 1,
        }];
        client.uid = 1000;
        client.at(FILE, &read).await.ok(operation::READ);
        client.uid = 1001;
        let mut results = client.at(FILE, &read).await;
        results.has(operation::READ, Status::Access);
        // A user that left the group keeps it for a while at most.
        client.uid = 1000;
        accounts.groups.lock().unwrap().clear();
        client.at(FILE, &read).await.ok(operation::READ);
        io::time::sleep(KEPT_FOR).await;
        let mut results = client.at(FILE, &read).await;
        results.has(operation::READ, Status::Access);
    });
}
