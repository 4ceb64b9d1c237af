//! The pages for people, and their files: part of the program, the same for every table.

use std::collections::HashMap;

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::HeaderMap;
use http::header::ACCEPT;

use crate::answer::{HTML, Refusal};
use crate::files::SmallFile;
use crate::games::{GAMES, GameRules};

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const PICTURE: &str = "image/svg+xml";
const PNG: &str = "image/png";

/// A file: its path, its type, its bytes.
pub(crate) type File = (&'static str, &'static str, &'static [u8]);

/// The page that browsers get at `/`.
pub(crate) const FIRST: &str = "/bite";

/// A page: the texts that are put into the template of all pages.
#[derive(Debug)]
pub(crate) struct Page<'a> {
    pub(crate) path: &'static str,
    title: &'static str,
    description: &'static str,
    /// The entry of the navigation to mark as current.
    nav_entry: &'static str,
    /// The name of its script in `assets/`; empty if it has none.
    script: &'static str,
    needs: Needs,
    main: &'a str,
    rules: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    /// A server, or the files of a table.
    Table,
    /// A server: the page is about a job or a small game.
    Server,
    /// No server and no table: the page describes the files.
    Files,
}

const PAGE_TEMPLATE: &str = include_str!("../pages/frame.html");

const GAME: Page<'static> = Page {
    path: "",
    title: "",
    description: "Play a small game against a computer that knows who wins, and see why.",
    nav_entry: "Games",
    script: "game",
    needs: Needs::Server,
    main: include_str!("../pages/play.html"),
    rules: "",
};

const fn game(path: &'static str, about: &'static GameRules) -> Page<'static> {
    Page {
        path,
        title: about.title,
        rules: about.rules,
        ..GAME
    }
}

pub(crate) const PAGES: [Page<'static>; 14] = [
    Page {
        path: "/bite",
        title: "One bite",
        description: "A bar of chocolate with a poisoned corner. You move first, so you can win, mostly with one bite only: find it. A new bar each day.",
        nav_entry: "One bite",
        script: "bite",
        needs: Needs::Table,
        main: include_str!("../pages/bite.html"),
        rules: "Two players bite off a bar of chocolate in turn. A bite takes a square with everything to the right of it and below. The square in the upper left corner is poisoned, and whoever takes it loses.",
    },
    Page {
        path: "/play",
        title: "Chomp",
        description: "Play Chomp against a table that knows every losing position.",
        nav_entry: "Play",
        script: "play",
        needs: Needs::Table,
        rules: "Cells of chocolate lie in rows. A move takes a cell and everything to the right of it and below. The cell in the upper left corner is poisoned. Who takes it loses. A position is losing if no move leads to a losing one.",
        ..GAME
    },
    Page {
        path: "/explore",
        title: "Explore",
        description: "What the table of losing Chomp positions says: winning first moves, counts, and any position.",
        nav_entry: "Explore",
        script: "explore",
        needs: Needs::Table,
        main: include_str!("../pages/explore.html"),
        ..GAME
    },
    Page {
        path: "/games",
        title: "Games",
        description: "Small games beside Chomp, each with its theory, to play against the computer.",
        script: "",
        main: include_str!("../pages/games.html"),
        ..GAME
    },
    game("/games/ichomp", &GAMES[0]),
    game("/games/poisons", &GAMES[1]),
    game("/games/nim", &GAMES[2]),
    game("/games/towers", &GAMES[3]),
    game("/games/horse", &GAMES[4]),
    game("/games/space", &GAMES[5]),
    game("/games/divisors", &GAMES[6]),
    game("/games/crossed", &GAMES[7]),
    game("/games/transfinite", &GAMES[8]),
    Page {
        path: "/job",
        title: "Job",
        description: "How far the job is that computes the table of losing Chomp positions.",
        nav_entry: "Job",
        script: "job",
        main: include_str!("../pages/job.html"),
        ..GAME
    },
];

impl Page<'_> {
    /// The HTML of the page; with `only_files`, for a host of plain files. The texts come from this program, and need
    /// no escapes.
    fn html(&self, only_files: bool) -> String {
        let root = if self.path.matches('/').count() > 1 {
            "../"
        } else {
            ""
        };
        let name = self.path.rsplit('/').next().unwrap_or_default();
        let tab = if self.title.contains("Chomp") {
            self.title.to_owned()
        } else {
            format!("{} – Chomp", self.title)
        };
        let (own, other) = if only_files {
            (" data-only=\"files\"", "data-only=\"server\"")
        } else {
            (" data-only=\"server\"", "data-only=\"files\"")
        };
        let lines = PAGE_TEMPLATE.split_inclusive('\n');
        let frame: String = lines.filter(|line| !line.contains(other)).collect();
        let nav_entry = format!(">{}</a>", self.nav_entry);
        let mut html = frame
            .replace(own, "")
            .replace(&nav_entry, &format!(" aria-current=\"page\"{nav_entry}"))
            .replace("{main}", self.main)
            .replace("{modules}", &self.modules(root))
            .replace("{root}", root)
            .replace("{name}", name)
            .replace("{tab}", &tab)
            .replace("{title}", self.title)
            .replace("{description}", self.description)
            .replace("{rules}", self.rules);
        if only_files {
            // On a host of plain files, a page has its path with `.html`.
            for path in PAGES.iter().map(|page| page.path).chain(["/files"]) {
                let name = path.trim_start_matches('/');
                html = html.replace(
                    &format!("href=\"{name}\""),
                    &format!("href=\"{name}.html\""),
                );
            }
        }
        html
    }

    /// The tags for the script of the page and the modules that it names, so that a browser fetches these at once.
    /// Modules that only other modules import have no tag.
    fn modules(&self, root: &str) -> String {
        let path = format!("/assets/{}.js", self.script);
        let Some((_, _, script)) = FILES.iter().find(|(file, ..)| *file == path) else {
            return String::new();
        };
        let script = std::str::from_utf8(script).expect("a text of ours");
        let named = script
            .split("\"./")
            .skip(1)
            .filter_map(|rest| rest.split('"').next());
        let link = |name| format!("<link rel=\"modulepreload\" href=\"{root}assets/{name}\">\n");
        let links: String = named.map(link).collect();
        links
            + &format!(
                "<script type=\"module\" src=\"{root}assets/{}.js\"></script>\n",
                self.script
            )
    }
}

