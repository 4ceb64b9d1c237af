//! The browsers that the pages are tried in, and what drives each.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use chomp_testing::needs;
use chomp_testing::waiting::HANG;

/// The options of Chromium. The sandbox needs rights that containers do not give, and the pages are
/// our own.
const FLAGS: [&str; 10] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
];

/// A kind of browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    Chromium,
    Firefox,
}

impl Engine {
    /// The one that `CHOMP_BROWSER` names, and Chromium if it names none.
    pub(crate) fn chosen() -> Engine {
        match std::env::var("CHOMP_BROWSER").as_deref() {
            Ok("firefox") => Engine::Firefox,
            Ok("chromium") | Err(_) => Engine::Chromium,
            Ok(other) => panic!("CHOMP_BROWSER names {other}, and not chromium or firefox"),
        }
    }

    /// The driver and the browser, if they are on this machine.
    pub(crate) fn programs(self) -> Option<(PathBuf, PathBuf)> {
        let (name, driver, browsers) = match self {
            Engine::Chromium => {
                let browsers = ["chromium", "chromium-browser", "google-chrome"];
                ("BROWSER", "chromedriver", browsers)
            }
            Engine::Firefox => {
                let browsers = ["firefox-esr", "firefox", "firefox-bin"];
                ("FIREFOX", "geckodriver", browsers)
            }
        };
        let found = on_path(&[driver]).zip(on_path(&browsers));
        let found = found.ok_or_else(|| format!("{driver} or its browser is not installed"));
        needs::found(name, found)
    }

    /// The capabilities asked for: headless, silent, files in a folder; a `calm` browser asks pages for less motion, so
    /// that the computer does not take its time.
    pub(crate) fn wanted(self, browser: &Path, folder: &Path, calm: bool) -> Value {
        let hang = u64::try_from(HANG.as_millis()).expect("some minutes");
        let timeouts = json!({"script": hang, "pageLoad": hang});
        match self {
            Engine::Chromium => {
                let profile = format!("--user-data-dir={}", folder.display());
                let calm = calm.then_some("--force-prefers-reduced-motion");
                let flags = FLAGS.into_iter().chain([&profile[..]]).chain(calm);
                let flags: Vec<&str> = flags.collect();
                json!({
                    "browserName": "chrome",
                    "timeouts": timeouts,
                    "goog:chromeOptions": {"binary": browser, "args": flags},
                    "goog:loggingPrefs": {"browser": "ALL"},
                })
            }
            Engine::Firefox => json!({
                "browserName": "firefox",
                "timeouts": timeouts,
                "moz:firefoxOptions": {"binary": browser, "args": ["-headless"], "prefs": {
                    "ui.prefersReducedMotion": i32::from(calm),
                    "browser.download.folderList": 2,
                    "browser.download.dir": folder.join("downloads"),
                    "app.update.enabled": false,
                    "datareporting.policy.dataSubmissionEnabled": false,
                    "network.captive-portal-service.enabled": false,
                    "network.connectivity-service.enabled": false,
                    // Errors of scripts then stand in what the driver prints.
                    "browser.dom.window.dump.enabled": true,
                    "devtools.console.stdout.content": true,
                }},
            }),
        }
    }
}

/// The first of these programs that is found.
fn on_path(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let in_folders = |name| folders.iter().map(move |folder| folder.join(name));
    let mut files = names.iter().flat_map(in_folders);
    files.find(|file| file.is_file())
}
