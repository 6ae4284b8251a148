//! The control API against its description: requests and answers of a real server, and `docs/control-api.md`.

use crate::common::{BASE, Place, RAM, Server, client, connect, run};
use crate::schema::Schemas;
use iscsi::wire::IscsiName;
use nvmf_initiator::Reconnect;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

const NQN: &str = "nqn.2026-01.org.example:api";
const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:5c1e6f1c-0000-4000-8000-000000000002";
const IQN: &str = "iqn.2026-01.org.example:api";
const INITIATOR: &str = "iqn.2026-01.org.example:host";
const SIZE: &str = "96M";
const DOCS: &str = include_str!("../../../../docs/control-api.md");

/// The control API of one server; what passes is checked against the description that the server gives.
pub(crate) struct Api {
    socket: PathBuf,
    document: Value,
    /// Paths that were answered with success.
    answered: BTreeSet<String>,
}

impl Api {
    pub(crate) fn of(place: &Place) -> Api {
        let mut api = Api {
            socket: place.path("c.sock"),
            document: Value::Null,
            answered: BTreeSet::new(),
        };
        let (status, document) = api.send("GET", "/v1/openapi.json", "");
        assert_eq!(status, 200, "{document}");
        api.document = document;
        api
    }

    /// Status and body of the answer.
    fn send(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let mut stream = UnixStream::connect(&self.socket).expect("connect");
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).expect("ask");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a body");
        let status = head.split(' ').nth(1).expect("a status");
        let body = serde_json::from_str(body).unwrap_or_else(|e| panic!("{path}: {e}: {answer}"));
        (status.parse().expect("a number"), body)
    }

    fn check(&self, path: &str, status: u16, answer: &Value) -> Result<(), String> {
        let methods = self.document["paths"][path].as_object().expect("described");
        let (_, operation) = methods.iter().next().expect("a method");
        let response = &operation["responses"][status.to_string()];
        assert!(response.is_object(), "{path} does not describe {status}");
        let schema = &response["content"]["application/json"]["schema"];
        Schemas(&self.document).check(schema, answer)
    }

    /// Sends a request; its answer has this status. A request that succeeds is as described.
    fn answer(&mut self, path: &str, body: &Value, status: u16) -> Value {
        self.one_of(path, body, &[status]).1
    }

    /// The same; its answer has one of these statuses.
    fn one_of(&mut self, path: &str, body: &Value, statuses: &[u16]) -> (u16, Value) {
        let operation = &self.document["paths"][path];
        let (method, text) = match body {
            Value::Null => ("GET", String::new()),
            _ => ("POST", body.to_string()),
        };
        let described = &operation[method.to_lowercase()];
        assert!(described.is_object(), "{method} {path} is not described");
        let schema = &described["requestBody"]["content"]["application/json"]["schema"];
        if statuses.contains(&200) && !body.is_null() {
            let checked = Schemas(&self.document).check(schema, body);
            checked.unwrap_or_else(|e| panic!("request {path} {body}: {e}"));
        }
        let (status, answer) = self.send(method, path, &text);
        assert!(
            statuses.contains(&status),
            "{path} {body}: {status}, {answer}"
        );
        let checked = self.check(path, status, &answer);
        checked.unwrap_or_else(|e| panic!("answer of {path}: {e}\n{answer:#}"));
        if status == 200 {
            self.answered.insert(path.to_owned());
        }
        (status, answer)
    }

    fn get(&mut self, path: &str) -> Value {
        self.answer(path, &Value::Null, 200)
    }

    pub(crate) fn post(&mut self, path: &str, body: Value) -> Value {
        self.answer(path, &body, 200)
    }
}