macro_rules! file {
    ($name:literal, $kind:expr) => {
        (
            concat!("/assets/", $name),
            $kind,
            include_bytes!(concat!("../pages/", $name)),
        )
    };
}

pub(crate) const FILES: [File; 23] = [
    file!("api.js", SCRIPT),
    file!("bite.js", SCRIPT),
    file!("board.js", SCRIPT),
    file!("chart.js", SCRIPT),
    file!("dom.js", SCRIPT),
    file!("explore.js", SCRIPT),
    file!("game.js", SCRIPT),
    file!("grid.js", SCRIPT),
    file!("job.js", SCRIPT),
    file!("layouts.js", SCRIPT),
    file!("lookup.js", SCRIPT),
    file!("map.js", SCRIPT),
    file!("match.js", SCRIPT),
    file!("net.js", SCRIPT),
    file!("picture.js", SCRIPT),
    file!("play.js", SCRIPT),
    file!("record.js", SCRIPT),
    file!("rules.js", SCRIPT),
    file!("solve.js", SCRIPT),
    file!("stream.js", SCRIPT),
    file!("style.css", STYLE),
    file!("icon.svg", PICTURE),
    file!("preview.png", PNG),
];

/// The pages that need no server, and what they load, by path. `about` is the HTML content of the page about files.
pub(crate) fn without_server(about: &str) -> Vec<(String, Vec<u8>)> {
    let about_files = Page {
        path: "/files",
        title: "Files",
        description: "What the table of losing Chomp positions is, its files, and how to check and cite them.",
        nav_entry: "Files",
        script: "files",
        needs: Needs::Files,
        main: about,
        rules: "",
    };
    let pages = PAGES.iter().filter(|page| page.needs != Needs::Server);
    let pages = pages.chain([&about_files]).map(|page| {
        (
            format!("{}.html", &page.path[1..]),
            page.html(true).into_bytes(),
        )
    });
    let first = PAGES
        .iter()
        .find(|page| page.path == FIRST)
        .expect("a page");
    let first = ("index.html".to_owned(), first.html(true).into_bytes());
    let files = FILES
        .iter()
        .map(|(path, _, bytes)| (path[1..].to_owned(), bytes.to_vec()));
    pages.chain(files).chain([first]).collect()
}

#[derive(Debug)]
pub(crate) struct Pages(HashMap<&'static str, SmallFile>);

impl Pages {
    pub(crate) fn new() -> Pages {
        let file =
            |(path, kind, bytes): File| (path, SmallFile::new(kind, Bytes::from_static(bytes)));
        let page = |page: &Page| {
            (
                page.path,
                SmallFile::new(HTML, Bytes::from(page.html(false))),
            )
        };
        let files = FILES.into_iter().map(file);
        Pages(files.chain(PAGES.iter().map(page)).collect())
    }

    /// Paths of files have no escapes, so `path` need not be decoded.
    pub(crate) fn file(&self, path: &str, headers: &HeaderMap) -> Response {
        match self.0.get(path) {
            Some(file) => file.answer(headers),
            None => Refusal::Nothing.into_response(),
        }
    }
}

/// Whether `Accept` names `text/html`, with a quality above 0 and no lower than that of `application/json`. Wildcards
/// do not count.
pub(crate) fn wants_page(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter();
    let accepted = accepted.filter_map(|value| value.to_str().ok());
    let [mut page, mut json] = [0.0_f32; 2];
    for part in accepted.flat_map(|value| value.split(',')) {
        let (kind, parameters) = part.split_once(';').unwrap_or((part, ""));
        let quality = match kind.trim().to_ascii_lowercase().as_str() {
            "text/html" => &mut page,
            "application/json" => &mut json,
            _ => continue,
        };
        *quality = quality.max(quality_of(parameters));
    }
    page > 0.0 && page >= json
}

/// The `q` of a media type; 1 if there is none or it is invalid.
fn quality_of(parameters: &str) -> f32 {
    let mut qualities = parameters.split(';').filter_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("q").then(|| value.trim())
    });
    let quality = qualities.next().and_then(|quality| quality.parse().ok());
    quality
        .filter(|quality| (0.0..=1.0).contains(quality))
        .unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_get_pages_and_programs_get_json() {
        for (accept, page) in [
            (
                "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
                true,
            ),
            ("text/html", true),
            ("TEXT/HTML; q=0.5", true),
            ("text/html;q=0.5, application/json;q=0.4", true),
            ("text/html;q=0.5, application/json", false),
            ("text/html;q=0", false),
            ("text/html;q=0.000", false),
            ("*/*", false),
            ("", false),
            ("application/json", false),
            ("text/*", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, http::HeaderValue::try_from(accept).unwrap());
            assert_eq!(wants_page(&headers), page, "{accept}");
        }
        assert!(!wants_page(&HeaderMap::new()));
    }
}
