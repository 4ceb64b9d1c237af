//! `openapi.json`: its paths are written by hand, and its schemas are those of the types that become JSON. `just openapi`
//! writes the schemas anew, and without `CHOMP_WRITE` they are compared.

use std::collections::BTreeSet;
use std::path::Path;

use chomp_games::{GameAnswer, GameList};
use chomp_query::{Answer, Opening, ValueAnswer};
use chomp_testing::values;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::Value;

use super::{publish, put, site, start};
use crate::answer::{Problem, TEXT_BYTES_MAX};
use crate::api::{Depth, INSIDE_MAX};
use crate::games::{GameRules, LISTED_MAX, LISTED_MOVES_MAX, MOVES_MAX};
use crate::job::Status;
use crate::open_table::{AreaCounts, FinishedTable, TableSummary};
use crate::site::{OPENAPI, StatusSource};
use crate::tables::TableLine;

/// The types that become JSON.
type Described = (
    (TableSummary<'static>, Answer, Depth, ValueAnswer, Opening),
    (AreaCounts, GameRules, GameAnswer, GameList),
    (Status, FinishedTable<'static>, TableLine, Problem<'static>),
);

/// The routes whose answers are pages, so no program has a use for their description.
const PAGES: [&str; 7] = [
    "/{folder}/",
    "/play",
    "/explore",
    "/games",
    "/games/{game}",
    "/job",
    "/assets/{name}",
];

/// The fields that the name of a table becomes.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is in use")]
pub(crate) struct TableSize {
    /// The bits of a table of losing positions.
    #[schemars(default, skip_serializing_if = "Option::is_none")]
    bits: Option<u32>,
    /// The tiles of a table of values.
    #[schemars(default, skip_serializing_if = "Option::is_none")]
    tiles: Option<u32>,
}

/// Descriptions are paragraphs: the ends of the lines of a comment mean nothing.
fn join_lines(schema: &mut Schema) {
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.replace('\n', " ");
    }
}

fn described() -> Value {
    serde_json::from_str(OPENAPI).unwrap()
}

#[test]
fn the_description_has_the_schemas_of_the_types() {
    let mut settings = SchemaSettings::draft2020_12().for_serialize();
    settings.definitions_path = "/components/schemas".into();
    let settings = settings.with_transform(RecursiveTransform(join_lines));
    let mut schemas = settings.into_generator();
    schemas.subschema_for::<Described>();
    let mut made = described();
    made["components"]["schemas"] = schemas.take_definitions(true).into();
    made["info"]["version"] = env!("CARGO_PKG_VERSION").into();
    if std::env::var_os("CHOMP_WRITE").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.json");
        put(&path, format!("{made:#}\n").as_bytes());
        return;
    }
    assert!(
        described() == made,
        "openapi.json differs from what the types say: run `just openapi`"
    );
    for limit in [
        format!("at most {INSIDE_MAX} positions inside"),
        format!("At most {MOVES_MAX} moves are followed, and {LISTED_MOVES_MAX} are in an answer"),
        format!("At most {LISTED_MAX}, the small ones first"),
        format!("\"maxLength\": {TEXT_BYTES_MAX}"),
    ] {
        assert!(OPENAPI.contains(&limit), "{limit}");
    }
    for reference in OPENAPI.split("\"$ref\": \"#").skip(1) {
        let (reference, _) = reference.split_once('"').unwrap();
        assert!(made.pointer(reference).is_some(), "{reference}");
    }
}

