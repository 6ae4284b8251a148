//! RDMA in a real server on a machine that cannot serve the configured address, and the commands about it.

use crate::common::{BASE, NQN, Place, RAM, client, connect, run};
use serde_json::Value;

/// An address that no machine has (RFC 5737): it is not served because rdma-core is missing or, with rdma-core, because no device has it.
const ELSEWHERE: &str = "192.0.2.1:4420";

/// A server whose only address for RDMA cannot be served starts, serves TCP, and reports the reason in the log, in the API and in each command that shows addresses.
#[test]
fn a_server_without_rdma_serves_tcp_and_says_why() {
    let rdma = format!("listen_rdma = [\"{ELSEWHERE}\"]\n");
    let place = Place::new(&format!("{BASE}{rdma}{RAM}"));
    let server = place.start();
    let is_missing = |s: &Value| s["not_listening"].as_array().is_some_and(|m| m.len() == 1);
    let status = server.wait_for(&["status"], is_missing);
    let missing = &status["not_listening"][0];
    assert_eq!(missing["address"], ELSEWHERE);
    assert_eq!(missing["transport"], "rdma");
    assert_eq!(missing["setting"], "[nvmf] listen_rdma");
    let reason = missing["reason"].as_str().expect("a reason").to_owned();
    assert_eq!(status["listen"].as_array().map(Vec::len), Some(1));
    assert_eq!(status["listen"][0]["transport"], "tcp");
    let warning = format!("{ELSEWHERE} of [nvmf] listen_rdma is not served over RDMA: {reason}");
    assert!(status["warnings"].to_string().contains(&reason), "{status}");
    let log = place.wait_for_log(&warning);
    assert_eq!(log.matches(&warning).count(), 1, "{log}");
    assert!(
        server
            .ok(&["status"])
            .contains(&format!("not served     {ELSEWHERE}"))
    );

    let shown = server.json(&["rdma", "status"]);
    assert_eq!(shown["server"]["not_listening"][0]["reason"], *reason);
    assert_eq!(shown["server"]["sessions"], 0);
    if shown["usable"] == false {
        assert_eq!(
            shown["reason"], *reason,
            "the reason is that of the machine"
        );
    }
    let text = server.ok(&["rdma", "status"]);
    let line = format!("does not listen at {ELSEWHERE} of [nvmf] listen_rdma: {reason}");
    assert!(text.contains(&line), "{text}");

    let config = server.client();
    let server = client(async move {
        let controller = connect(config).await;
        let sessions = server.json(&["session", "list"]);
        assert_eq!(sessions[0]["transport"], "tcp");
        assert_eq!(sessions[0]["not_rdma"], *reason);
        let id = sessions[0]["id"].to_string();
        let text = server.ok(&["session", "show", &id]);
        assert!(text.contains(&format!("not over RDMA  {reason}")), "{text}");
        controller.shutdown().await;
        server
    });
    assert!(server.terminate().success());
}

#[test]
fn rdma_status_needs_no_server() {
    let place = Place::new(BASE);
    let output = run(&place.path(""), &["rdma", "status"]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("no running server was found"), "{text}");
    assert!(text.contains("use RDMA"), "{text}");
}

#[test]
fn transports_of_exports_are_stored() {
    let other = "[[disk]]\nname = \"other\"\nkind = \"mem\"\nsize = \"1M\"\n";
    let place = Place::new(&format!("{BASE}{RAM}{other}"));
    let server = place.start();
    let list = server.json(&["export", "list"]);
    assert_eq!(list[0]["transports"], serde_json::json!(["tcp", "rdma"]));

    let said = server.ok(&["export", "transport", NQN, "rdma"]);
    assert_eq!(said, format!("{NQN} is served over rdma\n"));
    assert!(place.text().contains("transports = [\"rdma\"]"));
    // The server does not listen for RDMA, so that nobody can connect.
    let status = server.json(&["status"]);
    let warnings = status["warnings"].to_string();
    assert!(warnings.contains("is served over RDMA only"), "{warnings}");
    server.ok(&["export", "transport", NQN, "rdma,tcp"]);
    assert!(!place.text().contains("transports"), "both is the default");

    let new = "nqn.2026-01.org.example:b";
    let export = [
        "export",
        "nvme",
        "other",
        "--nqn",
        new,
        "--transport",
        "tcp",
    ];
    let text = server.ok(&export);
    assert!(text.contains("nvme connect -t tcp"), "{text}");
    assert!(!text.contains("-t rdma"), "{text}");
    let list = server.json(&["export", "list"]);
    let found = list
        .as_array()
        .and_then(|all| all.iter().find(|e| e["nqn"] == new));
    assert_eq!(
        found.expect("it is there")["transports"],
        serde_json::json!(["tcp"])
    );
    let wrong = server.run(&["export", "transport", NQN, "udp"]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    let unknown = server.refused(&["export", "transport", "nqn.2026-01.org.example:c", "tcp"]);
    assert!(unknown.contains("no such subsystem"), "{unknown}");
    assert!(server.terminate().success());
}