/// The lists, with something in each.
fn lists(api: &mut Api) {
    for path in [
        "/v1/status",
        "/v1/summary",
        "/v1/openapi.json",
        "/v1/pools/wear",
        "/v1/disks",
        "/v1/pools",
        "/v1/pools/writes",
        "/v1/volumes",
        "/v1/exports",
        "/v1/targets",
        "/v1/sessions",
        "/v1/sessions/refused",
        "/v1/doctor",
        "/v1/reports",
        "/v1/console/users",
    ] {
        api.get(path);
    }
    for list in [
        "disks",
        "volumes",
        "filesystems",
        "snapshots",
        "exports",
        "sessions",
        "events",
        "written",
        "log",
    ] {
        let part = api.post(
            "/v1/rows",
            json!({"list": list, "sort": "name", "count": 1}),
        );
        assert!(part["rows"].as_array().map_or(0, Vec::len) <= 1, "{part}");
    }
    api.answer("/v1/rows", &json!({"list": "disks", "count": 0}), 400);
}

fn insight(api: &mut Api) {
    api.post("/v1/why", json!({"seconds": 1}));
    let refused = api.answer("/v1/why", &json!({"seconds": 31}), 400);
    assert_eq!(refused["code"], "invalid");
    let unknown = json!({"seconds": 1, "export": "nothing"});
    api.answer("/v1/why", &unknown, 404);
    let rates = api.post("/v1/rates", json!({"day": true}));
    assert_eq!(rates, json!([]), "without a console, nothing is kept");
}

fn console_users(api: &mut Api) {
    let user = json!({"name": "ann", "password": "long enough"});
    let added = api.post("/v1/console/users/add", user.clone());
    assert_eq!(added["sessions"], 0);
    api.answer("/v1/console/users/add", &user, 409);
    let short = json!({"name": "bob", "password": "short"});
    api.answer("/v1/console/users/add", &short, 400);
    api.post("/v1/console/users/password", user);
    api.post("/v1/console/users/unlock", json!({"name": "ann"}));
    api.get("/v1/console/users");
    api.post("/v1/console/users/remove", json!({"name": "ann"}));
    api.answer("/v1/console/users/remove", &json!({"name": "ann"}), 404);
}

fn disks(api: &mut Api, place: &Place) {
    let file = json!({"kind": "file", "path": place.path("disk.img"), "size": "16M"});
    api.post("/v1/disks/add", json!({"name": "file", "medium": file}));
    let nothing = json!({"kind": "null", "size": 1 << 30});
    let add = json!({"name": "null", "medium": nothing, "read_only": true});
    api.post("/v1/disks/add", add.clone());
    api.answer("/v1/disks/add", &add, 409);
    api.post("/v1/disks/resize", json!({"name": "file", "size": "32M"}));
    let shrink = json!({"name": "file", "size": "16M"});
    api.answer("/v1/disks/resize", &shrink, 409);
    api.answer("/v1/disks/resize", &json!({"nmae": "file"}), 400);
    api.post("/v1/disks/remove", json!({"name": "null"}));
    api.answer("/v1/disks/remove", &json!({"name": "null"}), 404);
}

fn exports(api: &mut Api) {
    api.post("/v1/exports/add", json!({"nqn": NQN, "disk": "file"}));
    let over = |all: Value| json!({"nqn": NQN, "transports": all});
    api.post("/v1/exports/transports", over(json!(["tcp"])));
    api.answer("/v1/exports/transports", &over(json!([])), 400);
    api.post("/v1/hosts/allow", json!({"nqn": NQN, "host": HOST}));
    api.post("/v1/hosts/deny", json!({"nqn": NQN, "host": HOST}));
    lists(api);
    api.post("/v1/exports/remove", json!({"nqn": NQN}));
    api.answer("/v1/exports/remove", &json!({"nqn": NQN}), 404);
    let mutual = json!({"user": "us", "secret": "the server's own"});
    let chap = json!({"user": "them", "secret": "of the initiators", "mutual": mutual});
    let export = json!({"disk": "file", "iqn": IQN, "threshold": 90, "chap": chap});
    api.post("/v1/targets/export", export);
    let name = json!({"iqn": IQN, "initiator": INITIATOR});
    api.post("/v1/initiators/allow", name.clone());
    api.post("/v1/initiators/deny", name.clone());
    api.post("/v1/initiators/allow", name);
    let moved = json!({"iqn": IQN, "to": "192.0.2.1:3260"});
    api.post("/v1/targets/move", moved);
    lists(api);
    api.post("/v1/targets/move", json!({"iqn": IQN}));
    api.post("/v1/targets/discovery-chap", json!({}));
    api.post("/v1/reservations", json!({"export": IQN}));
    api.post("/v1/reservations/clear", json!({"export": IQN}));
    api.answer(
        "/v1/reservations/clear",
        &json!({"export": IQN, "number": 9}),
        404,
    );
    api.post("/v1/targets/chap", json!({"iqn": IQN}));
}

