//! The recipe of `openapi.json`: schemas of the types that become JSON, and the routes that answer with them. `just
//! openapi` writes that file anew, and without `CHOMP_WRITE` it is compared with what the recipe makes.

use std::collections::BTreeSet;
use std::path::Path;

use chomp_games::{GameAnswer, GameList};
use chomp_query::{Answer, Opening, ValueAnswer};
use chomp_testing::values;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::{put, site, with_table};
use crate::answer::Problem;
use crate::api::{Depth, INSIDE_MAX};
use crate::counts::AreaCounts;
use crate::current::{FinishedTable, TableSummary};
use crate::games::{GameRules, LISTED_MAX, LISTED_MOVES_MAX, MOVES_MAX};
use crate::job::Status;
use crate::refusal::TEXT_BYTES_MAX;
use crate::site::{OPENAPI, StatusSource};
use crate::tables::TableLine;

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

/// The refusals that the description has, by their status: a name, and what they mean.
const REFUSALS: [(u16, &str, &str); 7] = [
    (
        400,
        "Wrong",
        "The path names no position, board or game, or one that is too large or not in the table. The reason tells.",
    ),
    (401, "NoToken", "The coordinator wants a token."),
    (404, "Nothing", "There is nothing at this path."),
    (414, "TooLong", "The text is longer than any position."),
    (429, "TooOften", "Too many requests from this address."),
    (
        500,
        "Damaged",
        "The table is damaged on the server: its owner should know.",
    ),
    (
        503,
        "NotNow",
        "There is no finished table yet, or too much to do.",
    ),
];

/// The refusals of routes without a table, of those with one, and of those with texts in their paths too.
const OPEN: &[u16] = &[429];
const OF_TABLE: &[u16] = &[429, 500, 503];
const OF_POSITION: &[u16] = &[400, 414, 429, 500, 503];
const OF_GAME: &[u16] = &[400, 414, 429, 503];

/// The answer of `/api/status`.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is in use")]
#[schemars(untagged, inline)]
enum StatusAnswer {
    Job(Status),
    Table(FinishedTable<'static>),
}

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

/// A description on its way.
struct Description {
    schemas: SchemaGenerator,
    paths: Map<String, Value>,
}

impl Description {
    /// Adds a route that answers with a `T`, and `more` fields of its description.
    fn add<T: JsonSchema>(
        &mut self,
        path: &str,
        tag: &str,
        summary: &str,
        refusals: &[u16],
        more: Value,
    ) {
        let schema = self.schemas.subschema_for::<T>();
        let mut operation = json!({
            "summary": summary,
            "tags": [tag],
            "responses": {
                "200": {
                    "description": "The answer.",
                    "content": {"application/json": {"schema": schema}},
                },
            },
        });
        for (status, name, _) in REFUSALS {
            if refusals.contains(&status) {
                let response = json!({"$ref": format!("#/components/responses/{name}")});
                operation["responses"][status.to_string()] = response;
            }
        }
        let parameters: Vec<Value> = names(path).map(|name| parameter(name, tag)).collect();
        if !parameters.is_empty() {
            operation["parameters"] = parameters.into();
        }
        merge(&mut operation, more);
        self.paths
            .insert(path.to_owned(), json!({ "get": operation }));
    }
}

/// The names in the braces of a path.
fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('{').skip(1).map(|rest| {
        let (name, _) = rest.split_once('}').expect("braces are closed");
        name
    })
}

/// The description of a part of a path. Positions of games are written in other ways than those of Chomp.
fn parameter(name: &str, tag: &str) -> Value {
    let (description, example) = match (name, tag) {
        ("position", "games") => (
            "The position; `/` as `%2F`. Rules that are not the usual ones stand behind `@`.",
            "3,4,5",
        ),
        ("position", _) => (
            "Its rows as `5,4,2,1`, a rectangle as `8x10` (rows x columns), a word as `0b101011010` or `0x15a`, or `0` \
             for the empty position.",
            "5,4,2,1",
        ),
        ("board", _) => ("Rows x columns.", "8x10"),
        ("game", _) => ("The name of the game.", "nim"),
        ("fixed", _) => ("The row, from 1 to 3, and its length.", "1=50"),
        ("size", _) => (
            "The size, and the rules if they are not the usual ones, as `20@misere` or `150@1,1@2,2`: cells of `ichomp` \
             (16), columns of `poisons` (300), counters of `nim` (40), columns of `towers` (8), rows and columns of \
             `horse` (100), rows, columns and layers of `space` (3), the number of `divisors`, rows and columns of \
             `crossed` (8), cells of `transfinite` (30).",
            "20",
        ),
        ("folder", _) => ("The folder of the table.", "table-32"),
        ("name", _) => (
            "`manifest.json`, `SHA256SUMS`, or a shard that the manifest lists.",
            "shard-0000.zst",
        ),
        other => panic!("no description of {other:?}"),
    };
    let mut schema = json!({"type": "string", "maxLength": TEXT_BYTES_MAX});
    if name == "game" {
        schema["enum"] = json!(chomp_games::NAMES);
    }
    json!({
        "name": name,
        "in": "path",
        "required": true,
        "description": description,
        "schema": schema,
        "example": example,
    })
}