/// The description has all routes, and the answers have the fields that it lists.
#[tokio::test]
async fn the_description_is_that_of_the_answers() {
    let directory = tempfile::tempdir().unwrap();
    publish(directory.path(), 14);
    values::publish(directory.path(), values::SMALL, &values::areas(10));
    let site = site(directory.path()).await;
    let tested = start(site.router()).await;
    let description = described();
    let paths = description["paths"].as_object().unwrap();
    let described: BTreeSet<&str> = paths.keys().map(String::as_str).collect();
    let routes = site.routes(StatusSource::Table);
    let routes = routes.iter().map(|(path, _)| *path);
    let routes: BTreeSet<&str> = routes.filter(|path| !PAGES.contains(path)).collect();
    assert_eq!(described, routes);
    while tested.get("/api/counts").await.json()["losing_by_area"].is_null() {}
    for (path, status, asked) in [
        ("/", "200", "/"),
        ("/api/table", "200", "/api/table"),
        ("/api/counts", "200", "/api/counts"),
        (
            "/api/position/{position}",
            "200",
            "/api/position/5,4,2,1 /api/position/0 /api/position/5,4,3",
        ),
        ("/api/position/{position}", "400", "/api/position/x"),
        (
            "/api/depth/{position}",
            "200",
            "/api/depth/5,4,2,1 /api/depth/0",
        ),
        (
            "/api/depth/{position}",
            "400",
            "/api/depth/10x10 /api/depth/x",
        ),
        (
            "/api/value/{position}",
            "200",
            "/api/value/3,2 /api/value/1",
        ),
        (
            "/api/value/{position}",
            "400",
            "/api/value/3x4 /api/value/0 /api/value/11x11",
        ),
        ("/api/openings", "200", "/api/openings"),
        ("/api/openings/{board}", "200", "/api/openings/3x5"),
        ("/api/openings/{board}", "400", "/api/openings/30x50"),
        ("/api/games", "200", "/api/games"),
        (
            "/api/games/{game}/{position}",
            "200",
            "/api/games/ichomp/4x4%2F3,1%2F2 /api/games/poisons/3x8@1,1@2,2 /api/games/nim/2,1@misere \
             /api/games/towers/1-8,3-5 /api/games/horse/4,6 /api/games/transfinite/w,1... /api/games/nim/0 \
             /api/games/space/3,2%2F1 /api/games/divisors/12%2F6 /api/games/crossed/3x3@2,2",
        ),
        ("/api/games/{game}/{position}", "400", "/api/games/chess/1"),
        (
            "/api/games/{game}/losing/{size}",
            "200",
            "/api/games/towers/losing/2",
        ),
        (
            "/api/games/{game}/picture/{fixed}/{size}",
            "200",
            "/api/games/poisons/picture/1=5/9@1,2@2,1",
        ),
        ("/api/status", "200", "/api/status"),
    ] {
        for asked in asked.split(' ') {
            let answer = tested.get(asked).await;
            assert_eq!(answer.status.to_string(), status, "{asked}");
            let response = &description["paths"][path]["get"]["responses"][status];
            let response = resolve(&description, response);
            let schema = &response["content"]["application/json"]["schema"];
            let fit = fits(&description, schema, &answer.json());
            assert_eq!(fit, Ok(()), "{asked}");
        }
    }
}

/// Follows a reference within the description.
fn resolve<'a>(description: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str() {
        Some(reference) => {
            let found = description.pointer(reference.strip_prefix('#').unwrap());
            resolve(description, found.expect(reference))
        }
        None => value,
    }
}

/// Whether a value is what a schema describes: with all fields that it must have, and no others.
fn fits(description: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let schema = resolve(description, schema);
    let must = |fits: bool, what: &str| {
        fits.then_some(())
            .ok_or_else(|| format!("{value} {what} {schema}"))
    };
    let choices = ["anyOf", "oneOf"].map(|of| schema[of].as_array());
    if let Some(choices) = choices.into_iter().flatten().next() {
        let fits = |choice| fits(description, choice, value).is_ok();
        return must(choices.iter().any(fits), "is none of");
    }
    let kinds: &[&str] = match value {
        Value::Null => &["null"],
        Value::Bool(_) => &["boolean"],
        Value::Number(number) if number.is_u64() => &["integer", "number"],
        Value::Number(_) => &["number"],
        Value::String(_) => &["string"],
        Value::Array(_) => &["array"],
        Value::Object(_) => &["object"],
    };
    let is_one = |kind: &Value| kinds.iter().any(|one| kind == one);
    let of_kind = schema["type"]
        .as_array()
        .map_or_else(|| is_one(&schema["type"]), |kinds| kinds.iter().any(is_one));
    must(of_kind, "has not the type of")?;
    must(
        schema["const"].is_null() || schema["const"] == *value,
        "is not",
    )?;
    if let Value::Array(items) = value {
        let pair = schema["prefixItems"].as_array();
        must(
            pair.is_none_or(|pair| pair.len() == items.len()),
            "is not as long as",
        )?;
        for (number, item) in items.iter().enumerate() {
            let schema = pair.map_or(&schema["items"], |pair| &pair[number]);
            fits(description, schema, item)?;
        }
    }
    if let Value::Object(fields) = value {
        for (name, field) in fields {
            let schema = &schema["properties"][name];
            must(
                schema["description"].is_string(),
                &format!("has {name}, not in"),
            )?;
            fits(description, schema, field)?;
        }
        for name in schema["required"].as_array().unwrap() {
            let name = name.as_str().unwrap();
            must(fields.contains_key(name), &format!("has no {name} of"))?;
        }
    }
    Ok(())
}