/// Sessions of NVMe/TCP and iSCSI.
fn sessions(mut api: Api, server: &Server) -> Api {
    let mut nvme = server.client();
    nvme.reconnect = Reconnect::NEVER;
    let portal = server.iscsi[0];
    client(async move {
        let name = |text| IscsiName::new(text).expect("valid");
        let iscsi = iscsi_initiator::Config {
            reconnect: iscsi_initiator::Reconnect::NEVER,
            ..iscsi_initiator::Config::new(portal, name(IQN), name(INITIATOR))
        };
        let controller = connect(nvme).await;
        let session = iscsi_initiator::Session::connect(iscsi).await;
        let session = session.expect("logged in");
        lists(&mut api);
        let all = api.get("/v1/sessions");
        let all = all.as_array().expect("a list");
        assert_eq!(all.len(), 2, "{all:?}");
        for one in all {
            api.post("/v1/sessions/show", json!({"id": one["id"]}));
        }
        for one in all {
            api.post("/v1/sessions/end", json!({"id": one["id"]}));
        }
        api.answer("/v1/sessions/show", &json!({"id": 77}), 404);
        drop((controller, session));
        api
    })
}

fn volumes(api: &mut Api) {
    let create = json!({"name": "tank/vm1", "size": "16M", "sync": "always", "quota": 64 << 20});
    api.post("/v1/volumes/create", create);
    api.post(
        "/v1/volumes/resize",
        json!({"name": "tank/vm1", "size": "32M"}),
    );
    let set = json!({"name": "tank/vm1", "property": "compression", "value": "off"});
    api.post("/v1/properties/set", set);
    api.post("/v1/properties/get", json!({"names": ["tank/vm1"]}));
    let inherit = json!({"name": "tank/vm1", "property": "compression"});
    api.post("/v1/properties/inherit", inherit);
    let one = json!({"name": "tank/vm1@one"});
    api.post("/v1/snapshots/create", one.clone());
    api.post("/v1/snapshots", json!({}));
    let hold = json!({"name": "tank/vm1@one", "tag": "backup"});
    api.post("/v1/snapshots/hold", hold.clone());
    api.post("/v1/snapshots/holds", one.clone());
    api.post("/v1/snapshots/release", hold);
    let rename = json!({"name": "tank/vm1@one", "new": "two"});
    api.post("/v1/snapshots/rename", rename);
    let clone = json!({"snapshot": "tank/vm1@two", "clone": "tank/vm2"});
    api.post("/v1/snapshots/clone", clone);
    api.post("/v1/volumes/promote", json!({"name": "tank/vm2"}));
    let rename = json!({"name": "tank/vm1", "new": "tank/vm3"});
    api.post("/v1/volumes/rename", rename);
    api.answer(
        "/v1/snapshots/destroy",
        &json!({"name": "tank/vm2@two"}),
        409,
    );
    let destroy = json!({"name": "tank/vm3", "force": true});
    api.post("/v1/volumes/destroy", destroy);
    let back = json!({"snapshot": "tank/vm2@two", "force": true});
    api.post("/v1/volumes/rollback", back);
    api.post("/v1/snapshots/destroy", json!({"name": "tank/vm2@two"}));
    let exported = api.post("/v1/exports/nvme", json!({"disk": "tank/vm2"}));
    lists(api);
    api.post("/v1/exports/remove", json!({"nqn": exported["nqn"]}));
}