/// A sentence about a route, beside its summary.
fn note(text: &str) -> Value {
    json!({ "description": text })
}

/// Adds what `more` has to `value`: fields of objects, items of lists.
fn merge(value: &mut Value, more: Value) {
    match (value, more) {
        (Value::Object(fields), Value::Object(more)) => {
            for (name, more) in more {
                merge(fields.entry(name).or_insert(Value::Null), more);
            }
        }
        (Value::Array(items), Value::Array(more)) => items.extend(more),
        (value, more) => *value = more,
    }
}

/// Descriptions are paragraphs: the ends of the lines of a comment mean nothing.
fn join_lines(schema: &mut Schema) {
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.replace('\n', " ");
    }
}

/// The questions about positions, boards and the table.
fn add_questions(all: &mut Description) {
    let table = "table";
    all.add::<TableSummary<'_>>("/api/table", table, "The table", OF_TABLE, json!({}));
    all.add::<Answer>(
        "/api/position/{position}",
        table,
        "One position",
        OF_POSITION,
        json!({}),
    );
    all.add::<Depth>(
        "/api/depth/{position}",
        table,
        "The length of a game",
        OF_POSITION,
        note(&format!(
            "Of positions with at most {INSIDE_MAX} positions inside, as 9x10. No table is needed for it."
        )),
    );
    all.add::<ValueAnswer>(
        "/api/value/{position}",
        table,
        "The Grundy value of a position",
        OF_POSITION,
        note("From the finished table of values of the most tiles, which has no empty position."),
    );
    all.add::<Vec<Opening>>(
        "/api/openings",
        table,
        "The winning first moves of all rectangles",
        OF_TABLE,
        note(
            "Of the rectangles with rows <= columns that the table, or a file box-….json beside it, covers: by rows, \
             then by columns.",
        ),
    );
    all.add::<Opening>(
        "/api/openings/{board}",
        table,
        "The winning first moves of a rectangle",
        OF_POSITION,
        note("Of a rectangle that the table, or a file box-….json beside it, covers."),
    );
    all.add::<AreaCounts>(
        "/api/counts",
        table,
        "The losing positions of each area",
        OF_TABLE,
        note(
            "They are counted once, beside everything else, after the first request. Ask again until `losing_by_area` \
             is there.",
        ),
    );
}

/// The questions about games.
fn add_games(all: &mut Description) {
    let games = "games";
    all.add::<Vec<GameRules>>("/api/games", games, "The games", OPEN, json!({}));
    all.add::<GameAnswer>(
        "/api/games/{game}/{position}",
        games,
        "One position of a game",
        OF_GAME,
        note(&format!(
            "`docs/GAMES.md` of the project has the games, their positions and moves. A question that takes long \
             counts as many requests as it takes milliseconds. At most {MOVES_MAX} moves are followed, and \
             {LISTED_MOVES_MAX} are in an answer."
        )),
    );
    all.add::<GameList>(
        "/api/games/{game}/losing/{size}",
        games,
        "The losing positions of a game up to a size",
        OF_GAME,
        note(&format!("At most {LISTED_MAX}, the small ones first.")),
    );
    all.add::<GameList>(
        "/api/games/{game}/picture/{fixed}/{size}",
        games,
        "The losing positions of `poisons` in which one row has a length",
        OF_GAME,
        json!({}),
    );
}

