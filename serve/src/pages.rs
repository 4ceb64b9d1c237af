//! The pages for people, and their files: part of the program, the same for every table.

use std::collections::HashMap;
use std::sync::Arc;

use axum::response::Response;
use bytes::Bytes;
use http::HeaderMap;
use http::header::{
    ACCEPT, CONTENT_SECURITY_POLICY, HeaderValue, REFERRER_POLICY, X_FRAME_OPTIONS,
};

use crate::published::Whole;
use crate::tables::{nothing, whole};

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

/// A file: its path, its type, its bytes.
pub(crate) type File = (&'static str, &'static str, &'static [u8]);

/// The page that browsers get at `/`.
const FIRST: &str = "/play";

pub(crate) const FILES: [File; 15] = [
    ("/play", HTML, include_bytes!("../pages/play.html")),
    ("/explore", HTML, include_bytes!("../pages/explore.html")),
    ("/job", HTML, include_bytes!("../pages/job.html")),
    ("/assets/api.js", SCRIPT, include_bytes!("../pages/api.js")),
    (
        "/assets/board.js",
        SCRIPT,
        include_bytes!("../pages/board.js"),
    ),
    (
        "/assets/play.js",
        SCRIPT,
        include_bytes!("../pages/play.js"),
    ),
    (
        "/assets/explore.js",
        SCRIPT,
        include_bytes!("../pages/explore.js"),
    ),
    ("/assets/job.js", SCRIPT, include_bytes!("../pages/job.js")),
    (
        "/assets/chart.js",
        SCRIPT,
        include_bytes!("../pages/chart.js"),
    ),
    ("/assets/dom.js", SCRIPT, include_bytes!("../pages/dom.js")),
    ("/assets/map.js", SCRIPT, include_bytes!("../pages/map.js")),
    (
        "/assets/rules.js",
        SCRIPT,
        include_bytes!("../pages/rules.js"),
    ),
    (
        "/assets/stream.js",
        SCRIPT,
        include_bytes!("../pages/stream.js"),
    ),
    (
        "/assets/style.css",
        STYLE,
        include_bytes!("../pages/style.css"),
    ),
    (
        "/assets/icon.svg",
        PICTURE,
        include_bytes!("../pages/icon.svg"),
    ),
];

/// Nothing in a page comes from elsewhere, and nothing of it runs but its own files. No other page
/// shows it in a frame, where people would click what they do not see; and nothing that got into it
/// could change where its links begin, or send a form.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
);
/// The same about frames, for browsers that do not know that of the policy.
const NO_FRAMES: HeaderValue = HeaderValue::from_static("DENY");

/// All files by their paths.
#[derive(Clone, Debug)]
pub(crate) struct Pages {
    files: Arc<HashMap<&'static str, (&'static str, Whole)>>,
}

impl Pages {
    pub(crate) fn new() -> Pages {
        let file =
            |(path, kind, bytes): File| (path, (kind, Whole::new(Bytes::from_static(bytes))));
        Pages {
            files: Arc::new(FILES.into_iter().map(file).collect()),
        }
    }

    /// The file at `path`, as it was sent: what is there needs no escapes.
    pub(crate) fn file(&self, path: &str, headers: &HeaderMap) -> Response {
        let Some((kind, file)) = self.files.get(path) else {
            return nothing();
        };
        let mut response = whole(file, kind, headers);
        let fields = response.headers_mut();
        fields.insert(CONTENT_SECURITY_POLICY, POLICY);
        fields.insert(X_FRAME_OPTIONS, NO_FRAMES);
        fields.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        response
    }

    /// The page for whoever comes to `/` with a browser.
    pub(crate) fn first(&self, headers: &HeaderMap) -> Response {
        self.file(FIRST, headers)
    }
}

/// Whether who asks would rather have a page than JSON.
pub(crate) fn wants_page(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter();
    let accepted = accepted.filter_map(|value| value.to_str().ok());
    let mut page = 0;
    let mut json = 0;
    for part in accepted.flat_map(|value| value.split(',')) {
        let (kind, parameters) = part.split_once(';').unwrap_or((part, ""));
        let place = match kind.trim().to_ascii_lowercase().as_str() {
            "text/html" => &mut page,
            "application/json" => &mut json,
            _ => continue,
        };
        *place = (*place).max(thousandths(parameters));
    }
    page > 0 && page >= json
}

/// The weight among the parameters of a media type, in thousandths; what is no weight is the most.
fn thousandths(parameters: &str) -> u32 {
    let mut weights = parameters.split(';').filter_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("q").then(|| value.trim())
    });
    let Some((whole, digits)) = weights
        .next()
        .map(|weight| weight.split_once('.').unwrap_or((weight, "")))
    else {
        return 1000;
    };
    if whole != "0" {
        return 1000;
    }
    let digits = digits.bytes().chain(std::iter::repeat(b'0')).take(3);
    digits.fold(0, |sum, digit| {
        sum * 10 + u32::from(digit.wrapping_sub(b'0') % 10)
    })
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
            headers.insert(ACCEPT, HeaderValue::try_from(accept).unwrap());
            assert_eq!(wants_page(&headers), page, "{accept}");
        }
        assert!(!wants_page(&HeaderMap::new()));
    }
}
