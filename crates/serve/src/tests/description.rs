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
use crate::games::{EFFORT, GameRules, LISTED_MAX, LISTED_MOVES_MAX};
use crate::job::Status;
use crate::open_table::{AreaCounts, FinishedTable, TableSummary};
use crate::routes::{OPENAPI, StatusSource};
use crate::tables::TableEntry;

/// The types that become JSON.
type Described = (
    (TableSummary<'static>, Answer, Depth, ValueAnswer, Opening),
    (AreaCounts, GameRules, GameAnswer, GameList),
    (Status, FinishedTable<'static>, TableEntry, Problem<'static>),
);

/// The routes whose answers are pages, so no program has a use for their description.
const PAGES: [&str; 9] = [
    "/{folder}",
    "/{folder}/",
    "/bite",
    "/play",
    "/explore",
    "/games",
    "/games/{game}",
    "/job",
    "/assets/{name}",
];

/// A status and a route on each line, and what is asked for to get the answer that is described there.
const ASKED: &str = "
200 / => /
200 /api/table => /api/table
200 /api/counts => /api/counts
200 /api/position/{position} => /api/position/5,4,2,1 /api/position/0 /api/position/5,4,3
400 /api/position/{position} => /api/position/x
200 /api/depth/{position} => /api/depth/5,4,2,1 /api/depth/0
400 /api/depth/{position} => /api/depth/10x10 /api/depth/x
200 /api/value/{position} => /api/value/3,2 /api/value/1
400 /api/value/{position} => /api/value/3x4 /api/value/0 /api/value/11x11
200 /api/openings => /api/openings
200 /api/openings/{board} => /api/openings/3x5
400 /api/openings/{board} => /api/openings/30x50
200 /api/games => /api/games
200 /api/games/{game}/{position} => /api/games/ichomp/4x4%2F3,1%2F2 /api/games/poisons/3x8@1,1@2,2 /api/games/nim/2,1@misere
200 /api/games/{game}/{position} => /api/games/towers/1-8,3-5 /api/games/horse/4,6 /api/games/transfinite/w,1... /api/games/nim/0
200 /api/games/{game}/{position} => /api/games/space/3,2%2F1 /api/games/divisors/12%2F6 /api/games/crossed/3x3@2,2
400 /api/games/{game}/{position} => /api/games/chess/1
200 /api/games/{game}/losing/{size} => /api/games/towers/losing/2
200 /api/games/{game}/picture/{fixed}/{size} => /api/games/poisons/picture/1=5/9@1,2@2,1
200 /api/status => /api/status";

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
        format!(
            "At most {} moves are followed, and {LISTED_MOVES_MAX} are in an answer",
            EFFORT.moves
        ),
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
    for line in ASKED.lines().skip(1) {
        let (route, asked) = line.split_once(" => ").unwrap();
        let (status, path) = route.split_once(' ').unwrap();
        for asked in asked.split(' ') {
            let answer = tested.get(asked).await;
            assert_eq!(answer.status.to_string(), status, "{asked}");
            let response = &description["paths"][path]["get"]["responses"][status];
            let response = resolve(&description, response);
            let schema = &response["content"]["application/json"]["schema"];
            let answer = answer.json();
            assert!(fits(&description, schema, &answer), "{asked}: {answer}");
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

/// Whether a value has all fields that its schema says it must have, and no others.
fn fits(description: &Value, schema: &Value, value: &Value) -> bool {
    let schema = resolve(description, schema);
    let fit = |schema: &Value, value: &Value| fits(description, schema, value);
    if let Some(choices) = schema["anyOf"].as_array() {
        return choices.iter().any(|choice| fit(choice, value));
    }
    match value {
        Value::Array(items) => match schema["prefixItems"].as_array() {
            Some(pair) => pair.len() == items.len(),
            None => items.iter().all(|item| fit(&schema["items"], item)),
        },
        Value::Object(fields) => {
            let mut required = schema["required"].as_array().unwrap().iter();
            let properties = &schema["properties"];
            required.all(|name| fields.contains_key(name.as_str().unwrap()))
                && fields.iter().all(|(name, field)| {
                    properties[name]["description"].is_string() && fit(&properties[name], field)
                })
        }
        Value::Null => schema["type"].to_string().contains("\"null\""),
        _ => schema["properties"].is_null() && schema["items"].is_null(),
    }
}