fn nfs(api: &mut Api) {
    let export = json!({"filesystem": "tank/home", "clients": ["10.0.0.0/24:rw"]});
    api.post("/v1/nfs/export", export);
    api.get("/v1/nfs");
    let path = "/tank/home";
    api.post("/v1/nfs/allow", json!({"export": path, "client": "*:ro"}));
    api.post("/v1/nfs/deny", json!({"export": path, "client": "*"}));
    api.answer("/v1/nfs/deny", &json!({"export": path, "client": "*"}), 409);
    api.post("/v1/nfs/remove", json!({"export": path}));
    api.answer("/v1/nfs/remove", &json!({"export": path}), 404);
}

fn filesystems(api: &mut Api, place: &Place) {
    let home = json!({"name": "tank/home"});
    api.post("/v1/filesystems/create", home.clone());
    nfs(api);
    let at = place.path("home");
    std::fs::create_dir(&at).expect("a mount point");
    let mount = json!({"name": "tank/home", "at": at});
    if crate::filesystems::can_mount() {
        api.post("/v1/filesystems/mount", mount);
        api.get("/v1/filesystems");
        api.post("/v1/filesystems/unmount", home.clone());
    } else {
        api.answer("/v1/filesystems/mount", &mount, 500);
        api.get("/v1/filesystems");
        api.answer("/v1/filesystems/unmount", &home, 409);
    }
    let quota = json!({"name": "tank/home", "property": "userquota@7", "value": "1M"});
    api.post("/v1/properties/set", quota);
    let owners = json!({"name": "tank/home", "owners": "user"});
    api.post("/v1/filesystems/owners", owners);
    let one = json!({"name": "tank/home@one"});
    api.post("/v1/snapshots/create", one);
    api.post("/v1/filesystems/diff", json!({"from": "tank/home@one"}));
    let back = json!({"snapshot": "tank/home@one", "force": true});
    api.post("/v1/filesystems/rollback", back);
    let clone = json!({"snapshot": "tank/home@one", "clone": "tank/clone"});
    api.post("/v1/snapshots/clone", clone);
    api.post("/v1/filesystems/promote", json!({"name": "tank/clone"}));
    let rename = json!({"name": "tank/home", "new": "tank/users"});
    api.post("/v1/filesystems/rename", rename);
    let destroy = json!({"name": "tank/users", "force": true});
    api.post("/v1/filesystems/destroy", destroy);
    let destroy = json!({"name": "tank/clone", "force": true, "recursive": true});
    api.post("/v1/filesystems/destroy", destroy);
}

/// Waits until a vdev of the pool has this many members, all online.
fn whole(server: &Server, count: usize) {
    server.wait_for(&["pool", "status"], |pools| {
        let members = pools[0]["vdevs"][0]["members"].as_array();
        pools[0]["health"] == "online" && members.is_some_and(|s| s.len() == count)
    });
}

