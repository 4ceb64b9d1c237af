//! The browsers that the pages are tried in, and what drives each.

use std::path::{Path, PathBuf};

use thirtyfour::common::capabilities::firefox::FirefoxPreferences;
use thirtyfour::common::log::LoggingPrefsLogLevel;
use thirtyfour::prelude::*;
use thirtyfour::{Capabilities, ChromeCapabilities};

use crate::common::needs;

/// What Chromium is started with. The sandbox needs rights that containers do not give, and the
/// pages are our own.
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

    /// What the browser is to be: headless, silent, with its files in a folder; and `calm` if it asks pages for less
    /// motion, so that the computer does not take its time.
    pub(crate) fn wanted(self, browser: &Path, folder: &Path, calm: bool) -> Capabilities {
        let (browser, profile) = (browser.to_str().unwrap(), folder.display());
        match self {
            Engine::Chromium => {
                let mut wanted = ChromeCapabilities::new();
                wanted.set_binary(browser).unwrap();
                let profile = format!("--user-data-dir={profile}");
                let calm = calm.then_some("--force-prefers-reduced-motion");
                for flag in FLAGS.into_iter().chain([&profile[..]]).chain(calm) {
                    wanted.add_arg(flag).unwrap();
                }
                let all = LoggingPrefsLogLevel::All;
                wanted.set_browser_log_level(all).unwrap();
                wanted.into()
            }
            Engine::Firefox => {
                let mut set = FirefoxPreferences::new();
                set.set("ui.prefersReducedMotion", i32::from(calm)).unwrap();
                set.set("browser.download.folderList", 2).unwrap();
                let downloads = folder.join("downloads");
                set.set("browser.download.dir", downloads).unwrap();
                for silent in [
                    "app.update.enabled",
                    "datareporting.policy.dataSubmissionEnabled",
                    "network.captive-portal-service.enabled",
                    "network.connectivity-service.enabled",
                ] {
                    set.set(silent, false).unwrap();
                }
                // Errors of scripts then stand in what the driver prints.
                for told in [
                    "browser.dom.window.dump.enabled",
                    "devtools.console.stdout.content",
                ] {
                    set.set(told, true).unwrap();
                }
                let mut wanted = DesiredCapabilities::firefox();
                wanted.set_firefox_binary(browser).unwrap();
                wanted.add_arg("-headless").unwrap();
                wanted.set_preferences(set).unwrap();
                wanted.into()
            }
        }
    }
}

/// The first of these programs that is found.
fn on_path(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let mut files = names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    files.find(|file| file.is_file())
}
