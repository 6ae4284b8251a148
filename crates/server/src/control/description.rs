//! The description of the control API for programs: an OpenAPI 3.1 document.
//!
//! **Called by** the table of routes. **Invariants**: every route of the table is in it and
//! nothing else; texts are the docstrings of the API's types. OpenAPI 3.1.0, JSON Schema 2020-12.

use super::route::{Operation, Route, status};
use crate::api::{Failure, FailureCode, Method};
use schemars::SchemaGenerator;
use schemars::generate::{Contract, SchemaSettings};
use serde_json::{Map, Value, json};

/// The OpenAPI document of these routes.
pub(super) fn describe_all(routes: Vec<Route>) -> Value {
    // An answer always has fields that a request may leave out, so the two are described apart.
    let mut requests = generator(Contract::Deserialize);
    let mut answers = generator(Contract::Serialize);
    let failure = answers.subschema_for::<Failure>();
    let mut paths = Map::new();
    for route in routes {
        let operation = route.operation;
        let method = match operation.method {
            Method::Get => "get",
            Method::Ask | Method::Post => "post",
        };
        let described = describe(&operation, &mut requests, &mut answers, failure.as_value());
        paths.insert(operation.path.to_owned(), json!({ method: described }));
    }
    let mut schemas = answers.take_definitions(true);
    for (name, schema) in requests.take_definitions(true) {
        let of_answers = schemas.insert(name.clone(), schema.clone());
        debug_assert!(
            of_answers.is_none_or(|s| s == schema),
            "{name} is not the same in requests and answers"
        );
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Wirepool control API",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "HTTP/1.1 over the server's Unix socket. Within a version of the API (the first part of a \
                path), fields are added and never renamed or removed. docs/control-api.md describes it for people.",
        },
        "servers": [{
            "url": "http://wirepool",
            "description": "The control socket, /run/wirepool/control.sock by default; the host name has no meaning",
        }],
        "paths": paths,
        "components": { "schemas": schemas },
    })
}

fn generator(contract: Contract) -> SchemaGenerator {
    let settings = SchemaSettings::draft2020_12().with(|s| {
        s.definitions_path = "/components/schemas".into();
        s.meta_schema = None;
        s.contract = contract;
    });
    settings.into_generator()
}

/// The Operation Object of a request.
fn describe(
    operation: &Operation,
    requests: &mut SchemaGenerator,
    answers: &mut SchemaGenerator,
    failure: &Value,
) -> Value {
    let request = (operation.request)(requests);
    let text = requests.definitions().get(&operation.name);
    let text = text.and_then(|schema| schema["description"].as_str());
    let text = text.unwrap_or_default();
    let summary = text.split_inclusive(['.', ';', ':']).next();
    let mut responses = Map::new();
    let answer = content((operation.answer)(answers).as_value());
    responses.insert(
        "200".to_owned(),
        json!({ "description": "Success", "content": answer }),
    );
    for code in operation.failures {
        let response = json!({ "description": meaning(*code), "content": content(failure) });
        responses.insert(status(*code).as_str().to_owned(), response);
    }
    let mut described = json!({
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": summary.unwrap_or_default().trim_end_matches(['.', ';', ':']),
        "description": text,
        "responses": responses,
    });
    described["x-changes"] = json!(operation.method.is_change());
    if operation.method != Method::Get {
        described["requestBody"] =
            json!({ "required": true, "content": content(request.as_value()) });
    }
    described
}

/// The Content Object of a body of this schema.
fn content(schema: &Value) -> Value {
    json!({ "application/json": { "schema": schema } })
}

fn meaning(code: FailureCode) -> &'static str {
    match code {
        FailureCode::Invalid => "The request has an invalid value",
        FailureCode::NotFound => "The named object does not exist",
        FailureCode::Conflict => {
            "The named object is in use, exists already, or was edited by hand"
        }
        FailureCode::Failed => "The server tried and failed",
        FailureCode::Unavailable => "The server is shutting down or too busy",
    }
}