/// The job, the files, and the description itself.
fn add_others(all: &mut Description) {
    let files = "files";
    all.add::<StatusAnswer>(
        "/api/status",
        "job",
        "The status of the job",
        &[401, 429, 503],
        json!({
            "description": "The job as it is now, which a coordinator may show to holders of a token alone. Where there \
                is no job, the finished table.",
            "security": [{}, {"token": []}],
            "responses": {"200": {"content": {"text/event-stream": {"schema": {
                "type": "string",
                "description": "With `Accept: text/event-stream`, server-sent events: `event: status`, with the same \
                    JSON as `data`, at once and then at each change, twice a second at the most. A comment line comes \
                    every 15 seconds.",
            }}}}},
        }),
    );
    all.add::<Vec<TableLine>>(
        "/",
        files,
        "The finished tables",
        &[429, 500],
        json!({
            "description": "The tables of losing positions, by their bits, then those of values, by their tiles. A \
                browser gets a page instead.",
            "responses": {"200": {"content": {"text/html": {"schema": {"type": "string"}}}}},
        }),
    );
    all.add::<Value>(
        "/{folder}/{name}",
        files,
        "A file of a finished table",
        &[404, 429, 500, 503],
        json!({
            "description": "Whole or in part (`Range`, `If-Range`), with its SHA-256 as entity tag (`If-None-Match`). \
                FORMAT.md of the project describes the bytes.",
            "parameters": [{
                "name": "Range",
                "in": "header",
                "description": "The bytes that are wanted: one range.",
                "schema": {"type": "string"},
                "example": "bytes=0-65535",
            }],
            "responses": {
                "200": {"content": {
                    "application/zstd": {"schema": {}},
                    "text/plain": {"schema": {"type": "string"}},
                }},
                "206": {
                    "description": "The part that was asked for.",
                    "content": {"application/zstd": {"schema": {}}},
                },
                "304": {"description": "The file is the one that `If-None-Match` names."},
                "416": {"description": "The file does not have these bytes."},
            },
        }),
    );
    let object = json!({"schema": {"type": "object"}});
    all.add::<Value>(
        "/openapi.json",
        "table",
        "This description",
        OPEN,
        json!({"responses": {"200": {"content": {"application/json": object}}}}),
    );
}

/// The whole document, in version 3.1 of the format.
fn made() -> Value {
    let mut settings = SchemaSettings::draft2020_12().for_serialize();
    settings.definitions_path = "/components/schemas".into();
    let settings = settings.with_transform(RecursiveTransform(join_lines));
    let mut all = Description {
        schemas: settings.into_generator(),
        paths: Map::new(),
    };
    add_questions(&mut all);
    add_games(&mut all);
    add_others(&mut all);
    let problem = all.schemas.subschema_for::<Problem<'_>>();
    let mut responses = Map::new();
    for (status, name, description) in REFUSALS {
        let content = json!({"application/json": {"schema": problem}});
        let mut response = json!({"description": description, "content": content});
        if let 429 | 503 = status {
            response["headers"]["Retry-After"] =
                json!({"description": "The seconds to wait.", "schema": {"type": "integer"}});
        }
        responses.insert(name.to_owned(), response);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "chomp",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Which positions of Chomp are losing, and which moves win.",
            "description": "Served by `chomp serve`, `chomp coordinator` and `chomp run --http`. Rows are listed from \
                the poisoned corner outwards, longest first; a cell is [row, column], counted from 1, with the poison at \
                [1, 1]; who takes the poison loses. A move takes a cell and all cells beyond it in both directions.\n\n\
                Errors are `{\"error\": \"a reason for people\"}`. Every path here can be read with GET and HEAD; pages \
                of other sites may read what needs no token. Who asks too often gets 429 and is told when to come back.",
            "license": {"name": "MIT OR Apache-2.0"},
        },
        "tags": [
            {"name": "table", "description": "The finished table of the most bits."},
            {"name": "games", "description": "Small games beside Chomp, which need no table."},
            {"name": "files", "description": "The finished tables themselves."},
            {"name": "job", "description": "The job of a coordinator."},
        ],
        "paths": all.paths,
        "components": {
            "securitySchemes": {"token": {
                "type": "http",
                "scheme": "bearer",
                "description": "The token in the access file of the coordinator.",
            }},
            "schemas": all.schemas.take_definitions(true),
            "responses": responses,
        },
    })
}

#[test]
fn the_description_is_what_the_recipe_makes() {
    let made = made();
    if std::env::var_os("CHOMP_WRITE").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.json");
        put(&path, format!("{made:#}\n").as_bytes());
        return;
    }
    let kept: Value = serde_json::from_str(OPENAPI).unwrap();
    assert!(
        kept == made,
        "openapi.json differs from what the types say: run `just openapi`"
    );
}

/// The description has all routes, and the answers have the fields that it lists.
#[tokio::test]
async fn the_description_is_that_of_the_answers() {
    let (tested, directory, _) = with_table().await;
    let description = made();
    let paths = description["paths"].as_object().unwrap();
    let described: BTreeSet<&str> = paths.keys().map(String::as_str).collect();
    let routes = site(directory.path()).await.routes(StatusSource::Table);
    let routes = routes.iter().map(|(path, _)| *path);
    let routes: BTreeSet<&str> = routes.filter(|path| !PAGES.contains(path)).collect();
    assert_eq!(described, routes);

    assert_eq!(tested.get("/api/value/3,2").await.status, 503);
    values::publish(directory.path(), values::SMALL, &values::areas(10));
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