fn pools(api: &mut Api, place: &Place, server: &Server) {
    let path = |name| place.path(name);
    let vdevs = json!([{"layout": "mirror", "members": [path("a"), path("b")]}]);
    api.post(
        "/v1/pools/create",
        json!({"name": "tank", "vdevs": vdevs, "size": SIZE}),
    );
    volumes(api);
    filesystems(api, place);
    let tank = json!({"name": "tank"});
    api.post("/v1/rows", json!({"list": "history", "of": "tank"}));
    api.answer("/v1/rows", &json!({"list": "history"}), 400);
    for path in [
        "checkpoint",
        "scrub",
        "trim",
        "resilver",
        "history",
        "sizes",
    ] {
        api.post(&format!("/v1/pools/{path}"), tank.clone());
    }
    api.post("/v1/pools/events", json!({"pool": "tank"}));
    let b = json!({"pool": "tank", "disk": path("b")});
    api.post("/v1/pools/offline", b.clone());
    api.get("/v1/pools");
    api.get("/v1/stages");
    api.post("/v1/pools/online", b);
    whole(server, 2);
    let attach = json!({"pool": "tank", "disk": path("a"), "new": path("c"), "size": SIZE});
    api.post("/v1/pools/attach", attach);
    whole(server, 3);
    api.post(
        "/v1/pools/detach",
        json!({"pool": "tank", "disk": path("c")}),
    );
    let replace = json!({"pool": "tank", "disk": path("b"), "new": path("d"), "size": SIZE});
    api.post("/v1/pools/replace", replace);
    server.wait_for(&["pool", "status"], |pools| {
        !pools
            .to_string()
            .contains(path("b").to_str().expect("text"))
    });
    whole(server, 2);
    let vdev = json!([{"layout": "disk", "class": "normal", "members": [path("e")]}]);
    let added = json!({"pool": "tank", "vdevs": vdev, "size": SIZE, "force": true});
    api.post("/v1/pools/add", added.clone());
    let add = json!({"pool": "tank", "vdevs": [], "spares": [path("s")], "size": SIZE});
    api.post("/v1/pools/add", add);
    lists(api);
    let spare = json!({"pool": "tank", "disk": path("s")});
    api.post("/v1/pools/remove", spare);
    let vdev = json!({"pool": "tank", "disk": path("e")});
    loop {
        api.post("/v1/pools/remove", vdev.clone());
        let stop = json!({"pool": "tank"});
        let (status, _) = api.one_of("/v1/pools/stop-removal", &stop, &[200, 409]);
        if status == 200 {
            break;
        }
        // It has ended already.
        server.wait_for(&["pool", "status"], |pools| {
            !pools
                .to_string()
                .contains(path("e").to_str().expect("text"))
        });
        api.post("/v1/pools/add", added.clone());
    }
    api.post("/v1/pools/export", tank.clone());
    let disks = json!({"disks": [path("a"), path("d"), path("e")]});
    api.post("/v1/pools/scan", disks.clone());
    api.post("/v1/pools/import/try", json!({"import": disks}));
    api.post("/v1/pools/import", disks);
    api.post("/v1/pools/destroy", json!({"name": "tank", "force": true}));
    api.answer(
        "/v1/pools/destroy",
        &json!({"name": "tank", "force": true}),
        404,
    );
}

#[test]
fn every_request_is_answered_as_described() {
    let place = Place::new(&format!("{BASE}[iscsi]\nlisten = [\"127.0.0.1:0\"]\n{RAM}"));
    let server = place.start();
    let mut api = Api::of(&place);
    disks(&mut api, &place);
    exports(&mut api);
    api = sessions(api, &server);
    api.post("/v1/targets/remove", json!({"iqn": IQN}));
    pools(&mut api, &place, &server);
    insight(&mut api);
    console_users(&mut api);
    lists(&mut api);
    let paths = api.document["paths"].as_object().expect("paths");
    let needs_fuse = |path: &str| path.ends_with("/mount") || path.ends_with("/unmount");
    let can_mount = crate::filesystems::can_mount();
    let silent: Vec<_> = paths
        .keys()
        .filter(|p| can_mount || !needs_fuse(p))
        .filter(|p| !api.answered.contains(*p))
        .collect();
    assert!(silent.is_empty(), "not tried: {silent:?}");
    assert!(server.terminate().success());
}

