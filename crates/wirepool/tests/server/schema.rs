//! A check of JSON against the schemas of an OpenAPI document.
//!
//! **Called by** the tests of the control API. **Invariants**: an unknown keyword panics, so that nothing is passed over
//! in silence; a field that the schema does not name is an error, since server and document are of one version. JSON
//! Schema 2020-12, the keywords that the document uses.

use serde_json::Value;

/// The components of an OpenAPI document.
pub(crate) struct Schemas<'a>(pub(crate) &'a Value);

impl Schemas<'_> {
    /// Errors: the place in `value` and the keyword of `schema` that it breaks.
    pub(crate) fn check(&self, schema: &Value, value: &Value) -> Result<(), String> {
        self.at("$", schema, value)
    }

    fn at(&self, place: &str, schema: &Value, value: &Value) -> Result<(), String> {
        let Value::Object(keywords) = schema else {
            assert_eq!(schema, true, "{place}: not a schema");
            return Ok(());
        };
        if let (Some(fields), Some(object)) = (schema.get("properties"), value.as_object())
            && schema.get("additionalProperties").is_none()
            && let Some(unknown) = object.keys().find(|key| fields.get(key).is_none())
        {
            return Err(format!("{place}.{unknown}: not in the schema"));
        }
        keywords
            .iter()
            .try_for_each(|(keyword, rule)| self.keyword(place, keyword, rule, schema, value))
    }

    fn keyword(
        &self,
        place: &str,
        keyword: &str,
        rule: &Value,
        schema: &Value,
        value: &Value,
    ) -> Result<(), String> {
        let all = || rule.as_array().expect("a list").iter();
        let accepting = || all().filter(|s| self.at(place, s, value).is_ok()).count();
        let holds = match keyword {
            // Annotations; the pattern is that of sizes, which requests alone have.
            "description" | "title" | "format" | "default" | "writeOnly" | "pattern" => true,
            "$ref" => {
                let name = rule
                    .as_str()
                    .and_then(|r| r.strip_prefix("#/components/schemas/"));
                let named = &self.0["components"]["schemas"][name.expect("a component")];
                return self.at(place, named, value);
            }
            "type" => match rule {
                Value::String(kind) => is_a(value, kind),
                _ => all().any(|kind| is_a(value, kind.as_str().expect("a type"))),
            },
            "enum" => all().any(|v| v == value),
            "const" => rule == value,
            "minimum" => value.as_f64().is_none_or(|v| Some(v) >= rule.as_f64()),
            "maximum" => value.as_f64().is_none_or(|v| Some(v) <= rule.as_f64()),
            "anyOf" => accepting() > 0,
            "oneOf" => accepting() == 1,
            "allOf" => accepting() == all().count(),
            "required" => all().all(|f| value.get(f.as_str().expect("a field")).is_some()),
            "minItems" => value
                .as_array()
                .is_none_or(|v| Some(v.len() as u64) >= rule.as_u64()),
            "maxItems" => value
                .as_array()
                .is_none_or(|v| Some(v.len() as u64) <= rule.as_u64()),
            "prefixItems" => {
                let mut items = value
                    .as_array()
                    .into_iter()
                    .flatten()
                    .zip(all())
                    .enumerate();
                return items.try_for_each(|(i, (item, schema))| {
                    self.at(&format!("{place}[{i}]"), schema, item)
                });
            }
            "items" => {
                let mut items = value.as_array().into_iter().flatten().enumerate();
                return items
                    .try_for_each(|(i, item)| self.at(&format!("{place}[{i}]"), rule, item));
            }
            "properties" => {
                let mut fields = rule.as_object().expect("fields").iter();
                return fields.try_for_each(|(name, schema)| match value.get(name) {
                    Some(field) => self.at(&format!("{place}.{name}"), schema, field),
                    None => Ok(()),
                });
            }
            "additionalProperties" => {
                assert_eq!(rule, false, "{place}: only `false` is known");
                let fields = schema["properties"].as_object();
                let known = |key: &String| fields.is_some_and(|f| f.contains_key(key));
                value.as_object().is_none_or(|o| o.keys().all(known))
            }
            _ => panic!("{place}: the keyword {keyword} is not known"),
        };
        match holds {
            true => Ok(()),
            false => Err(format!("{place}: {value} breaks {keyword} {rule}")),
        }
    }
}

fn is_a(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => panic!("{kind} is no type"),
    }
}
