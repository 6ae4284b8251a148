//! Rules that demand a privileged port (`secure` of exports(5)).

use crate::client::{Client, FORE};
use crate::fixture::{Fixture, HOME, all_rights, config, export, open, simulated};
use nfs::export::Rule;
use nfs::v3::wire::{Arguments, MountStatus, Status as Status3};
use nfs::wire::{Op, Status, operation};
use session::refused::RefusalReason;

/// A service whose export demands a privileged port.
async fn fixture() -> Fixture {
    let rule = Rule {
        needs_privileged_port: true,
        ..all_rights()
    };
    Fixture::of(export(1, "/tank/home", rule), config()).await
}

/// Regression: AUTH_SYS trusts the user numbers of a machine, and every user of the machine could name any number over a
/// connection of its own, and no option of the export prevented it.
#[test]
fn only_a_privileged_port_opens_a_secure_export() {
    simulated(|| async {
        let fixture = fixture().await;
        let mut user = Client::connect(fixture.addr).await;
        user.establish(b"user", FORE).await;
        let way = user.at(&["tank"], &[]).await;
        assert_eq!(way.status, Status::Ok, "the way there may be seen");
        let look = [
            Op::PutRootFh,
            Op::Lookup { name: b"tank" },
            Op::Lookup { name: b"home" },
        ];
        assert_eq!(user.run(&look).await.status, Status::Perm);

        let mut kernel = Client::connect_privileged(fixture.addr).await;
        kernel.establish(b"kernel", FORE).await;
        let done = [Op::ReclaimComplete { one_fs: false }];
        assert_eq!(kernel.run(&done).await.status, Status::Ok);
        let create = nfs::wire::files::CreateHow::Unchecked(crate::fixture::NO_ATTRS);
        let mut results = kernel.at(HOME, &[open("f", Some(create)), Op::GetFh]).await;
        results.open();
        results.ok(operation::GETFH);
        let file = results.opaque();
        // A handle that a user has learned does not help.
        let with_handle = [Op::PutFh(&file), Op::GetAttr(Default::default())];
        assert_eq!(user.run(&with_handle).await.status, Status::Perm);
        assert_eq!(kernel.run(&with_handle).await.status, Status::Ok);

        let (hosts, totals) = fixture.service.refused();
        assert_eq!(totals[2], (RefusalReason::UnprivilegedPort, 2));
        assert_eq!(hosts[0].0.export, "/tank/home");
        assert_eq!(hosts[0].1.reason, RefusalReason::UnprivilegedPort);

        // An option of the rule lets them in.
        let set = fixture.service.set_rules("/tank/home", vec![all_rights()]);
        set.expect("it is there");
        assert_eq!(user.run(&with_handle).await.status, Status::Ok);
    });
}

#[test]
fn version_3_and_mount_demand_the_port_too() {
    simulated(|| async {
        let fixture = fixture().await;
        let mut kernel = Client::connect_privileged(fixture.addr).await;
        let root = kernel.mounted("/tank/home").await.expect("an export");
        let mut user = Client::connect(fixture.addr).await;
        let refused = user.mounted("/tank/home").await;
        assert_eq!(refused.expect_err("refused"), MountStatus::Access.code());
        let getattr = Arguments::GetAttr { object: &root };
        assert_eq!(user.refused(&getattr).await, Status3::Perm);
        assert_eq!(kernel.v3(&getattr).await.status, Status3::Ok);
        assert_eq!(fixture.service.refused().1[2].1, 2);
    });
}