#[test]
fn an_answer_that_is_not_as_described_is_found() {
    let api = Api {
        socket: PathBuf::new(),
        document: server::openapi(),
        answered: BTreeSet::new(),
    };
    let disk = json!({"name": "d", "kind": "mem", "path": null, "state": "online", "reason": null, "size": 4096,
        "block_size": 512, "used": 0, "read_only": false, "nqn": null, "nsid": null});
    let check = |disk: &Value| api.check("/v1/disks", 200, &json!([disk]));
    assert_eq!(check(&disk), Ok(()));
    let with = |field: &str, value: Value| {
        let mut wrong = disk.clone();
        wrong[field] = value;
        check(&wrong).expect_err(field)
    };
    for (field, value, told) in [
        ("name", json!(7), "$[0].name: 7 breaks type"),
        ("state", json!("away"), "$[0].state: \"away\" breaks"),
        ("size", json!(-1), "$[0].size: -1 breaks minimum"),
        ("nsid", json!("1"), "$[0].nsid: \"1\" breaks type"),
        ("colour", json!("red"), "$[0].colour: not in the schema"),
    ] {
        let error = with(field, value);
        assert!(error.starts_with(told), "{error}");
    }
    let mut short = disk.clone();
    short.as_object_mut().expect("an object").remove("used");
    assert!(
        check(&short)
            .expect_err("short")
            .contains("breaks required")
    );
    assert!(api.check("/v1/disks", 200, &disk).is_err(), "not a list");
}

#[test]
fn the_command_line_prints_the_description_without_a_server() {
    let dir = tempfile::tempdir().expect("a directory");
    let output = run(dir.path(), &["api", "describe"]);
    assert!(output.status.success(), "{output:?}");
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(document, server::openapi());
    assert_eq!(document["openapi"], "3.1.0");
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (_, operation) in methods.as_object().expect("methods") {
            let summary = operation["summary"].as_str().unwrap_or_default();
            assert!(summary.len() > 3, "{path} has no summary");
        }
    }
}

/// Fields of a request in the table: the names outside of parentheses, and whether they may be omitted.
fn fields_of_row(cell: &str) -> BTreeMap<String, bool> {
    let mut depth = 0;
    let outside = cell.chars().filter(|c| {
        depth += i32::from(*c == '(');
        let is_outside = depth == 0;
        depth -= i32::from(*c == ')');
        is_outside
    });
    let outside: String = outside.collect();
    let names = outside.split('`').skip(1).step_by(2);
    let field = |name: &str| {
        let required = name.strip_suffix('?');
        (required.unwrap_or(name).to_owned(), required.is_some())
    };
    names.map(field).collect()
}

/// Fields of a request in the description, and whether they may be omitted.
fn fields_of_request(document: &Value, operation: &Value) -> BTreeMap<String, bool> {
    let name = operation["operationId"].as_str().expect("a name");
    let schema = &document["components"]["schemas"][name];
    let required = schema["required"].as_array();
    let is_required = |field: &String| required.is_some_and(|r| r.iter().any(|n| n == field));
    let fields = schema["properties"].as_object().into_iter().flatten();
    fields
        .map(|(name, _)| (name.clone(), !is_required(name)))
        .collect()
}

#[test]
fn the_documentation_lists_each_request_with_its_fields() {
    let document = server::openapi();
    let rows = DOCS.lines().filter_map(|line| {
        let mut cells = line.split('|').skip(1).map(str::trim);
        let request = cells.next()?.strip_prefix('`')?.strip_suffix('`')?;
        let (method, path) = request.split_once(" /")?;
        let key = (format!("/{path}"), method.to_lowercase());
        Some((key, fields_of_row(cells.next()?)))
    });
    let documented: BTreeMap<_, _> = rows.collect();
    let mut described = BTreeMap::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let key = (path.clone(), method.clone());
            described.insert(key, fields_of_request(&document, operation));
        }
    }
    for (key, fields) in &described {
        assert_eq!(
            documented.get(key),
            Some(fields),
            "{key:?} in the table of docs/control-api.md"
        );
    }
    let extra: Vec<_> = documented
        .keys()
        .filter(|k| !described.contains_key(*k))
        .collect();
    assert!(extra.is_empty(), "the server has no {extra:?}");
}
